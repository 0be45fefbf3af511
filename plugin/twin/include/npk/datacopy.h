// DataCopy and DataCopyPad: moves between global and on-chip memory, and ND to NZ conversion on the way.
#ifndef NPK_DATACOPY_H
#define NPK_DATACOPY_H

#include <cstring>

#include "npk/tensor.h"

namespace AscendC {

// Strides are gaps: from the end of one piece to the start of the next.  Lengths count blocks of 32 bytes.
struct DataCopyParams {
    DataCopyParams() = default;
    DataCopyParams(uint16_t count, uint16_t length, uint16_t src_gap, uint16_t dst_gap)
        : blockCount(count), blockLen(length), srcStride(src_gap), dstStride(dst_gap)
    {
    }
    uint16_t blockCount = 1;
    uint16_t blockLen = 0;
    uint16_t srcStride = 0;
    uint16_t dstStride = 0;
};

// Lengths in bytes; gaps in bytes in global memory, in blocks of 32 bytes on chip.
struct DataCopyExtParams {
    DataCopyExtParams() = default;
    DataCopyExtParams(uint16_t count, uint32_t length, uint32_t src_gap, uint32_t dst_gap, uint32_t reserved)
        : blockCount(count), blockLen(length), srcStride(src_gap), dstStride(dst_gap), rsv(reserved)
    {
    }
    uint16_t blockCount = 1;
    uint32_t blockLen = 0;
    uint32_t srcStride = 0;
    uint32_t dstStride = 0;
    uint32_t rsv = 0;
};

struct DataCopyPadParams {
    DataCopyPadParams() = default;
    DataCopyPadParams(bool pad, uint8_t left, uint8_t right, uint64_t value)
        : isPad(pad), leftPadding(left), rightPadding(right), paddingValue(value)
    {
    }
    bool isPad = false;
    uint8_t leftPadding = 0;
    uint8_t rightPadding = 0;
    uint64_t paddingValue = 0;
};

template <class T>
struct DataCopyPadExtParams {
    DataCopyPadExtParams() = default;
    DataCopyPadExtParams(bool pad, uint8_t left, uint8_t right, T value)
        : isPad(pad), leftPadding(left), rightPadding(right), paddingValue(value)
    {
    }
    bool isPad = false;
    uint8_t leftPadding = 0;
    uint8_t rightPadding = 0;
    T paddingValue = T(0);
};

struct Nd2NzParams {
    Nd2NzParams() = default;
    Nd2NzParams(uint16_t nd_num, uint16_t n_value, uint16_t d_value, uint16_t src_nd_matrix_stride,
                uint16_t src_d_value, uint16_t dst_nz_c0_stride, uint16_t dst_nz_n_stride,
                uint16_t dst_nz_matrix_stride)
        : ndNum(nd_num), nValue(n_value), dValue(d_value), srcNdMatrixStride(src_nd_matrix_stride),
          srcDValue(src_d_value), dstNzC0Stride(dst_nz_c0_stride), dstNzNStride(dst_nz_n_stride),
          dstNzMatrixStride(dst_nz_matrix_stride)
    {
    }
    uint16_t ndNum = 0;
    uint16_t nValue = 0;            // rows
    uint16_t dValue = 0;            // columns
    uint16_t srcNdMatrixStride = 0; // elements
    uint16_t srcDValue = 0;         // elements of a source row
    uint16_t dstNzC0Stride = 0;     // blocks of 32 bytes between columns of blocks
    uint16_t dstNzNStride = 0;      // blocks of 32 bytes between rows
    uint16_t dstNzMatrixStride = 0; // elements
};

} // namespace AscendC

namespace npk {

enum AtomicOperation : uint32_t { kAtomicNone = 0, kAtomicAdd = 1, kAtomicMax = 2, kAtomicMin = 3 };

// Serialises atomic moves of the cores of this kernel.
class AtomicLock {
public:
    AtomicLock()
    {
        while (__atomic_test_and_set(&taken_, __ATOMIC_ACQUIRE)) {
        }
    }
    ~AtomicLock() { __atomic_clear(&taken_, __ATOMIC_RELEASE); }
    AtomicLock(const AtomicLock&) = delete;
    AtomicLock& operator=(const AtomicLock&) = delete;

private:
    inline static bool taken_ = false;
};

// Writes `bytes` to global memory, combining with what is there when an atomic mode is set.
template <class T>
NPK_OUT_OF_LINE void store_global(void* dst, const void* src, uint64_t bytes)
{
    const uint32_t operation = core().atomic_op;
    if (operation == kAtomicNone) {
        memcpy(dst, src, bytes);
        return;
    }
    if constexpr (one_of<T, float, half, bfloat16_t, int8_t, int16_t, int32_t>) {
        const AtomicLock lock;
        for (uint64_t offset = 0; offset + sizeof(T) <= bytes; offset += sizeof(T)) {
            T old, value;
            memcpy(&old, static_cast<uint8_t*>(dst) + offset, sizeof(T));
            memcpy(&value, static_cast<const uint8_t*>(src) + offset, sizeof(T));
            using C = compute_type<T>;
            const C a = static_cast<C>(old), b = static_cast<C>(value);
            const C result = operation == kAtomicAdd ? static_cast<C>(a + b)
                             : operation == kAtomicMax ? (a > b ? a : b)
                                                       : (a < b ? a : b);
            value = static_cast<T>(result);
            memcpy(static_cast<uint8_t*>(dst) + offset, &value, sizeof(T));
        }
    } else {
        raise(kOperand, "AtomicType", "DataCopy", Site{nullptr, 0},
              "atomic moves take float, half, bfloat16_t, int8_t, int16_t and int32_t");
    }
}

// `count` pieces of `bytes`; strides between starts.
struct Pieces {
    uint64_t count;
    uint64_t bytes;
    uint64_t src_stride;
    uint64_t dst_stride;
};

constexpr NpkPipe move_pipe(NpkMemory from, NpkMemory to)
{
    if (from == NPK_MEM_GM) {
        return NPK_PIPE_MTE2;
    }
    if (from == NPK_MEM_L1 && to != NPK_MEM_GM) {
        return to == NPK_MEM_FB ? NPK_PIPE_FIX : NPK_PIPE_MTE1;
    }
    return from == NPK_MEM_UB && to == NPK_MEM_UB ? NPK_PIPE_V : NPK_PIPE_MTE3;
}

template <class T, class Destination, class Source>
NPK_OUT_OF_LINE void move_pieces(const Instruction& instruction, const Destination& dst, const Source& src,
                        const Pieces& pieces)
{
    instruction.access(kRead, "src", src.Memory(), src.Address(), pieces.bytes, pieces.count,
                       static_cast<int64_t>(pieces.src_stride));
    instruction.access(kWrite, "dst", dst.Memory(), dst.Address(), pieces.bytes, pieces.count,
                       static_cast<int64_t>(pieces.dst_stride));
    uint8_t* to = reinterpret_cast<uint8_t*>(dst.Address());
    const uint8_t* from = reinterpret_cast<const uint8_t*>(src.Address());
    const bool dense = pieces.src_stride == pieces.bytes && pieces.dst_stride == pieces.bytes;
    const uint64_t count = dense ? 1 : pieces.count;
    const uint64_t bytes = dense ? pieces.bytes * pieces.count : pieces.bytes;
    for (uint64_t i = 0; i < count; ++i) {
        if (dst.Memory() == NPK_MEM_GM) {
            store_global<T>(to + i * pieces.dst_stride, from + i * pieces.src_stride, bytes);
        } else {
            memmove(to + i * pieces.dst_stride, from + i * pieces.src_stride, bytes);
        }
    }
}

template <class Destination, class Source>
inline void check_path(const Instruction& instruction, const Destination& dst, const Source& src)
{
    const NpkMemory from = src.Memory(), to = dst.Memory();
    const bool vector_path = (from == NPK_MEM_GM && to == NPK_MEM_UB) || (from == NPK_MEM_UB && to == NPK_MEM_GM) ||
                             (from == NPK_MEM_UB && to == NPK_MEM_UB);
    const bool cube_path = (from == NPK_MEM_GM && to == NPK_MEM_L1) ||
                           (from == NPK_MEM_L1 && (to == NPK_MEM_GM || to == NPK_MEM_BT || to == NPK_MEM_FB));
    instruction.require(vector_path || cube_path, "ErrorBuffer2", "arch 2201 has no path between these memories");
    instruction.require(core().kind == (vector_path ? NPK_CORE_AIV : NPK_CORE_AIC), "ErrorBuffer2",
                        vector_path ? "unified buffer belongs to vector cores"
                                    : "L1, bias table and fixpipe buffer belong to cube cores");
}

template <class T, class Destination, class Source>
NPK_OUT_OF_LINE void copy_count(const Destination& dst, const Source& src, uint64_t count NPK_SITE)
{
    const Instruction instruction("DataCopy", move_pipe(src.Memory(), dst.Memory()), Unit::kMove, NPK_AT);
    check_path(instruction, dst, src);
    instruction.multiple("count in bytes", count * sizeof(T), 32);
    // What does not fill a block of 32 bytes is not moved.
    const uint64_t bytes = count * sizeof(T) / 32 * 32;
    move_pieces<T>(instruction, dst, src, {1, bytes, bytes, bytes});
}

template <class T, class Destination, class Source>
NPK_OUT_OF_LINE void copy_blocks(const Destination& dst, const Source& src, const AscendC::DataCopyParams& params NPK_SITE)
{
    const Instruction instruction("DataCopy", move_pipe(src.Memory(), dst.Memory()), Unit::kMove, NPK_AT);
    check_path(instruction, dst, src);
    instruction.limit("blockCount", params.blockCount, 4095);
    // The bias table and the fixpipe buffer count in their own units.
    const uint64_t unit = dst.Memory() == NPK_MEM_BT ? 64 : dst.Memory() == NPK_MEM_FB ? 128 : 32;
    move_pieces<T>(instruction, dst, src,
                   {params.blockCount, params.blockLen * unit, params.blockLen * unit + params.srcStride * 32ull,
                    params.blockLen * unit + params.dstStride * unit});
}

template <class T>
inline void check_pad_params(const Instruction& instruction, uint64_t count, uint64_t length)
{
    instruction.limit("blockCount", count, 4095);
    instruction.limit("blockLen", length, 2097151);
    instruction.multiple("blockLen", length, sizeof(T));
}

// Global memory to unified buffer or L1: each piece is padded to whole blocks of 32 bytes.
template <class T>
NPK_OUT_OF_LINE void copy_pad_in(const AscendC::LocalTensor<T>& dst, const AscendC::GlobalTensor<T>& src, uint64_t count,
                        uint64_t length, uint64_t src_gap, uint64_t dst_gap,
                        const AscendC::DataCopyPadExtParams<T>& pad NPK_SITE)
{
    const Instruction instruction("DataCopyPad", NPK_PIPE_MTE2, Unit::kMove, NPK_AT);
    check_path(instruction, dst, src);
    check_pad_params<T>(instruction, count, length);
    const uint64_t left = pad.leftPadding * sizeof(T), right = pad.rightPadding * sizeof(T);
    instruction.limit("leftPadding in bytes", left, 32);
    instruction.limit("rightPadding in bytes", right, 32);
    if (count == 0 || length == 0) {
        return;
    }
    const uint64_t whole = (left + length + right + 31) / 32 * 32;
    const uint64_t dst_stride = whole + dst_gap * 32, src_stride = length + src_gap;
    instruction.access(kRead, "src", NPK_MEM_GM, src.Address(), length, count, static_cast<int64_t>(src_stride));
    instruction.access(kWrite, "dst", dst.Memory(), dst.Address(), whole, count, static_cast<int64_t>(dst_stride));
    uint8_t* to = reinterpret_cast<uint8_t*>(dst.Address());
    const uint8_t* from = reinterpret_cast<const uint8_t*>(src.Address());
    if (whole == length && src_gap == 0 && dst_gap == 0) {
        memcpy(to, from, length * count);
        return;
    }
    const bool padded = left + right != 0;
    for (uint64_t i = 0; i < count; ++i, to += dst_stride, from += src_stride) {
        memcpy(to + left, from, length);
        T filler = pad.paddingValue;
        if (!padded) {
            memcpy(&filler, from, sizeof(T));
        } else if (!pad.isPad) {
            // Undefined content.
            instruction.forget(dst.Memory(), to, left);
            instruction.forget(dst.Memory(), to + left + length, whole - left - length);
            continue;
        }
        for (uint64_t offset = 0; offset < left; offset += sizeof(T)) {
            memcpy(to + offset, &filler, sizeof(T));
        }
        for (uint64_t offset = left + length; offset < whole; offset += sizeof(T)) {
            memcpy(to + offset, &filler, sizeof(T));
        }
    }
}

template <class T>
NPK_OUT_OF_LINE void copy_pad_out(const AscendC::GlobalTensor<T>& dst, const AscendC::LocalTensor<T>& src, uint64_t count,
                         uint64_t length, uint64_t src_gap, uint64_t dst_gap NPK_SITE)
{
    const Instruction instruction("DataCopyPad", NPK_PIPE_MTE3, Unit::kMove, NPK_AT);
    check_path(instruction, dst, src);
    check_pad_params<T>(instruction, count, length);
    if (count == 0 || length == 0) {
        return;
    }
    const uint64_t whole = (length + 31) / 32 * 32;
    move_pieces<T>(instruction, dst, src, {count, length, whole + src_gap * 32, length + dst_gap});
}

template <class T>
NPK_OUT_OF_LINE void copy_nd2nz(const AscendC::LocalTensor<T>& dst, const AscendC::GlobalTensor<T>& src,
                       const AscendC::Nd2NzParams& params NPK_SITE)
{
    const Instruction instruction("DataCopy", NPK_PIPE_MTE2, Unit::kMove, NPK_AT);
    check_path(instruction, dst, src);
    instruction.limit("ndNum", params.ndNum, 4095);
    instruction.limit("nValue", params.nValue, 16384);
    instruction.limit("dstNzC0Stride", params.dstNzC0Stride, 16384);
    instruction.limit("dstNzNStride", params.dstNzNStride, 16384);
    constexpr uint32_t c0 = 32 / sizeof(T);
    const uint64_t blocks = (params.dValue + c0 - 1) / c0;
    for (uint64_t matrix = 0; matrix < params.ndNum; ++matrix) {
        const T* from = src.Address() + matrix * params.srcNdMatrixStride;
        T* to = dst.Address() + matrix * params.dstNzMatrixStride;
        instruction.access(kRead, "src", NPK_MEM_GM, from, params.dValue * sizeof(T), params.nValue,
                           static_cast<int64_t>(params.srcDValue * sizeof(T)));
        for (uint64_t block = 0; block < blocks; ++block) {
            T* column = to + block * params.dstNzC0Stride * c0;
            const T* start = from + block * c0;
            const uint64_t valid = params.dValue - block * c0 < c0 ? params.dValue - block * c0 : c0;
            instruction.access(kWrite, "dst", dst.Memory(), column, 32, params.nValue, params.dstNzNStride * 32);
            if (valid == c0) {
                for (uint64_t row = 0; row < params.nValue; ++row) {
                    memcpy(column + row * params.dstNzNStride * c0, start + row * params.srcDValue, 32);
                }
                continue;
            }
            for (uint64_t row = 0; row < params.nValue; ++row) {
                T* out = column + row * params.dstNzNStride * c0;
                memset(static_cast<void*>(out), 0, 32);
                memcpy(static_cast<void*>(out), start + row * params.srcDValue, valid * sizeof(T));
            }
        }
    }
}

} // namespace npk

namespace AscendC {

template <class T>
void DataCopy(const LocalTensor<T>& dst, const GlobalTensor<T>& src, const uint32_t count NPK_SITE)
{
    npk::copy_count<T>(dst, src, count NPK_PASS);
}

template <class T>
void DataCopy(const GlobalTensor<T>& dst, const LocalTensor<T>& src, const uint32_t count NPK_SITE)
{
    npk::copy_count<T>(dst, src, count NPK_PASS);
}

template <class T>
void DataCopy(const LocalTensor<T>& dst, const LocalTensor<T>& src, const uint32_t count NPK_SITE)
{
    npk::copy_count<T>(dst, src, count NPK_PASS);
}

template <class T>
void DataCopy(const LocalTensor<T>& dst, const GlobalTensor<T>& src, const DataCopyParams& params NPK_SITE)
{
    npk::copy_blocks<T>(dst, src, params NPK_PASS);
}

template <class T>
void DataCopy(const GlobalTensor<T>& dst, const LocalTensor<T>& src, const DataCopyParams& params NPK_SITE)
{
    npk::copy_blocks<T>(dst, src, params NPK_PASS);
}

template <class T>
void DataCopy(const LocalTensor<T>& dst, const LocalTensor<T>& src, const DataCopyParams& params NPK_SITE)
{
    npk::copy_blocks<T>(dst, src, params NPK_PASS);
}

template <class T>
void DataCopy(const LocalTensor<T>& dst, const GlobalTensor<T>& src, const Nd2NzParams& params NPK_SITE)
{
    npk::copy_nd2nz(dst, src, params NPK_PASS);
}

template <class T>
void DataCopyPad(const LocalTensor<T>& dst, const GlobalTensor<T>& src, const DataCopyExtParams& params,
                 const DataCopyPadExtParams<T>& padParams NPK_SITE)
{
    npk::copy_pad_in(dst, src, params.blockCount, params.blockLen, params.srcStride, params.dstStride,
                     padParams NPK_PASS);
}

template <class T>
void DataCopyPad(const LocalTensor<T>& dst, const GlobalTensor<T>& src, const DataCopyParams& params,
                 const DataCopyPadParams& padParams NPK_SITE)
{
    DataCopyPadExtParams<T> pad;
    pad.isPad = padParams.isPad;
    pad.leftPadding = padParams.leftPadding;
    pad.rightPadding = padParams.rightPadding;
    memcpy(&pad.paddingValue, &padParams.paddingValue, sizeof(T));
    npk::copy_pad_in(dst, src, params.blockCount, params.blockLen, params.srcStride, params.dstStride, pad NPK_PASS);
}

template <class T>
void DataCopyPad(const GlobalTensor<T>& dst, const LocalTensor<T>& src,
                 const DataCopyExtParams& params NPK_SITE)
{
    npk::copy_pad_out(dst, src, params.blockCount, params.blockLen, params.srcStride, params.dstStride NPK_PASS);
}

template <class T>
void DataCopyPad(const GlobalTensor<T>& dst, const LocalTensor<T>& src, const DataCopyParams& params NPK_SITE)
{
    npk::copy_pad_out(dst, src, params.blockCount, params.blockLen, params.srcStride, params.dstStride NPK_PASS);
}

// Moves to global memory add to what is there until SetAtomicNone.
template <class T>
void SetAtomicAdd()
{
    npk::core().atomic_op = npk::kAtomicAdd;
}

template <class T>
void SetAtomicMax()
{
    npk::core().atomic_op = npk::kAtomicMax;
}

template <class T>
void SetAtomicMin()
{
    npk::core().atomic_op = npk::kAtomicMin;
}

inline void SetAtomicNone()
{
    npk::core().atomic_op = npk::kAtomicNone;
}

// The name of SetAtomicNone in CANN 9.
inline void DisableDmaAtomic()
{
    SetAtomicNone();
}

} // namespace AscendC

#endif
