// The instructions that generated kernels are made of, each for the element types it is generated with.
//
// Compiling these takes most of a kernel's build.  They are therefore compiled once for each host compiler, as
// NPK_INSTANCE_PARTS translation units that a toolchain can compile at the same time, and linked to every kernel
// (NPK_TWIN_PREBUILT in core.h).  Other instructions and types are compiled where they are used.
#ifndef NPK_INSTANCES_H
#define NPK_INSTANCES_H

#define NPK_INSTANCE_PARTS 2

#if NPK_TWIN_PREBUILT == 1
#define NPK_INSTANCE extern template void
#define NPK_IN_PART(part) 1
#else
#define NPK_INSTANCE template void
#define NPK_IN_PART(part) (NPK_INSTANCE_PART == (part))
#endif

#if NPK_TWIN_CHECKED
#define NPK_AND_SITE , ::npk::Site
#else
#define NPK_AND_SITE
#endif

#define NPK_LOCAL(T) const LocalTensor<T>&
#define NPK_GLOBAL(T) const GlobalTensor<T>&

namespace AscendC {

#if NPK_IN_PART(0)

#define NPK_COUNTED(NAME, T)                                                                                  \
    NPK_INSTANCE NAME<T>(NPK_LOCAL(T), NPK_LOCAL(T), NPK_LOCAL(T), const int32_t& NPK_AND_SITE);
#define NPK_REPEATED(NAME, T)                                                                                 \
    NPK_INSTANCE NAME<T, true>(NPK_LOCAL(T), NPK_LOCAL(T), NPK_LOCAL(T), uint64_t, const uint8_t,             \
                               const BinaryRepeatParams& NPK_AND_SITE);
#define NPK_ARITHMETIC(NAME, T) NPK_COUNTED(NAME, T) NPK_REPEATED(NAME, T)

NPK_ARITHMETIC(Add, float)
NPK_ARITHMETIC(Add, int32_t)
NPK_ARITHMETIC(Sub, float)
NPK_ARITHMETIC(Sub, int32_t)
NPK_ARITHMETIC(Mul, float)
NPK_ARITHMETIC(Mul, int32_t)
NPK_ARITHMETIC(Div, float)
NPK_ARITHMETIC(Max, float)
NPK_ARITHMETIC(Max, int32_t)
NPK_ARITHMETIC(Min, float)
NPK_ARITHMETIC(Min, int32_t)
NPK_COUNTED(And, uint16_t)
NPK_COUNTED(Or, uint16_t)

#undef NPK_COUNTED
#undef NPK_REPEATED
#undef NPK_ARITHMETIC

#define NPK_UNARY_COUNTED(NAME, T)                                                                            \
    NPK_INSTANCE NAME<T>(NPK_LOCAL(T), NPK_LOCAL(T), const int32_t& NPK_AND_SITE);
#define NPK_SCALAR_COUNTED(NAME, T)                                                                           \
    NPK_INSTANCE NAME<T, true>(NPK_LOCAL(T), NPK_LOCAL(T), const T&, const int32_t& NPK_AND_SITE);

NPK_UNARY_COUNTED(Exp, float)
NPK_UNARY_COUNTED(Ln, float)
NPK_UNARY_COUNTED(Sqrt, float)
NPK_UNARY_COUNTED(Abs, float)
NPK_UNARY_COUNTED(Not, uint16_t)
NPK_SCALAR_COUNTED(Adds, float)
NPK_SCALAR_COUNTED(Adds, int32_t)
NPK_SCALAR_COUNTED(Muls, float)
NPK_SCALAR_COUNTED(Muls, int32_t)
NPK_SCALAR_COUNTED(Maxs, float)
NPK_SCALAR_COUNTED(Maxs, int32_t)
NPK_SCALAR_COUNTED(Mins, float)
NPK_SCALAR_COUNTED(Mins, int32_t)

#undef NPK_UNARY_COUNTED
#undef NPK_SCALAR_COUNTED

#define NPK_DUPLICATE(T) NPK_INSTANCE Duplicate<T>(NPK_LOCAL(T), const T&, const int32_t& NPK_AND_SITE);

NPK_DUPLICATE(float)
NPK_DUPLICATE(half)
NPK_DUPLICATE(bfloat16_t)
NPK_DUPLICATE(int32_t)
NPK_INSTANCE Duplicate<float, true>(NPK_LOCAL(float), const float&, uint64_t, const uint8_t, const uint16_t,
                                    const uint8_t NPK_AND_SITE);
NPK_INSTANCE Duplicate<float, true>(NPK_LOCAL(float), const float&, uint64_t[], const uint8_t, const uint16_t,
                                    const uint8_t NPK_AND_SITE);
NPK_INSTANCE CreateVecIndex<int32_t>(LocalTensor<int32_t>, const int32_t&, uint32_t NPK_AND_SITE);
NPK_INSTANCE Brcb<float>(NPK_LOCAL(float), NPK_LOCAL(float), const uint8_t, const BrcbRepeatParams& NPK_AND_SITE);
NPK_INSTANCE Brcb<int32_t>(NPK_LOCAL(int32_t), NPK_LOCAL(int32_t), const uint8_t,
                           const BrcbRepeatParams& NPK_AND_SITE);
NPK_INSTANCE Copy<float, true>(NPK_LOCAL(float), NPK_LOCAL(float), const uint64_t, const uint8_t,
                               const CopyRepeatParams& NPK_AND_SITE);

#undef NPK_DUPLICATE

#define NPK_WHOLE_REDUCE(NAME, ...)                                                                           \
    NPK_INSTANCE NAME<float, true>(NPK_LOCAL(float), NPK_LOCAL(float), const int32_t, const int32_t,          \
                                   const int32_t, const int32_t, const int32_t __VA_ARGS__ NPK_AND_SITE);

NPK_WHOLE_REDUCE(WholeReduceSum)
NPK_WHOLE_REDUCE(WholeReduceMax, , ReduceOrder)
NPK_WHOLE_REDUCE(WholeReduceMin, , ReduceOrder)

#undef NPK_WHOLE_REDUCE

#endif // part 0

#if NPK_IN_PART(1)

#define NPK_CAST(TO, FROM)                                                                                    \
    NPK_INSTANCE Cast<TO, FROM>(NPK_LOCAL(TO), NPK_LOCAL(FROM), const RoundMode&, const uint32_t NPK_AND_SITE);

NPK_CAST(float, half)
NPK_CAST(half, float)
NPK_CAST(float, bfloat16_t)
NPK_CAST(bfloat16_t, float)
NPK_CAST(float, int32_t)
NPK_CAST(int32_t, float)
NPK_CAST(half, uint8_t)
NPK_CAST(uint8_t, half)

#undef NPK_CAST

#define NPK_COMPARE(T)                                                                                        \
    NPK_INSTANCE Compare<T, uint8_t>(NPK_LOCAL(uint8_t), NPK_LOCAL(T), NPK_LOCAL(T), CMPMODE,                 \
                                     uint32_t NPK_AND_SITE);                                                  \
    NPK_INSTANCE CompareScalar<T, uint8_t>(NPK_LOCAL(uint8_t), NPK_LOCAL(T), const T, CMPMODE,                \
                                           uint32_t NPK_AND_SITE);

NPK_COMPARE(float)
NPK_COMPARE(int32_t)
NPK_INSTANCE Select<float, uint8_t>(NPK_LOCAL(float), NPK_LOCAL(uint8_t), NPK_LOCAL(float), float, SELMODE,
                                    uint32_t NPK_AND_SITE);
NPK_INSTANCE Select<float, uint8_t>(NPK_LOCAL(float), NPK_LOCAL(uint8_t), NPK_LOCAL(float), NPK_LOCAL(float),
                                    SELMODE, uint32_t NPK_AND_SITE);

#undef NPK_COMPARE

#define NPK_MOVE(T)                                                                                           \
    NPK_INSTANCE DataCopyPad<T>(NPK_LOCAL(T), NPK_GLOBAL(T), const DataCopyExtParams&,                        \
                                const DataCopyPadExtParams<T>& NPK_AND_SITE);                                 \
    NPK_INSTANCE DataCopyPad<T>(NPK_GLOBAL(T), NPK_LOCAL(T), const DataCopyExtParams& NPK_AND_SITE);
#define NPK_INSIDE(T) NPK_INSTANCE DataCopy<T>(NPK_LOCAL(T), NPK_LOCAL(T), const uint32_t NPK_AND_SITE);

NPK_MOVE(float)
NPK_MOVE(half)
NPK_MOVE(bfloat16_t)
NPK_MOVE(int32_t)
NPK_MOVE(uint8_t)
NPK_INSIDE(float)
NPK_INSIDE(half)
NPK_INSIDE(int32_t)
NPK_INSIDE(uint16_t)

#undef NPK_MOVE
#undef NPK_INSIDE

#define NPK_MATRIX(T)                                                                                         \
    NPK_INSTANCE DataCopy<T>(NPK_LOCAL(T), NPK_GLOBAL(T), const Nd2NzParams& NPK_AND_SITE);                   \
    NPK_INSTANCE InitConstValue<T>(NPK_LOCAL(T), const InitConstValueParams<T>& NPK_AND_SITE);                \
    NPK_INSTANCE LoadData<T>(NPK_LOCAL(T), NPK_LOCAL(T), const LoadData2DParams& NPK_AND_SITE);               \
    NPK_INSTANCE Mmad<float, T, T>(NPK_LOCAL(float), NPK_LOCAL(T), NPK_LOCAL(T), const MmadParams& NPK_AND_SITE);

NPK_MATRIX(float)
NPK_MATRIX(half)
NPK_MATRIX(bfloat16_t)
NPK_INSTANCE LoadDataWithTranspose<float>(NPK_LOCAL(float), NPK_LOCAL(float),
                                          const LoadData2dTransposeParams& NPK_AND_SITE);
NPK_INSTANCE Fixpipe<float, float, CFG_ROW_MAJOR>(NPK_GLOBAL(float), NPK_LOCAL(float),
                                                  const FixpipeParamsV220& NPK_AND_SITE);

#undef NPK_MATRIX

#endif // part 1

} // namespace AscendC

#undef NPK_INSTANCE
#undef NPK_IN_PART
#undef NPK_AND_SITE
#undef NPK_LOCAL
#undef NPK_GLOBAL

#endif
