// Runs an operator's kernel function from a host program, as unit tests of operator repositories do:
// GmAlloc, SetKernelMode, ICPU_SET_TILING_KEY, ICPU_RUN_KF, GmFree.
//
// The program links to the twin's runtime.  A kernel that breaks a rule throws npk::KernelError, which a test
// framework reports; the vendor's tool aborts there.
#ifndef NPK_TIKICPULIB_H
#define NPK_TIKICPULIB_H

#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <new>
#include <stdexcept>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>

#include "kernel_operator.h"

// Of the twin's runtime: 0 when the launch went well, else `message` says why.
extern "C" {
const NpkHost* npk_twin_host();
int npk_twin_launch(const NpkKernelDesc* kernel, void* const* args, const uint64_t* arg_bytes, uint32_t num_args,
                    uint32_t blocks, char* message, size_t message_bytes);
}

enum class KernelMode { MIX_MODE = 0, AIC_MODE, AIV_MODE };

namespace npk {

struct KernelError : std::runtime_error {
    using std::runtime_error::runtime_error;
};

namespace icpu {

// What the documented functions set for the next launches of this process.
struct Settings {
    KernelMode mode = KernelMode::MIX_MODE;
    uint64_t tiling_key = 0;
    std::map<const void*, uint64_t> allocations;
    std::mutex mutex;
};

inline Settings& settings()
{
    static Settings instance;
    return instance;
}

inline uint64_t allocated_bytes(const void* pointer)
{
    Settings& known = settings();
    const std::lock_guard<std::mutex> lock(known.mutex);
    const auto found = known.allocations.find(pointer);
    if (found == known.allocations.end()) {
        throw KernelError("ICPU_RUN_KF: an argument was not allocated with AscendC::GmAlloc");
    }
    return found->second;
}

inline NpkKernelType kernel_type()
{
    switch (settings().mode) {
    case KernelMode::AIV_MODE:
        return NPK_KERNEL_AIV_ONLY;
    case KernelMode::AIC_MODE:
        return NPK_KERNEL_AIC_ONLY;
    default:
        return NPK_KERNEL_MIX_AIC_1_2;
    }
}

// One launch; every core calls `entry`, which finds the callable through `function`.
template <class Function, std::size_t Count> struct Call {
    static inline const Function* function = nullptr;

    template <std::size_t... I> static void invoke(void* const* args, std::index_sequence<I...>)
    {
        (*function)(static_cast<uint8_t*>(args[I])...);
    }
    static void entry(void* const* args)
    {
        invoke(args, std::make_index_sequence<Count>());
    }
};

template <class Function, class... Args>
void run(const char* name, const Function& function, uint32_t blocks, Args... args)
{
    static std::mutex one_at_a_time;
    const std::lock_guard<std::mutex> lock(one_at_a_time);
    using Launch = Call<Function, sizeof...(Args)>;
    Launch::function = &function;
    host_table = npk_twin_host();
    constexpr uint32_t kCount = sizeof...(Args);
    void* pointers[] = {static_cast<void*>(args)...};
    const uint64_t sizes[] = {allocated_bytes(args)...};
    const NpkKernelDesc desc = {NPK_ABI_VERSION,  static_cast<uint32_t>(sizeof(NpkKernelDesc)), name, kernel_type(),
                                NPK_TWIN_CHECKED, kCount, 0, &Launch::entry};
    char message[1024] = "";
    if (npk_twin_launch(&desc, pointers, sizes, kCount, blocks, message, sizeof(message)) != 0) {
        throw KernelError(message);
    }
}

} // namespace icpu
} // namespace npk

namespace AscendC {

inline void* GmAlloc(std::size_t size)
{
    constexpr std::size_t kLine = 512;
    void* pointer = std::aligned_alloc(kLine, (size + kLine - 1) / kLine * kLine + (size == 0 ? kLine : 0));
    if (pointer == nullptr) {
        throw std::bad_alloc();
    }
    npk::icpu::Settings& known = npk::icpu::settings();
    const std::lock_guard<std::mutex> lock(known.mutex);
    known.allocations[pointer] = size;
    return pointer;
}

inline void GmFree(void* pointer)
{
    npk::icpu::Settings& known = npk::icpu::settings();
    {
        const std::lock_guard<std::mutex> lock(known.mutex);
        if (known.allocations.erase(pointer) == 0) {
            throw npk::KernelError("GmFree: the pointer was not allocated with GmAlloc, or was freed before");
        }
    }
    std::free(pointer);
}

inline void SetKernelMode(KernelMode mode)
{
    npk::icpu::settings().mode = mode;
}

} // namespace AscendC

#define ICPU_SET_TILING_KEY(key) (::npk::icpu::settings().tiling_key = (key))
#ifndef TILING_KEY_IS
#define TILING_KEY_IS(key) (::npk::icpu::settings().tiling_key == (key))
#endif
#define ICPU_RUN_KF(func, blocks, ...) ::npk::icpu::run(#func, func, (blocks), __VA_ARGS__)

#endif
