// Fibers: a core of the simulated chip runs on a stack of its own and gives way where it waits.
//
// A switch saves the callee-saved registers only (x86-64, aarch64); other hosts use ucontext.  The floating-point
// environment belongs to the thread and is the same for all its fibers.
#ifndef NPK_TWIN_FIBER_H
#define NPK_TWIN_FIBER_H

#include <cstddef>
#include <cstdint>

#ifndef NPK_FIBER_UCONTEXT
#if defined(__x86_64__) || defined(__aarch64__)
#define NPK_FIBER_UCONTEXT 0
#else
#define NPK_FIBER_UCONTEXT 1
#endif
#endif

#if NPK_FIBER_UCONTEXT
#include <ucontext.h>
#endif

namespace npk::twin {

class Fiber {
public:
    using Body = void (*)(void* argument);

    // `stack` must live as long as the fiber is in use.
    void start(uint8_t* stack, std::size_t bytes, Body body, void* argument);

    // Runs the fiber until it calls `yield` or its body returns.
    void resume();

    // Called on the fiber: back to the caller of `resume`.
    void yield();

    bool finished() const { return finished_; }

#if !NPK_FIBER_UCONTEXT
    // Where the thread goes on when a signal handler gives the fiber up without unwinding its stack.
    struct Landing {
        void* stack;
        void* code;
    };
    Landing abandon();
#endif

private:
    static void enter(Fiber* fiber);
    friend void fiber_entry(Fiber* fiber);

    Body body_ = nullptr;
    void* argument_ = nullptr;
    bool finished_ = true;
#if NPK_FIBER_UCONTEXT
    ucontext_t own_;
    ucontext_t caller_;
#else
    void* own_ = nullptr;    // stack pointer of the suspended fiber
    void* caller_ = nullptr; // stack pointer of the suspended caller of resume
#endif
};

} // namespace npk::twin

#endif
