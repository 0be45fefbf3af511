// TPipe, TQue, TQueBind, TBuf: on-chip memory and the queues that carry tensors between pipes.
#ifndef NPK_QUEUE_H
#define NPK_QUEUE_H

#include "npk/sync.h"
#include "npk/tensor.h"

namespace npk {

enum class SlotState : uint8_t { kFree, kAllocated, kQueued, kDequeued };

// One buffer made by InitBuffer.
struct Slot {
    uint8_t* address;
    uint32_t bytes;
    NpkMemory memory;
    SlotState state;
    bool is_queue;
    bool freed_before; // the consumer set its "free" event at least once
    NpkPipe producer;  // pipe that fills the buffer
    NpkPipe consumer;  // pipe that reads it
};

constexpr uint32_t kMaxBuffers = 64;
// Events of queue slots live beside the eight ids a kernel may use.
constexpr uint32_t kQueueEventBase = 16;

constexpr const char* memory_name(NpkMemory memory)
{
    constexpr const char* names[] = {"GM", "UB", "L1", "L0A", "L0B", "L0C", "BT", "FB"};
    return names[memory];
}

// The pipe that writes a tensor coming from `source` into `destination`.
constexpr NpkPipe pipe_into(AscendC::TPosition source, AscendC::TPosition destination)
{
    using AscendC::TPosition;
    switch (destination) {
    case TPosition::VECIN:
    case TPosition::A1:
    case TPosition::B1:
    case TPosition::C1:
    case TPosition::TSCM: return NPK_PIPE_MTE2;
    case TPosition::A2:
    case TPosition::B2:
    case TPosition::C2: return NPK_PIPE_MTE1;
    case TPosition::CO1: return NPK_PIPE_M;
    case TPosition::VECCALC: return NPK_PIPE_V;
    // A queue bound VECIN -> VECOUT moves data without computing.
    case TPosition::VECOUT: return source == TPosition::VECIN || source == TPosition::GM ? NPK_PIPE_MTE2 : NPK_PIPE_V;
    default: return NPK_PIPE_V;
    }
}

// The pipe that takes a tensor away from `position`.
constexpr NpkPipe pipe_out_of(AscendC::TPosition position)
{
    using AscendC::TPosition;
    switch (position) {
    case TPosition::VECIN:
    case TPosition::VECCALC: return NPK_PIPE_V;
    case TPosition::VECOUT: return NPK_PIPE_MTE3;
    case TPosition::A1:
    case TPosition::B1:
    case TPosition::C1:
    case TPosition::TSCM: return NPK_PIPE_MTE1;
    case TPosition::A2:
    case TPosition::B2:
    case TPosition::C2: return NPK_PIPE_M;
    case TPosition::CO1: return NPK_PIPE_FIX;
    default: return NPK_PIPE_V;
    }
}

// What all queues share: buffers that are taken, put in line, taken out in order and given back.
class Queue {
public:
    void attach(Slot* slots, uint32_t first, uint32_t count)
    {
        slots_ = slots;
        first_ = first;
        count_ = count;
        next_ = head_ = queued_ = 0;
    }

protected:
    const Slot& allocate(NPK_SITE_ONLY);
    void enqueue(const void* address, uint32_t depth NPK_SITE);
    const Slot& dequeue(NPK_SITE_ONLY);
    void release(const void* address NPK_SITE);
    bool has_free() const;
    uint32_t queued() const { return queued_; }

private:
    uint32_t event_of(uint32_t index) const { return kQueueEventBase + first_ + index; }
    void require_attached(const char* api NPK_SITE) const;
    uint32_t find(const void* address, const char* api NPK_SITE) const;

    Slot* slots_ = nullptr;
    uint32_t first_ = 0; // of its buffers, among all of the kernel
    uint32_t count_ = 0;
    uint32_t next_ = 0;   // where allocate looks first
    uint32_t head_ = 0;   // oldest entry of order_
    uint32_t queued_ = 0; // entries of order_ in use
    uint8_t order_[kMaxBuffers];
};

// `size` elements of `item` bytes, `offset` bytes into a buffer.
uint8_t* part_of_buffer(uint8_t* address, uint32_t bytes, uint32_t offset, uint32_t size, uint32_t item NPK_SITE);

} // namespace npk

namespace AscendC {

template <TPosition position>
class TBuf;

template <TPosition source, TPosition destination, int32_t depth, auto mask>
class TQueBind;

class TPipe {
public:
    TPipe() { Init(); }
    TPipe(const TPipe&) = delete;
    TPipe& operator=(const TPipe&) = delete;
    ~TPipe() noexcept(false);

    void Init();
    void Reset();
    void Destroy();

    template <TPosition source, TPosition destination, int32_t depth, auto mask>
    bool InitBuffer(TQueBind<source, destination, depth, mask>& queue, uint8_t num, uint32_t bytes NPK_SITE)
    {
        constexpr NpkMemory memory = TQueBind<source, destination, depth, mask>::kMemory;
        queue.attach(slots_ + buffers_, buffers_, num);
        for (uint32_t i = 0; i < num; ++i) {
            allocate(memory, bytes, true, npk::pipe_into(source, destination),
                     npk::pipe_out_of(destination) NPK_PASS);
        }
        return true;
    }

    template <TPosition position>
    bool InitBuffer(TBuf<position>& buffer, uint32_t bytes NPK_SITE)
    {
        const npk::Slot& slot =
            allocate(npk::memory_of(position), bytes, false, NPK_PIPE_V, NPK_PIPE_V NPK_PASS);
        buffer.attach(slot.address, slot.bytes);
        return true;
    }

    // Event ids 0 to 7 of one pair of pipes.
    template <HardEvent event>
    TEventID AllocEventID(NPK_SITE_ONLY)
    {
        const TEventID id = free_event(event, "AllocEventID" NPK_PASS);
        events_[static_cast<uint32_t>(event)][id] = 1;
        return id;
    }

    template <HardEvent event>
    void ReleaseEventID(TEventID id)
    {
        if (id >= 0 && id < 8) {
            events_[static_cast<uint32_t>(event)][id] = 0;
        }
    }

    // A free id that is not reserved: set and wait must follow each other at once.
    TEventID FetchEventID(HardEvent event NPK_SITE) { return free_event(event, "FetchEventID" NPK_PASS); }

    template <HardEvent event>
    TEventID FetchEventID(NPK_SITE_ONLY)
    {
        return FetchEventID(event NPK_PASS);
    }

    // Faults when a queue still owns a tensor.
    void check_leaks();

private:
    TEventID free_event(HardEvent event, const char* api NPK_SITE) const;
    void release_all();
    npk::Slot& allocate(NpkMemory memory, uint32_t wanted, bool is_queue, NpkPipe producer, NpkPipe consumer NPK_SITE);
    [[noreturn]] void out_of_memory(NpkMemory memory, uint64_t bytes NPK_SITE);

    npk::Slot slots_[npk::kMaxBuffers];
    uint32_t buffers_ = 0;
    uint32_t used_[NPK_MEM_COUNT];
    uint8_t events_[static_cast<uint32_t>(HardEvent::MAX)][8];
};

inline TPipe* GetTPipePtr()
{
    return static_cast<TPipe*>(npk::core().pipe);
}

template <TPosition source, TPosition destination, int32_t depth, auto mask = 0>
class TQueBind : public npk::Queue {
public:
    static constexpr TPosition kPosition = destination == TPosition::GM ? source : destination;
    static constexpr NpkMemory kMemory = npk::memory_of(kPosition);

    template <class T>
    LocalTensor<T> AllocTensor(NPK_SITE_ONLY)
    {
        return view<T>(allocate(NPK_PASS_ONLY));
    }

    template <class T>
    bool EnQue(const LocalTensor<T>& tensor NPK_SITE)
    {
        enqueue(tensor.Address(), kDepth NPK_PASS);
        return true;
    }

    template <class T>
    LocalTensor<T> DeQue(NPK_SITE_ONLY)
    {
        return view<T>(dequeue(NPK_PASS_ONLY));
    }

    template <class T>
    void FreeTensor(const LocalTensor<T>& tensor NPK_SITE)
    {
        release(tensor.Address() NPK_PASS);
    }

    // The forms that name both ends are for queues that bind two positions; the events are the same.
    template <TPosition, TPosition, class T>
    bool EnQue(const LocalTensor<T>& tensor NPK_SITE)
    {
        return EnQue(tensor NPK_PASS);
    }

    template <TPosition, TPosition, class T>
    LocalTensor<T> DeQue(NPK_SITE_ONLY)
    {
        return DeQue<T>(NPK_PASS_ONLY);
    }

    // Forms that fill a tensor of the caller, for queues of depth 0.
    template <class T>
    void AllocTensor(LocalTensor<T>& tensor NPK_SITE)
    {
        tensor = AllocTensor<T>(NPK_PASS_ONLY);
    }

    template <class T>
    void DeQue(LocalTensor<T>& tensor NPK_SITE)
    {
        tensor = DeQue<T>(NPK_PASS_ONLY);
    }

    bool VacantInQue() const { return queued() < kDepth; }
    bool HasTensorInQue() const { return queued() != 0; }
    int32_t GetTensorCountInQue() const { return static_cast<int32_t>(queued()); }
    bool HasIdleBuffer() const { return has_free(); }

private:
    static constexpr uint32_t kDepth = depth < 1 ? 1 : depth;

    template <class T>
    static LocalTensor<T> view(const npk::Slot& slot)
    {
        return LocalTensor<T>::View(slot.address, slot.bytes / sizeof(T), kPosition);
    }
};

// VECIN, A1, ...: tensors come from outside; VECOUT, CO1: tensors leave.
template <TPosition position, int32_t depth, auto mask = 0>
class TQue : public TQueBind<position == TPosition::VECOUT || position == TPosition::CO1 ? TPosition::VECCALC
                                                                                         : TPosition::GM,
                             position, depth, mask> {};

template <TPosition position = TPosition::VECCALC>
class TBuf {
public:
    template <class T>
    LocalTensor<T> Get(NPK_SITE_ONLY) const
    {
        return Get<T>(bytes_ / static_cast<uint32_t>(sizeof(T)) NPK_PASS);
    }

    template <class T>
    LocalTensor<T> Get(uint32_t size NPK_SITE) const
    {
        return GetWithOffset<T>(size, 0 NPK_PASS);
    }

    // `size` elements, `offset` bytes into the buffer.
    template <class T>
    LocalTensor<T> GetWithOffset(uint32_t size, uint32_t offset NPK_SITE) const
    {
        uint8_t* start = npk::part_of_buffer(address_, bytes_, offset, size, sizeof(T) NPK_PASS);
        return LocalTensor<T>::View(start, size, position);
    }

    void attach(uint8_t* address, uint32_t bytes)
    {
        address_ = address;
        bytes_ = bytes;
    }

private:
    uint8_t* address_ = nullptr;
    uint32_t bytes_ = 0;
};

} // namespace AscendC

#if NPK_HAS_BODIES

// NPK_SITE without its default value.
#if NPK_TWIN_CHECKED
#define NPK_FROM_ONLY [[maybe_unused]] ::npk::Site site
#define NPK_FROM , NPK_FROM_ONLY
#else
#define NPK_FROM_ONLY
#define NPK_FROM
#endif

namespace npk {

NPK_BODY const Slot& Queue::allocate(NPK_FROM_ONLY)
{
    require_attached("AllocTensor" NPK_PASS);
    for (uint32_t tried = 0; tried < count_; ++tried) {
        const uint32_t index = next_;
        next_ = next_ + 1 == count_ ? 0 : next_ + 1;
        Slot& slot = slots_[index];
        if (slot.state == SlotState::kFree) {
            slot.state = SlotState::kAllocated;
#if NPK_TWIN_CHECKED
            if (slot.freed_before) {
                host_table->check_wait_flag(slot.consumer, slot.producer, event_of(index), site.file, site.line);
            }
#endif
            return slot;
        }
    }
    raise(kQueue, "QueueFull", "AllocTensor", NPK_AT,
          "all %u buffers of the queue are in use; free one or initialise the queue with more", count_);
}

NPK_BODY void Queue::enqueue(const void* address, [[maybe_unused]] uint32_t depth NPK_FROM)
{
    const uint32_t index = find(address, "EnQue" NPK_PASS);
    Slot& slot = slots_[index];
    if (slot.state != SlotState::kAllocated && slot.state != SlotState::kDequeued) {
        raise(kQueue, "QueueState", "EnQue", NPK_AT, "the tensor is %s",
              slot.state == SlotState::kFree ? "not allocated" : "already in the queue");
    }
#if NPK_TWIN_CHECKED
    if (queued_ >= depth) {
        raise(kQueue, "QueueDepth", "EnQue", NPK_AT, "%u tensors wait in a queue of depth %u", queued_, depth);
    }
    host_table->check_set_flag(slot.producer, slot.consumer, event_of(index) + kMaxBuffers, site.file, site.line);
#endif
    slot.state = SlotState::kQueued;
    order_[(head_ + queued_) % kMaxBuffers] = static_cast<uint8_t>(index);
    ++queued_;
}

NPK_BODY const Slot& Queue::dequeue(NPK_FROM_ONLY)
{
    require_attached("DeQue" NPK_PASS);
    if (queued_ == 0) {
        raise(kQueue, "QueueEmpty", "DeQue", NPK_AT, "the queue is empty: no tensor was put in with EnQue");
    }
    const uint32_t index = order_[head_];
    head_ = (head_ + 1) % kMaxBuffers;
    --queued_;
    Slot& slot = slots_[index];
    slot.state = SlotState::kDequeued;
#if NPK_TWIN_CHECKED
    host_table->check_wait_flag(slot.producer, slot.consumer, event_of(index) + kMaxBuffers, site.file, site.line);
#endif
    return slot;
}

NPK_BODY void Queue::release(const void* address NPK_FROM)
{
    const uint32_t index = find(address, "FreeTensor" NPK_PASS);
    Slot& slot = slots_[index];
    if (slot.state == SlotState::kFree) {
        raise(kQueue, "ErrorFree", "FreeTensor", NPK_AT, "the tensor is freed twice");
    }
    if (slot.state == SlotState::kQueued) {
        raise(kQueue, "QueueState", "FreeTensor", NPK_AT,
              "the tensor still waits in the queue; take it out with DeQue first");
    }
    slot.state = SlotState::kFree;
#if NPK_TWIN_CHECKED
    slot.freed_before = true;
    host_table->check_set_flag(slot.consumer, slot.producer, event_of(index), site.file, site.line);
#endif
}

NPK_BODY bool Queue::has_free() const
{
    for (uint32_t i = 0; i < count_; ++i) {
        if (slots_[i].state == SlotState::kFree) {
            return true;
        }
    }
    return false;
}

NPK_BODY void Queue::require_attached(const char* api NPK_FROM) const
{
    if (slots_ == nullptr) {
        raise(kQueue, "ErrorBuffer0", api, NPK_AT, "the queue has no buffers: call InitBuffer first");
    }
}

NPK_BODY uint32_t Queue::find(const void* address, const char* api NPK_FROM) const
{
    require_attached(api NPK_PASS);
    const uint8_t* base = slots_[0].address;
    const uint8_t* wanted = static_cast<const uint8_t*>(address);
    const uint32_t bytes = slots_[0].bytes;
    if (wanted < base || bytes == 0 || wanted >= base + static_cast<uint64_t>(bytes) * count_) {
        raise(kQueue, "ErrorBuffer1", api, NPK_AT, "the tensor is not one of this queue's buffers");
    }
    return static_cast<uint32_t>(wanted - base) / bytes;
}

NPK_BODY uint8_t* part_of_buffer(uint8_t* address, [[maybe_unused]] uint32_t bytes, uint32_t offset,
                                 [[maybe_unused]] uint32_t size, [[maybe_unused]] uint32_t item NPK_FROM)
{
    if (address == nullptr) {
        raise(kQueue, "ErrorBuffer0", "TBuf::Get", NPK_AT, "the TBuf has no memory: call InitBuffer first");
    }
#if NPK_TWIN_CHECKED
    if (offset % 32 != 0) {
        raise(kIllegal, "ErrorRead4", "TBuf::GetWithOffset", NPK_AT, "the offset %u is not a multiple of 32 bytes",
              offset);
    }
    if (offset + static_cast<uint64_t>(size) * item > bytes) {
        raise(kBounds, "ErrorBuffer3", "TBuf::GetWithOffset", NPK_AT,
              "%llu bytes at offset %u exceed the buffer of %u bytes", static_cast<unsigned long long>(size) * item,
              offset, bytes);
    }
#endif
    return address + offset;
}

} // namespace npk

namespace AscendC {

NPK_BODY TPipe::~TPipe() noexcept(false)
{
    NpkCore& core = npk::core();
    if (core.pipe == this) {
        core.pipe = nullptr;
    }
#if NPK_TWIN_CHECKED
    if (core.unwinding == 0) {
        check_leaks();
    }
    release_all();
#endif
}

NPK_BODY void TPipe::Init()
{
    npk::core().pipe = this;
    Reset();
}

NPK_BODY void TPipe::Reset()
{
#if NPK_TWIN_CHECKED
    release_all();
#endif
    for (uint32_t& used : used_) {
        used = 0;
    }
    buffers_ = 0;
    for (auto& row : events_) {
        for (uint8_t& in_use : row) {
            in_use = 0;
        }
    }
}

NPK_BODY void TPipe::Destroy()
{
#if NPK_TWIN_CHECKED
    check_leaks();
#endif
    Reset();
}

NPK_BODY TEventID TPipe::free_event(HardEvent event, const char* api NPK_FROM) const
{
    const uint8_t* in_use = events_[static_cast<uint32_t>(event)];
    for (TEventID id = 0; id < 8; ++id) {
        if (in_use[id] == 0) {
            return id;
        }
    }
    npk::raise(npk::kEvent, "EventId", api, NPK_AT, "all 8 event ids of this pair of pipes are taken");
}

NPK_BODY void TPipe::check_leaks()
{
    for (uint32_t i = 0; i < buffers_; ++i) {
        if (slots_[i].is_queue && slots_[i].state != npk::SlotState::kFree) {
            npk::raise(npk::kQueue, "ErrorLeak", "FreeTensor", npk::Site{nullptr, 0},
                       "a tensor of %u bytes in %s was allocated and never freed (buffer %u of the kernel)",
                       slots_[i].bytes, npk::memory_name(slots_[i].memory), i);
        }
    }
}

NPK_BODY void TPipe::release_all()
{
    for (uint32_t i = 0; i < buffers_; ++i) {
        npk::host_table->check_release(slots_[i].memory, reinterpret_cast<uint64_t>(slots_[i].address),
                                       slots_[i].bytes);
    }
}

NPK_BODY npk::Slot& TPipe::allocate(NpkMemory memory, uint32_t wanted, bool is_queue, NpkPipe producer,
                                    NpkPipe consumer NPK_FROM)
{
    const NpkCore& core = npk::core();
    const uint32_t unit = memory == NPK_MEM_L0A || memory == NPK_MEM_L0B ? 512
                          : memory == NPK_MEM_L0C                        ? 1024
                          : memory == NPK_MEM_BT                         ? 64
                                                                         : 32;
    const uint64_t bytes = (static_cast<uint64_t>(wanted) + unit - 1) / unit * unit;
    if (buffers_ == npk::kMaxBuffers) {
        npk::raise(npk::kCapacity, "BufferCount", "InitBuffer", NPK_AT,
                   "a kernel has at most %u buffers, counting each buffer of a queue", npk::kMaxBuffers);
    }
    if (used_[memory] + bytes > core.capacity[memory]) {
        out_of_memory(memory, bytes NPK_PASS);
    }
    npk::Slot& slot = slots_[buffers_++];
    slot = {core.memory[memory] + used_[memory], static_cast<uint32_t>(bytes), memory, npk::SlotState::kFree,
            is_queue, false, producer, consumer};
    used_[memory] += static_cast<uint32_t>(bytes);
#if NPK_TWIN_CHECKED
    npk::host_table->check_allocate(memory, reinterpret_cast<uint64_t>(slot.address), bytes);
#endif
    return slot;
}

NPK_BODY void TPipe::out_of_memory(NpkMemory memory, uint64_t bytes NPK_FROM)
{
    char table[320];
    int length = 0;
    for (uint32_t i = 0; i < buffers_ && length < static_cast<int>(sizeof(table)) - 16; ++i) {
        if (slots_[i].memory == memory) {
            length += snprintf(table + length, sizeof(table) - static_cast<uint32_t>(length), "%s%u",
                               length ? " + " : "", slots_[i].bytes);
        }
    }
    npk::raise(npk::kCapacity, "MemoryLimit", "InitBuffer", NPK_AT,
               "%s: needs %llu B of %u B (buffers so far: %s; wanted now: %llu)", npk::memory_name(memory),
               static_cast<unsigned long long>(used_[memory] + bytes), npk::core().capacity[memory],
               length ? table : "none", static_cast<unsigned long long>(bytes));
}

} // namespace AscendC

#endif // NPK_HAS_BODIES

#endif
