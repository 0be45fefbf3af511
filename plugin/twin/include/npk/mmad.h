// Mmad: C = A * B (+ C or a bias) on fractals.
//
// L0A holds A as rows of row-major fractals 16 x C0, L0B holds B as rows of fractals C0 x 16 with k running
// fastest, L0C holds C as columns of row-major fractals 16 x 16; C0 is 32 bytes of the element type.
// B is spread once into panels with n running fastest; A is read as it stands.
#ifndef NPK_MMAD_H
#define NPK_MMAD_H

#include <cstring>

#include "npk/tensor.h"

namespace AscendC {

struct MmadParams {
    MmadParams() = default;
    MmadParams(uint16_t rows, uint16_t columns, uint16_t depth, uint8_t unit_flag, bool c_source, bool c_init)
        : m(rows), n(columns), k(depth), cmatrixInitVal(c_init), cmatrixSource(c_source), unitFlag(unit_flag)
    {
    }
    MmadParams(uint16_t rows, uint16_t columns, uint16_t depth, bool is_bias, int32_t, bool, bool, bool)
        : m(rows), n(columns), k(depth), cmatrixInitVal(!is_bias), isBias(is_bias)
    {
    }
    uint16_t m = 0;
    uint16_t n = 0;
    uint16_t k = 0;
    bool cmatrixInitVal = true; // C starts at zero; otherwise it accumulates, or starts from the bias table
    bool cmatrixSource = false; // with cmatrixInitVal false: C starts from the bias table
    bool isBias = false;
    uint8_t unitFlag = 0;       // overlap with Fixpipe: no effect on results
    bool kDirectionAlign = false; // float: k is padded to 16, not 8, in L0A and L0B
};

} // namespace AscendC

namespace npk {

#if defined(__AVX512F__)
constexpr uint32_t kLanes = 16, kRowsAtOnce = 8, kPanel = 32;
#elif defined(__AVX__)
constexpr uint32_t kLanes = 8, kRowsAtOnce = 4, kPanel = 16;
#else
constexpr uint32_t kLanes = 4, kRowsAtOnce = 4, kPanel = 16;
#endif

typedef float Lanes __attribute__((vector_size(kLanes * sizeof(float)), aligned(4)));

template <class T>
constexpr uint64_t kFractalElements = 512 / sizeof(T);

// Where the parts of C += A * B lie; k is cut into pieces of c0 elements.
struct MatrixTile {
    const float* a;      // first row of the tile
    uint64_t a_step;     // floats from one k piece of A to the next
    uint32_t c0;
    const float* b;      // panel: k rows of `panel` floats
    float* c;
    uint64_t c_step;     // floats from one 16-column fractal of C to the next
    uint32_t k;
};

#if defined(__clang__)
#define NPK_FUSED
#define NPK_FUSE_PRAGMA _Pragma("clang fp contract(fast)")
#else
// Products of half or bfloat16 values are exact in float, so a fused multiply-add gives the same bits.
#define NPK_FUSED __attribute__((optimize("fp-contract=fast")))
#define NPK_FUSE_PRAGMA
#endif

#define NPK_TILE_BODY                                                                                         \
    constexpr uint32_t vectors = fractals * 16 / kLanes;                                                      \
    constexpr uint32_t in_fractal = 16 / kLanes;                                                              \
    Lanes sum[kRowsAtOnce][vectors];                                                                          \
    for (uint32_t row = 0; row < kRowsAtOnce; ++row) {                                                        \
        for (uint32_t v = 0; v < vectors; ++v) {                                                              \
            sum[row][v] = *reinterpret_cast<const Lanes*>(tile.c + v / in_fractal * tile.c_step + row * 16 +  \
                                                          v % in_fractal * kLanes);                           \
        }                                                                                                     \
    }                                                                                                         \
    const float* b = tile.b;                                                                                  \
    for (uint32_t start = 0; start < tile.k; start += tile.c0) {                                              \
        const float* a = tile.a + start / tile.c0 * tile.a_step;                                              \
        const uint32_t count = tile.k - start < tile.c0 ? tile.k - start : tile.c0;                           \
        for (uint32_t i = 0; i < count; ++i) {                                                                \
            Lanes right[vectors];                                                                             \
            for (uint32_t v = 0; v < vectors; ++v) {                                                          \
                right[v] = *reinterpret_cast<const Lanes*>(b + v * kLanes);                                   \
            }                                                                                                 \
            b += kPanel;                                                                                      \
            for (uint32_t row = 0; row < kRowsAtOnce; ++row) {                                                \
                const float left = a[row * tile.c0 + i];                                                      \
                for (uint32_t v = 0; v < vectors; ++v) {                                                      \
                    sum[row][v] += left * right[v];                                                           \
                }                                                                                             \
            }                                                                                                 \
        }                                                                                                     \
    }                                                                                                         \
    for (uint32_t row = 0; row < kRowsAtOnce; ++row) {                                                        \
        for (uint32_t v = 0; v < vectors; ++v) {                                                              \
            *reinterpret_cast<Lanes*>(tile.c + v / in_fractal * tile.c_step + row * 16 +                      \
                                      v % in_fractal * kLanes) = sum[row][v];                                 \
        }                                                                                                     \
    }

template <uint32_t fractals>
NPK_OUT_OF_LINE void multiply_tile(const MatrixTile& tile)
{
    NPK_TILE_BODY
}

template <uint32_t fractals>
NPK_FUSED NPK_OUT_OF_LINE void multiply_tile_fused(const MatrixTile& tile)
{
    NPK_FUSE_PRAGMA
    NPK_TILE_BODY
}

#undef NPK_TILE_BODY

// One fractal of B, stored [n 16][k c0], to `panel`, [k c0][n kPanel].
template <class T>
inline void spread_fractal(float* panel, const T* fractal)
{
    constexpr uint32_t c0 = 32 / sizeof(T);
    float wide[16 * c0];
    for (uint32_t i = 0; i < 16 * c0; ++i) {
        wide[i] = static_cast<float>(fractal[i]);
    }
    for (uint32_t k = 0; k < c0; ++k) {
        for (uint32_t n = 0; n < 16; ++n) {
            panel[k * kPanel + n] = wide[n * c0 + k];
        }
    }
}

template <class T>
inline void check_mmad(const Instruction& instruction, const AscendC::LocalTensor<float>& dst,
                       const AscendC::LocalTensor<T>& fm, const AscendC::LocalTensor<T>& filter,
                       const AscendC::MmadParams& params, bool accumulates)
{
#if NPK_TWIN_CHECKED
    instruction.require(dst.Memory() == NPK_MEM_L0C, "ErrorBuffer2", "the result must be in L0C");
    instruction.require(fm.Memory() == NPK_MEM_L0A, "ErrorBuffer2", "the left matrix must be in L0A");
    instruction.require(filter.Memory() == NPK_MEM_L0B, "ErrorBuffer2", "the right matrix must be in L0B");
    instruction.limit("m", params.m, 4095);
    instruction.limit("n", params.n, 4095);
    instruction.limit("k", params.k, 4095);
    constexpr uint32_t c0 = 32 / sizeof(T);
    const uint32_t align = sizeof(T) == 4 && params.kDirectionAlign ? 16 : c0;
    const uint32_t m1 = (params.m + 15) / 16, n1 = (params.n + 15) / 16, k1 = (params.k + align - 1) / align * align / c0;
    for (uint32_t kk = 0; kk * c0 < params.k; ++kk) {
        const uint64_t bytes = (params.k - kk * c0 < c0 ? params.k - kk * c0 : c0) * sizeof(T);
        for (uint32_t i = 0; i < m1; ++i) {
            instruction.access(kRead, "fm", NPK_MEM_L0A, fm.Address() + (i * k1 + kk) * kFractalElements<T>, bytes,
                               params.m - i * 16 < 16 ? params.m - i * 16 : 16, 32);
        }
        for (uint32_t j = 0; j < n1; ++j) {
            instruction.access(kRead, "filter", NPK_MEM_L0B,
                               filter.Address() + (kk * n1 + j) * kFractalElements<T>, bytes,
                               params.n - j * 16 < 16 ? params.n - j * 16 : 16, 32);
        }
    }
    const uint64_t whole = static_cast<uint64_t>(m1) * n1 * 256;
    if (accumulates) {
        instruction.in("dst", dst, whole, 10);
    }
    instruction.out("dst", dst, whole, 10);
#else
    (void)instruction, (void)dst, (void)fm, (void)filter, (void)params, (void)accumulates;
#endif
}

template <class T>
NPK_OUT_OF_LINE void multiply(const AscendC::LocalTensor<float>& dst, const AscendC::LocalTensor<T>& fm,
                     const AscendC::LocalTensor<T>& filter, const float* bias, const AscendC::MmadParams& params,
                     bool accumulates)
{
    constexpr uint32_t c0 = 32 / sizeof(T), fractal = 16 * c0;
    const uint32_t m = params.m, n = params.n, k = params.k;
    const uint32_t align = sizeof(T) == 4 && params.kDirectionAlign ? 16 : c0;
    const uint32_t m1 = (m + 15) / 16, n1 = (n + 15) / 16, k1 = (k + align - 1) / align * align / c0;
    const uint32_t rows = (m + kRowsAtOnce - 1) / kRowsAtOnce * kRowsAtOnce;
    float* c = dst.Address();
    if (!accumulates) {
        for (uint32_t j = 0; j < n1; ++j) {
            for (uint32_t row = 0; row < rows; ++row) {
                float* out = c + (static_cast<uint64_t>(j) * m1 * 16 + row) * 16;
                if (bias != nullptr) {
                    memcpy(out, bias + j * 16, 64);
                } else {
                    memset(out, 0, 64);
                }
            }
        }
    }
    // Scratch: one panel of B, then A in float where it is not.
    float* panel = reinterpret_cast<float*>(core().scratch);
    const float* a;
    if constexpr (std::is_same_v<T, float>) {
        a = fm.Address();
    } else {
        float* wide = panel + static_cast<uint64_t>(k1) * c0 * kPanel;
        const uint64_t count = static_cast<uint64_t>(m1) * k1 * fractal;
        const T* narrow_a = fm.Address();
        for (uint64_t i = 0; i < count; ++i) {
            wide[i] = static_cast<float>(narrow_a[i]);
        }
        a = wide;
    }
    constexpr uint32_t fractals_in_panel = kPanel / 16;
    for (uint32_t j = 0; j < n1; j += fractals_in_panel) {
        const uint32_t fractals = n1 - j < fractals_in_panel ? n1 - j : fractals_in_panel;
        for (uint32_t kk = 0; kk * c0 < k; ++kk) {
            for (uint32_t f = 0; f < fractals; ++f) {
                spread_fractal(panel + static_cast<uint64_t>(kk) * c0 * kPanel + f * 16,
                               filter.Address() + static_cast<uint64_t>(kk * n1 + j + f) * fractal);
            }
        }
        for (uint32_t row = 0; row < rows; row += kRowsAtOnce) {
            const MatrixTile tile = {a + static_cast<uint64_t>(row / 16) * k1 * fractal + row % 16 * c0,
                                     fractal,
                                     c0,
                                     panel,
                                     c + (static_cast<uint64_t>(j) * m1 * 16 + row) * 16,
                                     static_cast<uint64_t>(m1) * 256,
                                     k};
            if constexpr (std::is_same_v<T, float>) {
                fractals == fractals_in_panel ? multiply_tile<fractals_in_panel>(tile) : multiply_tile<1>(tile);
            } else {
                fractals == fractals_in_panel ? multiply_tile_fused<fractals_in_panel>(tile)
                                              : multiply_tile_fused<1>(tile);
            }
        }
    }
}

} // namespace npk

namespace AscendC {

template <class T, class U, class S>
void Mmad(const LocalTensor<T>& dst, const LocalTensor<U>& fm, const LocalTensor<S>& filter,
          const MmadParams& mmadParams NPK_SITE)
{
    static_assert(std::is_same_v<T, float> && std::is_same_v<U, S> && npk::one_of<U, half, bfloat16_t, float>,
                  "NPK-RC08: Mmad takes half, bfloat16_t or float operands of one type and gives float here");
    const npk::Instruction instruction("Mmad", NPK_PIPE_M, npk::Unit::kCube, NPK_AT);
    instruction.require(mmadParams.cmatrixInitVal || !mmadParams.cmatrixSource, "MmadBias",
                        "cmatrixSource needs the form with a bias tensor");
    npk::check_mmad(instruction, dst, fm, filter, mmadParams, !mmadParams.cmatrixInitVal);
    if (mmadParams.m != 0 && mmadParams.n != 0 && mmadParams.k != 0) {
        npk::multiply(dst, fm, filter, nullptr, mmadParams, !mmadParams.cmatrixInitVal);
    }
}

// C starts from the bias, one value for each column.
template <class T, class U, class S, class V>
void Mmad(const LocalTensor<T>& dst, const LocalTensor<U>& fm, const LocalTensor<S>& filter,
          const LocalTensor<V>& bias, const MmadParams& mmadParams NPK_SITE)
{
    static_assert(std::is_same_v<T, float> && std::is_same_v<U, S> && npk::one_of<U, half, bfloat16_t, float> &&
                      std::is_same_v<V, float>,
                  "NPK-RC08: Mmad takes half, bfloat16_t or float operands of one type, float bias, float result");
    const npk::Instruction instruction("Mmad", NPK_PIPE_M, npk::Unit::kCube, NPK_AT);
    instruction.require(bias.Memory() == NPK_MEM_BT, "ErrorBuffer2", "the bias must be in the bias table");
    instruction.in("bias", bias, mmadParams.n);
    npk::check_mmad(instruction, dst, fm, filter, mmadParams, false);
    if (mmadParams.m != 0 && mmadParams.n != 0 && mmadParams.k != 0) {
        npk::multiply(dst, fm, filter, bias.Address(), mmadParams, false);
    }
}

} // namespace AscendC

#endif
