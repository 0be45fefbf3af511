// Turns an Ascend C kernel function into a kernel library: NPK_TWIN_ENTRY(name, number of arguments, type).
#ifndef NPK_ENTRY_H
#define NPK_ENTRY_H

#include <cstddef>
#include <utility>

#include "npk/abi.h"
#include "npk/queue.h"

namespace npk {

template <class... Args, std::size_t... I>
inline void call_kernel(void (*kernel)(Args...), void* const* args, std::index_sequence<I...>)
{
    kernel(static_cast<Args>(args[I])...);
}

template <class... Args>
constexpr std::size_t count_arguments(void (*)(Args...))
{
    return sizeof...(Args);
}

} // namespace npk

#if defined(_WIN32)
#error "the twin needs a POSIX host"
#endif

#define NPK_TWIN_ENTRY(NAME, NUM_ARGS, TYPE)                                                                  \
    static_assert(::npk::count_arguments(&NAME) == (NUM_ARGS), "argument count of the kernel " #NAME);         \
    static void npk_entry_##NAME(void* const* args)                                                           \
    {                                                                                                         \
        ::npk::call_kernel(&NAME, args, std::make_index_sequence<(NUM_ARGS)>());                              \
    }                                                                                                         \
    extern "C" __attribute__((visibility("default"))) const NpkKernelDesc* npk_kernel_desc(const NpkHost* host) \
    {                                                                                                         \
        if (host == nullptr || host->abi_version != NPK_ABI_VERSION || host->struct_size < sizeof(NpkHost)) { \
            return nullptr;                                                                                   \
        }                                                                                                     \
        ::npk::host_table = host;                                                                             \
        static const NpkKernelDesc desc = {NPK_ABI_VERSION,                                                   \
                                           static_cast<uint32_t>(sizeof(NpkKernelDesc)),                      \
                                           #NAME,                                                             \
                                           NPK_KERNEL_##TYPE,                                                 \
                                           NPK_TWIN_CHECKED,                                                  \
                                           (NUM_ARGS),                                                        \
                                           0,                                                                 \
                                           &npk_entry_##NAME};                                                \
        return &desc;                                                                                         \
    }

#endif
