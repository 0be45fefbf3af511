// Device memory that launches of one call site borrow and give back.
#ifndef NPK_RUNTIME_WORKSPACE_H_
#define NPK_RUNTIME_WORKSPACE_H_

#include <cstddef>
#include <mutex>
#include <vector>

#include "npk/runtime/device_runtime.h"

namespace npk
{

// Concurrent launches each get a block of their own; a block is kept for the next launch, so that a loop
// allocates once. All blocks of a pool have one size.
class WorkspacePool
{
public:
    WorkspacePool(DeviceRuntime& device, size_t bytes) : device_(device), bytes_(bytes) {}
    ~WorkspacePool();
    WorkspacePool(const WorkspacePool&) = delete;
    WorkspacePool& operator=(const WorkspacePool&) = delete;

    size_t bytes() const noexcept { return bytes_; }

    // Null when the pool's size is 0, or when there is no memory left.
    void* borrow() noexcept;
    void give_back(void* block) noexcept;

private:
    DeviceRuntime& device_;
    const size_t bytes_;
    std::mutex mutex_;
    std::vector<void*> free_;
};

} // namespace npk

#endif // NPK_RUNTIME_WORKSPACE_H_
