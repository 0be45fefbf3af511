#include "fork_safe.h"

#include <pthread.h>

#include <vector>

namespace npk
{
namespace
{

struct Held {
    std::mutex own;
    std::vector<std::mutex*> mutexes;
};

Held& held()
{
    static Held* list = new Held;
    return *list;
}

void lock_all()
{
    held().own.lock();
    for (std::mutex* mutex : held().mutexes) mutex->lock();
}

void unlock_all()
{
    for (std::mutex* mutex : held().mutexes) mutex->unlock();
    held().own.unlock();
}

} // namespace

void hold_while_forking(std::mutex& mutex)
{
    static const int registered = pthread_atfork(&lock_all, &unlock_all, &unlock_all);
    static_cast<void>(registered);
    std::lock_guard lock(held().own);
    held().mutexes.push_back(&mutex);
}

} // namespace npk
