#include "launch_state.h"

#include <algorithm>
#include <cstdio>

#include "fault.h"

namespace npk::twin {
namespace {

NpkFaultReport report_at(const char* code, const char* rule, const char* message, const char* api, const char* file,
                         uint32_t line)
{
    NpkFaultReport report{};
    report.code = code;
    report.rule = rule;
    report.message = message;
    report.api = api;
    report.file = file;
    report.line = line;
    return report;
}

} // namespace

LaunchState::LaunchState(const NpkKernelDesc& kernel, const LaunchArgs& args, bool shared)
    : kernel_(kernel), args_(args), shared_(shared)
{
    if (kernel.kernel_type == NPK_KERNEL_AIC_ONLY) {
        vector_cores_ = 0;
    }
    if (kernel.kernel_type == NPK_KERNEL_MIX_AIC_1_1 || kernel.kernel_type == NPK_KERNEL_MIX_AIC_1_2) {
        mixed_ = true;
        vector_cores_ = kernel.kernel_type == NPK_KERNEL_MIX_AIC_1_2 ? 2 : 1;
        cores_per_group_ = 1 + vector_cores_;
    }
}

bool LaunchState::next_group(uint32_t* group)
{
    if (aborted() || next_group_.load(std::memory_order_relaxed) >= args_.blocks) {
        return false;
    }
    *group = next_group_.fetch_add(1, std::memory_order_relaxed);
    return *group < args_.blocks;
}

bool LaunchState::join()
{
    const auto lock = shared_ ? std::unique_lock<std::mutex>(mutex_) : std::unique_lock<std::mutex>();
    if (aborted() || next_group_.load(std::memory_order_relaxed) >= args_.blocks) {
        return false;
    }
    ++participants_;
    return true;
}

void LaunchState::leave()
{
    const auto lock = shared_ ? std::unique_lock<std::mutex>(mutex_) : std::unique_lock<std::mutex>();
    --participants_;
    if (participants_ != 0 && idle_ == participants_) {
        deadlock_locked();
    }
}

void LaunchState::sleep(uint32_t seen)
{
    // Another thread is often only microseconds away from the change.
    for (int i = 0; i < 2000; ++i) {
        if (epoch() != seen) {
            return;
        }
    }
    std::unique_lock<std::mutex> lock(mutex_);
    if (epoch() != seen) {
        return;
    }
    ++idle_;
    if (idle_ == participants_) {
        deadlock_locked();
        return;
    }
    changed_.wait(lock, [&] { return epoch() != seen; });
}

void LaunchState::changed_locked()
{
    epoch_.fetch_add(1, std::memory_order_release);
    idle_ = 0;
    changed_.notify_all();
}

LaunchState::Sync& LaunchState::sync_locked()
{
    if (sync_ == nullptr) {
        sync_ = std::make_unique<Sync>(core_count());
    }
    return *sync_;
}

bool LaunchState::is_vector(uint32_t core) const
{
    return mixed_ ? core % cores_per_group_ != 0 : vector_cores_ != 0;
}

std::string LaunchState::core_name(uint32_t core) const
{
    const uint32_t group = core / cores_per_group_, within = core % cores_per_group_;
    if (!is_vector(core)) {
        return "AIC " + std::to_string(group);
    }
    return "AIV " + std::to_string(mixed_ ? group * vector_cores_ + within - 1 : group);
}

void LaunchState::place(CoreSlot& slot, uint32_t group, uint32_t core)
{
    const bool vector = is_vector(core);
    slot.launch = this;
    slot.group = group;
    slot.index = group * cores_per_group_ + core;
    slot.wait_word = nullptr;
    NpkCore& state = slot.core;
    state.kind = vector ? NPK_CORE_AIV : NPK_CORE_AIC;
    state.sub_block_idx = mixed_ && vector ? core - 1 : 0;
    state.block_idx = mixed_ && vector ? group * vector_cores_ + core - 1 : group;
    state.block_num = args_.blocks;
    state.ratio = mixed_ ? vector_cores_ : 1;
    state.kernel_type = kernel_.kernel_type;
    state.mask[0] = state.mask[1] = ~0ull;
    state.mask_mode = 0;
    state.atomic_op = 0;
    state.deq_scale = 1.0f;
    state.pipe = nullptr;
    state.unwinding = 0;
    state.workspace = nullptr;
    state.runtime = &slot;
}

void LaunchState::suspend(CoreSlot& slot, const std::atomic<uint32_t>& word, uint32_t value, const Wait& wait)
{
    Wait& record = sync_->waits[slot.index];
    while (word.load(std::memory_order_acquire) == value) {
        record = wait;
        slot.wait_word = &word;
        slot.wait_value = value;
        slot.fiber.yield();
        slot.wait_word = nullptr;
        record.kind = WaitKind::kNone;
        if (aborted()) {
            slot.core.unwinding = 1;
            throw CoreUnwind{};
        }
    }
}

void LaunchState::sync_all(CoreSlot& slot, uint32_t barrier, uint32_t cores, const char* file, uint32_t line)
{
    uint32_t generation;
    Sync* sync;
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        sync = &sync_locked();
        const uint32_t all = args_.blocks * (barrier == NPK_BARRIER_ALL ? cores_per_group_ : std::max(vector_cores_, 1u));
        generation = sync->generation[barrier].load(std::memory_order_relaxed);
        if (++sync->waiting[barrier] == (barrier == NPK_BARRIER_SOFT ? cores : all)) {
            sync->waiting[barrier] = 0;
            sync->generation[barrier].fetch_add(1, std::memory_order_release);
            changed_locked();
            return;
        }
    }
    suspend(slot, sync->generation[barrier], generation, {WaitKind::kSyncAll, 0, file, line});
}

void LaunchState::raise_count(uint32_t core, uint32_t flag, const char** problem)
{
    if (sync_->flags[core][flag].fetch_add(1, std::memory_order_release) >= kCrossFlagLimit) {
        *problem = "a cross-core flag was set 16 times without a wait; its counter has four bits";
    }
}

void LaunchState::cross_set(CoreSlot& slot, uint32_t mode, uint32_t flag, const char* file, uint32_t line)
{
    const char* problem = nullptr;
    if (flag >= kCrossFlags) {
        problem = "the ids of cross-core flags are 0 to 15";
    } else if (mode != 0 && !mixed_) {
        problem = "modes 1 and 2 synchronise the cores of a group and need a mixed kernel";
    } else if (mode == 1 && slot.core.kind == NPK_CORE_AIC) {
        problem = "mode 1 synchronises the vector cores of a group; a cube core cannot set it";
    }
    if (problem == nullptr) {
        const std::lock_guard<std::mutex> lock(mutex_);
        Sync& sync = sync_locked();
        const uint32_t base = slot.group * cores_per_group_;
        if (mode == 2 && slot.core.kind == NPK_CORE_AIC) {
            for (uint32_t core = base + 1; core < base + cores_per_group_; ++core) {
                raise_count(core, flag, &problem);
            }
        } else {
            // The flag rises when the last of the set has arrived as often as this core.
            const uint32_t mine = ++sync.arrived[slot.index][mode][flag];
            const uint32_t first = mode == 0 ? 0 : base, last = mode == 0 ? core_count() : base + cores_per_group_;
            bool complete = true;
            for (uint32_t core = first; core < last && complete; ++core) {
                complete = is_vector(core) != is_vector(slot.index) || sync.arrived[core][mode][flag] >= mine;
            }
            for (uint32_t core = first; core < last && complete; ++core) {
                const bool receives = mode == 2 ? !is_vector(core) : is_vector(core) == is_vector(slot.index);
                if (receives) {
                    raise_count(core, flag, &problem);
                }
            }
        }
        changed_locked();
    }
    if (problem != nullptr) {
        raise_fault(report_at("NPK-RC07", "CrossCoreFlag", problem, "CrossCoreSetFlag", file, line));
    }
}

void LaunchState::cross_wait(CoreSlot& slot, uint32_t flag, const char* file, uint32_t line)
{
    if (flag >= kCrossFlags) {
        raise_fault(report_at("NPK-RC07", "CrossCoreFlag", "the ids of cross-core flags are 0 to 15",
                              "CrossCoreWaitFlag", file, line));
    }
    Sync* sync;
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        sync = &sync_locked();
    }
    std::atomic<uint32_t>& counter = sync->flags[slot.index][flag];
    suspend(slot, counter, 0, {WaitKind::kFlag, flag, file, line});
    counter.fetch_sub(1, std::memory_order_acq_rel);
}

void LaunchState::record_fault(const NpkFaultReport& report, const CoreSlot* slot)
{
    const std::lock_guard<std::mutex> lock(mutex_);
    record_locked(report, slot);
}

void LaunchState::record_locked(const NpkFaultReport& report, const CoreSlot* slot)
{
    if (!fault_.has_value()) {
        Fault& fault = fault_.emplace();
        fault.code = report.code;
        fault.rule = report.rule != nullptr ? report.rule : "";
        fault.kernel = kernel_.name;
        fault.core = slot != nullptr ? core_name(slot->index) : "";
        fault.api = report.api != nullptr ? report.api : "";
        fault.file = report.file != nullptr ? report.file : "";
        fault.line = report.line;
        fault.message = fault.rule.empty() ? report.message : fault.rule + ": " + report.message;
        fault.memory = report.end > report.begin ? memory_name(report.memory) : "";
        fault.begin = report.begin;
        fault.end = report.end;
        fault.limit = report.limit;
    }
    aborted_.store(true, std::memory_order_release);
    changed_locked();
}

void LaunchState::deadlock_locked()
{
    std::string message = "every core waits:";
    uint32_t listed = 0, waiting = 0, first = 0;
    for (uint32_t core = 0; sync_ != nullptr && core < core_count(); ++core) {
        const Wait& wait = sync_->waits[core];
        if (wait.kind == WaitKind::kNone) {
            continue;
        }
        if (waiting++ == 0) {
            first = core;
        }
        if (++listed > 8) {
            continue;
        }
        message += (listed == 1 ? " " : "; ") + core_name(core);
        message += wait.kind == WaitKind::kFlag ? " for cross-core flag " + std::to_string(wait.flag) : " in SyncAll";
        if (wait.line != 0) {
            message += " (line " + std::to_string(wait.line) + ")";
        }
    }
    if (waiting > 8) {
        message += "; and " + std::to_string(waiting - 8) + " more";
    }
    const Wait wait = waiting != 0 ? sync_->waits[first] : Wait{};
    record_locked(report_at("NPK-RC09", "Deadlock", message.c_str(),
                            wait.kind == WaitKind::kFlag ? "CrossCoreWaitFlag" : "SyncAll", wait.file, wait.line),
                  nullptr);
    fault_->core = core_name(first);
}

} // namespace npk::twin
