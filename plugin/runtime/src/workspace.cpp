#include "npk/runtime/workspace.h"

#include <new>

#include "fork_safe.h"

namespace npk
{
namespace
{

// Enough for the launches that a few threads make at one time.
constexpr size_t kKept = 8;
constexpr size_t kKeptBytes = size_t{256} << 20;

} // namespace

WorkspaceCache::WorkspaceCache(DeviceRuntime& device) : device_(device)
{
    hold_while_forking(mutex_);
}

WorkspaceCache::Block WorkspaceCache::borrow(size_t bytes) noexcept
{
    if (bytes == 0) return {};
    {
        std::lock_guard lock(mutex_);
        for (auto block = free_.rbegin(); block != free_.rend(); ++block) {
            if (block->bytes >= bytes && block->bytes / 2 <= bytes) {
                const Block found = *block;
                free_.erase(std::next(block).base());
                kept_bytes_ -= found.bytes;
                return found;
            }
        }
    }
    return {device_.allocate(bytes), bytes};
}

void WorkspaceCache::give_back(Block block) noexcept
{
    if (block.memory == nullptr) return;
    {
        std::lock_guard lock(mutex_);
        try {
            free_.push_back(block);
            kept_bytes_ += block.bytes;
            if (free_.size() == 1 || (free_.size() <= kKept && kept_bytes_ <= kKeptBytes)) return;
            block = free_.front();
            free_.erase(free_.begin());
            kept_bytes_ -= block.bytes;
        } catch (const std::bad_alloc&) {
        }
    }
    device_.release(block.memory);
}

WorkspaceCache& workspaces()
{
    static WorkspaceCache* cache = new WorkspaceCache(twin_runtime()); // launches may run at exit
    return *cache;
}

} // namespace npk
