#include "core_slot.h"

#include <sys/mman.h>
#include <unistd.h>

#include <new>

namespace npk::twin {
namespace {

constexpr std::size_t kKilobyte = 1024;
constexpr std::size_t kStackBytes = 256 * kKilobyte;

struct MemorySize {
    NpkMemory memory;
    std::size_t mapped;
    std::size_t usable;
};

// Arch 2201.  The runtime of the chip keeps the last 256 bytes of UB and of L1 for itself.
constexpr MemorySize kMemories[] = {
    {NPK_MEM_UB, 192 * kKilobyte, 192 * kKilobyte - 256}, {NPK_MEM_L1, 512 * kKilobyte, 512 * kKilobyte - 256},
    {NPK_MEM_L0A, 64 * kKilobyte, 64 * kKilobyte},        {NPK_MEM_L0B, 64 * kKilobyte, 64 * kKilobyte},
    {NPK_MEM_L0C, 128 * kKilobyte, 128 * kKilobyte},      {NPK_MEM_BT, 4 * kKilobyte, 1 * kKilobyte},
    {NPK_MEM_FB, 4 * kKilobyte, 2 * kKilobyte},
};

std::size_t page_bytes()
{
    static const std::size_t bytes = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    return bytes;
}

} // namespace

CoreSlot::CoreSlot() = default;

CoreSlot::~CoreSlot()
{
    if (mapping_ != nullptr) {
        munmap(mapping_, mapping_bytes_);
    }
}

std::unique_ptr<CoreSlot> CoreSlot::create()
{
    std::unique_ptr<CoreSlot> slot(new (std::nothrow) CoreSlot);
    if (slot == nullptr) {
        return nullptr;
    }
    // Guard page, stack, memories; a memory in front of a page of nothing keeps a wild write from the next one.
    const std::size_t page = page_bytes();
    std::size_t bytes = page + kStackBytes + page;
    for (const MemorySize& size : kMemories) {
        bytes += (size.mapped + page - 1) / page * page + page;
    }
    void* mapping = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapping == MAP_FAILED) {
        return nullptr;
    }
    slot->mapping_ = static_cast<uint8_t*>(mapping);
    slot->mapping_bytes_ = bytes;
    uint8_t* next = slot->mapping_ + page;
    slot->stack_ = next;
    if (mprotect(next, kStackBytes, PROT_READ | PROT_WRITE) != 0) {
        return nullptr;
    }
    next += kStackBytes + page;
    for (const MemorySize& size : kMemories) {
        const std::size_t mapped = (size.mapped + page - 1) / page * page;
        if (mprotect(next, mapped, PROT_READ | PROT_WRITE) != 0) {
            return nullptr;
        }
        slot->core.memory[size.memory] = next;
        slot->core.capacity[size.memory] = static_cast<uint32_t>(size.usable);
        next += mapped + page;
    }
    return slot;
}

std::size_t CoreSlot::stack_bytes() const
{
    return kStackBytes;
}

bool CoreSlot::in_guard(const void* address) const
{
    const uint8_t* byte = static_cast<const uint8_t*>(address);
    return byte >= mapping_ && byte < stack_;
}

bool CoreSlot::owns_stack(const void* address) const
{
    const uint8_t* byte = static_cast<const uint8_t*>(address);
    return byte >= mapping_ && byte < stack_ + kStackBytes;
}

Checker& CoreSlot::checker()
{
    if (checker_ == nullptr) {
        checker_ = std::make_unique<Checker>(core);
    }
    return *checker_;
}

std::unique_ptr<CoreSlot> SlotPool::take()
{
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        if (!free_.empty()) {
            std::unique_ptr<CoreSlot> slot = std::move(free_.back());
            free_.pop_back();
            return slot;
        }
    }
    return CoreSlot::create();
}

void SlotPool::give(std::unique_ptr<CoreSlot> slot)
{
    const std::lock_guard<std::mutex> lock(mutex_);
    if (free_.size() < kKept) {
        free_.push_back(std::move(slot));
    }
}

} // namespace npk::twin
