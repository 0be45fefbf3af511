#include "thread_pool.h"

#include <pthread.h>
#include <unistd.h>
#if defined(__linux__)
#include <sched.h>
#endif

#include <algorithm>
#include <atomic>
#include <csignal>
#include <memory>
#include <thread>

namespace npk::twin {
namespace {

uint32_t usable_cpus()
{
#if defined(__linux__)
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof(set), &set) == 0) {
        return static_cast<uint32_t>(std::max(1, CPU_COUNT(&set)));
    }
#endif
    return std::max(1u, std::thread::hardware_concurrency());
}

// Threads of a launch, the caller's included; 0 when nobody set a number.
std::atomic<uint32_t> chosen_threads{0};

std::atomic<ThreadPool*> process_pool{nullptr};

// After a fork the parent's pool has no threads here and its locks may be held: it is left alone.
void leave_pool()
{
    process_pool.store(nullptr, std::memory_order_relaxed);
}

} // namespace

ThreadPool& thread_pool()
{
    ThreadPool* current = process_pool.load(std::memory_order_acquire);
    if (current != nullptr) {
        return *current;
    }
    static const int forks_are_heard_of = pthread_atfork(nullptr, nullptr, &leave_pool);
    static_cast<void>(forks_are_heard_of);
    auto fresh = std::make_unique<ThreadPool>(usable_cpus());
    if (process_pool.compare_exchange_strong(current, fresh.get(), std::memory_order_acq_rel)) {
        return *fresh.release();
    }
    return *current;
}

void choose_threads(uint32_t threads)
{
    chosen_threads.store(threads, std::memory_order_relaxed);
}

uint32_t ThreadPool::limit() const
{
    const uint32_t chosen = chosen_threads.load(std::memory_order_relaxed);
    return (chosen != 0 ? chosen : cpus_) - 1;
}

bool ThreadPool::request(Help& help, uint32_t helpers)
{
    const uint32_t limit = this->limit();
    helpers = std::min(helpers, limit);
    if (helpers == 0) {
        return false;
    }
    const std::lock_guard<std::mutex> lock(mutex_);
    for (uint32_t i = 0; i < helpers; ++i) {
        queue_.push_back(&help);
    }
    while (threads_ < limit && idle_ < queue_.size()) {
        // Signals belong to the program's own threads, except those that an instruction of this one raises.
        sigset_t all, before;
        sigfillset(&all);
        for (const int own : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP}) {
            sigdelset(&all, own);
        }
        pthread_sigmask(SIG_SETMASK, &all, &before);
        try {
            std::thread(&ThreadPool::serve, this).detach();
            ++threads_;
            ++idle_;
        } catch (...) {
            // The launch goes on with the threads there are.
            pthread_sigmask(SIG_SETMASK, &before, nullptr);
            break;
        }
        pthread_sigmask(SIG_SETMASK, &before, nullptr);
    }
    work_.notify_all();
    return true;
}

void ThreadPool::finish(Help& help)
{
    std::unique_lock<std::mutex> lock(mutex_);
    queue_.erase(std::remove(queue_.begin(), queue_.end(), &help), queue_.end());
    done_.wait(lock, [&] { return help.claimed == 0; });
}

void ThreadPool::serve()
{
    std::unique_lock<std::mutex> lock(mutex_);
    for (;;) {
        work_.wait(lock, [&] { return !queue_.empty(); });
        Help& help = *queue_.front();
        queue_.pop_front();
        ++help.claimed;
        --idle_;
        lock.unlock();
        participate(*help.launch, slots_);
        lock.lock();
        ++idle_;
        if (--help.claimed == 0) {
            done_.notify_all();
        }
    }
}

} // namespace npk::twin
