// Cast: conversion between element types with the rounding modes of the vector unit.
//
// Values outside an integer type saturate and NaN becomes 0.  Overflow to half or bfloat16 gives an infinity and
// NaN stays NaN (the INF/NAN overflow mode, which is the default of the A2 and A3 run time).
#ifndef NPK_CAST_H
#define NPK_CAST_H

#include "npk/vector_unary.h"

namespace npk {

using AscendC::RoundMode;

// Rounds to an integral value.
template <RoundMode mode>
inline float round_integral(float x)
{
    if constexpr (mode == RoundMode::CAST_FLOOR) {
        return __builtin_floorf(x);
    } else if constexpr (mode == RoundMode::CAST_CEIL) {
        return __builtin_ceilf(x);
    } else if constexpr (mode == RoundMode::CAST_TRUNC) {
        return __builtin_truncf(x);
    } else if constexpr (mode == RoundMode::CAST_ROUND) {
        // The largest float below one half: half itself would carry 0.49999997 up.
        return __builtin_truncf(x + __builtin_copysignf(0.49999997f, x));
    } else {
        return __builtin_rintf(x);
    }
}

template <class To>
inline To saturate(float x)
{
    // `limit` is the first value too large; it is a power of two, hence exact.
    constexpr float limit = static_cast<float>(1ull << (sizeof(To) * 8 - (std::is_signed_v<To> ? 1 : 0)));
    constexpr float low = std::is_signed_v<To> ? -limit : 0.0f;
    constexpr To lowest = std::is_signed_v<To> ? static_cast<To>(1ull << (sizeof(To) * 8 - 1)) : To(0);
    constexpr To highest = static_cast<To>(~lowest);
    const bool inside = x >= low && x < limit;
    const float bounded = inside ? x : 0.0f;
    const To value = static_cast<To>(sizeof(To) < 4 ? static_cast<To>(static_cast<int32_t>(bounded))
                                                    : static_cast<To>(bounded));
    return inside ? value : x >= limit ? highest : x < low ? lowest : To(0);
}

template <class To, class From>
inline To saturate_integer(From x)
{
    constexpr From lowest = static_cast<From>(static_cast<To>(1ull << (sizeof(To) * 8 - 1)));
    constexpr From highest = static_cast<From>(~static_cast<To>(lowest));
    return static_cast<To>(x < lowest ? lowest : x > highest ? highest : x);
}

// float to half or bfloat16.
template <class To, RoundMode mode>
inline To round_small(float x)
{
    if constexpr (mode == RoundMode::CAST_RINT || mode == RoundMode::CAST_NONE) {
        return To(x);
    } else {
        const To nearest(x);
        const float magnitude = __builtin_fabsf(x);
        const uint16_t sign = static_cast<uint16_t>(nearest.bits & 0x8000u);
        To below;
        below.bits = static_cast<uint16_t>(nearest.bits & 0x7fffu);
        below.bits = static_cast<uint16_t>(below.bits - (static_cast<float>(below) > magnitude ? 1 : 0));
        To above;
        above.bits = static_cast<uint16_t>(below.bits + 1);
        const bool exact = static_cast<float>(below) == magnitude;
        bool up = false;
        if constexpr (mode == RoundMode::CAST_FLOOR) {
            up = sign != 0;
        } else if constexpr (mode == RoundMode::CAST_CEIL) {
            up = sign == 0;
        } else if constexpr (mode == RoundMode::CAST_ROUND) {
            // The middle is exact in float; above the largest finite value it is where infinity begins.
            float middle;
            if constexpr (std::is_same_v<To, half>) {
                middle = below.bits == 0x7bffu ? 65520.0f
                                               : 0.5f * static_cast<float>(below) + 0.5f * static_cast<float>(above);
            } else {
                middle = bits_float(static_cast<uint32_t>(below.bits) << 16 | 0x8000u);
            }
            up = magnitude >= middle;
        } else if constexpr (mode == RoundMode::CAST_ODD) {
            up = (below.bits & 1u) == 0;
        }
        To result;
        result.bits = static_cast<uint16_t>((!exact && up ? above.bits : below.bits) | sign);
        return x != x ? nearest : result;
    }
}

// Integer to float in a mode other than nearest: the nearest value is corrected by one unit where needed.
template <RoundMode mode, class From>
inline float round_to_float(From x)
{
    const float nearest = static_cast<float>(x);
    if constexpr (mode == RoundMode::CAST_RINT || mode == RoundMode::CAST_NONE) {
        return nearest;
    } else {
        using Wide = std::conditional_t<sizeof(From) < 8, int64_t, __int128>;
        const Wide exact = static_cast<Wide>(x);
        const Wide got = static_cast<Wide>(nearest);
        const bool negative = x < 0;
        bool down_in_magnitude = false, up_in_magnitude = false;
        const bool larger = negative ? got < exact : got > exact;
        const bool smaller = negative ? got > exact : got < exact;
        if constexpr (mode == RoundMode::CAST_TRUNC) {
            down_in_magnitude = larger;
        } else if constexpr (mode == RoundMode::CAST_FLOOR) {
            down_in_magnitude = larger && !negative;
            up_in_magnitude = smaller && negative;
        } else if constexpr (mode == RoundMode::CAST_CEIL) {
            down_in_magnitude = larger && negative;
            up_in_magnitude = smaller && !negative;
        } else {
            // Half away from zero differs from nearest-even only in ties that were rounded down.
            const float next = bits_float(float_bits(nearest) + 1);
            up_in_magnitude = smaller && static_cast<Wide>(next) - exact == exact - got;
        }
        return bits_float(float_bits(nearest) + (up_in_magnitude ? 1u : 0u) - (down_in_magnitude ? 1u : 0u));
    }
}

template <class To, class From, RoundMode mode>
inline To convert(From x)
{
    if constexpr (std::is_same_v<To, float> && std::is_same_v<From, float>) {
        return round_integral<mode>(x);
    } else if constexpr (is_small_float<To> && std::is_same_v<From, float>) {
        return round_small<To, mode>(x);
    } else if constexpr (is_small_float<To>) {
        return round_small<To, mode>(static_cast<float>(x));
    } else if constexpr (std::is_integral_v<To> && std::is_integral_v<From>) {
        if constexpr (sizeof(To) < sizeof(From)) {
            return saturate_integer<To>(x);
        } else {
            return static_cast<To>(x);
        }
    } else if constexpr (std::is_integral_v<To>) {
        return saturate<To>(round_integral<mode>(static_cast<float>(x)));
    } else if constexpr (std::is_integral_v<From>) {
        return round_to_float<mode>(x);
    } else {
        return static_cast<float>(x);
    }
}

// The rounding modes of a pair, as a bit set over RoundMode; 0 when the pair does not exist on arch 2201.
template <class To, class From>
constexpr unsigned cast_modes()
{
    constexpr unsigned none = 1u << 0, directed = 0x3eu, odd = 1u << 6;
    if constexpr (std::is_same_v<From, float>) {
        if (one_of<To, float, bfloat16_t, int64_t, int32_t, int16_t>) {
            return directed;
        }
        return std::is_same_v<To, half> ? none | directed | odd : 0;
    } else if constexpr (std::is_same_v<From, half>) {
        if (one_of<To, int32_t, int16_t>) {
            return directed;
        }
        return one_of<To, int8_t, uint8_t> ? none | directed : std::is_same_v<To, float> ? none : 0;
    } else if constexpr (std::is_same_v<From, bfloat16_t>) {
        return std::is_same_v<To, float> ? none : std::is_same_v<To, int32_t> ? directed : 0;
    } else if constexpr (one_of<From, uint8_t, int8_t>) {
        return std::is_same_v<To, half> ? none : 0;
    } else if constexpr (std::is_same_v<From, int16_t>) {
        return std::is_same_v<To, half> ? none | directed : std::is_same_v<To, float> ? none : 0;
    } else if constexpr (std::is_same_v<From, int32_t>) {
        if (one_of<To, int64_t, int16_t>) {
            return none;
        }
        return std::is_same_v<To, float> ? none | directed : std::is_same_v<To, half> ? 0x7fu : 0;
    } else if constexpr (std::is_same_v<From, int64_t>) {
        return std::is_same_v<To, int32_t> ? none : std::is_same_v<To, float> ? directed : 0;
    } else {
        return 0;
    }
}

// Calls use(operation) with the conversion of the mode.
template <class To, class From, class Use>
inline void with_cast(RoundMode mode, Use use NPK_SITE)
{
    static_assert(cast_modes<To, From>() != 0, "NPK-RC08: arch 2201 has no Cast between these types");
    if ((cast_modes<To, From>() >> static_cast<unsigned>(mode) & 1u) == 0) {
        raise(kOperand, "CastMode", "Cast", NPK_AT, "rounding mode %u is not available for this pair of types",
              static_cast<unsigned>(mode));
    }
    if constexpr (std::is_same_v<To, half> && std::is_same_v<From, int32_t>) {
        const float scale = core().deq_scale;
        use([scale](To, From x) { return half(static_cast<float>(x) * scale); });
        return;
    }
    switch (mode) {
#define NPK_CAST_MODE(MODE)                                                                                   \
    case RoundMode::MODE:                                                                                     \
        if constexpr ((cast_modes<To, From>() >> static_cast<unsigned>(RoundMode::MODE) & 1u) != 0) {         \
            use([](To, From x) { return convert<To, From, RoundMode::MODE>(x); });                            \
        }                                                                                                     \
        break;
        NPK_CAST_MODE(CAST_NONE)
        NPK_CAST_MODE(CAST_RINT)
        NPK_CAST_MODE(CAST_FLOOR)
        NPK_CAST_MODE(CAST_CEIL)
        NPK_CAST_MODE(CAST_ROUND)
        NPK_CAST_MODE(CAST_TRUNC)
        NPK_CAST_MODE(CAST_ODD)
#undef NPK_CAST_MODE
    }
}

} // namespace npk

namespace AscendC {

template <class T, class U>
void Cast(const LocalTensor<T>& dst, const LocalTensor<U>& src, const RoundMode& roundMode,
          const uint32_t count NPK_SITE)
{
    npk::with_cast<T, U>(
        roundMode,
        [&](auto operation) { npk::unary_count("Cast", dst, src, count, false, operation NPK_PASS); } NPK_PASS);
}

template <class T, class U, bool isSetMask = true>
void Cast(const LocalTensor<T>& dst, const LocalTensor<U>& src, const RoundMode& roundMode,
          const uint64_t mask, const uint8_t repeatTime, const UnaryRepeatParams& repeatParams NPK_SITE)
{
    npk::with_cast<T, U>(
        roundMode,
        [&](auto operation) {
            npk::unary_repeat("Cast", dst, src, isSetMask, mask, repeatTime, repeatParams, false,
                              operation NPK_PASS);
        } NPK_PASS);
}

template <class T, class U, bool isSetMask = true>
void Cast(const LocalTensor<T>& dst, const LocalTensor<U>& src, const RoundMode& roundMode,
          const uint64_t mask[], const uint8_t repeatTime, const UnaryRepeatParams& repeatParams NPK_SITE)
{
    npk::with_cast<T, U>(
        roundMode,
        [&](auto operation) {
            npk::unary_repeat("Cast", dst, src, isSetMask, mask, repeatTime, repeatParams, false,
                              operation NPK_PASS);
        } NPK_PASS);
}

// Factor of the cast from int32_t to half.
inline void SetDeqScale(half scale)
{
    npk::core().deq_scale = scale;
}

} // namespace AscendC

#endif
