// Filling, spreading and rearranging: Duplicate, Brcb, BroadCast, Copy, CreateVecIndex, Gather, Transpose.
#ifndef NPK_FILL_H
#define NPK_FILL_H

#include <cstring>

#include "npk/mask.h"

namespace npk {

template <class T>
constexpr bool movable = one_of<T, int16_t, uint16_t, half, bfloat16_t, int32_t, uint32_t, float>;

template <class T, class MaskArgument>
NPK_OUT_OF_LINE void duplicate_repeat(const AscendC::LocalTensor<T>& dst, T value, bool set_mask, MaskArgument mask,
                             uint8_t repeat, uint16_t block_stride, uint8_t repeat_stride NPK_SITE)
{
    static_assert(movable<T>, "NPK-RC08: Duplicate takes 16- and 32-bit types on arch 2201");
    const Instruction instruction("Duplicate", NPK_PIPE_V, Unit::kVector, NPK_AT);
    constexpr uint32_t elements = per_repeat<T>;
    const Repeats repeats = resolve(set_mask, mask, repeat, elements);
    const Strided<T> d = {dst.Address(), block_stride, repeat_stride, elements};
    check_strided(instruction, true, "dst", dst, d, repeats);
    for_each_run(repeats, elements, d.dense(), [&](uint32_t r, uint32_t first, uint32_t count) {
        T* out = d.at(r, first);
        for (uint32_t i = 0; i < count; ++i) {
            out[i] = value;
        }
    });
}

template <class T>
inline T index_value(T first, uint32_t i)
{
    if constexpr (is_small_float<T>) {
        return T(static_cast<float>(first) + static_cast<float>(i));
    } else {
        return static_cast<T>(first + static_cast<T>(i));
    }
}

} // namespace npk

namespace AscendC {

struct BrcbRepeatParams {
    BrcbRepeatParams() = default;
    BrcbRepeatParams(uint16_t dst_block, uint16_t dst_repeat) : dstBlkStride(dst_block), dstRepStride(dst_repeat) {}
    uint32_t blockNumber = DEFAULT_BLK_NUM;
    uint16_t dstBlkStride = DEFAULT_BLK_STRIDE;
    uint16_t dstRepStride = DEFAULT_REPEAT_STRIDE;
};

struct CopyRepeatParams {
    CopyRepeatParams() = default;
    CopyRepeatParams(uint16_t dst_stride, uint16_t src_stride, uint16_t dst_repeat, uint16_t src_repeat)
        : dstStride(dst_stride), srcStride(src_stride), dstRepeatSize(dst_repeat), srcRepeatSize(src_repeat)
    {
    }
    uint16_t dstStride = DEFAULT_BLK_STRIDE;
    uint16_t srcStride = DEFAULT_BLK_STRIDE;
    uint16_t dstRepeatSize = DEFAULT_REPEAT_STRIDE;
    uint16_t srcRepeatSize = DEFAULT_REPEAT_STRIDE;
};

template <class T>
void Duplicate(const LocalTensor<T>& dst, const std::enable_if_t<true, T>& scalarValue,
               const int32_t& count NPK_SITE)
{
    static_assert(npk::movable<T>, "NPK-RC08: Duplicate takes 16- and 32-bit types on arch 2201");
    const npk::Instruction instruction("Duplicate", NPK_PIPE_V, npk::Unit::kVector, NPK_AT);
    if (count <= 0) {
        return;
    }
    instruction.out("dst", dst, static_cast<uint32_t>(count));
    const T value = scalarValue;
    T* out = dst.Address();
    for (int32_t i = 0; i < count; ++i) {
        out[i] = value;
    }
}

template <class T, bool isSetMask = true>
void Duplicate(const LocalTensor<T>& dst, const std::enable_if_t<true, T>& scalarValue, uint64_t mask,
               const uint8_t repeatTime, const uint16_t dstBlockStride, const uint8_t dstRepeatStride NPK_SITE)
{
    npk::duplicate_repeat<T>(dst, scalarValue, isSetMask, mask, repeatTime, dstBlockStride, dstRepeatStride NPK_PASS);
}

template <class T, bool isSetMask = true>
void Duplicate(const LocalTensor<T>& dst, const std::enable_if_t<true, T>& scalarValue, uint64_t mask[],
               const uint8_t repeatTime, const uint16_t dstBlockStride, const uint8_t dstRepeatStride NPK_SITE)
{
    npk::duplicate_repeat<T>(dst, scalarValue, isSetMask, static_cast<const uint64_t*>(mask), repeatTime,
                             dstBlockStride, dstRepeatStride NPK_PASS);
}

// Each of eight elements fills one block of 32 bytes.
template <class T>
NPK_OUT_OF_LINE void Brcb(const LocalTensor<T>& dst, const LocalTensor<T>& src, const uint8_t repeatTime,
                 const BrcbRepeatParams& repeatParams NPK_SITE)
{
    static_assert(npk::movable<T>, "NPK-RC08: Brcb takes 16- and 32-bit types on arch 2201");
    const npk::Instruction instruction("Brcb", NPK_PIPE_V, npk::Unit::kVector, NPK_AT);
    constexpr uint32_t in_block = npk::per_block<T>;
    const uint32_t block_stride = repeatParams.dstBlkStride == 0 ? 1 : repeatParams.dstBlkStride;
    instruction.in("src", src, repeatTime * 8u);
    const T* in = src.Address();
    T* base = dst.Address();
    const uint64_t repeat_stride = static_cast<uint64_t>(repeatParams.dstRepStride) * in_block;
    for (uint32_t r = 0; r < repeatTime; ++r) {
        T* out = base + r * repeat_stride;
        instruction.access(npk::kWrite, "dst", dst.Memory(), out, 32, 8, static_cast<int64_t>(block_stride) * 32);
        for (uint32_t block = 0; block < 8; ++block) {
            const T value = in[r * 8 + block];
            for (uint32_t i = 0; i < in_block; ++i) {
                out[block * block_stride * in_block + i] = value;
            }
        }
    }
}

// High-level function: repeats a [1, n] row (axis 0) or an [m, 1] column (axis 1) to the shape dstShape.
template <class T, int32_t dim, int32_t axis, bool isReuseSource = false>
NPK_OUT_OF_LINE void BroadCast(const LocalTensor<T>& dst, const LocalTensor<T>& src, const uint32_t dstShape[dim],
                      const uint32_t srcShape[dim] NPK_SITE)
{
    static_assert(dim == 1 || dim == 2, "BroadCast takes one or two dimensions");
    static_assert(axis == 0 || axis == 1, "BroadCast repeats along axis 0 or 1");
    const npk::Instruction instruction("BroadCast", NPK_PIPE_V, npk::Unit::kVector, NPK_AT);
    const uint32_t rows = dim == 1 ? 1 : dstShape[0];
    const uint32_t columns = dstShape[dim - 1];
    const uint32_t src_rows = dim == 1 ? 1 : srcShape[0];
    const uint32_t src_columns = srcShape[dim - 1];
    const bool column = src_columns == 1 && (dim == 1 || axis == 1);
    instruction.require(column ? src_rows == rows : src_columns == columns && (dim == 1 || src_rows == 1),
                        "BroadcastShape", "the source must have one row (axis 0) or one column (axis 1)");
    instruction.in("src", src, static_cast<uint64_t>(src_rows) * src_columns);
    instruction.out("dst", dst, static_cast<uint64_t>(rows) * columns);
    for (uint32_t r = 0; r < rows; ++r) {
        T* out = dst.Address() + static_cast<uint64_t>(r) * columns;
        if (column) {
            const T value = src.Address()[r];
            for (uint32_t i = 0; i < columns; ++i) {
                out[i] = value;
            }
        } else {
            memcpy(out, src.Address(), columns * sizeof(T));
        }
    }
}

template <class T, int32_t dim, int32_t axis, bool isReuseSource = false>
NPK_OUT_OF_LINE void BroadCast(const LocalTensor<T>& dst, const LocalTensor<T>& src, const uint32_t dstShape[dim],
                      const uint32_t srcShape[dim], LocalTensor<uint8_t>& sharedTmpBuffer NPK_SITE)
{
    (void)sharedTmpBuffer;
    BroadCast<T, dim, axis, isReuseSource>(dst, src, dstShape, srcShape NPK_PASS);
}

#define NPK_COPY(MASK_TYPE, MASK_VALUE)                                                                       \
    template <class T, bool isSetMask = true>                                                                 \
    void Copy(const LocalTensor<T>& dst, const LocalTensor<T>& src, MASK_TYPE,                                \
              const uint8_t repeatTime, const CopyRepeatParams& repeatParams NPK_SITE)                        \
    {                                                                                                         \
        static_assert(npk::movable<T>, "NPK-RC08: Copy takes 16- and 32-bit types on arch 2201");             \
        const npk::Instruction instruction("Copy", NPK_PIPE_V, npk::Unit::kVector, NPK_AT);                   \
        constexpr uint32_t elements = npk::per_repeat<T>;                                                     \
        const npk::Repeats repeats = npk::resolve(isSetMask, MASK_VALUE, repeatTime, elements);               \
        const npk::Strided<T> d = {dst.Address(), repeatParams.dstStride, repeatParams.dstRepeatSize,         \
                                   elements};                                                                 \
        const npk::Strided<T> s = {src.Address(), repeatParams.srcStride, repeatParams.srcRepeatSize,         \
                                   elements};                                                                 \
        npk::check_strided(instruction, false, "src", src, s, repeats);                                       \
        npk::check_strided(instruction, true, "dst", dst, d, repeats);                                        \
        npk::for_each_run(repeats, elements, d.dense() && s.dense(),                                          \
                          [&](uint32_t r, uint32_t first, uint32_t count) {                                   \
                              const T* in = s.at(r, first);                                                   \
                              T* out = d.at(r, first);                                                        \
                              for (uint32_t i = 0; i < count; ++i) {                                          \
                                  out[i] = in[i];                                                             \
                              }                                                                               \
                          });                                                                                 \
    }

NPK_COPY(const uint64_t mask, mask)
NPK_COPY(const uint64_t mask[], mask)
#undef NPK_COPY

// firstValue, firstValue + 1, ...
template <class T>
NPK_OUT_OF_LINE void CreateVecIndex(LocalTensor<T> dst, const std::enable_if_t<true, T>& firstValue, uint32_t count NPK_SITE)
{
    static_assert(npk::one_of<T, int16_t, half, int32_t, float>,
                  "NPK-RC08: CreateVecIndex takes int16_t, half, int32_t and float on arch 2201");
    const npk::Instruction instruction("CreateVecIndex", NPK_PIPE_V, npk::Unit::kVector, NPK_AT);
    instruction.out("dst", dst, count);
    for (uint32_t i = 0; i < count; ++i) {
        dst.Address()[i] = npk::index_value<T>(firstValue, i);
    }
}

// Mask and repeat form.
template <class T>
NPK_OUT_OF_LINE void CreateVecIndex(LocalTensor<T>& dst, const std::enable_if_t<true, T>& firstValue, uint64_t mask,
                           uint8_t repeatTime, uint16_t dstBlkStride, uint8_t dstRepStride NPK_SITE)
{
    static_assert(npk::one_of<T, int16_t, half, int32_t, float>,
                  "NPK-RC08: CreateVecIndex takes int16_t, half, int32_t and float on arch 2201");
    const npk::Instruction instruction("CreateVecIndex", NPK_PIPE_V, npk::Unit::kVector, NPK_AT);
    constexpr uint32_t elements = npk::per_repeat<T>;
    const npk::Repeats repeats = npk::resolve(true, mask, repeatTime, elements);
    const npk::Strided<T> d = {dst.Address(), dstBlkStride, dstRepStride, elements};
    npk::check_strided(instruction, true, "dst", dst, d, repeats);
    npk::for_each_run(repeats, elements, false, [&](uint32_t r, uint32_t first, uint32_t count) {
        for (uint32_t i = 0; i < count; ++i) {
            d.at(r, first)[i] = npk::index_value<T>(firstValue, r * elements + first + i);
        }
    });
}

// High-level function: firstValue, firstValue + diffValue, ...
template <class T>
NPK_OUT_OF_LINE void ArithProgression(const LocalTensor<T>& dst, const std::enable_if_t<true, T> firstValue,
                             const std::enable_if_t<true, T> diffValue, const int32_t count NPK_SITE)
{
    static_assert(npk::one_of<T, int16_t, half, int32_t, float>,
                  "NPK-RC08: ArithProgression takes int16_t, half, int32_t and float on arch 2201");
    const npk::Instruction instruction("ArithProgression", NPK_PIPE_V, npk::Unit::kVector, NPK_AT);
    instruction.out("dst", dst, static_cast<uint64_t>(count));
    for (int32_t i = 0; i < count; ++i) {
        if constexpr (std::is_integral_v<T>) {
            dst.Address()[i] = static_cast<T>(firstValue + diffValue * i);
        } else {
            dst.Address()[i] = T(static_cast<float>(firstValue) + static_cast<float>(diffValue) * static_cast<float>(i));
        }
    }
}

} // namespace AscendC

namespace npk {

// `count` elements of src at the byte offsets, counted from `base`.
template <class T>
inline void gather_run(const Instruction& instruction, T* dst, const AscendC::LocalTensor<T>& src, uint32_t base,
                       const uint32_t* offsets, uint32_t count)
{
    const uint8_t* start = reinterpret_cast<const uint8_t*>(src.Address()) + base;
    for (uint32_t i = 0; i < count; ++i) {
        const uint8_t* from = start + offsets[i];
        instruction.access(kRead, "src", src.Memory(), from, sizeof(T), 1, 0, sizeof(T) == 4 ? 2 : 1);
        memcpy(dst + i, from, sizeof(T));
    }
}

template <class T, class MaskArgument>
NPK_OUT_OF_LINE void gather_repeats(const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<T>& src,
                                    const AscendC::LocalTensor<uint32_t>& offsets, uint32_t base, MaskArgument mask,
                                    uint32_t repeat, uint32_t dst_stride NPK_SITE)
{
    static_assert(movable<T>, "NPK-RC08: Gather takes 16- and 32-bit types on arch 2201");
    constexpr uint32_t elements = per_repeat<T>;
    const Instruction instruction("Gather", NPK_PIPE_V, Unit::kVector, NPK_AT);
    const Repeats repeats = resolve(true, mask, repeat, elements);
    const Strided<T> to = {dst.Address(), 1, dst_stride, elements};
    for_each_run(repeats, elements, true, [&](uint32_t r, uint32_t first, uint32_t count) {
        const uint32_t* from = offsets.Address() + r * elements + first;
        instruction.access(kRead, "srcOffset", offsets.Memory(), from, count * sizeof(uint32_t), 1, 0, 2);
    });
    check_strided(instruction, true, "dst", dst, to, repeats);
    for_each_run(repeats, elements, true, [&](uint32_t r, uint32_t first, uint32_t count) {
        gather_run(instruction, to.at(r, first), src, base, offsets.Address() + r * elements + first, count);
    });
}

} // namespace npk

namespace AscendC {

// dst[i] = element of src at byte offset srcBaseAddr + srcOffset[i].
template <class T>
NPK_OUT_OF_LINE void Gather(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<uint32_t>& srcOffset,
                   const uint32_t srcBaseAddr, const uint32_t count NPK_SITE)
{
    static_assert(npk::movable<T>, "NPK-RC08: Gather takes 16- and 32-bit types on arch 2201");
    const npk::Instruction instruction("Gather", NPK_PIPE_V, npk::Unit::kVector, NPK_AT);
    instruction.in("srcOffset", srcOffset, count);
    instruction.out("dst", dst, count);
    npk::gather_run(instruction, dst.Address(), src, srcBaseAddr, srcOffset.Address(), count);
}

// Offset r * (elements of a repeat) + i places element i of repeat r.
template <class T>
void Gather(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<uint32_t>& srcOffset,
            const uint32_t srcBaseAddr, const uint64_t mask, const uint8_t repeatTime,
            const uint16_t dstRepStride NPK_SITE)
{
    npk::gather_repeats(dst, src, srcOffset, srcBaseAddr, mask, repeatTime, dstRepStride NPK_PASS);
}

template <class T>
void Gather(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<uint32_t>& srcOffset,
            const uint32_t srcBaseAddr, const uint64_t mask[], const uint8_t repeatTime,
            const uint16_t dstRepStride NPK_SITE)
{
    npk::gather_repeats(dst, src, srcOffset, srcBaseAddr, mask, repeatTime, dstRepStride NPK_PASS);
}

// Transposes one 16 x 16 matrix of 16-bit elements.
template <class T>
void Transpose(const LocalTensor<T>& dst, const LocalTensor<T>& src NPK_SITE)
{
    static_assert(npk::one_of<T, int16_t, uint16_t, half>,
                  "NPK-RC08: Transpose takes int16_t, uint16_t and half on arch 2201");
    const npk::Instruction instruction("Transpose", NPK_PIPE_V, npk::Unit::kVector, NPK_AT);
    instruction.in("src", src, 256);
    instruction.out("dst", dst, 256);
    T square[256];
    memcpy(square, src.Address(), sizeof(square));
    for (uint32_t i = 0; i < 256; ++i) {
        dst.Address()[i % 16 * 16 + i / 16] = square[i];
    }
}

} // namespace AscendC

#endif
