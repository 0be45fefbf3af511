// Threads that help launches.  A launch never depends on them: its own thread can run every core alone.
#ifndef NPK_TWIN_THREAD_POOL_H
#define NPK_TWIN_THREAD_POOL_H

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>

#include "launch_state.h"

namespace npk::twin {

// One launch's request for helpers.
struct Help {
    LaunchState* launch = nullptr;
    uint32_t claimed = 0; // helpers at work
};

class ThreadPool {
public:
    explicit ThreadPool(uint32_t cpus) : cpus_(cpus) {}

    // Asks for up to `helpers` threads; false when there are none to ask, and then there is nothing to finish.
    bool request(Help& help, uint32_t helpers);
    // Takes back what nobody claimed and waits for the helpers to leave.
    void finish(Help& help);

    // Threads that may help one launch.
    uint32_t limit() const;
    SlotPool& slots() { return slots_; }

private:
    void serve();

    const uint32_t cpus_;
    SlotPool slots_;
    std::mutex mutex_;
    std::condition_variable work_;
    std::condition_variable done_;
    std::deque<Help*> queue_;
    uint32_t threads_ = 0;
    uint32_t idle_ = 0;
};

// The pool of this process; a forked child gets its own.
ThreadPool& thread_pool();

// Threads of a launch from now on, its own included; 0: as many as the process has CPUs.
void choose_threads(uint32_t threads);

} // namespace npk::twin

#endif
