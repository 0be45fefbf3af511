// Masks and repeats of vector instructions.
//
// An instruction works in repeats of 256 bytes, eight blocks of 32 bytes each; a mask selects elements within a
// repeat, strides place blocks and repeats.  `for_each_run` turns that into runs of consecutive elements, so that
// the arithmetic itself stays a plain loop that the compiler vectorises.
#ifndef NPK_MASK_H
#define NPK_MASK_H

#include "npk/tensor.h"

#if defined(__clang__)
// A loop that stays scalar is slower, not wrong.
#pragma clang diagnostic ignored "-Wpass-failed"
#define NPK_VECTOR_LOOP _Pragma("clang loop vectorize(assume_safety)")
#else
#define NPK_VECTOR_LOOP _Pragma("GCC ivdep")
#endif

namespace npk {

struct Mask {
    uint64_t low = ~0ull;
    uint64_t high = ~0ull;

    static Mask first(uint64_t count)
    {
        Mask mask;
        mask.low = count >= 64 ? ~0ull : (1ull << count) - 1;
        mask.high = count >= 128 ? ~0ull : count <= 64 ? 0 : (1ull << (count - 64)) - 1;
        return mask;
    }

    bool operator[](uint32_t element) const
    {
        return ((element < 64 ? low >> element : high >> (element - 64)) & 1u) != 0;
    }
};

// How many elements each repeat takes, and which.
struct Repeats {
    Mask mask;
    uint32_t count;    // repeats
    uint32_t prefix;   // mask is the first `prefix` elements, or kBits
    uint32_t last;     // elements of the last repeat when the mask is a prefix
    static constexpr uint32_t kBits = ~0u;
};

// Resolves the mask argument of a call against the mask registers: `elements` is the repeat's capacity.
inline Repeats resolve(bool set_mask, uint64_t argument, uint32_t repeat, uint32_t elements)
{
    const NpkCore& registers = core();
    const bool counter = registers.mask_mode == 1;
    if (counter) {
        const uint64_t total = set_mask ? argument : registers.mask[0];
        const uint32_t count = static_cast<uint32_t>((total + elements - 1) / elements);
        const uint32_t rest = static_cast<uint32_t>(total % elements);
        return {Mask{}, count, elements, rest == 0 ? elements : rest};
    }
    if (set_mask) {
        const uint32_t prefix = static_cast<uint32_t>(argument < elements ? argument : elements);
        return {Mask{}, prefix == 0 ? 0 : repeat, prefix, prefix};
    }
    Repeats repeats = {Mask{registers.mask[0], registers.mask[1]}, repeat, Repeats::kBits, 0};
    if (elements <= 64) {
        repeats.mask.high = 0;
    }
    if (elements < 64) {
        repeats.mask.low &= (1ull << elements) - 1;
    }
    if ((repeats.mask.low | repeats.mask.high) == 0) {
        repeats.count = 0;
    }
    return repeats;
}

inline Repeats resolve(bool set_mask, const uint64_t bits[], uint32_t repeat, uint32_t elements)
{
    if (!set_mask || core().mask_mode == 1) {
        return resolve(false, uint64_t{0}, repeat, elements);
    }
    Repeats repeats = {Mask{bits[0], elements > 64 ? bits[1] : 0}, repeat, Repeats::kBits, 0};
    if (elements < 64) {
        repeats.mask.low &= (1ull << elements) - 1;
    }
    if ((repeats.mask.low | repeats.mask.high) == 0) {
        repeats.count = 0;
    }
    return repeats;
}

// Calls run(repeat, first, count) for runs of selected elements that lie in one block, or, when
// `whole_repeats`, in one repeat; `first` counts elements from the start of the repeat.
template <class Run>
inline void for_each_run(const Repeats& repeats, uint32_t elements, bool whole_repeats, Run run)
{
    const uint32_t block = whole_repeats ? elements : elements / 8;
    for (uint32_t repeat = 0; repeat < repeats.count; ++repeat) {
        if (repeats.prefix != Repeats::kBits) {
            const uint32_t total = repeat + 1 == repeats.count ? repeats.last : repeats.prefix;
            for (uint32_t first = 0; first < total; first += block) {
                run(repeat, first, total - first < block ? total - first : block);
            }
            continue;
        }
        for (uint32_t start = 0; start < elements; start += block) {
            uint32_t element = start;
            while (element < start + block) {
                if (!repeats.mask[element]) {
                    ++element;
                    continue;
                }
                const uint32_t first = element;
                while (element < start + block && repeats.mask[element]) {
                    ++element;
                }
                run(repeat, first, element - first);
            }
        }
    }
}

// Rows of consecutive elements, `step` bytes apart.
template <class T>
struct Rows {
    T* base;
    uint64_t step;

    T* row(uint64_t index) const
    {
        using Byte = std::conditional_t<std::is_const_v<T>, const uint8_t, uint8_t>;
        return reinterpret_cast<T*>(reinterpret_cast<Byte*>(base) + index * step);
    }
};

// An operand of a repeated instruction: base address and strides in blocks of 32 bytes.
template <class T>
struct Strided {
    T* base;
    uint32_t block_stride;
    uint32_t repeat_stride;
    uint32_t elements; // per repeat

    // Address of element `element` of repeat `repeat`.
    T* at(uint32_t repeat, uint32_t element) const
    {
        // A narrow operand of a widening or narrowing instruction fills fewer blocks in a repeat.
        constexpr uint32_t in_block = per_block<T>;
        const uint64_t blocks =
            static_cast<uint64_t>(repeat) * repeat_stride + static_cast<uint64_t>(element / in_block) * block_stride;
        return reinterpret_cast<T*>(reinterpret_cast<uint8_t*>(base) + blocks * 32) + element % in_block;
    }

    // True when a repeat's blocks follow each other without gaps.
    bool dense() const { return block_stride == 1; }

    // The repeats of a dense operand.
    operator Rows<T>() const { return {base, repeat_stride * 32ull}; }
    operator Rows<const T>() const { return {base, repeat_stride * 32ull}; }
};

// Tells the checker which bytes of an operand the repeats touch.
template <class T>
inline void check_strided(const Instruction& instruction, bool write, const char* operand,
                          const AscendC::LocalTensor<T>& tensor, const Strided<T>& strided, const Repeats& repeats)
{
#if NPK_TWIN_CHECKED
    for_each_run(repeats, strided.elements, strided.dense(), [&](uint32_t repeat, uint32_t first, uint32_t count) {
        const bool start = repeat == 0 && first == 0;
        instruction.access(write ? kWrite : kRead, operand, tensor.Memory(), strided.at(repeat, first), count * sizeof(T), 1, 0,
                           start ? 5 : 0);
    });
#else
    (void)instruction, (void)write, (void)operand, (void)tensor, (void)strided, (void)repeats;
#endif
}

} // namespace npk

namespace AscendC {

// Normal mode: a bit for each element of a repeat.  Counter mode: `low` is the number of elements.
template <class T, MaskMode mode = MaskMode::NORMAL>
inline void SetVectorMask(const uint64_t high, const uint64_t low)
{
    NpkCore& core = npk::core();
    core.mask[0] = low;
    core.mask[1] = high;
}

// Normal mode: the first `len` elements of a repeat.  Counter mode: `len` elements in all.
template <class T, MaskMode mode = MaskMode::NORMAL>
inline void SetVectorMask(int32_t len)
{
    NpkCore& core = npk::core();
    if constexpr (mode == MaskMode::COUNTER) {
        core.mask[0] = static_cast<uint64_t>(len);
        core.mask[1] = 0;
    } else {
        const npk::Mask mask = npk::Mask::first(static_cast<uint64_t>(len));
        core.mask[0] = mask.low;
        core.mask[1] = mask.high;
    }
}

inline void ResetMask()
{
    npk::core().mask[0] = ~0ull;
    npk::core().mask[1] = ~0ull;
}

inline void SetMaskCount()
{
    npk::core().mask_mode = 1;
}

inline void SetMaskNorm()
{
    npk::core().mask_mode = 0;
}

} // namespace AscendC

#endif
