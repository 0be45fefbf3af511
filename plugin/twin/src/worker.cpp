// Runs cores on one thread: resumes those that may run, starts blocks, sleeps when all of its cores wait.
#include <sys/mman.h>

#include <cfenv>
#include <exception>
#include <memory>
#include <vector>

#include "fault.h"
#include "hardware_fault.h"
#include "launch_state.h"

namespace npk::twin {
namespace {

thread_local CoreSlot* running = nullptr;

// Working memory of API calls, one for each thread: no call keeps it across a suspension.
class Scratch {
public:
    static constexpr std::size_t kBytes = std::size_t{1} << 20;

    Scratch()
    {
        void* memory = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        memory_ = memory == MAP_FAILED ? nullptr : static_cast<uint8_t*>(memory);
    }
    ~Scratch()
    {
        if (memory_ != nullptr) {
            munmap(memory_, kBytes);
        }
    }
    Scratch(const Scratch&) = delete;
    Scratch& operator=(const Scratch&) = delete;

    uint8_t* memory() const { return memory_; }

private:
    uint8_t* memory_;
};

// What a thread keeps from one launch to the next: most launches find all they need here.
struct Kept {
    const Scratch scratch;
    std::vector<std::unique_ptr<CoreSlot>> slots; // of one group at most, the others go back to the pool
    std::vector<std::unique_ptr<CoreSlot>> live;  // empty, for its memory
};

Kept& kept()
{
    thread_local Kept own;
    return own;
}

constexpr std::size_t kKeptSlots = 3;

// Kernels run with rounding to nearest and with denormals; the caller's settings come back afterwards. The control
// registers are read and written directly: fegetenv and fesetenv take a tenth of a microsecond each.
class FloatEnvironment {
public:
#if defined(__x86_64__)
    FloatEnvironment()
    {
        asm volatile("stmxcsr %0" : "=m"(mxcsr_));
        asm volatile("fnstcw %0" : "=m"(x87_));
        set(kDefaultMxcsr, kDefaultX87);
    }
    ~FloatEnvironment() { set(mxcsr_, x87_); }

private:
    static constexpr uint32_t kDefaultMxcsr = 0x1f80;
    static constexpr uint16_t kDefaultX87 = 0x037f;

    void set(uint32_t mxcsr, uint16_t x87)
    {
        asm volatile("ldmxcsr %0" : : "m"(mxcsr));
        if (x87_ != kDefaultX87) {
            asm volatile("fldcw %0" : : "m"(x87));
        }
    }

    uint32_t mxcsr_;
    uint16_t x87_;

#elif defined(__aarch64__)
    FloatEnvironment()
    {
        asm volatile("mrs %0, fpcr" : "=r"(control_));
        asm volatile("msr fpcr, %0" : : "r"(uint64_t{0}));
    }
    ~FloatEnvironment() { asm volatile("msr fpcr, %0" : : "r"(control_)); }

private:
    uint64_t control_;

#else
    FloatEnvironment()
    {
        fegetenv(&saved_);
        fesetenv(FE_DFL_ENV);
    }
    ~FloatEnvironment() { fesetenv(&saved_); }

private:
    fenv_t saved_;

#endif
public:
    FloatEnvironment(const FloatEnvironment&) = delete;
    FloatEnvironment& operator=(const FloatEnvironment&) = delete;
};

void report_exception(CoreSlot& slot, const char* what)
{
    NpkFaultReport report{};
    report.code = "NPK-RC11";
    report.rule = "Exception";
    report.message = what;
    slot.launch->record_fault(report, &slot);
}

// Body of a core's fiber.
void run_core(void* argument)
{
    CoreSlot& slot = *static_cast<CoreSlot*>(argument);
    const LaunchState& launch = *slot.launch;
    const NpkKernelDesc& kernel = launch.kernel();
    try {
        if (kernel.checked != 0) {
            Checker& checker = slot.checker();
            checker.reset();
            checker.set_arguments(launch.args().args, launch.args().arg_bytes, launch.args().num_args);
        }
        kernel.entry(launch.args().args);
        if (kernel.checked != 0) {
            slot.checker().finish();
        }
    } catch (const CoreUnwind&) {
        // The fault is recorded, or another core's was.
    } catch (const std::exception& error) {
        report_exception(slot, error.what());
    } catch (...) {
        report_exception(slot, "the kernel threw an exception");
    }
}

class Worker {
public:
    Worker(LaunchState& launch, SlotPool& slots)
        : launch_(launch), slots_(slots), kept_(kept()), live_(std::move(kept_.live)), spare_(std::move(kept_.slots))
    {
    }

    ~Worker()
    {
        while (spare_.size() > kKeptSlots) {
            slots_.give(std::move(spare_.back()));
            spare_.pop_back();
        }
        live_.clear();
        kept_.slots = std::move(spare_);
        kept_.live = std::move(live_);
    }

    void run()
    {
        const FloatEnvironment environment;
        expect_hardware_faults();
        for (;;) {
            const uint32_t seen = launch_.epoch();
            if (resume_ready() || start_group()) {
                continue;
            }
            if (live_.empty()) {
                return;
            }
            launch_.sleep(seen);
        }
    }

private:
    static bool ready(const CoreSlot& slot)
    {
        return slot.wait_word == nullptr || slot.wait_word->load(std::memory_order_acquire) != slot.wait_value ||
               slot.launch->aborted();
    }

    bool resume_ready()
    {
        bool progress = false;
        for (std::size_t i = 0; i < live_.size();) {
            CoreSlot& slot = *live_[i];
            if (!ready(slot)) {
                ++i;
                continue;
            }
            progress = true;
            running = &slot;
            slot.fiber.resume();
            running = nullptr;
            report_hardware_fault(slot);
            if (!slot.fiber.finished()) {
                ++i;
                continue;
            }
            spare_.push_back(std::move(live_[i]));
            live_[i] = std::move(live_.back());
            live_.pop_back();
        }
        return progress;
    }

    bool start_group()
    {
        uint32_t group;
        if (!launch_.next_group(&group)) {
            return false;
        }
        for (uint32_t core = 0; core < launch_.cores_per_group(); ++core) {
            std::unique_ptr<CoreSlot> slot;
            if (!spare_.empty()) {
                slot = std::move(spare_.back());
                spare_.pop_back();
            } else {
                slot = slots_.take();
            }
            uint8_t* scratch = kept_.scratch.memory();
            if (slot == nullptr || scratch == nullptr) {
                NpkFaultReport report{};
                report.code = "NPK-RC11";
                report.rule = "HostMemory";
                report.message = "the host has no memory for another core; launch fewer blocks";
                launch_.record_fault(report, nullptr);
                return true;
            }
            launch_.place(*slot, group, core);
            slot->core.scratch = scratch;
            slot->core.scratch_bytes = Scratch::kBytes;
            slot->fiber.start(slot->stack(), slot->stack_bytes(), &run_core, slot.get());
            live_.push_back(std::move(slot));
        }
        return true;
    }

    LaunchState& launch_;
    SlotPool& slots_;
    Kept& kept_;
    std::vector<std::unique_ptr<CoreSlot>> live_;
    std::vector<std::unique_ptr<CoreSlot>> spare_;
};

} // namespace

CoreSlot* current_slot()
{
    return running;
}

void raise_fault(const NpkFaultReport& report)
{
    running->launch->record_fault(report, running);
    running->core.unwinding = 1;
    throw CoreUnwind{};
}

void participate(LaunchState& launch, SlotPool& slots)
{
    if (!launch.join()) {
        return;
    }
    {
        Worker worker(launch, slots);
        worker.run();
    }
    launch.leave();
}

} // namespace npk::twin
