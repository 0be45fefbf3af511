// What one simulated core needs on the host: a stack, its on-chip memories, and in checked mode a checker.
#ifndef NPK_TWIN_CORE_SLOT_H
#define NPK_TWIN_CORE_SLOT_H

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "checker.h"
#include "fiber.h"
#include "npk/abi.h"

namespace npk::twin {

class LaunchState;

// Why a core does not run.
enum class WaitKind : uint8_t { kNone, kFlag, kSyncAll };

class CoreSlot {
public:
    CoreSlot();
    ~CoreSlot();
    CoreSlot(const CoreSlot&) = delete;
    CoreSlot& operator=(const CoreSlot&) = delete;

    // Null when the system has no memory for another core.
    static std::unique_ptr<CoreSlot> create();

    uint8_t* stack() const { return stack_; }
    std::size_t stack_bytes() const;
    // Is `address` in the guard page below the stack?
    bool in_guard(const void* address) const;

    // Does `address` lie in the stack or its guard page?
    bool owns_stack(const void* address) const;

    Checker& checker();

    NpkCore core{};
    Fiber fiber;
    LaunchState* launch = nullptr;
    uint32_t group = 0; // block of the launch
    uint32_t index = 0; // core within the launch, see LaunchState

    // The core may run when *wait_word differs from wait_value.
    const std::atomic<uint32_t>* wait_word = nullptr;
    uint32_t wait_value = 0;

    // Set by a signal handler that gave the fiber up.
    int fault_signal = 0;
    void* fault_address = nullptr;

private:
    uint8_t* mapping_ = nullptr;
    std::size_t mapping_bytes_ = 0;
    uint8_t* stack_ = nullptr;
    std::unique_ptr<Checker> checker_;
};

// Slots that are not in use, kept so that a launch need not map memory.
class SlotPool {
public:
    std::unique_ptr<CoreSlot> take();
    void give(std::unique_ptr<CoreSlot> slot);

private:
    static constexpr std::size_t kKept = 128;
    std::mutex mutex_;
    std::vector<std::unique_ptr<CoreSlot>> free_;
};

} // namespace npk::twin

#endif
