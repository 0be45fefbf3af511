// LocalTensor and GlobalTensor: typed views of on-chip and of global memory.
#ifndef NPK_TENSOR_H
#define NPK_TENSOR_H

#include "npk/check.h"

namespace npk {

// Whole-tensor operators (`dst = a + b`) build one of these; assignment runs it over all of dst.
template <class T, class Operation>
struct TensorExpression {
    const Operation operation;
};

} // namespace npk

namespace AscendC {

enum class CacheMode : uint8_t { CACHE_MODE_DISABLE = 0, CACHE_MODE_NORMAL };

template <class T>
class LocalTensor {
public:
    using PrimType = T;

    LocalTensor() = default;

    // A view of `elements` values at `address`, inside the memory of `position`; made by queues and buffers.
    static LocalTensor View(void* address, uint64_t elements, TPosition position)
    {
        LocalTensor tensor;
        tensor.data_ = static_cast<T*>(address);
        tensor.size_ = static_cast<uint32_t>(elements);
        tensor.position_ = position;
        return tensor;
    }

    template <class Operation>
    LocalTensor& operator=(const npk::TensorExpression<T, Operation>& expression)
    {
        expression.operation(*this);
        return *this;
    }

    LocalTensor operator[](uint32_t offset) const
    {
        LocalTensor tensor = *this;
        tensor.data_ += offset;
        tensor.size_ = offset <= size_ ? size_ - offset : 0;
        return tensor;
    }

    template <class U>
    LocalTensor<U> ReinterpretCast() const
    {
        return LocalTensor<U>::View(data_, static_cast<uint64_t>(size_) * sizeof(T) / sizeof(U), position_);
    }

    T GetValue(uint32_t index NPK_SITE) const
    {
        const npk::Instruction instruction("GetValue", NPK_PIPE_S, npk::Unit::kScalar, NPK_AT);
        instruction.access(npk::kRead, "this", Memory(), data_ + index, sizeof(T), 1, 0, 0);
        return data_[index];
    }

    template <class U>
    void SetValue(uint32_t index, U value NPK_SITE) const
    {
        const npk::Instruction instruction("SetValue", NPK_PIPE_S, npk::Unit::kScalar, NPK_AT);
        instruction.access(npk::kWrite, "this", Memory(), data_ + index, sizeof(T), 1, 0, 0);
        data_[index] = static_cast<T>(value);
    }

    T& operator()(uint32_t offset) const { return data_[offset]; }

    uint32_t GetSize() const { return size_; }
    uint32_t GetLength() const { return size_ * static_cast<uint32_t>(sizeof(T)); }
    void SetSize(uint32_t size) { size_ = size; }
    void SetBufferLen(uint32_t length) { size_ = length; }
    void SetAddrWithOffset(const LocalTensor& base, uint32_t offset) { *this = base[offset]; }
    TPosition GetPosition() const { return position_; }
    uint64_t GetPhyAddr() const { return reinterpret_cast<uint64_t>(data_); }
    uint64_t GetPhyAddr(uint32_t offset) const { return reinterpret_cast<uint64_t>(data_ + offset); }

    T* Address() const { return data_; }
    NpkMemory Memory() const { return npk::memory_of(position_); }

private:
    T* data_ = nullptr;
    uint32_t size_ = 0; // elements from data_ to the end of the buffer
    TPosition position_ = TPosition::VECCALC;
};

template <class T>
class GlobalTensor {
public:
    using PrimType = T;

    void SetGlobalBuffer(__gm__ T* buffer, uint64_t size)
    {
        data_ = buffer;
        size_ = size;
    }

    void SetGlobalBuffer(__gm__ T* buffer) { SetGlobalBuffer(buffer, 0); }

    GlobalTensor operator[](uint64_t offset) const
    {
        GlobalTensor tensor = *this;
        tensor.data_ += offset;
        tensor.size_ = offset <= size_ ? size_ - offset : 0;
        return tensor;
    }

    template <class U>
    GlobalTensor<U> ReinterpretCast() const
    {
        GlobalTensor<U> tensor;
        tensor.SetGlobalBuffer(reinterpret_cast<U*>(data_), size_ * sizeof(T) / sizeof(U));
        return tensor;
    }

    T GetValue(uint64_t index NPK_SITE) const
    {
        const npk::Instruction instruction("GetValue", NPK_PIPE_S, npk::Unit::kScalar, NPK_AT);
        instruction.access(npk::kRead, "this", NPK_MEM_GM, data_ + index, sizeof(T));
        return data_[index];
    }

    void SetValue(uint64_t index, T value NPK_SITE) const
    {
        const npk::Instruction instruction("SetValue", NPK_PIPE_S, npk::Unit::kScalar, NPK_AT);
        instruction.access(npk::kWrite, "this", NPK_MEM_GM, data_ + index, sizeof(T));
        data_[index] = value;
    }

    T& operator()(uint64_t offset) const { return data_[offset]; }
    uint64_t GetSize() const { return size_; }
    const __gm__ T* GetPhyAddr() const { return data_; }
    __gm__ T* GetPhyAddr(uint64_t offset) const { return data_ + offset; }
    // L2 residency changes timing only.
    void SetL2CacheHint(CacheMode) const {}

    T* Address() const { return data_; }
    static constexpr NpkMemory Memory() { return NPK_MEM_GM; }

private:
    T* data_ = nullptr;
    uint64_t size_ = 0;
};

} // namespace AscendC

#endif
