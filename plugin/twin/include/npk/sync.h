// Synchronisation inside a core (events, pipe barriers) and between cores.
//
// The twin runs every instruction to its end before the next one starts, so events order nothing by themselves;
// in checked mode they are what makes an access legal.
#ifndef NPK_SYNC_H
#define NPK_SYNC_H

#include "npk/tensor.h"

namespace npk {

struct PipePair {
    NpkPipe from;
    NpkPipe to;
};

constexpr PipePair pipes_of(AscendC::HardEvent event)
{
    using AscendC::HardEvent;
    switch (event) {
#define NPK_EVENT(FROM, TO)                                                                                   \
    case HardEvent::FROM##_##TO: return {NPK_PIPE_##FROM, NPK_PIPE_##TO};
        NPK_EVENT(MTE2, MTE1)
        NPK_EVENT(MTE1, MTE2)
        NPK_EVENT(MTE1, M)
        NPK_EVENT(M, MTE1)
        NPK_EVENT(MTE2, V)
        NPK_EVENT(V, MTE2)
        NPK_EVENT(MTE3, V)
        NPK_EVENT(V, MTE3)
        NPK_EVENT(M, V)
        NPK_EVENT(V, M)
        NPK_EVENT(V, V)
        NPK_EVENT(MTE3, MTE1)
        NPK_EVENT(MTE1, MTE3)
        NPK_EVENT(MTE1, V)
        NPK_EVENT(MTE2, M)
        NPK_EVENT(M, MTE2)
        NPK_EVENT(V, MTE1)
        NPK_EVENT(M, FIX)
        NPK_EVENT(FIX, M)
        NPK_EVENT(MTE3, MTE2)
        NPK_EVENT(MTE2, MTE3)
        NPK_EVENT(S, V)
        NPK_EVENT(V, S)
        NPK_EVENT(S, MTE2)
        NPK_EVENT(MTE2, S)
        NPK_EVENT(S, MTE3)
        NPK_EVENT(MTE3, S)
        NPK_EVENT(MTE2, FIX)
        NPK_EVENT(FIX, MTE2)
        NPK_EVENT(FIX, S)
        NPK_EVENT(M, S)
        NPK_EVENT(FIX, MTE3)
        NPK_EVENT(MTE1, FIX)
        NPK_EVENT(FIX, MTE1)
        NPK_EVENT(FIX, FIX)
#undef NPK_EVENT
    default: return {NPK_PIPE_S, NPK_PIPE_S};
    }
}

} // namespace npk

namespace AscendC {

template <HardEvent event>
inline void SetFlag(int32_t event_id NPK_SITE)
{
#if NPK_TWIN_CHECKED
    constexpr npk::PipePair pipes = npk::pipes_of(event);
    npk::host_table->check_set_flag(pipes.from, pipes.to, static_cast<uint32_t>(event_id), site.file, site.line);
#else
    (void)event_id;
#endif
}

template <HardEvent event>
inline void WaitFlag(int32_t event_id NPK_SITE)
{
#if NPK_TWIN_CHECKED
    constexpr npk::PipePair pipes = npk::pipes_of(event);
    npk::host_table->check_wait_flag(pipes.from, pipes.to, static_cast<uint32_t>(event_id), site.file, site.line);
#else
    (void)event_id;
#endif
}

template <pipe_t pipe>
inline void PipeBarrier()
{
    static_assert(pipe != PIPE_S, "PipeBarrier does not take PIPE_S: scalar instructions are ordered by themselves");
#if NPK_TWIN_CHECKED
    npk::host_table->check_barrier(pipe);
#endif
}

template <uint8_t mode, pipe_t pipe>
inline void CrossCoreSetFlag(uint16_t flag_id NPK_SITE)
{
    static_assert(mode <= 2, "CrossCoreSetFlag: arch 2201 has the modes 0, 1 and 2");
    static_assert(pipe != PIPE_S && pipe != PIPE_ALL, "CrossCoreSetFlag takes one asynchronous pipe");
    const npk::Site at = NPK_AT;
    npk::host_table->cross_set(mode, pipe, flag_id, at.file, at.line);
}

template <uint8_t mode = 0, pipe_t pipe = PIPE_V>
inline void CrossCoreWaitFlag(uint16_t flag_id NPK_SITE)
{
    const npk::Site at = NPK_AT;
    npk::host_table->cross_wait(flag_id, pipe, at.file, at.line);
}

// The form that spins on global memory; here the cores meet as in the other one.
template <bool isAIVOnly = true>
inline void SyncAll(const GlobalTensor<int32_t>& gmWorkspace, const LocalTensor<int32_t>& ubWorkspace,
                    const int32_t usedCores = 0 NPK_SITE)
{
    static_assert(isAIVOnly, "NPK-RC08: the form with workspaces synchronises vector cores only");
    const npk::Instruction instruction("SyncAll", NPK_PIPE_S, npk::Unit::kVector, NPK_AT);
    const uint64_t bytes = static_cast<uint64_t>(npk::core().block_num) * npk::core().ratio * 32;
    instruction.access(npk::kMove, "gmWorkspace", NPK_MEM_GM, gmWorkspace.Address(), bytes);
    instruction.access(npk::kMove, "ubWorkspace", ubWorkspace.Memory(), ubWorkspace.Address(), bytes);
    const uint32_t all = npk::core().block_num * npk::core().ratio;
    const uint32_t cores = usedCores == 0 ? all : static_cast<uint32_t>(usedCores);
    if (cores > all || npk::core().block_idx >= cores) {
        npk::raise(npk::kOperand, "SyncCores", "SyncAll", NPK_AT,
                   "usedCores is %d on core %u of %u; the cores that meet are the first usedCores, at most all",
                   usedCores, npk::core().block_idx, all);
    }
    const npk::Site at = NPK_AT;
    npk::host_table->sync_all(NPK_BARRIER_SOFT, cores, at.file, at.line);
}

// Waits for all vector cores, or (isAIVOnly false, mixed kernels) for all cores of the launch.
template <bool isAIVOnly = true>
inline void SyncAll(NPK_SITE_ONLY)
{
    const npk::Site at = NPK_AT;
    npk::host_table->sync_all(isAIVOnly ? NPK_BARRIER_VECTOR : NPK_BARRIER_ALL, 0, at.file, at.line);
}

} // namespace AscendC

#endif
