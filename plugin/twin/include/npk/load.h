// LoadData and LoadDataWithTranspose: fractals of 512 bytes from L1 to L0A and L0B; InitConstValue.
#ifndef NPK_LOAD_H
#define NPK_LOAD_H

#include <cstring>

#include "npk/tensor.h"

namespace AscendC {

struct LoadData2DParams {
    LoadData2DParams() = default;
    LoadData2DParams(uint16_t start, uint8_t repeat, uint16_t src_stride, uint8_t sid_, uint16_t dst_gap,
                     bool transpose, uint8_t addr_mode)
        : startIndex(start), dstGap(dst_gap), srcStride(src_stride), ifTranspose(transpose), repeatTimes(repeat),
          sid(sid_), addrMode(addr_mode)
    {
    }
    uint16_t startIndex = 0; // fractal of the source to begin with
    uint16_t dstGap = 0;     // fractals between the end of one and the start of the next
    uint16_t srcStride = 0;  // fractals between starts
    bool ifTranspose = false;
    uint8_t repeatTimes = 0;
    uint8_t sid = 0;
    uint8_t addrMode = 0; // 1: walk the source backwards
};

struct LoadData2dTransposeParams {
    LoadData2dTransposeParams() = default;
    LoadData2dTransposeParams(uint16_t start, uint8_t repeat, uint16_t src_stride, uint16_t dst_gap,
                              uint16_t dst_frac_gap, uint8_t addr_mode = 0)
        : startIndex(start), repeatTimes(repeat), srcStride(src_stride), dstGap(dst_gap), dstFracGap(dst_frac_gap),
          addrMode(addr_mode)
    {
    }
    uint16_t startIndex = 0; // square of the source to begin with
    uint8_t repeatTimes = 0;
    uint16_t srcStride = 0;  // squares between starts
    uint16_t dstGap = 0;     // fractals from the end of one square's first fractal to the next square's first
    uint16_t dstFracGap = 0; // fractals between the fractals of one square
    uint8_t addrMode = 0;
};

template <class T>
struct InitConstValueParams {
    InitConstValueParams() = default;
    InitConstValueParams(uint16_t repeat, uint16_t blocks, uint16_t gap, T value)
        : repeatTimes(repeat), blockNum(blocks), dstGap(gap), initValue(value)
    {
    }
    uint16_t repeatTimes = 0;
    uint16_t blockNum = 0; // of 32 bytes in L1, of 512 bytes in L0A and L0B
    uint16_t dstGap = 0;   // in the same unit
    T initValue = T(0);
};

} // namespace AscendC

namespace npk {

constexpr uint64_t kFractalBytes = 512;

// Tells the checker that a fractal moves; what was never written stays so.
inline void check_fractal(const Instruction& instruction, NpkMemory to_memory, const void* to, NpkMemory from_memory,
                          const void* from)
{
    instruction.access(kMove, "src", from_memory, from, kFractalBytes, 1, 0, 5);
    instruction.access(kWrite, "dst", to_memory, to, kFractalBytes);
    instruction.copied(to_memory, to, from_memory, from, kFractalBytes);
}

// Row `row` of a transposed fractal at `to` takes `count` elements, 32 bytes apart, starting at `from`.
template <class T>
inline void check_transposed_row(const Instruction& instruction, NpkMemory to_memory, const T* to, uint32_t row,
                                 NpkMemory from_memory, const T* from, uint32_t count)
{
    instruction.copied(to_memory, to + row * count, from_memory, from, sizeof(T), count, 32);
}

template <class T>
inline void transpose_square(T* dst, const T* src, uint32_t size)
{
    for (uint32_t row = 0; row < size; ++row) {
        for (uint32_t column = 0; column < size; ++column) {
            dst[column * size + row] = src[row * size + column];
        }
    }
}

template <class T, class Source>
NPK_OUT_OF_LINE void load_2d(const AscendC::LocalTensor<T>& dst, const Source& src,
                    const AscendC::LoadData2DParams& params NPK_SITE)
{
    static_assert(one_of<T, uint8_t, int8_t, uint16_t, int16_t, half, bfloat16_t, uint32_t, int32_t, float>,
                  "NPK-RC08: LoadData takes 8-, 16- and 32-bit types");
    const bool from_global = src.Memory() == NPK_MEM_GM;
    const Instruction instruction("LoadData", from_global ? NPK_PIPE_MTE2 : NPK_PIPE_MTE1, Unit::kCube, NPK_AT);
    instruction.require(dst.Memory() == NPK_MEM_L0A || dst.Memory() == NPK_MEM_L0B, "ErrorBuffer2",
                        "the destination must be in L0A or L0B");
    instruction.require(from_global || src.Memory() == NPK_MEM_L1, "ErrorBuffer2",
                        "the source must be in L1 or in global memory");
    instruction.require(!params.ifTranspose || (sizeof(T) == 2 && !from_global), "LoadTranspose",
                        "ifTranspose takes 16-bit types from L1; use LoadDataWithTranspose for 32-bit types");
    const uint8_t* from = reinterpret_cast<const uint8_t*>(src.Address()) + params.startIndex * kFractalBytes;
    uint8_t* to = reinterpret_cast<uint8_t*>(dst.Address());
    const int64_t step = static_cast<int64_t>(params.srcStride * kFractalBytes) * (params.addrMode == 1 ? -1 : 1);
    for (uint32_t i = 0; i < params.repeatTimes; ++i) {
        const uint8_t* source = from + step * static_cast<int64_t>(i);
        uint8_t* target = to + i * (params.dstGap + 1ull) * kFractalBytes;
        check_fractal(instruction, dst.Memory(), target, src.Memory(), source);
        if (params.ifTranspose) {
            for (uint32_t row = 0; NPK_TWIN_CHECKED && row < 16; ++row) {
                check_transposed_row(instruction, dst.Memory(), reinterpret_cast<const uint16_t*>(target), row,
                                     src.Memory(), reinterpret_cast<const uint16_t*>(source) + row, 16);
            }
            transpose_square(reinterpret_cast<uint16_t*>(target), reinterpret_cast<const uint16_t*>(source), 16);
        } else {
            memcpy(target, source, kFractalBytes);
        }
    }
}

} // namespace npk

namespace AscendC {

template <class T>
void LoadData(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LoadData2DParams& params NPK_SITE)
{
    npk::load_2d(dst, src, params NPK_PASS);
}

template <class T>
void LoadData(const LocalTensor<T>& dst, const GlobalTensor<T>& src, const LoadData2DParams& params NPK_SITE)
{
    npk::load_2d(dst, src, params NPK_PASS);
}

// Squares of 16 x 16 elements: one fractal of a 16-bit type, two neighbouring fractals of a 32-bit type, which
// become two fractals of the transposed square.
template <class T>
NPK_OUT_OF_LINE void LoadDataWithTranspose(const LocalTensor<T>& dst, const LocalTensor<T>& src,
                                  const LoadData2dTransposeParams& params NPK_SITE)
{
    static_assert(npk::one_of<T, half, bfloat16_t, int32_t, uint32_t, float>,
                  "NPK-RC08: LoadDataWithTranspose takes half, bfloat16_t, int32_t, uint32_t and float here");
    const npk::Instruction instruction("LoadDataWithTranspose", NPK_PIPE_MTE1, npk::Unit::kCube, NPK_AT);
    instruction.require(dst.Memory() == NPK_MEM_L0A || dst.Memory() == NPK_MEM_L0B, "ErrorBuffer2",
                        "the destination must be in L0A or L0B");
    instruction.require(src.Memory() == NPK_MEM_L1, "ErrorBuffer2", "the source must be in L1");
    constexpr uint64_t fractal = npk::kFractalBytes / sizeof(T);
    constexpr uint64_t fractals = sizeof(T) / 2;
    const T* from = src.Address() + params.startIndex * fractal * fractals;
    const int64_t step = static_cast<int64_t>(params.srcStride * fractal * fractals) * (params.addrMode == 1 ? -1 : 1);
    for (uint32_t i = 0; i < params.repeatTimes; ++i) {
        const T* source = from + step * static_cast<int64_t>(i);
        T* target = dst.Address() + i * (params.dstGap + 1ull) * fractal;
        if constexpr (fractals == 1) {
            npk::check_fractal(instruction, dst.Memory(), target, src.Memory(), source);
            for (uint32_t row = 0; NPK_TWIN_CHECKED && row < 16; ++row) {
                npk::check_transposed_row(instruction, dst.Memory(), target, row, src.Memory(), source + row, 16);
            }
            npk::transpose_square(target, source, 16);
        } else {
            const uint64_t gap = (params.dstFracGap + 1ull) * fractal;
            npk::check_fractal(instruction, dst.Memory(), target, src.Memory(), source);
            npk::check_fractal(instruction, dst.Memory(), target + gap, src.Memory(), source + fractal);
            for (uint32_t part = 0; part < 2; ++part) {
                T* out = target + part * gap;
                for (uint32_t column = 0; column < 16; ++column) {
                    const T* in = source + (column / 8) * fractal + column % 8 + part * 64;
                    npk::check_transposed_row(instruction, dst.Memory(), out, column, src.Memory(), in, 8);
                    for (uint32_t row = 0; row < 8; ++row) {
                        out[column * 8 + row] = in[row * 8];
                    }
                }
            }
        }
    }
}

template <class T>
NPK_OUT_OF_LINE void InitConstValue(const LocalTensor<T>& dst, const InitConstValueParams<T>& params NPK_SITE)
{
    const NpkMemory memory = dst.Memory();
    const npk::Instruction instruction("InitConstValue", memory == NPK_MEM_L1 ? NPK_PIPE_MTE2 : NPK_PIPE_MTE1,
                                       npk::Unit::kCube, NPK_AT);
    instruction.require(memory == NPK_MEM_L1 || memory == NPK_MEM_L0A || memory == NPK_MEM_L0B, "ErrorBuffer2",
                        "the destination must be in L1, L0A or L0B");
    const uint64_t unit = (memory == NPK_MEM_L1 ? 32 : 512) / sizeof(T);
    const uint64_t length = params.blockNum * unit, stride = (params.blockNum + params.dstGap) * unit;
    instruction.access(npk::kWrite, "dst", memory, dst.Address(), length * sizeof(T), params.repeatTimes,
                       static_cast<int64_t>(stride * sizeof(T)));
    for (uint64_t repeat = 0; repeat < params.repeatTimes; ++repeat) {
        for (uint64_t i = 0; i < length; ++i) {
            dst.Address()[repeat * stride + i] = params.initValue;
        }
    }
}

} // namespace AscendC

#endif
