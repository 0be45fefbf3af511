// Element-wise instructions with one tensor, and with one tensor and a scalar.
#ifndef NPK_VECTOR_UNARY_H
#define NPK_VECTOR_UNARY_H

#include "npk/math.h"
#include "npk/vector_binary.h"

namespace npk {

template <class D, class S, class Operation>
NPK_OUT_OF_LINE void loop_unary(D* dst, const S* src, uint32_t count, Operation operation)
{
    NPK_VECTOR_LOOP
    for (uint32_t i = 0; i < count; ++i) {
        dst[i] = operation(dst[i], src[i]);
    }
}

template <class D, class S, class Operation>
NPK_OUT_OF_LINE void rows_unary(Rows<D> dst, Rows<const S> src, const Repeats& repeats, Operation operation)
{
    constexpr uint32_t elements = 256 / (sizeof(D) > sizeof(S) ? sizeof(D) : sizeof(S));
    for (uint32_t row = 0; row < repeats.count; ++row) {
        D* d = dst.row(row);
        const S* a = src.row(row);
        const uint32_t count = row + 1 == repeats.count ? repeats.last : repeats.prefix;
        if (count == elements) {
            NPK_VECTOR_LOOP
            for (uint32_t i = 0; i < elements; ++i) {
                d[i] = operation(d[i], a[i]);
            }
        } else {
            NPK_VECTOR_LOOP
            for (uint32_t i = 0; i < count; ++i) {
                d[i] = operation(d[i], a[i]);
            }
        }
    }
}

template <class D, class S, class Operation>
inline void unary_count(const char* api, const AscendC::LocalTensor<D>& dst, const AscendC::LocalTensor<S>& src,
                        int64_t count, bool reads_dst, Operation operation NPK_SITE)
{
    const Instruction instruction(api, NPK_PIPE_V, Unit::kVector, NPK_AT);
    if (count <= 0) {
        return;
    }
    const uint32_t n = static_cast<uint32_t>(count);
    instruction.in("src", src, n);
    if (reads_dst) {
        instruction.in("dst", dst, n);
    }
    instruction.out("dst", dst, n);
    loop_unary(dst.Address(), src.Address(), n, operation);
}

template <class D, class S, class MaskArgument, class Operation>
NPK_OUT_OF_LINE void unary_repeat(const char* api, const AscendC::LocalTensor<D>& dst, const AscendC::LocalTensor<S>& src,
                         bool set_mask, MaskArgument mask, uint8_t repeat, const AscendC::UnaryRepeatParams& params,
                         bool reads_dst, Operation operation NPK_SITE)
{
    const Instruction instruction(api, NPK_PIPE_V, Unit::kVector, NPK_AT);
    constexpr uint32_t elements = 256 / (sizeof(D) > sizeof(S) ? sizeof(D) : sizeof(S));
    const Repeats repeats = resolve(set_mask, mask, repeat, elements);
    const Strided<D> d = {dst.Address(), params.dstBlkStride, params.dstRepStride, elements};
    const Strided<S> s = {src.Address(), params.srcBlkStride, params.srcRepStride, elements};
    check_strided(instruction, false, "src", src, s, repeats);
    if (reads_dst) {
        check_strided(instruction, false, "dst", dst, d, repeats);
    }
    check_strided(instruction, true, "dst", dst, d, repeats);
    if (repeats.prefix != Repeats::kBits && d.dense() && s.dense()) {
        rows_unary<D, S>(d, s, repeats, operation);
        return;
    }
    for_each_run(repeats, elements, d.dense() && s.dense(), [&](uint32_t r, uint32_t first, uint32_t count) {
        loop_unary(d.at(r, first), s.at(r, first), count, operation);
    });
}

template <class T>
inline T shift_left(T value, T bits)
{
    return static_cast<T>(static_cast<std::make_unsigned_t<T>>(value) << bits);
}

// The number of elements of a first-n call whose mask is set outside.
inline int64_t count_or_mask(bool set_mask, int64_t count)
{
    return set_mask ? count : static_cast<int64_t>(core().mask[0]);
}

} // namespace npk

#define NPK_UNARY(NAME, EXPRESSION, ...)                                                                      \
    namespace npk {                                                                                           \
    template <class T>                                                                                        \
    struct NAME##Operation {                                                                                  \
        T operator()(T, T value) const                                                                        \
        {                                                                                                     \
            const compute_type<T> a = widen(value);                                                           \
            return narrow<T>(EXPRESSION);                                                                     \
        }                                                                                                     \
    };                                                                                                        \
    }                                                                                                         \
    namespace AscendC {                                                                                       \
    template <class T>                                                                                        \
    void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src, const int32_t& count NPK_SITE)            \
    {                                                                                                         \
        static_assert(npk::one_of<T, __VA_ARGS__>, "NPK-RC08: " #NAME " takes " #__VA_ARGS__ " on arch 2201"); \
        npk::unary_count(#NAME, dst, src, count, false, npk::NAME##Operation<T>() NPK_PASS);                  \
    }                                                                                                         \
    template <class T, bool isSetMask = true>                                                                 \
    void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src, uint64_t mask,                            \
              const uint8_t repeatTime, const UnaryRepeatParams& params NPK_SITE)                             \
    {                                                                                                         \
        static_assert(npk::one_of<T, __VA_ARGS__>, "NPK-RC08: " #NAME " takes " #__VA_ARGS__ " on arch 2201"); \
        npk::unary_repeat(#NAME, dst, src, isSetMask, mask, repeatTime, params, false,                        \
                          npk::NAME##Operation<T>() NPK_PASS);                                                \
    }                                                                                                         \
    template <class T, bool isSetMask = true>                                                                 \
    void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src, uint64_t mask[],                          \
              const uint8_t repeatTime, const UnaryRepeatParams& params NPK_SITE)                             \
    {                                                                                                         \
        static_assert(npk::one_of<T, __VA_ARGS__>, "NPK-RC08: " #NAME " takes " #__VA_ARGS__ " on arch 2201"); \
        npk::unary_repeat(#NAME, dst, src, isSetMask, static_cast<const uint64_t*>(mask), repeatTime, params, \
                          false, npk::NAME##Operation<T>() NPK_PASS);                                         \
    }                                                                                                         \
    }

NPK_UNARY(Exp, exp_f32(a), half, float)
NPK_UNARY(Ln, ln_f32(a), half, float)
NPK_UNARY(Sqrt, __builtin_sqrtf(a), half, float)
NPK_UNARY(Rsqrt, 1.0f / __builtin_sqrtf(a), half, float)
NPK_UNARY(Reciprocal, 1.0f / a, half, float)
NPK_UNARY(Abs, __builtin_fabsf(a), half, float)
NPK_UNARY(Relu, maximum(a, compute_type<T>(0)), half, float, int32_t)
NPK_UNARY(Not, ~a, int16_t, uint16_t)

// Instructions `dst = f(src, scalar)`.
#define NPK_SCALAR(NAME, READS_DST, EXPRESSION, ...)                                                          \
    namespace npk {                                                                                           \
    template <class T>                                                                                        \
    struct NAME##Operation {                                                                                  \
        compute_type<T> b;                                                                                    \
        T operator()([[maybe_unused]] T old, T value) const                                                   \
        {                                                                                                     \
            [[maybe_unused]] const compute_type<T> a = widen(value), c = widen(old);                          \
            return narrow<T>(EXPRESSION);                                                                     \
        }                                                                                                     \
    };                                                                                                        \
    }                                                                                                         \
    namespace AscendC {                                                                                       \
    template <class T, bool isSetMask = true>                                                                 \
    void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src,                                           \
              const std::enable_if_t<true, T>& scalar, const int32_t& count NPK_SITE)                         \
    {                                                                                                         \
        static_assert(npk::one_of<T, __VA_ARGS__>, "NPK-RC08: " #NAME " takes " #__VA_ARGS__ " on arch 2201"); \
        npk::unary_count(#NAME, dst, src, npk::count_or_mask(isSetMask, count), READS_DST,                    \
                         npk::NAME##Operation<T>{npk::widen(scalar)} NPK_PASS);                               \
    }                                                                                                         \
    template <class T, bool isSetMask = true>                                                                 \
    void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src,                                           \
              const std::enable_if_t<true, T>& scalar, uint64_t mask, const uint8_t repeatTime,               \
              const UnaryRepeatParams& params NPK_SITE)                                                       \
    {                                                                                                         \
        static_assert(npk::one_of<T, __VA_ARGS__>, "NPK-RC08: " #NAME " takes " #__VA_ARGS__ " on arch 2201"); \
        npk::unary_repeat(#NAME, dst, src, isSetMask, mask, repeatTime, params, READS_DST,                    \
                          npk::NAME##Operation<T>{npk::widen(scalar)} NPK_PASS);                              \
    }                                                                                                         \
    template <class T, bool isSetMask = true>                                                                 \
    void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src,                                           \
              const std::enable_if_t<true, T>& scalar, uint64_t mask[], const uint8_t repeatTime,             \
              const UnaryRepeatParams& params NPK_SITE)                                                       \
    {                                                                                                         \
        static_assert(npk::one_of<T, __VA_ARGS__>, "NPK-RC08: " #NAME " takes " #__VA_ARGS__ " on arch 2201"); \
        npk::unary_repeat(#NAME, dst, src, isSetMask, static_cast<const uint64_t*>(mask), repeatTime, params, \
                          READS_DST, npk::NAME##Operation<T>{npk::widen(scalar)} NPK_PASS);                   \
    }                                                                                                         \
    }

NPK_SCALAR(Adds, false, wrap_add(a, b), half, float, int16_t, int32_t)
NPK_SCALAR(Muls, false, wrap_mul(a, b), half, float, int16_t, int32_t)
NPK_SCALAR(Maxs, false, maximum(a, b), half, float, int16_t, int32_t)
NPK_SCALAR(Mins, false, minimum(a, b), half, float, int16_t, int32_t)
NPK_SCALAR(LeakyRelu, false, a > 0 ? a : a * b, half, float)
NPK_SCALAR(ShiftLeft, false, shift_left(a, b), int16_t, uint16_t, int32_t, uint32_t)
NPK_SCALAR(ShiftRight, false, a >> b, int16_t, uint16_t, int32_t, uint32_t)

namespace npk {

// dst += src * scalar, the product of two halves exact in float.
template <class D, class S>
struct AxpyOperation {
    compute_type<S> scalar;
    D operator()(D old, S value) const
    {
        return narrow<D>(static_cast<float>(widen(value)) * static_cast<float>(scalar) + static_cast<float>(old));
    }
};

struct MulAddDstMixedOperation {
    float operator()(float old, half left, half right) const
    {
        return static_cast<float>(left) * static_cast<float>(right) + old;
    }
};

template <class D, class S>
constexpr bool axpy_types = (std::is_same_v<D, S> && one_of<D, half, float>) ||
                            (std::is_same_v<D, float> && std::is_same_v<S, half>);

} // namespace npk

namespace AscendC {

template <class T, class U>
void Axpy(const LocalTensor<T>& dst, const LocalTensor<U>& src, const std::enable_if_t<true, U>& scalar,
          const int32_t& count NPK_SITE)
{
    static_assert(npk::axpy_types<T, U>, "NPK-RC08: Axpy takes half, float, or float += half * half on arch 2201");
    npk::unary_count("Axpy", dst, src, count, true, npk::AxpyOperation<T, U>{npk::widen(scalar)} NPK_PASS);
}

template <class T, class U, bool isSetMask = true>
void Axpy(const LocalTensor<T>& dst, const LocalTensor<U>& src, const std::enable_if_t<true, U>& scalar,
          uint64_t mask, const uint8_t repeatTime, const UnaryRepeatParams& params NPK_SITE)
{
    static_assert(npk::axpy_types<T, U>, "NPK-RC08: Axpy takes half, float, or float += half * half on arch 2201");
    npk::unary_repeat("Axpy", dst, src, isSetMask, mask, repeatTime, params, true,
                      npk::AxpyOperation<T, U>{npk::widen(scalar)} NPK_PASS);
}

template <class T, class U, bool isSetMask = true>
void Axpy(const LocalTensor<T>& dst, const LocalTensor<U>& src, const std::enable_if_t<true, U>& scalar,
          uint64_t mask[], const uint8_t repeatTime, const UnaryRepeatParams& params NPK_SITE)
{
    static_assert(npk::axpy_types<T, U>, "NPK-RC08: Axpy takes half, float, or float += half * half on arch 2201");
    npk::unary_repeat("Axpy", dst, src, isSetMask, static_cast<const uint64_t*>(mask), repeatTime, params, true,
                      npk::AxpyOperation<T, U>{npk::widen(scalar)} NPK_PASS);
}

// float += half * half.
inline void MulAddDst(const LocalTensor<float>& dst, const LocalTensor<half>& src0, const LocalTensor<half>& src1,
                      const int32_t& count NPK_SITE)
{
    npk::binary_count("MulAddDst", dst, src0, src1, count, true, npk::MulAddDstMixedOperation() NPK_PASS);
}

// High-level function: hyperbolic tangent of the first `count` elements.
template <class T, bool isReuseSource = false>
void Tanh(const LocalTensor<T>& dst, const LocalTensor<T>& src, const uint32_t count NPK_SITE)
{
    static_assert(npk::one_of<T, half, float>, "NPK-RC08: Tanh takes half and float on arch 2201");
    npk::unary_count(
        "Tanh", dst, src, count, false,
        [](T, T value) { return npk::narrow<T>(npk::tanh_f32(npk::widen(value))); } NPK_PASS);
}

template <class T, bool isReuseSource = false>
void Tanh(const LocalTensor<T>& dst, const LocalTensor<T>& src NPK_SITE)
{
    Tanh(dst, src, src.GetSize() NPK_PASS);
}

template <class T, bool isReuseSource = false>
void Tanh(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<uint8_t>& sharedTmpBuffer,
          const uint32_t count NPK_SITE)
{
    (void)sharedTmpBuffer;
    Tanh(dst, src, count NPK_PASS);
}

} // namespace AscendC

#endif
