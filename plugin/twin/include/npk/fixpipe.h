// Fixpipe: results from L0C to global memory or L1, with conversion, ReLU and NZ to ND on the way.
#ifndef NPK_FIXPIPE_H
#define NPK_FIXPIPE_H

#include "npk/datacopy.h"

namespace AscendC {

enum class CO2Layout : uint8_t { NZ = 0, ROW_MAJOR, COLUMN_MAJOR };

struct FixpipeConfig {
    CO2Layout format;
};

inline constexpr FixpipeConfig CFG_NZ = {CO2Layout::NZ};
inline constexpr FixpipeConfig CFG_ROW_MAJOR = {CO2Layout::ROW_MAJOR};

struct FixpipeParamsV220 {
    FixpipeParamsV220() = default;
    FixpipeParamsV220(uint16_t n_size, uint16_t m_size, uint16_t src_stride, uint32_t dst_stride, bool relu)
        : nSize(n_size), mSize(m_size), srcStride(src_stride), dstStride(dst_stride), reluEn(relu)
    {
    }
    FixpipeParamsV220(uint16_t n_size, uint16_t m_size, uint16_t src_stride, uint32_t dst_stride, bool relu,
                      QuantMode_t quant, int64_t scalar, uint16_t nd_num, uint16_t src_nd_stride,
                      uint16_t dst_nd_stride, uint8_t unit_flag)
        : nSize(n_size), mSize(m_size), srcStride(src_stride), dstStride(dst_stride), quantPre(quant),
          deqScalar(static_cast<uint64_t>(scalar)), ndNum(nd_num), srcNdStride(src_nd_stride),
          dstNdStride(dst_nd_stride), reluEn(relu), unitFlag(unit_flag)
    {
    }
    uint16_t nSize = 0;
    uint16_t mSize = 0;
    uint16_t srcStride = 0;  // rows of 16 elements between columns of fractals: m rounded up to 16
    uint32_t dstStride = 0;  // ND: elements of a row; NZ: blocks of 32 bytes between columns of fractals
    QuantMode_t quantPre = NoQuant;
    uint64_t deqScalar = 0;
    uint16_t ndNum = 1;
    uint16_t srcNdStride = 0; // fractals of 16 x 16
    uint16_t dstNdStride = 0; // elements
    bool reluEn = false;
    uint8_t unitFlag = 0;
    bool isChannelSplit = false;
};

} // namespace AscendC

namespace npk {

template <class T>
constexpr QuantMode_t quant_for()
{
    return std::is_same_v<T, half> ? F322F16 : std::is_same_v<T, bfloat16_t> ? F322BF16 : NoQuant;
}

template <class T>
inline void convert_row(T* out, const float* in, uint32_t count, bool relu)
{
    if (relu) {
        for (uint32_t i = 0; i < count; ++i) {
            out[i] = static_cast<T>(in[i] < 0.0f ? 0.0f : in[i]);
        }
    } else {
        for (uint32_t i = 0; i < count; ++i) {
            out[i] = static_cast<T>(in[i]);
        }
    }
}

template <AscendC::CO2Layout layout, class T, class Destination>
NPK_OUT_OF_LINE void fixpipe(const Destination& dst, const AscendC::LocalTensor<float>& src,
                    const AscendC::FixpipeParamsV220& params NPK_SITE)
{
    static_assert(one_of<T, half, bfloat16_t, float>,
                  "NPK-RC08: Fixpipe writes half, bfloat16_t and float from a float result here");
    static_assert(layout != AscendC::CO2Layout::COLUMN_MAJOR, "NPK-RC08: arch 2201 has no NZ to DN conversion");
    const Instruction instruction("Fixpipe", NPK_PIPE_FIX, Unit::kCube, NPK_AT);
    constexpr bool rows = layout == AscendC::CO2Layout::ROW_MAJOR;
    instruction.require(src.Memory() == NPK_MEM_L0C, "ErrorBuffer2", "the source must be in L0C");
    instruction.require(params.quantPre == quant_for<T>(), "QuantMode",
                        "quantPre must be F322F16 for half, F322BF16 for bfloat16_t and NoQuant for float");
    instruction.require(!params.isChannelSplit, "ChannelSplit", "isChannelSplit is not available");
    instruction.limit("nSize", params.nSize, 4095);
    instruction.limit("mSize", params.mSize, rows ? 8192 : 65535);
    if (!rows) {
        instruction.multiple("nSize", params.nSize, 16);
    }
    const uint32_t n1 = (params.nSize + 15) / 16;
    const uint64_t matrices = rows ? params.ndNum : 1;
    const bool to_global = dst.Memory() == NPK_MEM_GM;
    for (uint64_t matrix = 0; matrix < matrices; ++matrix) {
        const float* from = src.Address() + matrix * params.srcNdStride * 256;
        T* to = dst.Address() + matrix * params.dstNdStride;
        for (uint32_t j = 0; j < n1; ++j) {
            const uint32_t count = params.nSize - j * 16 < 16 ? params.nSize - j * 16 : 16;
            const float* column = from + static_cast<uint64_t>(j) * params.srcStride * 16;
            instruction.access(kRead, "src", NPK_MEM_L0C, column, count * 4, params.mSize, 64);
            T* out = rows ? to + j * 16 : to + static_cast<uint64_t>(j) * params.dstStride * (32 / sizeof(T));
            const uint64_t step = rows ? params.dstStride : 16;
            instruction.access(kWrite, "dst", dst.Memory(), out, count * sizeof(T), params.mSize,
                               static_cast<int64_t>(step * sizeof(T)), rows ? 0 : 5);
            for (uint32_t row = 0; row < params.mSize; ++row) {
                T values[16];
                convert_row(values, column + static_cast<uint64_t>(row) * 16, 16, params.reluEn);
                if (to_global) {
                    store_global<T>(out + row * step, values, count * sizeof(T));
                } else {
                    memcpy(static_cast<void*>(out + row * step), values, count * sizeof(T));
                }
            }
        }
    }
}

} // namespace npk

namespace AscendC {

template <class T, class U, const FixpipeConfig& config = CFG_ROW_MAJOR>
void Fixpipe(const GlobalTensor<T>& dst, const LocalTensor<U>& src, const FixpipeParamsV220& params NPK_SITE)
{
    static_assert(std::is_same_v<U, float>, "NPK-RC08: Fixpipe reads float results here");
    npk::fixpipe<config.format, T>(dst, src, params NPK_PASS);
}

// To L1 the result keeps its fractal layout.
template <class T, class U, const FixpipeConfig& config = CFG_NZ>
void Fixpipe(const LocalTensor<T>& dst, const LocalTensor<U>& src, const FixpipeParamsV220& params NPK_SITE)
{
    static_assert(std::is_same_v<U, float>, "NPK-RC08: Fixpipe reads float results here");
    static_assert(config.format == CO2Layout::NZ, "NPK-RC08: Fixpipe to L1 writes NZ");
    npk::fixpipe<CO2Layout::NZ, T>(dst, src, params NPK_PASS);
}

} // namespace AscendC

#endif
