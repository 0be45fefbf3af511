#include "fiber.h"

namespace npk::twin {

void fiber_entry(Fiber* fiber)
{
    Fiber::enter(fiber);
}

#if NPK_FIBER_UCONTEXT

namespace {

void enter_split(unsigned low, unsigned high)
{
    const uint64_t bits = static_cast<uint64_t>(high) << 32 | low;
    fiber_entry(reinterpret_cast<Fiber*>(static_cast<uintptr_t>(bits)));
}

} // namespace

void Fiber::start(uint8_t* stack, std::size_t bytes, Body body, void* argument)
{
    body_ = body;
    argument_ = argument;
    finished_ = false;
    getcontext(&own_);
    own_.uc_stack.ss_sp = stack;
    own_.uc_stack.ss_size = bytes;
    own_.uc_link = nullptr;
    const uint64_t bits = reinterpret_cast<uintptr_t>(this);
    makecontext(&own_, reinterpret_cast<void (*)()>(&enter_split), 2, static_cast<unsigned>(bits),
                static_cast<unsigned>(bits >> 32));
}

void Fiber::resume()
{
    swapcontext(&caller_, &own_);
}

void Fiber::yield()
{
    swapcontext(&own_, &caller_);
}

#else

extern "C" {
// Saves the callee-saved registers on the current stack, stores its pointer in *save and continues on `target`.
void npk_twin_switch(void** save, void* target) __attribute__((visibility("hidden")));
// Second half of npk_twin_switch: the stack pointer is already the target's.
void npk_twin_land() __attribute__((visibility("hidden")));
// First instructions of a new fiber: passes the register set up by start() to npk_twin_fiber_entry.
void npk_twin_trampoline() __attribute__((visibility("hidden")));
void npk_twin_fiber_entry(void* fiber) __attribute__((visibility("hidden")));
}

#if defined(__x86_64__)
asm(R"(
.text
.p2align 4
.globl npk_twin_switch
.hidden npk_twin_switch
.type npk_twin_switch, @function
npk_twin_switch:
    endbr64
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
.globl npk_twin_land
.hidden npk_twin_land
npk_twin_land:
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
.size npk_twin_switch, .-npk_twin_switch
.p2align 4
.globl npk_twin_trampoline
.hidden npk_twin_trampoline
.type npk_twin_trampoline, @function
npk_twin_trampoline:
    .cfi_startproc
    .cfi_undefined rip
    movq %rbx, %rdi
    call npk_twin_fiber_entry
    ud2
    .cfi_endproc
.size npk_twin_trampoline, .-npk_twin_trampoline
)");
#else
asm(R"(
.text
.p2align 4
.globl npk_twin_switch
.hidden npk_twin_switch
.type npk_twin_switch, %function
npk_twin_switch:
    sub sp, sp, #160
    stp x19, x20, [sp, #0]
    stp x21, x22, [sp, #16]
    stp x23, x24, [sp, #32]
    stp x25, x26, [sp, #48]
    stp x27, x28, [sp, #64]
    stp x29, x30, [sp, #80]
    stp d8, d9, [sp, #96]
    stp d10, d11, [sp, #112]
    stp d12, d13, [sp, #128]
    stp d14, d15, [sp, #144]
    mov x9, sp
    str x9, [x0]
    mov sp, x1
.globl npk_twin_land
.hidden npk_twin_land
npk_twin_land:
    ldp x19, x20, [sp, #0]
    ldp x21, x22, [sp, #16]
    ldp x23, x24, [sp, #32]
    ldp x25, x26, [sp, #48]
    ldp x27, x28, [sp, #64]
    ldp x29, x30, [sp, #80]
    ldp d8, d9, [sp, #96]
    ldp d10, d11, [sp, #112]
    ldp d12, d13, [sp, #128]
    ldp d14, d15, [sp, #144]
    add sp, sp, #160
    ret
.size npk_twin_switch, .-npk_twin_switch
.p2align 4
.globl npk_twin_trampoline
.hidden npk_twin_trampoline
.type npk_twin_trampoline, %function
npk_twin_trampoline:
    .cfi_startproc
    .cfi_undefined x30
    mov x0, x19
    bl npk_twin_fiber_entry
    brk #1
    .cfi_endproc
.size npk_twin_trampoline, .-npk_twin_trampoline
)");
#endif

extern "C" void npk_twin_fiber_entry(void* fiber)
{
    fiber_entry(static_cast<Fiber*>(fiber));
}

void Fiber::start(uint8_t* stack, std::size_t bytes, Body body, void* argument)
{
    body_ = body;
    argument_ = argument;
    finished_ = false;
    uintptr_t top = reinterpret_cast<uintptr_t>(stack + bytes) & ~static_cast<uintptr_t>(15);
#if defined(__x86_64__)
    // Six registers and the return address lie above an aligned stack pointer, where the trampoline starts.
    uint64_t* frame = reinterpret_cast<uint64_t*>(top) - 9;
    for (int i = 0; i < 9; ++i) {
        frame[i] = 0;
    }
    frame[4] = reinterpret_cast<uintptr_t>(this); // rbx
    frame[6] = reinterpret_cast<uintptr_t>(&npk_twin_trampoline);
#else
    uint64_t* frame = reinterpret_cast<uint64_t*>(top - 160);
    for (int i = 0; i < 20; ++i) {
        frame[i] = 0;
    }
    frame[0] = reinterpret_cast<uintptr_t>(this); // x19
    frame[11] = reinterpret_cast<uintptr_t>(&npk_twin_trampoline); // x30
#endif
    own_ = frame;
}

void Fiber::resume()
{
    npk_twin_switch(&caller_, own_);
}

void Fiber::yield()
{
    npk_twin_switch(&own_, caller_);
}

Fiber::Landing Fiber::abandon()
{
    finished_ = true;
    return {caller_, reinterpret_cast<void*>(&npk_twin_land)};
}

#endif

void Fiber::enter(Fiber* fiber)
{
    fiber->body_(fiber->argument_);
    fiber->finished_ = true;
    fiber->yield();
}

} // namespace npk::twin
