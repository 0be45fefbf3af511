// Locks that a forked child may use although another thread of its parent held them.
#ifndef NPK_RUNTIME_FORK_SAFE_H_
#define NPK_RUNTIME_FORK_SAFE_H_

#include <mutex>

namespace npk
{

// From now on the forking thread holds `mutex` while the process forks. It must live as long as the process, and no
// thread may hold it while it takes another such lock.
void hold_while_forking(std::mutex& mutex);

} // namespace npk

#endif // NPK_RUNTIME_FORK_SAFE_H_
