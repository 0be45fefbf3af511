#include "hardware_fault.h"

#include <sys/mman.h>
#include <ucontext.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <iterator>
#include <mutex>

#include "core_slot.h"
#include "launch_state.h"

namespace npk::twin {

#if !NPK_FIBER_UCONTEXT && defined(__linux__)

namespace {

constexpr std::size_t kSignalStack = 64 * 1024;

// What an instruction of a core can raise: wild and misaligned accesses, integer division, traps.
constexpr int kSignals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP};
struct sigaction previous_actions[std::size(kSignals)];

// Hands a signal that is none of ours to whoever had it before.
void pass_on(int number, siginfo_t* info, void* context)
{
    const auto known = std::find(std::begin(kSignals), std::end(kSignals), number) - std::begin(kSignals);
    const struct sigaction& previous = previous_actions[known];
    if ((previous.sa_flags & SA_SIGINFO) != 0 && previous.sa_sigaction != nullptr) {
        previous.sa_sigaction(number, info, context);
    } else if (previous.sa_handler != SIG_DFL && previous.sa_handler != SIG_IGN) {
        previous.sa_handler(number);
    } else {
        // The faulting instruction runs again and meets the default action.
        sigaction(number, &previous, nullptr);
    }
}

void on_signal(int number, siginfo_t* info, void* raw)
{
    ucontext_t* context = static_cast<ucontext_t*>(raw);
#if defined(__x86_64__)
    const uintptr_t stack = static_cast<uintptr_t>(context->uc_mcontext.gregs[REG_RSP]);
#else
    const uintptr_t stack = context->uc_mcontext.sp;
#endif
    CoreSlot* slot = current_slot();
    if (slot == nullptr || info->si_code <= 0 || !slot->owns_stack(reinterpret_cast<void*>(stack))) {
        pass_on(number, info, raw);
        return;
    }
    // The fiber is given up where it stands; the thread goes on where it had resumed the fiber.
    slot->fault_signal = number;
    slot->fault_address = info->si_addr;
    const Fiber::Landing landing = slot->fiber.abandon();
#if defined(__x86_64__)
    context->uc_mcontext.gregs[REG_RSP] = static_cast<greg_t>(reinterpret_cast<uintptr_t>(landing.stack));
    context->uc_mcontext.gregs[REG_RIP] = static_cast<greg_t>(reinterpret_cast<uintptr_t>(landing.code));
#else
    context->uc_mcontext.sp = reinterpret_cast<uintptr_t>(landing.stack);
    context->uc_mcontext.pc = reinterpret_cast<uintptr_t>(landing.code);
#endif
}

void install()
{
    struct sigaction action = {};
    action.sa_sigaction = &on_signal;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigemptyset(&action.sa_mask);
    for (std::size_t i = 0; i < std::size(kSignals); ++i) {
        sigaction(kSignals[i], &action, &previous_actions[i]);
    }
}

// The handler cannot run on a stack that just ended. A thread that has a stack for its handlers keeps it; any other gets
// this one, and keeps it as long as it lives: asking and changing it are system calls, too dear for every launch.
class SignalStack {
public:
    SignalStack()
    {
        stack_t current = {};
        if (sigaltstack(nullptr, &current) != 0 || (current.ss_flags & SS_DISABLE) == 0) {
            return;
        }
        void* memory = mmap(nullptr, kSignalStack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (memory == MAP_FAILED) {
            return;
        }
        memory_ = memory;
        stack_t own = {};
        own.ss_sp = memory_;
        own.ss_size = kSignalStack;
        sigaltstack(&own, nullptr);
    }
    ~SignalStack()
    {
        if (memory_ == nullptr) {
            return;
        }
        stack_t current = {};
        if (sigaltstack(nullptr, &current) == 0 && current.ss_sp == memory_) {
            stack_t none = {};
            none.ss_flags = SS_DISABLE;
            sigaltstack(&none, nullptr);
        }
        munmap(memory_, kSignalStack);
    }
    SignalStack(const SignalStack&) = delete;
    SignalStack& operator=(const SignalStack&) = delete;

private:
    void* memory_ = nullptr;
};

} // namespace

void expect_hardware_faults()
{
    static std::once_flag once;
    std::call_once(once, install);
    thread_local const SignalStack stack;
    static_cast<void>(stack);
}

#else

void expect_hardware_faults() {}

#endif

void report_hardware_fault(CoreSlot& slot)
{
    const int number = slot.fault_signal;
    if (number == 0) {
        return;
    }
    slot.fault_signal = 0;
    char message[200];
    NpkFaultReport report{};
    report.message = message;
    if (number == SIGFPE) {
        report.code = "NPK-RC08";
        report.rule = "IntegerDivision";
        snprintf(message, sizeof(message),
                 "the core divided an integer by zero, or the smallest integer by -1; guard the division");
    } else if (number == SIGILL || number == SIGTRAP) {
        report.code = "NPK-RC11";
        report.rule = "Trap";
        snprintf(message, sizeof(message),
                 "the core stopped at a trap or at bytes that are no instruction of this host");
    } else if (slot.in_guard(slot.fault_address)) {
        report.code = "NPK-RC10";
        report.rule = "StackOverflow";
        snprintf(message, sizeof(message),
                 "the core's stack of %zu KB is used up; keep large arrays in on-chip buffers and avoid recursion",
                 slot.stack_bytes() / 1024);
    } else {
        report.code = "NPK-RC01";
        report.rule = "WildAccess";
        snprintf(message, sizeof(message),
                 "the core touched address %p, which is no memory of the kernel; checked mode names the call",
                 slot.fault_address);
    }
    slot.launch->record_fault(report, &slot);
}

} // namespace npk::twin
