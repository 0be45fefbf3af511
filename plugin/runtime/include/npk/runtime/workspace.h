// Device memory that launches borrow and give back.
#ifndef NPK_RUNTIME_WORKSPACE_H_
#define NPK_RUNTIME_WORKSPACE_H_

#include <cstddef>
#include <mutex>
#include <vector>

#include "npk/runtime/device_runtime.h"

namespace npk
{

// Blocks that ended launches left, for the next launch of any kernel: a model whose layers run one after the
// other needs one workspace, not one for each layer.
class WorkspaceCache
{
public:
    explicit WorkspaceCache(DeviceRuntime& device);

    // A block of at least `bytes`, at most twice as large; `memory` is null when `bytes` is 0 or none is left.
    struct Block {
        void* memory = nullptr;
        size_t bytes = 0;
    };
    Block borrow(size_t bytes) noexcept;
    void give_back(Block block) noexcept;

private:
    DeviceRuntime& device_;
    std::mutex mutex_;
    std::vector<Block> free_; // oldest first
    size_t kept_bytes_ = 0;
};

// The cache of the twin's memory.
WorkspaceCache& workspaces();

} // namespace npk

#endif // NPK_RUNTIME_WORKSPACE_H_
