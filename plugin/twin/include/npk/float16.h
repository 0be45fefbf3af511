// half and bfloat16_t: storage formats with conversion to and from float.
//
// Conversions are written on the bit patterns without branches, so that a compiler turns loops over them into
// vector code on every host; they round to nearest even and keep NaN, infinities, signed zeros and denormals.
#ifndef NPK_FLOAT16_H
#define NPK_FLOAT16_H

#include <cstdint>
#include <type_traits>

// Constant expressions need a builtin that GCC has since version 11.
#if defined(__has_builtin)
#if __has_builtin(__builtin_bit_cast)
#define NPK_BIT_CAST(To, value) __builtin_bit_cast(To, value)
#define NPK_CONSTEXPR constexpr
#endif
#endif
#ifndef NPK_BIT_CAST
#define NPK_BIT_CAST(To, value) ::npk::bit_cast<To>(value)
#define NPK_CONSTEXPR
#endif

namespace npk {

template <class To, class From>
inline To bit_cast(From value)
{
    To result;
    __builtin_memcpy(&result, &value, sizeof(To));
    return result;
}

inline NPK_CONSTEXPR uint32_t float_bits(float value)
{
    return NPK_BIT_CAST(uint32_t, value);
}

inline NPK_CONSTEXPR float bits_float(uint32_t bits)
{
    return NPK_BIT_CAST(float, bits);
}

inline NPK_CONSTEXPR float half_to_float(uint16_t bits)
{
    const uint32_t sign = static_cast<uint32_t>(bits & 0x8000u) << 16;
    const uint32_t magnitude = static_cast<uint32_t>(bits & 0x7fffu) << 13;
    // The multiplication re-biases the exponent and normalises denormals in one step.
    const uint32_t finite = float_bits(bits_float(magnitude) * bits_float(0x77800000u));
    const uint32_t special = magnitude | 0x7f800000u;
    return bits_float((magnitude >= 0x0f800000u ? special : finite) | sign);
}

inline NPK_CONSTEXPR uint16_t float_to_half(float value)
{
    const uint32_t bits = float_bits(value);
    const uint32_t sign = (bits >> 16) & 0x8000u;
    const uint32_t magnitude = bits & 0x7fffffffu;
    const uint32_t normal = (magnitude - 0x38000000u + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
    // One unit in the last place of 0.5f is the smallest denormal half, so the addition rounds correctly.
    const uint32_t denormal = float_bits(bits_float(magnitude < 0x38800000u ? magnitude : 0u) + 0.5f) - 0x3f000000u;
    const uint32_t nan = 0x7e00u | ((magnitude >> 13) & 0x1ffu);
    uint32_t result = magnitude < 0x38800000u ? denormal : normal;
    result = magnitude >= 0x477ff000u ? 0x7c00u : result;
    result = magnitude > 0x7f800000u ? nan : result;
    return static_cast<uint16_t>(result | sign);
}

inline NPK_CONSTEXPR float bfloat16_to_float(uint16_t bits)
{
    return bits_float(static_cast<uint32_t>(bits) << 16);
}

inline NPK_CONSTEXPR uint16_t float_to_bfloat16(float value)
{
    const uint32_t bits = float_bits(value);
    const uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
    const uint32_t nan = (bits >> 16) | 0x40u;
    return static_cast<uint16_t>((bits & 0x7fffffffu) > 0x7f800000u ? nan : rounded);
}

} // namespace npk

struct half {
    uint16_t bits;

    half() = default;
    template <class T, class = std::enable_if_t<std::is_arithmetic_v<T>>>
    NPK_CONSTEXPR half(T value) : bits(npk::float_to_half(static_cast<float>(value)))
    {
    }
    NPK_CONSTEXPR operator float() const { return npk::half_to_float(bits); }
};

struct bfloat16_t {
    uint16_t bits;

    bfloat16_t() = default;
    template <class T, class = std::enable_if_t<std::is_arithmetic_v<T>>>
    NPK_CONSTEXPR bfloat16_t(T value) : bits(npk::float_to_bfloat16(static_cast<float>(value)))
    {
    }
    NPK_CONSTEXPR operator float() const { return npk::bfloat16_to_float(bits); }
};

namespace AscendC {

inline float ToFloat(const bfloat16_t& value)
{
    return value;
}

inline bfloat16_t ToBfloat16(const float& value)
{
    return value;
}

} // namespace AscendC

#endif
