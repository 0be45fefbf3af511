// One launch while it runs: its cores, what they wait for, and how threads share the work.
#ifndef NPK_TWIN_LAUNCH_STATE_H
#define NPK_TWIN_LAUNCH_STATE_H

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "core_slot.h"
#include "npk/launch.h"

namespace npk::twin {

constexpr uint32_t kCrossFlags = 16;
// A cross-core flag is a counter of four bits.
constexpr uint32_t kCrossFlagLimit = 15;

class LaunchState {
public:
    // `shared`: other threads may join.
    LaunchState(const NpkKernelDesc& kernel, const LaunchArgs& args, bool shared);

    const NpkKernelDesc& kernel() const { return kernel_; }
    const LaunchArgs& args() const { return args_; }
    uint32_t cores_per_group() const { return cores_per_group_; }
    bool aborted() const { return aborted_.load(std::memory_order_acquire); }
    bool faulted() const { return fault_.has_value(); }
    const Fault& fault() const { return *fault_; }

    // The next block that nobody runs yet; false when there is none.
    bool next_group(uint32_t* group);

    // A thread that runs cores calls join, and leave when it has none left.
    bool join();
    void leave();

    // State of change; a thread reads it before it looks for cores that may run, and passes it to `sleep`, which
    // returns when anything changed since.  The last thread to fall asleep finds the deadlock.
    uint32_t epoch() const { return epoch_.load(std::memory_order_acquire); }
    void sleep(uint32_t seen);

    // Prepares a slot for core `core` of a group.
    void place(CoreSlot& slot, uint32_t group, uint32_t core);

    // Calls of the cores; they may suspend the calling fiber.
    void sync_all(CoreSlot& slot, uint32_t barrier, uint32_t cores, const char* file, uint32_t line);
    void cross_set(CoreSlot& slot, uint32_t mode, uint32_t flag, const char* file, uint32_t line);
    void cross_wait(CoreSlot& slot, uint32_t flag, const char* file, uint32_t line);

    // Keeps the first fault of the launch and stops the others.
    void record_fault(const NpkFaultReport& report, const CoreSlot* slot);

private:
    struct Wait {
        WaitKind kind = WaitKind::kNone;
        uint32_t flag = 0;
        const char* file = nullptr;
        uint32_t line = 0;
    };

    // What synchronisation between cores needs; made by the first core that synchronises.
    struct Sync {
        explicit Sync(uint32_t cores) : flags(cores), arrived(cores), waits(cores) {}
        std::vector<std::array<std::atomic<uint32_t>, kCrossFlags>> flags;
        std::vector<std::array<std::array<uint32_t, kCrossFlags>, 3>> arrived; // by core and mode
        std::vector<Wait> waits;
        std::atomic<uint32_t> generation[NPK_BARRIER_COUNT]{};
        uint32_t waiting[NPK_BARRIER_COUNT]{};
    };

    Sync& sync_locked();
    void suspend(CoreSlot& slot, const std::atomic<uint32_t>& word, uint32_t value, const Wait& wait);
    void raise_count(uint32_t core, uint32_t flag, const char** problem);
    void changed_locked();
    void record_locked(const NpkFaultReport& report, const CoreSlot* slot);
    void deadlock_locked();
    bool is_vector(uint32_t core) const;
    std::string core_name(uint32_t core) const;
    uint32_t core_count() const { return args_.blocks * cores_per_group_; }

    const NpkKernelDesc& kernel_;
    const LaunchArgs& args_;
    const bool shared_;
    uint32_t cores_per_group_ = 1;
    uint32_t vector_cores_ = 1; // of a group
    bool mixed_ = false;

    std::atomic<uint32_t> next_group_{0};
    std::atomic<bool> aborted_{false};
    std::atomic<uint32_t> epoch_{0};

    std::mutex mutex_;
    std::condition_variable changed_;
    uint32_t participants_ = 0;
    uint32_t idle_ = 0; // participants that found nothing to run in this epoch
    std::unique_ptr<Sync> sync_;
    std::optional<Fault> fault_;
};

// The core whose code the calling thread runs.
CoreSlot* current_slot();

// Runs the launch's cores on the calling thread until there is nothing left for it to do.
void participate(LaunchState& launch, SlotPool& slots);

} // namespace npk::twin

#endif
