// Compare, Compares (CompareScalar) and Select: bit masks, one bit for each element, lowest bit first.
#ifndef NPK_COMPARE_H
#define NPK_COMPARE_H

#include <cstring>

#include "npk/lanes.h"
#include "npk/vector_binary.h"
#include "npk/vector_unary.h"

namespace npk {

using AscendC::CMPMODE;

// Compares `rounds` repeats of two operands, the repeats of each `step` elements apart, and packs the answers.
template <class T, class Comparison>
NPK_OUT_OF_LINE void pack_comparison(uint8_t* dst, const T* a, uint32_t a_step, const T* b, uint32_t b_step,
                                     uint32_t rounds, bool inverted, Comparison comparison)
{
    constexpr uint32_t elements = per_repeat<T>;
    const uint32_t flip = inverted ? 0xff : 0;
    for (uint32_t round = 0; round < rounds; ++round) {
        uint8_t flags[elements];
        for (uint32_t i = 0; i < elements; ++i) {
            flags[i] = comparison(widen(a[i]), widen(b[i])) ? 1 : 0;
        }
        for (uint32_t i = 0; i < elements; i += 8) {
            uint32_t byte = 0;
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
            // The product gathers the lowest bits of the eight bytes in its highest byte.
            uint64_t word;
            memcpy(&word, flags + i, 8);
            byte = static_cast<uint32_t>(word * 0x0102040810204080ull >> 56);
#else
            for (uint32_t bit = 0; bit < 8; ++bit) {
                byte |= static_cast<uint32_t>(flags[i + bit]) << bit;
            }
#endif
            dst[i / 8] = static_cast<uint8_t>(byte ^ flip);
        }
        dst += elements / 8;
        a += a_step;
        b += b_step;
    }
}

// `a > b` is `b < a`, and `a != b` the opposite of `a == b`: three loops serve the six modes.
template <class T>
inline void compare_repeats(CMPMODE mode, void* bits, const T* a, uint32_t a_step, const T* b, uint32_t b_step,
                            uint32_t rounds)
{
    uint8_t* dst = static_cast<uint8_t*>(bits);
    const auto equal = [](auto x, auto y) { return x == y; };
    if constexpr (std::is_same_v<T, int32_t>) {
        pack_comparison(dst, a, a_step, b, b_step, rounds, false, equal);
    } else {
        const auto less = [](auto x, auto y) { return x < y; };
        const auto less_equal = [](auto x, auto y) { return x <= y; };
        switch (mode) {
        case CMPMODE::LT: pack_comparison(dst, a, a_step, b, b_step, rounds, false, less); break;
        case CMPMODE::GT: pack_comparison(dst, b, b_step, a, a_step, rounds, false, less); break;
        case CMPMODE::LE: pack_comparison(dst, a, a_step, b, b_step, rounds, false, less_equal); break;
        case CMPMODE::GE: pack_comparison(dst, b, b_step, a, a_step, rounds, false, less_equal); break;
        case CMPMODE::EQ: pack_comparison(dst, a, a_step, b, b_step, rounds, false, equal); break;
        case CMPMODE::NE: pack_comparison(dst, a, a_step, b, b_step, rounds, true, equal); break;
        }
    }
}

// The elements of a repeat one behind the other: in place, or gathered from their blocks.
template <class T>
inline const T* whole_repeat(const Strided<T>& operand, uint32_t repeat, T* gathered)
{
    if (operand.dense()) {
        return operand.at(repeat, 0);
    }
    for (uint32_t i = 0; i < per_repeat<T>; i += per_block<T>) {
        memcpy(static_cast<void*>(gathered + i), operand.at(repeat, i), 32);
    }
    return gathered;
}

template <class T>
inline void fill_repeat(T* filled, T value)
{
    for (uint32_t i = 0; i < per_repeat<T>; ++i) {
        filled[i] = value;
    }
}

template <class T>
inline void check_compare(CMPMODE mode, const char* api, Site site)
{
    static_assert(one_of<T, half, float, int32_t>, "NPK-RC08: Compare takes half, float and int32_t on arch 2201");
    if (std::is_same_v<T, int32_t> && mode != CMPMODE::EQ) {
        raise(kOperand, "DtypeLegality", api, site,
              "%s: int32_t can only be compared with CMPMODE::EQ on arch 2201", api);
    }
}

} // namespace npk

namespace AscendC {

// `count` elements must fill whole repeats of 256 bytes.
template <class T, class U>
void Compare(const LocalTensor<U>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1,
             CMPMODE cmpMode, uint32_t count NPK_SITE)
{
    static_assert(npk::one_of<U, int8_t, uint8_t>, "NPK-RC08: Compare writes int8_t or uint8_t");
    const npk::Instruction instruction("Compare", NPK_PIPE_V, npk::Unit::kVector, NPK_AT);
    npk::check_compare<T>(cmpMode, "Compare", NPK_AT);
    instruction.multiple("count in bytes", static_cast<uint64_t>(count) * sizeof(T), 256);
    instruction.in("src0", src0, count);
    instruction.in("src1", src1, count);
    instruction.out("dst", dst, count / 8);
    // Elements beyond the last whole repeat take no part.
    constexpr uint32_t elements = npk::per_repeat<T>;
    npk::compare_repeats(cmpMode, dst.Address(), src0.Address(), elements, src1.Address(), elements, count / elements);
}

// Repeats write their bits one after the other; the mask argument has no effect on arch 2201.
template <class T, class U, bool isSetMask = true>
void Compare(const LocalTensor<U>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1,
             CMPMODE cmpMode, const uint64_t mask, uint8_t repeatTime,
             const BinaryRepeatParams& repeatParams NPK_SITE)
{
    (void)mask;
    const npk::Instruction instruction("Compare", NPK_PIPE_V, npk::Unit::kVector, NPK_AT);
    npk::check_compare<T>(cmpMode, "Compare", NPK_AT);
    constexpr uint32_t elements = npk::per_repeat<T>;
    const npk::Repeats repeats = {npk::Mask{}, repeatTime, elements, elements};
    const npk::Strided<T> a = {src0.Address(), repeatParams.src0BlkStride, repeatParams.src0RepStride, elements};
    const npk::Strided<T> b = {src1.Address(), repeatParams.src1BlkStride, repeatParams.src1RepStride, elements};
    npk::check_strided(instruction, false, "src0", src0, a, repeats);
    npk::check_strided(instruction, false, "src1", src1, b, repeats);
    instruction.out("dst", dst, repeatTime * (elements / 8));
    for (uint32_t r = 0; r < repeatTime; ++r) {
        T left[elements], right[elements];
        npk::compare_repeats(cmpMode, dst.Address() + r * (elements / 8), npk::whole_repeat(a, r, left), 0,
                             npk::whole_repeat(b, r, right), 0, 1);
    }
}

template <class T, class U, bool isSetMask = true>
void Compare(const LocalTensor<U>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1,
             CMPMODE cmpMode, const uint64_t mask[], uint8_t repeatTime,
             const BinaryRepeatParams& repeatParams NPK_SITE)
{
    (void)mask;
    Compare(dst, src0, src1, cmpMode, uint64_t{0}, repeatTime, repeatParams NPK_PASS);
}

template <class T, class U>
void Compares(const LocalTensor<U>& dst, const LocalTensor<T>& src0, const std::enable_if_t<true, T> src1Scalar,
              CMPMODE cmpMode, uint32_t count NPK_SITE)
{
    static_assert(npk::one_of<U, int8_t, uint8_t>, "NPK-RC08: Compares writes int8_t or uint8_t");
    const npk::Instruction instruction("Compares", NPK_PIPE_V, npk::Unit::kVector, NPK_AT);
    npk::check_compare<T>(cmpMode, "Compares", NPK_AT);
    instruction.multiple("count in bytes", static_cast<uint64_t>(count) * sizeof(T), 256);
    instruction.in("src0", src0, count);
    instruction.out("dst", dst, count / 8);
    constexpr uint32_t elements = npk::per_repeat<T>;
    T scalar[elements];
    npk::fill_repeat<T>(scalar, src1Scalar);
    npk::compare_repeats(cmpMode, dst.Address(), src0.Address(), elements, scalar, 0, count / elements);
}

template <class T, class U, bool isSetMask = true>
void Compares(const LocalTensor<U>& dst, const LocalTensor<T>& src0, const std::enable_if_t<true, T> src1Scalar,
              CMPMODE cmpMode, const uint64_t mask, uint8_t repeatTime,
              const UnaryRepeatParams& repeatParams NPK_SITE)
{
    (void)mask;
    const npk::Instruction instruction("Compares", NPK_PIPE_V, npk::Unit::kVector, NPK_AT);
    npk::check_compare<T>(cmpMode, "Compares", NPK_AT);
    constexpr uint32_t elements = npk::per_repeat<T>;
    const npk::Repeats repeats = {npk::Mask{}, repeatTime, elements, elements};
    const npk::Strided<T> a = {src0.Address(), repeatParams.srcBlkStride, repeatParams.srcRepStride, elements};
    npk::check_strided(instruction, false, "src0", src0, a, repeats);
    instruction.out("dst", dst, repeatTime * (elements / 8));
    T scalar[elements];
    npk::fill_repeat<T>(scalar, src1Scalar);
    for (uint32_t r = 0; r < repeatTime; ++r) {
        T left[elements];
        npk::compare_repeats(cmpMode, dst.Address() + r * (elements / 8), npk::whole_repeat(a, r, left), 0, scalar, 0, 1);
    }
}

// The name of Compares in CANN 8.1.
template <class T, class U>
void CompareScalar(const LocalTensor<U>& dst, const LocalTensor<T>& src0,
                   const std::enable_if_t<true, T> src1Scalar, CMPMODE cmpMode, uint32_t count NPK_SITE)
{
    Compares(dst, src0, src1Scalar, cmpMode, count NPK_PASS);
}

template <class T, class U, bool isSetMask = true>
void CompareScalar(const LocalTensor<U>& dst, const LocalTensor<T>& src0,
                   const std::enable_if_t<true, T> src1Scalar, CMPMODE cmpMode, const uint64_t mask,
                   uint8_t repeatTime, const UnaryRepeatParams& repeatParams NPK_SITE)
{
    Compares(dst, src0, src1Scalar, cmpMode, mask, repeatTime, repeatParams NPK_PASS);
}

} // namespace AscendC

namespace npk {

// What Select takes where the bit is 0.
template <class T>
struct OtherTensor {
    const T* values;
    T operator()(uint32_t i) const { return values[i]; }
    const T* block(uint32_t i, T*) const { return values + i; }
    OtherTensor from(uint32_t i) const { return {values + i}; }
};

template <class T>
struct OtherScalar {
    T value;
    T operator()(uint32_t) const { return value; }
    const T* block(uint32_t, T* filled) const
    {
        for (uint32_t i = 0; i < 8; ++i) {
            filled[i] = value;
        }
        return filled;
    }
    OtherScalar from(uint32_t) const { return *this; }
};

// dst[i] = bit ? src0[i] : other(i), eight elements for each mask byte, starting at bit `start`.
template <class T, class Other>
NPK_OUT_OF_LINE void select_run(T* dst, const uint8_t* bits, uint32_t start, const T* src0, Other other, uint32_t count)
{
    uint32_t i = 0;
    if (start % 8 == 0) {
        const uint8_t* bytes = bits + start / 8;
        using Bits = std::conditional_t<sizeof(T) == 4, int32_t, int16_t>;
        typedef Bits Mask __attribute__((vector_size(8 * sizeof(T))));
        const Mask place = {1, 2, 4, 8, 16, 32, 64, 128};
        T filled[8];
        for (; i + 8 <= count; i += 8) {
            const Mask chosen = (place & static_cast<Bits>(bytes[i / 8])) != 0;
            const Mask a = load_lanes<Mask>(src0 + i), b = load_lanes<Mask>(other.block(i, filled));
            store_lanes(dst + i, (a & chosen) | (b & ~chosen));
        }
    }
    for (; i < count; ++i) {
        const uint32_t position = start + i;
        dst[i] = (bits[position / 8] >> (position % 8) & 1u) != 0 ? src0[i] : other(i);
    }
}

// Bit of the mask that belongs to element `element` of repeat `repeat`.
inline uint32_t select_bit(AscendC::SELMODE mode, uint32_t repeat, uint32_t element, uint32_t elements)
{
    return mode == AscendC::SELMODE::VSEL_CMPMASK_SPR ? element : repeat * elements + element;
}

template <class T, class U, class Other>
NPK_OUT_OF_LINE void select_count(const Instruction& instruction, const AscendC::LocalTensor<T>& dst,
                         const AscendC::LocalTensor<U>& bits, const AscendC::LocalTensor<T>& src0, Other other,
                         AscendC::SELMODE mode, uint32_t count)
{
    static_assert(one_of<T, half, float>, "NPK-RC08: Select takes half and float on arch 2201");
    constexpr uint32_t elements = per_repeat<T>;
    const bool shared = mode == AscendC::SELMODE::VSEL_CMPMASK_SPR;
    const uint32_t mask_bits = shared && count > elements ? elements : count;
    instruction.access(npk::kRead, "selMask", bits.Memory(), bits.Address(), (mask_bits + 7) / 8);
    instruction.in("src0", src0, count);
    instruction.out("dst", dst, count);
    const uint8_t* mask = reinterpret_cast<const uint8_t*>(bits.Address());
    if (!shared) {
        select_run(dst.Address(), mask, 0, src0.Address(), other, count);
        return;
    }
    for (uint32_t start = 0; start < count; start += elements) {
        const uint32_t n = count - start < elements ? count - start : elements;
        select_run(dst.Address() + start, mask, 0, src0.Address() + start,
                   other.from(start), n);
    }
}

template <class T, class U, class MaskArgument, class Other>
NPK_OUT_OF_LINE void select_repeat(const Instruction& instruction, const AscendC::LocalTensor<T>& dst,
                          const AscendC::LocalTensor<U>& bits, const AscendC::LocalTensor<T>& src0, Other other,
                          AscendC::SELMODE mode, MaskArgument mask, uint8_t repeat,
                          const AscendC::BinaryRepeatParams& params)
{
    static_assert(one_of<T, half, float>, "NPK-RC08: Select takes half and float on arch 2201");
    constexpr uint32_t elements = per_repeat<T>;
    const Repeats repeats = resolve(true, mask, repeat, elements);
    const Strided<T> d = {dst.Address(), params.dstBlkStride, params.dstRepStride, elements};
    const Strided<T> s = {src0.Address(), params.src0BlkStride, params.src0RepStride, elements};
    const uint32_t rounds = mode == AscendC::SELMODE::VSEL_CMPMASK_SPR ? 1 : repeats.count;
    instruction.access(npk::kRead, "selMask", bits.Memory(), bits.Address(), rounds * (elements / 8));
    check_strided(instruction, false, "src0", src0, s, repeats);
    check_strided(instruction, true, "dst", dst, d, repeats);
    for_each_run(repeats, elements, false, [&](uint32_t r, uint32_t first, uint32_t count) {
        select_run(d.at(r, first), reinterpret_cast<const uint8_t*>(bits.Address()),
                   select_bit(mode, r, first, elements), s.at(r, first),
                   other(r, first), count);
    });
}

} // namespace npk

namespace AscendC {

// Bit 1 takes src0, bit 0 the scalar.
template <class T, class U>
void Select(const LocalTensor<T>& dst, const LocalTensor<U>& selMask, const LocalTensor<T>& src0,
            std::enable_if_t<true, T> src1, SELMODE selMode, uint32_t count NPK_SITE)
{
    const npk::Instruction instruction("Select", NPK_PIPE_V, npk::Unit::kVector, NPK_AT);
    instruction.require(selMode == SELMODE::VSEL_TENSOR_SCALAR_MODE, "SelectMode",
                        "a scalar operand needs VSEL_TENSOR_SCALAR_MODE");
    npk::select_count(instruction, dst, selMask, src0, npk::OtherScalar<T>{src1}, selMode, count);
}

// Bit 1 takes src0, bit 0 src1.
template <class T, class U>
void Select(const LocalTensor<T>& dst, const LocalTensor<U>& selMask, const LocalTensor<T>& src0,
            const LocalTensor<T>& src1, SELMODE selMode, uint32_t count NPK_SITE)
{
    const npk::Instruction instruction("Select", NPK_PIPE_V, npk::Unit::kVector, NPK_AT);
    instruction.require(selMode != SELMODE::VSEL_TENSOR_SCALAR_MODE, "SelectMode",
                        "two tensors need VSEL_CMPMASK_SPR or VSEL_TENSOR_TENSOR_MODE");
    instruction.in("src1", src1, count);
    npk::select_count(instruction, dst, selMask, src0, npk::OtherTensor<T>{src1.Address()}, selMode, count);
}

#define NPK_SELECT_REPEAT(MASK_TYPE, MASK_VALUE)                                                              \
    template <class T, class U, bool isSetMask = true>                                                        \
    void Select(const LocalTensor<T>& dst, const LocalTensor<U>& selMask, const LocalTensor<T>& src0,         \
                std::enable_if_t<true, T> src1, SELMODE selMode, MASK_TYPE, uint8_t repeatTime,               \
                const BinaryRepeatParams& repeatParams NPK_SITE)                                              \
    {                                                                                                         \
        const npk::Instruction instruction("Select", NPK_PIPE_V, npk::Unit::kVector, NPK_AT);                 \
        instruction.require(selMode == SELMODE::VSEL_TENSOR_SCALAR_MODE, "SelectMode",                        \
                            "a scalar operand needs VSEL_TENSOR_SCALAR_MODE");                                \
        npk::select_repeat(instruction, dst, selMask, src0,                                                   \
                           [src1](uint32_t, uint32_t) { return npk::OtherScalar<T>{src1}; }, selMode, MASK_VALUE,        \
                           repeatTime, repeatParams);                                                         \
    }                                                                                                         \
    template <class T, class U, bool isSetMask = true>                                                        \
    void Select(const LocalTensor<T>& dst, const LocalTensor<U>& selMask, const LocalTensor<T>& src0,         \
                const LocalTensor<T>& src1, SELMODE selMode, MASK_TYPE, uint8_t repeatTime,                   \
                const BinaryRepeatParams& repeatParams NPK_SITE)                                              \
    {                                                                                                         \
        const npk::Instruction instruction("Select", NPK_PIPE_V, npk::Unit::kVector, NPK_AT);                 \
        instruction.require(selMode != SELMODE::VSEL_TENSOR_SCALAR_MODE, "SelectMode",                        \
                            "two tensors need VSEL_CMPMASK_SPR or VSEL_TENSOR_TENSOR_MODE");                  \
        constexpr uint32_t elements = npk::per_repeat<T>;                                                     \
        const npk::Strided<T> b = {src1.Address(), repeatParams.src1BlkStride, repeatParams.src1RepStride,    \
                                   elements};                                                                 \
        npk::check_strided(instruction, false, "src1", src1, b,                                               \
                           npk::resolve(true, MASK_VALUE, repeatTime, elements));                             \
        npk::select_repeat(instruction, dst, selMask, src0,                                                   \
                           [b](uint32_t r, uint32_t first) { return npk::OtherTensor<T>{b.at(r, first)}; },         \
                           selMode, MASK_VALUE, repeatTime, repeatParams);                                    \
    }

NPK_SELECT_REPEAT(uint64_t mask, mask)
NPK_SELECT_REPEAT(uint64_t mask[], static_cast<const uint64_t*>(mask))
#undef NPK_SELECT_REPEAT

} // namespace AscendC

#endif
