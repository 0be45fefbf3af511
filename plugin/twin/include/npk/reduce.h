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

// Sum of the selected elements of repeat `r`.
template <class T>
inline T selected_sum(const Strided<T>& s, const Repeats& repeats, uint32_t r)
{
    constexpr uint32_t elements = per_repeat<T>;
    const uint32_t prefix = r + 1 == repeats.count ? repeats.last : repeats.prefix;
    if (repeats.prefix != Repeats::kBits && s.dense()) {
        return prefix_sum<T>(s.at(r, 0), prefix);
    }
    T values[elements];
    for (T& value : values) {
        value = T(-0.0f);
    }
    const Repeats one = {repeats.mask, 1, repeats.prefix, prefix};
    for_each_run(one, elements, false, [&](uint32_t, uint32_t first, uint32_t count) {
        const T* from = s.at(r, first);
        for (uint32_t i = 0; i < count; ++i) {
            values[first + i] = from[i];
        }
    });
    return repeat_sum(values);
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
    for (uint32_t r = 0; r < repeats.count; ++r) {
        *result_at(dst, r, stride) = selected_sum(s, repeats, r);
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

// Sum of consecutive elements: the repeats' sums, added one after the other.
template <class T>
NPK_OUT_OF_LINE T running_sum(const T* src, uint32_t count)
{
    constexpr uint32_t elements = per_repeat<T>;
    T sum = prefix_sum<T>(src, count < elements ? count : elements);
    for (uint32_t start = elements; start < count; start += elements) {
        const T next = prefix_sum<T>(src + start, count - start < elements ? count - start : elements);
        sum = narrow<T>(widen(sum) + widen(next));
    }
    return sum;
}

// Sum of consecutive elements, which it overwrites: the repeats' sums are summed in the same way.
template <class T>
inline T tree_sum(T* values, uint32_t count)
{
    constexpr uint32_t elements = per_repeat<T>;
    while (count > 1) {
        uint32_t next = 0;
        for (uint32_t start = 0; start < count; start += elements) {
            values[next++] = prefix_sum<T>(values + start, count - start < elements ? count - start : elements);
        }
        count = next;
    }
    return values[0];
}

template <class T>
constexpr uint64_t whole_blocks(uint64_t elements)
{
    return (elements + per_block<T> - 1) / per_block<T> * per_block<T>;
}

// Bytes of the shared temporary buffer that is documented for ReduceMax and ReduceMin.
template <class T>
constexpr uint64_t extreme_workspace(uint64_t repeats, bool with_index)
{
    uint64_t results = 2 * repeats, elements = whole_blocks<T>(results);
    // Positions are found by going back through the results of every round.
    for (uint32_t round = 2; with_index && round <= 3 && results > 2; ++round) {
        results = 2 * ((results + per_repeat<T> - 1) / per_repeat<T>);
        elements += whole_blocks<T>(results);
    }
    return elements * sizeof(T);
}

// As documented, `count` elements are this many repeats of the first round.
template <class T>
constexpr uint32_t first_repeats(uint32_t count)
{
    return count < per_repeat<T> ? 1 : count / per_repeat<T>;
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
    instruction.access(npk::kWrite, "sharedTmpBuffer", work.Memory(), work.Address(),
                       extreme_workspace<T>(first_repeats<T>(n), with_index));
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

// ReduceMax and ReduceMin over masked repeats; positions count repeats of full length.
template <bool maximum_wanted, class T, class MaskArgument>
NPK_OUT_OF_LINE void reduce_extreme_repeat(const char* api, const AscendC::LocalTensor<T>& dst,
                                  const AscendC::LocalTensor<T>& src, const AscendC::LocalTensor<T>& work,
                                  MaskArgument mask, int32_t repeat, int32_t src_stride, bool with_index NPK_SITE)
{
    static_assert(one_of<T, half, float>, "NPK-RC08: reductions take half and float on arch 2201");
    const Instruction instruction(api, NPK_PIPE_V, Unit::kVector, NPK_AT);
    constexpr uint32_t elements = per_repeat<T>;
    const Repeats repeats = resolve(true, mask, static_cast<uint32_t>(repeat < 0 ? 0 : repeat), elements);
    if (repeats.count == 0) {
        return;
    }
    const Strided<T> s = source(src, {1, src_stride});
    check_strided(instruction, false, "src", src, s, repeats);
    instruction.access(kWrite, "sharedTmpBuffer", work.Memory(), work.Address(),
                       extreme_workspace<T>(repeats.count, with_index));
    instruction.out("dst", dst, with_index ? 2 : 1, with_index ? (sizeof(T) == 4 ? 3 : 2) : (sizeof(T) == 4 ? 2 : 1));
    Extreme<T> best = {T(0.0f), 0};
    bool any = false;
    for_each_run(repeats, elements, true, [&](uint32_t r, uint32_t first, uint32_t count) {
        const T* from = s.at(r, first);
        for (uint32_t i = 0; i < count; ++i) {
            take_extreme<maximum_wanted>(best, any, from[i], r * elements + first + i);
        }
    });
    dst.Address()[0] = best.value;
    if (with_index) {
        store_index(dst.Address() + 1, best.index);
    }
}

// ReduceSum over masked repeats: each repeat's sum, then the sum of those, as a tree.
template <class T, class MaskArgument>
NPK_OUT_OF_LINE void reduce_sum_repeat(const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<T>& src,
                              const AscendC::LocalTensor<T>& work, MaskArgument mask, int32_t repeat,
                              int32_t src_stride NPK_SITE)
{
    static_assert(one_of<T, half, float>, "NPK-RC08: reductions take half and float on arch 2201");
    const Instruction instruction("ReduceSum", NPK_PIPE_V, Unit::kVector, NPK_AT);
    const Repeats repeats =
        resolve(true, mask, static_cast<uint32_t>(repeat < 0 ? 0 : repeat), per_repeat<T>);
    if (repeats.count == 0) {
        return;
    }
    const uint64_t bytes = whole_blocks<T>(repeats.count) * sizeof(T);
    if (bytes > core().capacity[NPK_MEM_UB]) {
        raise(kCapacity, "WorkSize", "ReduceSum", NPK_AT, "%u repeats need a sharedTmpBuffer of %llu bytes",
              repeats.count, static_cast<unsigned long long>(bytes));
    }
    const Strided<T> s = source(src, {1, src_stride});
    check_strided(instruction, false, "src", src, s, repeats);
    instruction.access(kWrite, "sharedTmpBuffer", work.Memory(), work.Address(), bytes);
    instruction.out("dst", dst, 1, sizeof(T) == 4 ? 2 : 1);
    T* sums = reinterpret_cast<T*>(core().scratch);
    for (uint32_t r = 0; r < repeats.count; ++r) {
        sums[r] = selected_sum(s, repeats, r);
    }
    *dst.Address() = tree_sum(sums, repeats.count);
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
    (void)sharedTmpBuffer; // not used on arch 2201
    const npk::Instruction instruction("ReduceSum", NPK_PIPE_V, npk::Unit::kVector, NPK_AT);
    instruction.require(isSetMask || npk::core().mask_mode == 1, "MaskMode",
                        "isSetMask = false takes the number of elements from SetVectorMask in counter mode");
    const uint32_t n = isSetMask ? static_cast<uint32_t>(count < 0 ? 0 : count) : static_cast<uint32_t>(npk::core().mask[0]);
    if (n == 0) {
        return;
    }
    instruction.in("src", src, n);
    instruction.out("dst", dst, 1, sizeof(T) == 4 ? 2 : 1);
    *dst.Address() = npk::running_sum(src.Address(), n);
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
