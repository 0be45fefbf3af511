// Reductions: over a whole tensor, over each repeat, over each block, over pairs.
//
// Sums are formed as a binary tree, each level rounded to the element type, as documented: a repeat is folded in
// halves down to one block, a block by neighbours.
// Minimum and maximum return the first position of the extreme value; a NaN counts as extreme.
#ifndef NPK_REDUCE_H
#define NPK_REDUCE_H

#include <cstring>

#include "npk/lanes.h"
#include "npk/vector_binary.h"

namespace npk {

using AscendC::ReduceOrder;

// Sum of one block of 32 bytes over neighbours.
template <class T>
inline T block_sum(const T* values)
{
    if constexpr (sizeof(T) == 4) {
        return ((values[0] + values[1]) + (values[2] + values[3])) + ((values[4] + values[5]) + (values[6] + values[7]));
    } else {
        T level[16];
        for (uint32_t i = 0; i < 16; ++i) {
            level[i] = values[i];
        }
        for (uint32_t n = 8; n >= 1; n /= 2) {
            for (uint32_t i = 0; i < n; ++i) {
                level[i] = narrow<T>(widen(level[2 * i]) + widen(level[2 * i + 1]));
            }
        }
        return level[0];
    }
}

// Sum of a whole repeat: halves are added until one block is left, then neighbours.
template <class T>
inline T repeat_sum(const T* values)
{
    if constexpr (sizeof(T) == 4) {
        Float8 half[4];
        for (uint32_t i = 0; i < 4; ++i) {
            half[i] = load_lanes<Float8>(values + 8 * i) + load_lanes<Float8>(values + 8 * i + 32);
        }
        T block[8];
        store_lanes(block, (half[0] + half[2]) + (half[1] + half[3]));
        return block_sum(block);
    } else {
        T level[64];
        for (uint32_t i = 0; i < 64; ++i) {
            level[i] = narrow<T>(widen(values[i]) + widen(values[i + 64]));
        }
        for (uint32_t n = 32; n >= 16; n /= 2) {
            for (uint32_t i = 0; i < n; ++i) {
                level[i] = narrow<T>(widen(level[i]) + widen(level[i + n]));
            }
        }
        return block_sum(level);
    }
}

// Adding -0 changes no value, so it stands for an element that takes no part.
template <class T>
inline T prefix_sum(const T* src, uint32_t count)
{
    constexpr uint32_t elements = per_repeat<T>;
    if (count == elements) {
        return repeat_sum(src);
    }
    T values[elements];
    for (uint32_t i = 0; i < elements; ++i) {
        values[i] = i < count ? src[i] : T(-0.0f);
    }
    return repeat_sum(values);
}

template <class T>
struct Extreme {
    T value;
    uint32_t index;
};

// Is `candidate` to be taken instead of the value found so far?
template <bool maximum_wanted, class C>
inline bool more_extreme(C candidate, C best)
{
    if (best != best) {
        return false;
    }
    return candidate != candidate || (maximum_wanted ? candidate > best : candidate < best);
}

template <bool maximum_wanted, class T>
inline void take_extreme(Extreme<T>& best, bool& any, T value, uint32_t index)
{
    if (!any || more_extreme<maximum_wanted>(widen(value), widen(best.value))) {
        best = {value, index};
        any = true;
    }
}

// Extreme value of consecutive elements without its position.
template <bool maximum_wanted, class T>
NPK_OUT_OF_LINE T extreme_value(const T* src, uint32_t count)
{
    using C = compute_type<T>;
    C best = widen(src[0]);
    uint32_t i = 1;
    if constexpr (std::is_same_v<T, float>) {
        constexpr uint32_t chains = 4;
        if (count >= 8 * chains) {
            Float8 lanes[chains];
            for (uint32_t c = 0; c < chains; ++c) {
                lanes[c] = load_lanes<Float8>(src + 8 * c);
            }
            for (i = 8 * chains; i + 8 * chains <= count; i += 8 * chains) {
                for (uint32_t c = 0; c < chains; ++c) {
                    const Float8 value = load_lanes<Float8>(src + i + 8 * c);
                    const auto keep = (maximum_wanted ? lanes[c] > value : lanes[c] < value) | (lanes[c] != lanes[c]);
                    lanes[c] = keep ? lanes[c] : value;
                }
            }
            for (uint32_t c = 1; c < chains; ++c) {
                const auto keep =
                    (maximum_wanted ? lanes[0] > lanes[c] : lanes[0] < lanes[c]) | (lanes[0] != lanes[0]);
                lanes[0] = keep ? lanes[0] : lanes[c];
            }
            float all[8];
            store_lanes(all, lanes[0]);
            for (const float value : all) {
                best = maximum_wanted ? maximum(best, value) : minimum(best, value);
            }
        }
    }
    for (; i < count; ++i) {
        const C value = widen(src[i]);
        best = maximum_wanted ? maximum(best, value) : minimum(best, value);
    }
    return narrow<T>(best);
}

// Stores a position with the bits of the element type, as the vector unit does.
template <class T>
inline void store_index(T* dst, uint32_t index)
{
    __builtin_memcpy(dst, &index, sizeof(T));
}

struct SourceStrides {
    int32_t block;
    int32_t repeat;
};

template <class T>
inline Strided<T> source(const AscendC::LocalTensor<T>& src, SourceStrides strides)
{
    return {src.Address(), static_cast<uint32_t>(strides.block), static_cast<uint32_t>(strides.repeat),
            per_repeat<T>};
}

// Result i, `stride` bytes times i behind the start.
template <class T>
inline T* result_at(const AscendC::LocalTensor<T>& dst, uint64_t repeat, uint64_t stride_bytes)
{
    return reinterpret_cast<T*>(reinterpret_cast<uint8_t*>(dst.Address()) + repeat * stride_bytes);
}

template <class T, class MaskArgument>
NPK_OUT_OF_LINE void whole_reduce_sum(const char* api, const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<T>& src,
                             bool set_mask, MaskArgument mask, int32_t repeat, int32_t dst_stride,
                             SourceStrides strides NPK_SITE)
{
    static_assert(one_of<T, half, float>, "NPK-RC08: reductions take half and float on arch 2201");
    const Instruction instruction(api, NPK_PIPE_V, Unit::kVector, NPK_AT);
    instruction.limit("repeatTime", static_cast<uint64_t>(repeat), 255);
    constexpr uint32_t elements = per_repeat<T>;
    const Repeats repeats = resolve(set_mask, mask, static_cast<uint32_t>(repeat), elements);
    const Strided<T> s = source(src, strides);
    check_strided(instruction, false, "src", src, s, repeats);
    const uint64_t stride = static_cast<uint64_t>(dst_stride) * sizeof(T);
    instruction.access(npk::kWrite, "dst", dst.Memory(), dst.Address(), sizeof(T), repeats.count,
                       static_cast<int64_t>(stride), sizeof(T) == 4 ? 2 : 1);
    if (repeats.prefix != Repeats::kBits && s.dense()) {
        for (uint32_t r = 0; r < repeats.count; ++r) {
            const uint32_t count = r + 1 == repeats.count ? repeats.last : repeats.prefix;
            *result_at(dst, r, stride) = prefix_sum<T>(s.at(r, 0), count);
        }
        return;
    }
    for (uint32_t r = 0; r < repeats.count; ++r) {
        T values[elements];
        for (T& value : values) {
            value = T(-0.0f);
        }
        const Repeats one = {repeats.mask, 1, repeats.prefix, r + 1 == repeats.count ? repeats.last : repeats.prefix};
        for_each_run(one, elements, false, [&](uint32_t, uint32_t first, uint32_t count) {
            const T* from = s.at(r, first);
            for (uint32_t i = 0; i < count; ++i) {
                values[first + i] = from[i];
            }
        });
        *result_at(dst, r, stride) = repeat_sum(values);
    }
}

template <bool maximum_wanted, class T, class MaskArgument>
NPK_OUT_OF_LINE void whole_reduce_extreme(const char* api, const AscendC::LocalTensor<T>& dst,
                                 const AscendC::LocalTensor<T>& src, bool set_mask, MaskArgument mask, int32_t repeat,
                                 int32_t dst_stride, SourceStrides strides, ReduceOrder order NPK_SITE)
{
    static_assert(one_of<T, half, float>, "NPK-RC08: reductions take half and float on arch 2201");
    const Instruction instruction(api, NPK_PIPE_V, Unit::kVector, NPK_AT);
    instruction.limit("repeatTime", static_cast<uint64_t>(repeat), 255);
    constexpr uint32_t elements = per_repeat<T>;
    const Repeats repeats = resolve(set_mask, mask, static_cast<uint32_t>(repeat), elements);
    const Strided<T> s = source(src, strides);
    check_strided(instruction, false, "src", src, s, repeats);
    const bool pair = order == ReduceOrder::ORDER_VALUE_INDEX || order == ReduceOrder::ORDER_INDEX_VALUE;
    const uint64_t unit = pair ? 2 * sizeof(T) : order == ReduceOrder::ORDER_ONLY_VALUE ? sizeof(T) : 4;
    const uint64_t stride = static_cast<uint64_t>(dst_stride) * unit;
    instruction.access(npk::kWrite, "dst", dst.Memory(), dst.Address(), unit, repeats.count, static_cast<int64_t>(stride),
                       unit == 8 ? 3 : unit == 4 ? 2 : 1);
    for (uint32_t r = 0; r < repeats.count; ++r) {
        T* out = result_at(dst, r, stride);
        const uint32_t prefix = r + 1 == repeats.count ? repeats.last : repeats.prefix;
        if (order == ReduceOrder::ORDER_ONLY_VALUE && repeats.prefix != Repeats::kBits && s.dense()) {
            *out = extreme_value<maximum_wanted>(s.at(r, 0), prefix);
            continue;
        }
        Extreme<T> best = {T(0.0f), 0};
        bool any = false;
        const Repeats one = {repeats.mask, 1, repeats.prefix, prefix};
        for_each_run(one, elements, false, [&](uint32_t, uint32_t first, uint32_t count) {
            const T* from = s.at(r, first);
            for (uint32_t i = 0; i < count; ++i) {
                take_extreme<maximum_wanted>(best, any, from[i], first + i);
            }
        });
        switch (order) {
        case ReduceOrder::ORDER_VALUE_INDEX:
            out[0] = best.value;
            store_index(out + 1, best.index);
            break;
        case ReduceOrder::ORDER_INDEX_VALUE:
            store_index(out, best.index);
            out[1] = best.value;
            break;
        case ReduceOrder::ORDER_ONLY_VALUE: out[0] = best.value; break;
        case ReduceOrder::ORDER_ONLY_INDEX: __builtin_memcpy(out, &best.index, 4); break;
        }
    }
}

enum class BlockReduction { kSum, kMax, kMin };

// One result for each block of 32 bytes; a block without a selected element leaves its result as it was.
template <BlockReduction reduction, class T, class MaskArgument>
NPK_OUT_OF_LINE void block_reduce(const char* api, const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<T>& src,
                         bool set_mask, MaskArgument mask, int32_t repeat, int32_t dst_stride,
                         SourceStrides strides NPK_SITE)
{
    static_assert(one_of<T, half, float>, "NPK-RC08: reductions take half and float on arch 2201");
    const Instruction instruction(api, NPK_PIPE_V, Unit::kVector, NPK_AT);
    instruction.limit("repeatTime", static_cast<uint64_t>(repeat), 255);
    constexpr uint32_t elements = per_repeat<T>, in_block = per_block<T>;
    const Repeats repeats = resolve(set_mask, mask, static_cast<uint32_t>(repeat), elements);
    const Strided<T> s = source(src, strides);
    check_strided(instruction, false, "src", src, s, repeats);
    const uint64_t stride = static_cast<uint64_t>(dst_stride) * 8 * sizeof(T);
    instruction.access(npk::kWrite, "dst", dst.Memory(), dst.Address(), 8 * sizeof(T), repeats.count,
                       static_cast<int64_t>(stride), sizeof(T) == 4 ? 5 : 4);
    for (uint32_t r = 0; r < repeats.count; ++r) {
        const uint32_t prefix = r + 1 == repeats.count ? repeats.last : repeats.prefix;
        T* out = result_at(dst, r, stride);
        for (uint32_t block = 0; block < 8; ++block) {
            const T* from = s.at(r, block * in_block);
            if (repeats.prefix != Repeats::kBits && prefix >= (block + 1) * in_block) {
                out[block] = reduction == BlockReduction::kSum ? block_sum(from)
                                                               : extreme_value<reduction == BlockReduction::kMax>(from, in_block);
                continue;
            }
            T values[in_block];
            Extreme<T> best = {T(0.0f), 0};
            bool any = false;
            for (uint32_t i = 0; i < in_block; ++i) {
                const uint32_t element = block * in_block + i;
                const bool selected =
                    repeats.prefix == Repeats::kBits ? repeats.mask[element] : element < prefix;
                values[i] = selected ? from[i] : T(-0.0f);
                if constexpr (reduction == BlockReduction::kSum) {
                    any |= selected;
                } else if (selected) {
                    take_extreme<reduction == BlockReduction::kMax>(best, any, from[i], i);
                }
            }
            if (any) {
                out[block] = reduction == BlockReduction::kSum ? block_sum(values) : best.value;
            }
        }
    }
}

template <class T, class MaskArgument>
NPK_OUT_OF_LINE void pair_reduce_sum(const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<T>& src, bool set_mask,
                            MaskArgument mask, int32_t repeat, int32_t dst_stride, SourceStrides strides NPK_SITE)
{
    static_assert(one_of<T, half, float>, "NPK-RC08: reductions take half and float on arch 2201");
    const Instruction instruction("PairReduceSum", NPK_PIPE_V, Unit::kVector, NPK_AT);
    instruction.limit("repeatTime", static_cast<uint64_t>(repeat), 255);
    constexpr uint32_t elements = per_repeat<T>;
    const Repeats repeats = resolve(set_mask, mask, static_cast<uint32_t>(repeat), elements);
    const Strided<T> s = source(src, strides);
    check_strided(instruction, false, "src", src, s, repeats);
    const uint64_t stride = static_cast<uint64_t>(dst_stride) * 128;
    instruction.access(npk::kWrite, "dst", dst.Memory(), dst.Address(), 128, repeats.count, static_cast<int64_t>(stride));
    for (uint32_t r = 0; r < repeats.count; ++r) {
        const uint32_t prefix = r + 1 == repeats.count ? repeats.last : repeats.prefix;
        T* out = result_at(dst, r, stride);
        for (uint32_t i = 0; i < elements; i += 2) {
            compute_type<T> sum = compute_type<T>(-0.0f);
            bool any = false;
            for (uint32_t element = i; element < i + 2; ++element) {
                if (repeats.prefix == Repeats::kBits ? repeats.mask[element] : element < prefix) {
                    sum += widen(*s.at(r, element));
                    any = true;
                }
            }
            if (any) {
                out[i / 2] = narrow<T>(sum);
            }
        }
    }
}

// Sum of consecutive elements, by repeats and then over the repeats' sums.
template <class T>
NPK_OUT_OF_LINE T total_sum(const T* src, uint32_t count)
{
    constexpr uint32_t elements = per_repeat<T>;
    if (count <= elements) {
        return prefix_sum<T>(src, count);
    }
    T* partial = reinterpret_cast<T*>(core().scratch);
    uint32_t rounds = 0;
    for (uint32_t start = 0; start < count; start += elements) {
        partial[rounds++] = prefix_sum<T>(src + start, count - start < elements ? count - start : elements);
    }
    while (rounds > 1) {
        uint32_t next = 0;
        for (uint32_t start = 0; start < rounds; start += elements) {
            partial[next++] =
                prefix_sum<T>(partial + start, rounds - start < elements ? rounds - start : elements);
        }
        rounds = next;
    }
    return partial[0];
}

// Bytes of the shared temporary buffer that ReduceSum, ReduceMax and ReduceMin document for `count` elements.
template <class T>
constexpr uint64_t reduce_workspace(uint32_t count, uint32_t results_per_repeat)
{
    const uint32_t repeats = (count + per_repeat<T> - 1) / per_repeat<T>;
    return (static_cast<uint64_t>(repeats) * results_per_repeat * sizeof(T) + 31) / 32 * 32;
}

template <bool maximum_wanted, class T>
NPK_OUT_OF_LINE void reduce_extreme(const char* api, const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<T>& src,
                           const AscendC::LocalTensor<T>& work, int32_t count, bool with_index NPK_SITE)
{
    static_assert(one_of<T, half, float>, "NPK-RC08: reductions take half and float on arch 2201");
    const Instruction instruction(api, NPK_PIPE_V, Unit::kVector, NPK_AT);
    if (count <= 0) {
        return;
    }
    const uint32_t n = static_cast<uint32_t>(count);
    instruction.in("src", src, n);
    instruction.access(npk::kWrite, "sharedTmpBuffer", work.Memory(), work.Address(), reduce_workspace<T>(n, 2));
    instruction.out("dst", dst, with_index ? 2 : 1, with_index ? (sizeof(T) == 4 ? 3 : 2) : (sizeof(T) == 4 ? 2 : 1));
    if (!with_index) {
        *dst.Address() = extreme_value<maximum_wanted>(src.Address(), n);
        return;
    }
    Extreme<T> best = {T(0.0f), 0};
    bool any = false;
    for (uint32_t i = 0; i < n; ++i) {
        take_extreme<maximum_wanted>(best, any, src.Address()[i], i);
    }
    dst.Address()[0] = best.value;
    store_index(dst.Address() + 1, best.index);
}

// Calls use(element pointer, count, position) for the selected elements of contiguous blocks; positions count repeats
// of full length.
template <class T, class MaskArgument, class Use>
inline void selected_runs(const Instruction& instruction, const AscendC::LocalTensor<T>& src, MaskArgument mask,
                          int32_t repeat, int32_t src_stride, Use use)
{
    constexpr uint32_t elements = per_repeat<T>;
    const Repeats repeats = resolve(true, mask, static_cast<uint32_t>(repeat), elements);
    const Strided<T> s = source(src, {1, src_stride});
    check_strided(instruction, false, "src", src, s, repeats);
    for_each_run(repeats, elements, true, [&](uint32_t r, uint32_t first, uint32_t count) {
        use(s.at(r, first), count, r * elements + first);
    });
}

// ReduceMax and ReduceMin over masked repeats.
template <bool maximum_wanted, class T, class MaskArgument>
inline void reduce_extreme_repeat(const char* api, const AscendC::LocalTensor<T>& dst,
                                  const AscendC::LocalTensor<T>& src, const AscendC::LocalTensor<T>& work,
                                  MaskArgument mask, int32_t repeat, int32_t src_stride, bool with_index NPK_SITE)
{
    static_assert(one_of<T, half, float>, "NPK-RC08: reductions take half and float on arch 2201");
    const Instruction instruction(api, NPK_PIPE_V, Unit::kVector, NPK_AT);
    Extreme<T> best = {T(0.0f), 0};
    bool any = false;
    selected_runs(instruction, src, mask, repeat, src_stride, [&](const T* from, uint32_t count, uint32_t position) {
        for (uint32_t i = 0; i < count; ++i) {
            take_extreme<maximum_wanted>(best, any, from[i], position + i);
        }
    });
    if (!any) {
        return;
    }
    instruction.access(kWrite, "sharedTmpBuffer", work.Memory(), work.Address(),
                       reduce_workspace<T>(static_cast<uint32_t>(repeat) * per_repeat<T>, 2));
    instruction.out("dst", dst, with_index ? 2 : 1, with_index ? (sizeof(T) == 4 ? 3 : 2) : (sizeof(T) == 4 ? 2 : 1));
    dst.Address()[0] = best.value;
    if (with_index) {
        store_index(dst.Address() + 1, best.index);
    }
}

// ReduceSum over masked repeats: each repeat's sum, then the sum of those.
template <class T, class MaskArgument>
inline void reduce_sum_repeat(const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<T>& src,
                              const AscendC::LocalTensor<T>& work, MaskArgument mask, int32_t repeat,
                              int32_t src_stride NPK_SITE)
{
    static_assert(one_of<T, half, float>, "NPK-RC08: reductions take half and float on arch 2201");
    const Instruction instruction("ReduceSum", NPK_PIPE_V, Unit::kVector, NPK_AT);
    constexpr uint32_t elements = per_repeat<T>;
    if (repeat <= 0) {
        return;
    }
    // total_sum keeps its own partial sums at the start of the scratch memory.
    T* sums = reinterpret_cast<T*>(core().scratch + core().scratch_bytes / 2);
    for (int32_t r = 0; r < repeat; ++r) {
        T values[elements];
        for (T& value : values) {
            value = T(-0.0f);
        }
        selected_runs(instruction, src[static_cast<uint32_t>(r * src_stride) * per_block<T>], mask, 1, 0,
                      [&](const T* from, uint32_t count, uint32_t position) {
                          memcpy(static_cast<void*>(values + position), from, count * sizeof(T));
                      });
        sums[r] = repeat_sum(values);
    }
    instruction.access(kWrite, "sharedTmpBuffer", work.Memory(), work.Address(),
                       reduce_workspace<T>(static_cast<uint32_t>(repeat) * elements, 1));
    instruction.out("dst", dst, 1, sizeof(T) == 4 ? 2 : 1);
    *dst.Address() = total_sum(sums, static_cast<uint32_t>(repeat));
}

} // namespace npk

namespace AscendC {

#define NPK_REPEAT_REDUCTION(NAME, BODY)                                                                      \
    template <class T, bool isSetMask = true>                                                                 \
    void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src, const int32_t mask,                       \
              const int32_t repeatTime, const int32_t dstRepStride, const int32_t srcBlkStride,               \
              const int32_t srcRepStride NPK_SITE)                                                            \
    {                                                                                                         \
        const uint64_t selected = static_cast<uint64_t>(mask);                                                \
        BODY                                                                                                  \
    }                                                                                                         \
    template <class T, bool isSetMask = true>                                                                 \
    void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src, const uint64_t mask[],                    \
              const int32_t repeatTime, const int32_t dstRepStride, const int32_t srcBlkStride,               \
              const int32_t srcRepStride NPK_SITE)                                                            \
    {                                                                                                         \
        const uint64_t* selected = mask;                                                                      \
        BODY                                                                                                  \
    }

// One sum for each repeat; dstRepStride counts elements.
NPK_REPEAT_REDUCTION(WholeReduceSum, {
    npk::whole_reduce_sum("WholeReduceSum", dst, src, isSetMask, selected, repeatTime, dstRepStride,
                          {srcBlkStride, srcRepStride} NPK_PASS);
})

// One result for each block; dstRepStride counts groups of eight results.
NPK_REPEAT_REDUCTION(BlockReduceSum, {
    npk::block_reduce<npk::BlockReduction::kSum>("BlockReduceSum", dst, src, isSetMask, selected, repeatTime,
                                                 dstRepStride, {srcBlkStride, srcRepStride} NPK_PASS);
})
NPK_REPEAT_REDUCTION(BlockReduceMax, {
    npk::block_reduce<npk::BlockReduction::kMax>("BlockReduceMax", dst, src, isSetMask, selected, repeatTime,
                                                 dstRepStride, {srcBlkStride, srcRepStride} NPK_PASS);
})
NPK_REPEAT_REDUCTION(BlockReduceMin, {
    npk::block_reduce<npk::BlockReduction::kMin>("BlockReduceMin", dst, src, isSetMask, selected, repeatTime,
                                                 dstRepStride, {srcBlkStride, srcRepStride} NPK_PASS);
})

// Sums of neighbours; dstRepStride counts groups of 128 bytes.
NPK_REPEAT_REDUCTION(PairReduceSum, {
    npk::pair_reduce_sum(dst, src, isSetMask, selected, repeatTime, dstRepStride,
                         {srcBlkStride, srcRepStride} NPK_PASS);
})
#undef NPK_REPEAT_REDUCTION

// One sum for each repeat of contiguous blocks; results stand one behind the other.
template <class T, bool isSetMask = true>
void RepeatReduceSum(const LocalTensor<T>& dst, const LocalTensor<T>& src, const int32_t repeatTime,
                     const int32_t mask, const int32_t dstBlkStride, const int32_t srcBlkStride,
                     const int32_t dstRepStride, const int32_t srcRepStride NPK_SITE)
{
    (void)dstBlkStride;
    npk::whole_reduce_sum("RepeatReduceSum", dst, src, isSetMask, static_cast<uint64_t>(mask), repeatTime,
                          dstRepStride, {srcBlkStride, srcRepStride} NPK_PASS);
}

#define NPK_EXTREME(NAME, WHOLE, MAXIMUM)                                                                     \
    template <class T, bool isSetMask = true>                                                                 \
    void WHOLE(const LocalTensor<T>& dst, const LocalTensor<T>& src, const int32_t mask,                      \
               const int32_t repeatTime, const int32_t dstRepStride, const int32_t srcBlkStride,              \
               const int32_t srcRepStride, ReduceOrder order = ReduceOrder::ORDER_VALUE_INDEX NPK_SITE)       \
    {                                                                                                         \
        npk::whole_reduce_extreme<MAXIMUM>(#WHOLE, dst, src, isSetMask, static_cast<uint64_t>(mask),          \
                                           repeatTime, dstRepStride, {srcBlkStride, srcRepStride},            \
                                           order NPK_PASS);                                                   \
    }                                                                                                         \
    template <class T, bool isSetMask = true>                                                                 \
    void WHOLE(const LocalTensor<T>& dst, const LocalTensor<T>& src, const uint64_t mask[],                   \
               const int32_t repeatTime, const int32_t dstRepStride, const int32_t srcBlkStride,              \
               const int32_t srcRepStride, ReduceOrder order = ReduceOrder::ORDER_VALUE_INDEX NPK_SITE)       \
    {                                                                                                         \
        npk::whole_reduce_extreme<MAXIMUM>(#WHOLE, dst, src, isSetMask, mask, repeatTime, dstRepStride,       \
                                           {srcBlkStride, srcRepStride}, order NPK_PASS);                     \
    }                                                                                                         \
    template <class T>                                                                                        \
    void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src,                                           \
              const LocalTensor<T>& sharedTmpBuffer, const int32_t count, bool calIndex = false NPK_SITE)     \
    {                                                                                                         \
        npk::reduce_extreme<MAXIMUM>(#NAME, dst, src, sharedTmpBuffer, count, calIndex NPK_PASS);             \
    }                                                                                                         \
    template <class T>                                                                                        \
    void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src,                                           \
              const LocalTensor<T>& sharedTmpBuffer, const int32_t mask, const int32_t repeatTime,            \
              const int32_t srcRepStride, bool calIndex = false NPK_SITE)                                     \
    {                                                                                                         \
        npk::reduce_extreme_repeat<MAXIMUM>(#NAME, dst, src, sharedTmpBuffer, static_cast<uint64_t>(mask),    \
                                            repeatTime, srcRepStride, calIndex NPK_PASS);                     \
    }                                                                                                         \
    template <class T>                                                                                        \
    void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src,                                           \
              const LocalTensor<T>& sharedTmpBuffer, const uint64_t mask[], const int32_t repeatTime,         \
              const int32_t srcRepStride, bool calIndex = false NPK_SITE)                                     \
    {                                                                                                         \
        npk::reduce_extreme_repeat<MAXIMUM>(#NAME, dst, src, sharedTmpBuffer, mask, repeatTime, srcRepStride, \
                                            calIndex NPK_PASS);                                               \
    }

NPK_EXTREME(ReduceMax, WholeReduceMax, true)
NPK_EXTREME(ReduceMin, WholeReduceMin, false)
#undef NPK_EXTREME

template <class T, bool isSetMask = true>
void ReduceSum(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<T>& sharedTmpBuffer,
               const int32_t count NPK_SITE)
{
    static_assert(npk::one_of<T, half, float>, "NPK-RC08: reductions take half and float on arch 2201");
    const npk::Instruction instruction("ReduceSum", NPK_PIPE_V, npk::Unit::kVector, NPK_AT);
    if (count <= 0) {
        return;
    }
    const uint32_t n = static_cast<uint32_t>(count);
    instruction.in("src", src, n);
    instruction.access(npk::kWrite, "sharedTmpBuffer", sharedTmpBuffer.Memory(), sharedTmpBuffer.Address(),
                       npk::reduce_workspace<T>(n, 1));
    instruction.out("dst", dst, 1, sizeof(T) == 4 ? 2 : 1);
    *dst.Address() = npk::total_sum(src.Address(), n);
}

template <class T>
void ReduceSum(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<T>& sharedTmpBuffer,
               const int32_t mask, const int32_t repeatTime, const int32_t srcRepStride NPK_SITE)
{
    npk::reduce_sum_repeat(dst, src, sharedTmpBuffer, static_cast<uint64_t>(mask), repeatTime,
                           srcRepStride NPK_PASS);
}

template <class T>
void ReduceSum(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<T>& sharedTmpBuffer,
               const uint64_t mask[], const int32_t repeatTime, const int32_t srcRepStride NPK_SITE)
{
    npk::reduce_sum_repeat(dst, src, sharedTmpBuffer, mask, repeatTime, srcRepStride NPK_PASS);
}

} // namespace AscendC

#endif
