#include "memory_fault.h"

#include <signal.h>
#include <sys/mman.h>
#include <ucontext.h>

#include <cstdio>
#include <mutex>

#include "core_slot.h"
#include "launch_state.h"

namespace npk::twin {

#if !NPK_FIBER_UCONTEXT && defined(__linux__)

namespace {

constexpr std::size_t kSignalStack = 64 * 1024;

struct sigaction previous_segv;
struct sigaction previous_bus;

// Hands a signal that is none of ours to whoever had it before.
void pass_on(int number, siginfo_t* info, void* context)
{
    const struct sigaction& previous = number == SIGBUS ? previous_bus : previous_segv;
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
    slot->memory_fault = true;
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
    sigaction(SIGSEGV, &action, &previous_segv);
    sigaction(SIGBUS, &action, &previous_bus);
}

// The handler cannot run on a stack that just ended.
class SignalStack {
public:
    SignalStack()
    {
        void* memory = mmap(nullptr, kSignalStack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        memory_ = memory == MAP_FAILED ? nullptr : memory;
    }
    ~SignalStack()
    {
        if (memory_ != nullptr) {
            munmap(memory_, kSignalStack);
        }
    }
    SignalStack(const SignalStack&) = delete;
    SignalStack& operator=(const SignalStack&) = delete;

    void* memory() const { return memory_; }

private:
    void* memory_;
};

} // namespace

MemoryFaultGuard::MemoryFaultGuard()
{
    static std::once_flag once;
    std::call_once(once, install);
    stack_t current = {};
    if (sigaltstack(nullptr, &current) != 0 || (current.ss_flags & SS_DISABLE) == 0) {
        return;
    }
    thread_local const SignalStack stack;
    if (stack.memory() != nullptr) {
        stack_t own = {};
        own.ss_sp = stack.memory();
        own.ss_size = kSignalStack;
        own_stack_ = sigaltstack(&own, nullptr) == 0;
    }
}

MemoryFaultGuard::~MemoryFaultGuard()
{
    if (own_stack_) {
        stack_t none = {};
        none.ss_flags = SS_DISABLE;
        sigaltstack(&none, nullptr);
    }
}

#else

MemoryFaultGuard::MemoryFaultGuard() = default;
MemoryFaultGuard::~MemoryFaultGuard() = default;

#endif

void report_memory_fault(CoreSlot& slot)
{
    if (!slot.memory_fault) {
        return;
    }
    slot.memory_fault = false;
    char message[200];
    NpkFaultReport report{};
    if (slot.in_guard(slot.fault_address)) {
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
    report.message = message;
    slot.launch->record_fault(report, &slot);
}

} // namespace npk::twin
