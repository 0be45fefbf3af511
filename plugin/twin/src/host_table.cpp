// The functions a kernel library calls.
#include <cstdio>

#include "fault.h"
#include "launch_state.h"

namespace npk::twin {
namespace {

NpkCore* current()
{
    return &current_slot()->core;
}

void raise(const NpkFaultReport* report)
{
    raise_fault(*report);
}

void print(const char* text, size_t bytes)
{
    fwrite(text, 1, bytes, stdout);
    fflush(stdout);
}

bool is_checked(const CoreSlot& slot)
{
    return slot.launch->kernel().checked != 0;
}

void sync_all(uint32_t barrier, uint32_t cores, const char* file, uint32_t line)
{
    CoreSlot& slot = *current_slot();
    if (is_checked(slot)) {
        // All pipes finish before the core reports, and none goes on before all cores have.
        slot.checker().barrier(NPK_PIPE_ALL);
    }
    slot.launch->sync_all(slot, barrier, cores, file, line);
}

void cross_set(uint32_t mode, uint32_t pipe, uint32_t flag, const char* file, uint32_t line)
{
    (void)pipe;
    CoreSlot& slot = *current_slot();
    slot.launch->cross_set(slot, mode, flag, file, line);
}

void cross_wait(uint32_t flag, uint32_t pipe, const char* file, uint32_t line)
{
    (void)pipe;
    CoreSlot& slot = *current_slot();
    slot.launch->cross_wait(slot, flag, file, line);
}

void check_access(const NpkAccess* access)
{
    current_slot()->checker().access(*access);
}

void check_issue(uint32_t pipe)
{
    current_slot()->checker().issue(pipe);
}

void check_set_flag(uint32_t from, uint32_t to, uint32_t id, const char* file, uint32_t line)
{
    current_slot()->checker().set_flag(from, to, id, file, line);
}

void check_wait_flag(uint32_t from, uint32_t to, uint32_t id, const char* file, uint32_t line)
{
    current_slot()->checker().wait_flag(from, to, id, file, line);
}

void check_barrier(uint32_t pipe)
{
    current_slot()->checker().barrier(pipe);
}

void check_copy(uint32_t to_memory, uint64_t to, uint32_t from_memory, uint64_t from, uint64_t bytes,
          uint64_t count, uint64_t from_stride)
{
    current_slot()->checker().copy(to_memory, to, from_memory, from, bytes, count, from_stride);
}

void check_forget(uint32_t memory, uint64_t address, uint64_t bytes)
{
    current_slot()->checker().forget(memory, address, bytes);
}

void check_allocate(uint32_t memory, uint64_t address, uint64_t bytes)
{
    current_slot()->checker().allocate(memory, address, bytes);
}

void check_release(uint32_t memory, uint64_t address, uint64_t bytes)
{
    current_slot()->checker().release(memory, address, bytes);
}

} // namespace

const NpkHost* host()
{
    static const NpkHost table = {
        NPK_ABI_VERSION, sizeof(NpkHost), current,       raise,          print,
        sync_all,        cross_set,       cross_wait,    check_access,   check_issue,
        check_set_flag,  check_wait_flag, check_barrier, check_copy,     check_forget,
        check_allocate,  check_release,
    };
    return &table;
}

} // namespace npk::twin
