// What a kernel asks about itself: core index, kernel type, workspace, tiling, output for debugging.
#ifndef NPK_SYSTEM_H
#define NPK_SYSTEM_H

#include <cstring>

#include "npk/check.h"

// On the chip each branch is compiled for its own core; here one text serves both.
#define ASCEND_IS_AIC (::npk::core().kind == NPK_CORE_AIC)
#define ASCEND_IS_AIV (::npk::core().kind == NPK_CORE_AIV)

// The kernel type is given once, to NPK_TWIN_ENTRY; the macro in the text must name an existing type.
enum KernelMetaType : uint8_t {
    KERNEL_TYPE_AIV_ONLY,
    KERNEL_TYPE_AIC_ONLY,
    KERNEL_TYPE_MIX_AIV_1_0,
    KERNEL_TYPE_MIX_AIC_1_0,
    KERNEL_TYPE_MIX_AIC_1_1,
    KERNEL_TYPE_MIX_AIC_1_2,
};
#define KERNEL_TASK_TYPE_DEFAULT(value) static_assert((value) <= KERNEL_TYPE_MIX_AIC_1_2, "unknown kernel type")

// Tiling structures travel as plain bytes in the argument `tiling`.
#define REGISTER_TILING_DEFAULT(type)                                                                         \
    static_assert(std::is_trivially_copyable_v<type>, "a tiling structure is copied as bytes")
#define GET_TILING_DATA_WITH_STRUCT(type, name, tiling)                                                       \
    type name;                                                                                                \
    ::npk::copy_tiling(&name, (tiling), sizeof(type) NPK_TILING_SITE)
#if NPK_TWIN_CHECKED
#define NPK_TILING_SITE , ::npk::Site::here(__FILE__, __LINE__)
#else
#define NPK_TILING_SITE
#endif

namespace npk {

__attribute__((noinline)) inline void copy_tiling(void* destination, const uint8_t* tiling, std::size_t bytes NPK_SITE)
{
    const Instruction instruction("GET_TILING_DATA_WITH_STRUCT", NPK_PIPE_S, Unit::kScalar, NPK_AT);
    instruction.access(npk::kRead, "tiling", NPK_MEM_GM, tiling, bytes);
    memcpy(destination, tiling, bytes);
}

} // namespace npk

namespace AscendC {

inline int64_t GetBlockIdx()
{
    return npk::core().block_idx;
}

inline int64_t GetBlockNum()
{
    return npk::core().block_num;
}

inline int64_t GetSubBlockIdx()
{
    return npk::core().sub_block_idx;
}

// Cores of this kind for each logical core.
inline int64_t GetTaskRatio()
{
    return npk::core().kind == NPK_CORE_AIV ? npk::core().ratio : 1;
}

inline int64_t GetTaskRation()
{
    return GetTaskRatio();
}

inline int64_t GetSubBlockNum()
{
    return npk::core().ratio;
}

// The workspace argument starts with the user's part: the twin reserves nothing in front of it.
inline GM_ADDR GetUserWorkspace(GM_ADDR workspace)
{
    return workspace;
}

inline void SetSysWorkspace(GM_ADDR workspace)
{
    npk::core().workspace = workspace;
}

inline GM_ADDR GetSysWorkSpacePtr()
{
    return npk::core().workspace;
}

__attribute__((format(printf, 1, 2))) inline void PRINTF(const char* format, ...)
{
    char text[1024];
    va_list values;
    va_start(values, format);
    const int length = vsnprintf(text, sizeof(text), format, values);
    va_end(values);
    if (length > 0) {
        const std::size_t bytes = static_cast<std::size_t>(length);
        npk::host_table->print(text, bytes < sizeof(text) ? bytes : sizeof(text) - 1);
    }
}

template <class... Values>
inline void printf(const char* format, Values... values)
{
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-security"
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    PRINTF(format, values...);
#pragma GCC diagnostic pop
}

} // namespace AscendC

#endif
