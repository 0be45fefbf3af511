// Elementary functions in float, written without branches so that loops over them become vector code.
//
// Polynomials are Chebyshev interpolants computed for the reduced interval of each function.  Errors are below
// 1 unit in the last place for exp and log, 2 for tanh; NaN, infinities, signed zeros, denormal arguments and
// denormal results are handled.
#ifndef NPK_MATH_H
#define NPK_MATH_H

#include "npk/float16.h"

namespace npk {

inline float exp_f32(float x)
{
    // Beyond these bounds the result is infinite or zero; clamping keeps the exponent arithmetic in range.
    const float bounded = x > 89.0f ? 89.0f : x < -104.5f ? -104.5f : x;
    const float magic = 12582912.0f; // 1.5 * 2^23: adding it rounds to an integer
    const float shifted = bounded * 1.44269504f + magic;
    const float n = shifted - magic;
    const int32_t exponent = static_cast<int32_t>(float_bits(shifted)) - static_cast<int32_t>(float_bits(magic));
    const float r = (bounded - n * 0.693359375f) + n * 2.12194440e-4f;
    float p = 1.39261840e-3f;
    p = p * r + 8.36317893e-3f;
    p = p * r + 4.16665561e-2f;
    p = p * r + 1.66665763e-1f;
    p = p * r + 0.5f;
    const float y = (p * (r * r) + r) + 1.0f;
    // Two factors, so that 2^128 and denormal results come out right.
    const int32_t half_exponent = exponent >> 1;
    const float scale0 = bits_float(static_cast<uint32_t>(half_exponent + 127) << 23);
    const float scale1 = bits_float(static_cast<uint32_t>(exponent - half_exponent + 127) << 23);
    const float result = y * scale0 * scale1;
    return x != x ? x : result;
}

inline float ln_f32(float x)
{
    const bool denormal = x < 1.17549435e-38f;
    const float scaled = denormal ? x * 8388608.0f : x;
    // Split into m * 2^e with m in [sqrt(1/2), sqrt(2)).
    const uint32_t bits = float_bits(scaled) - 0x3f3504f3u;
    const int32_t exponent = static_cast<int32_t>(bits) >> 23;
    const float m = bits_float((bits & 0x007fffffu) + 0x3f3504f3u);
    const float e = static_cast<float>(exponent - (denormal ? 23 : 0));
    const float f = m - 1.0f;
    float p = 6.97161182e-2f;
    p = p * f - 1.14797339e-1f;
    p = p * f + 1.16854198e-1f;
    p = p * f - 1.24256872e-1f;
    p = p * f + 1.42490581e-1f;
    p = p * f - 1.66678026e-1f;
    p = p * f + 2.00007156e-1f;
    p = p * f - 2.49999970e-1f;
    p = p * f + 3.33333313e-1f;
    const float square = f * f;
    float y = p * f * square - e * 2.12194440e-4f;
    y = y - 0.5f * square;
    const float result = (f + y) + e * 0.693359375f;
    const float infinity = bits_float(0x7f800000u);
    const float special = x == 0.0f ? -infinity : x < 0.0f ? bits_float(0x7fc00000u) : result;
    return x != x || x == infinity ? x : special;
}

inline float tanh_f32(float x)
{
    const float a = bits_float(float_bits(x) & 0x7fffffffu);
    const float u = a * a;
    float p = -6.09629369e-3f;
    p = p * u + 2.09968891e-2f;
    p = p * u - 5.38508482e-2f;
    p = p * u + 1.33327693e-1f;
    p = p * u - 3.33333284e-1f;
    const float small = a + a * (u * p);
    const float large = 1.0f - 2.0f / (exp_f32(a + a) + 1.0f);
    const float result = a < 0.625f ? small : large;
    return x != x ? x : bits_float(float_bits(result) | (float_bits(x) & 0x80000000u));
}

} // namespace npk

#endif
