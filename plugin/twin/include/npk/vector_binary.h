// Element-wise instructions with two tensors: Add, Sub, Mul, Div, Max, Min, And, Or, Axpy, MulAddDst, ...
#ifndef NPK_VECTOR_BINARY_H
#define NPK_VECTOR_BINARY_H

#include <cstring>

#include "npk/mask.h"

namespace npk {

// Stores a computed value: half and bfloat16 are computed in float and rounded once.
template <class T, class C>
inline T narrow(C value)
{
    return static_cast<T>(value);
}

template <class T>
inline compute_type<T> widen(T value)
{
    return static_cast<compute_type<T>>(value);
}

// Integer arithmetic wraps around, as the vector unit's does.
template <class T>
inline T wrap_add(T a, T b)
{
    if constexpr (std::is_integral_v<T>) {
        return static_cast<T>(static_cast<std::make_unsigned_t<T>>(a) + static_cast<std::make_unsigned_t<T>>(b));
    } else {
        return a + b;
    }
}

template <class T>
inline T wrap_sub(T a, T b)
{
    if constexpr (std::is_integral_v<T>) {
        return static_cast<T>(static_cast<std::make_unsigned_t<T>>(a) - static_cast<std::make_unsigned_t<T>>(b));
    } else {
        return a - b;
    }
}

template <class T>
inline T wrap_mul(T a, T b)
{
    if constexpr (std::is_integral_v<T>) {
        // 32 bits hold the product of two 16-bit values only when they are unsigned.
        return static_cast<T>(static_cast<uint32_t>(a) * static_cast<uint32_t>(b));
    } else {
        return a * b;
    }
}

// A NaN in either operand is the result.
template <class T>
inline T maximum(T a, T b)
{
    if constexpr (std::is_floating_point_v<T>) {
        return ((a > b) | (a != a)) ? a : b;
    } else {
        return a > b ? a : b;
    }
}

template <class T>
inline T minimum(T a, T b)
{
    if constexpr (std::is_floating_point_v<T>) {
        return ((a < b) | (a != a)) ? a : b;
    } else {
        return a < b ? a : b;
    }
}

template <class D, class S0, class S1, class Operation>
NPK_OUT_OF_LINE void loop_binary(D* dst, const S0* src0, const S1* src1, uint32_t count, Operation operation)
{
    NPK_VECTOR_LOOP
    for (uint32_t i = 0; i < count; ++i) {
        dst[i] = operation(dst[i], src0[i], src1[i]);
    }
}

// Rows of consecutive elements, `step` bytes apart; a whole repeat has a loop of known length.
template <class D, class S0, class S1, class Operation>
NPK_OUT_OF_LINE void rows_binary(Rows<D> dst, Rows<const S0> src0, Rows<const S1> src1, const Repeats& repeats,
                                 Operation operation)
{
    constexpr uint32_t elements = 256 / (sizeof(D) > sizeof(S0) ? sizeof(D) : sizeof(S0));
    for (uint32_t row = 0; row < repeats.count; ++row) {
        D* d = dst.row(row);
        const S0* a = src0.row(row);
        const S1* b = src1.row(row);
        const uint32_t count = row + 1 == repeats.count ? repeats.last : repeats.prefix;
        if (count == elements) {
            NPK_VECTOR_LOOP
            for (uint32_t i = 0; i < elements; ++i) {
                d[i] = operation(d[i], a[i], b[i]);
            }
        } else {
            NPK_VECTOR_LOOP
            for (uint32_t i = 0; i < count; ++i) {
                d[i] = operation(d[i], a[i], b[i]);
            }
        }
    }
}

// First-n form.
template <class D, class S0, class S1, class Operation>
inline void binary_count(const char* api, const AscendC::LocalTensor<D>& dst, const AscendC::LocalTensor<S0>& src0,
                         const AscendC::LocalTensor<S1>& src1, int32_t count, bool reads_dst,
                         Operation operation NPK_SITE)
{
    const Instruction instruction(api, NPK_PIPE_V, Unit::kVector, NPK_AT);
    if (count <= 0) {
        return;
    }
    const uint32_t n = static_cast<uint32_t>(count);
    instruction.in("src0", src0, n);
    instruction.in("src1", src1, n);
    if (reads_dst) {
        instruction.in("dst", dst, n);
    }
    instruction.out("dst", dst, n);
    loop_binary(dst.Address(), src0.Address(), src1.Address(), n, operation);
}

// Mask and repeat form; `mask` is an element count or a bit array.
template <class D, class S0, class S1, class MaskArgument, class Operation>
NPK_OUT_OF_LINE void binary_repeat(const char* api, const AscendC::LocalTensor<D>& dst, const AscendC::LocalTensor<S0>& src0,
                          const AscendC::LocalTensor<S1>& src1, bool set_mask, MaskArgument mask, uint8_t repeat,
                          const AscendC::BinaryRepeatParams& params, bool reads_dst, Operation operation NPK_SITE)
{
    const Instruction instruction(api, NPK_PIPE_V, Unit::kVector, NPK_AT);
    constexpr uint32_t widest = sizeof(D) > sizeof(S0) ? sizeof(D) : sizeof(S0);
    constexpr uint32_t elements = 256 / widest;
    const Repeats repeats = resolve(set_mask, mask, repeat, elements);
    const Strided<D> d = {dst.Address(), params.dstBlkStride, params.dstRepStride, elements};
    const Strided<S0> s0 = {src0.Address(), params.src0BlkStride, params.src0RepStride, elements};
    const Strided<S1> s1 = {src1.Address(), params.src1BlkStride, params.src1RepStride, elements};
    check_strided(instruction, false, "src0", src0, s0, repeats);
    check_strided(instruction, false, "src1", src1, s1, repeats);
    if (reads_dst) {
        check_strided(instruction, false, "dst", dst, d, repeats);
    }
    check_strided(instruction, true, "dst", dst, d, repeats);
    if (repeats.prefix != Repeats::kBits && d.dense() && s0.dense()) {
        if (s1.dense()) {
            rows_binary<D, S0, S1>(d, s0, s1, repeats, operation);
            return;
        }
        if (s1.block_stride == 0 && sizeof(S1) == widest) {
            // One block of src1 serves a whole repeat.
            S1* spread = reinterpret_cast<S1*>(core().scratch);
            const uint32_t rows = s1.repeat_stride == 0 && repeats.count != 0 ? 1 : repeats.count;
            for (uint32_t r = 0; r < rows; ++r) {
                for (uint32_t block = 0; block < 8; ++block) {
                    memcpy(static_cast<void*>(spread + r * elements + block * (elements / 8)), s1.at(r, 0), 32);
                }
            }
            rows_binary<D, S0, S1>(d, s0, {spread, rows == 1 ? 0u : 256u}, repeats, operation);
            return;
        }
    }
    const bool whole = d.dense() && s0.dense() && s1.dense();
    for_each_run(repeats, elements, whole, [&](uint32_t r, uint32_t first, uint32_t count) {
        loop_binary(d.at(r, first), s0.at(r, first), s1.at(r, first), count, operation);
    });
}

} // namespace npk

// Defines the first-n, mask-bits and mask-count forms of NAME over the listed types.
#define NPK_BINARY(NAME, READS_DST, EXPRESSION, ...)                                                          \
    namespace npk {                                                                                           \
    template <class T>                                                                                        \
    struct NAME##Operation {                                                                                  \
        T operator()([[maybe_unused]] T old, T left, T right) const                                           \
        {                                                                                                     \
            [[maybe_unused]] const compute_type<T> a = widen(left), b = widen(right), c = widen(old);         \
            return narrow<T>(EXPRESSION);                                                                     \
        }                                                                                                     \
    };                                                                                                        \
    }                                                                                                         \
    namespace AscendC {                                                                                       \
    template <class T>                                                                                        \
    void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1,              \
              const int32_t& count NPK_SITE)                                                                  \
    {                                                                                                         \
        static_assert(npk::one_of<T, __VA_ARGS__>, "NPK-RC08: " #NAME " takes " #__VA_ARGS__ " on arch 2201"); \
        npk::binary_count(#NAME, dst, src0, src1, count, READS_DST, npk::NAME##Operation<T>() NPK_PASS);      \
    }                                                                                                         \
    template <class T, bool isSetMask = true>                                                                 \
    void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1,              \
              uint64_t mask, const uint8_t repeatTime, const BinaryRepeatParams& params NPK_SITE)             \
    {                                                                                                         \
        static_assert(npk::one_of<T, __VA_ARGS__>, "NPK-RC08: " #NAME " takes " #__VA_ARGS__ " on arch 2201"); \
        npk::binary_repeat(#NAME, dst, src0, src1, isSetMask, mask, repeatTime, params, READS_DST,            \
                           npk::NAME##Operation<T>() NPK_PASS);                                               \
    }                                                                                                         \
    template <class T, bool isSetMask = true>                                                                 \
    void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1,              \
              uint64_t mask[], const uint8_t repeatTime, const BinaryRepeatParams& params NPK_SITE)           \
    {                                                                                                         \
        static_assert(npk::one_of<T, __VA_ARGS__>, "NPK-RC08: " #NAME " takes " #__VA_ARGS__ " on arch 2201"); \
        npk::binary_repeat(#NAME, dst, src0, src1, isSetMask, static_cast<const uint64_t*>(mask), repeatTime, \
                           params, READS_DST, npk::NAME##Operation<T>() NPK_PASS);                            \
    }                                                                                                         \
    }

NPK_BINARY(Add, false, wrap_add(a, b), half, float, int16_t, int32_t)
NPK_BINARY(Sub, false, wrap_sub(a, b), half, float, int16_t, int32_t)
NPK_BINARY(Mul, false, wrap_mul(a, b), half, float, int16_t, int32_t)
NPK_BINARY(Div, false, a / b, half, float)
NPK_BINARY(Max, false, maximum(a, b), half, float, int16_t, int32_t)
NPK_BINARY(Min, false, minimum(a, b), half, float, int16_t, int32_t)
NPK_BINARY(And, false, a & b, int16_t, uint16_t)
NPK_BINARY(Or, false, a | b, int16_t, uint16_t)
NPK_BINARY(MulAddDst, true, a * b + c, half, float)
NPK_BINARY(FusedMulAdd, true, a * c + b, half, float)
NPK_BINARY(AddRelu, false, maximum(wrap_add(a, b), compute_type<T>(0)), half, float, int16_t)
NPK_BINARY(SubRelu, false, maximum(wrap_sub(a, b), compute_type<T>(0)), half, float, int16_t)

// dst = a + b over the whole of dst.
#define NPK_TENSOR_OPERATOR(SYMBOL, NAME)                                                                     \
    namespace AscendC {                                                                                       \
    template <class T>                                                                                        \
    inline auto operator SYMBOL(const LocalTensor<T>& src0, const LocalTensor<T>& src1)                       \
    {                                                                                                         \
        auto run = [src0, src1](const LocalTensor<T>& dst) {                                                  \
            NAME(dst, src0, src1, static_cast<int32_t>(dst.GetSize()));                                       \
        };                                                                                                    \
        return npk::TensorExpression<T, decltype(run)>{run};                                                  \
    }                                                                                                         \
    }

NPK_TENSOR_OPERATOR(+, Add)
NPK_TENSOR_OPERATOR(-, Sub)
NPK_TENSOR_OPERATOR(*, Mul)
NPK_TENSOR_OPERATOR(/, Div)
NPK_TENSOR_OPERATOR(&, And)
NPK_TENSOR_OPERATOR(|, Or)

#endif
