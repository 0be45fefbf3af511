#include "npk/runtime/workspace.h"

#include <new>

namespace npk
{
namespace
{

// More launches of one call site than this at one time are rare; their blocks go back to the device.
constexpr size_t kKept = 4;

} // namespace

WorkspacePool::~WorkspacePool()
{
    for (void* block : free_) device_.release(block);
}

void* WorkspacePool::borrow() noexcept
{
    if (bytes_ == 0) return nullptr;
    {
        std::lock_guard lock(mutex_);
        if (!free_.empty()) {
            void* block = free_.back();
            free_.pop_back();
            return block;
        }
    }
    return device_.allocate(bytes_);
}

void WorkspacePool::give_back(void* block) noexcept
{
    if (block == nullptr) return;
    {
        std::lock_guard lock(mutex_);
        if (free_.size() < kKept) {
            try {
                free_.push_back(block);
                return;
            } catch (const std::bad_alloc&) {
            }
        }
    }
    device_.release(block);
}

} // namespace npk
