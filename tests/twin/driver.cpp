// A C door to the twin's launcher, for ctypes.
#include <dlfcn.h>

#include <cstdio>
#include <cstring>

#include "npk/launch.h"

extern "C" const void* driver_load(const char* library, char* error, uint32_t capacity)
{
    void* handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) {
        snprintf(error, capacity, "%s", dlerror());
        return nullptr;
    }
    auto describe = reinterpret_cast<NpkKernelDescFn>(dlsym(handle, NPK_KERNEL_DESC_SYMBOL));
    return describe != nullptr ? describe(npk::twin::host()) : nullptr;
}

// Fault fields, each ended by a zero byte, in `report`: code, rule, core, api, memory, message.
extern "C" uint32_t driver_launch(const void* kernel, void* const* args, const uint64_t* bytes, uint32_t num_args,
                                  uint32_t blocks, char* report, uint32_t capacity, uint32_t* line)
{
    std::optional<npk::twin::Fault> found;
    const auto status = npk::twin::launch(*static_cast<const NpkKernelDesc*>(kernel),
                                          {args, bytes, num_args, blocks}, &found);
    const npk::twin::Fault fault = found.value_or(npk::twin::Fault{});
    *line = fault.line;
    uint32_t used = 0;
    for (const std::string* field : {&fault.code, &fault.rule, &fault.core, &fault.api, &fault.memory, &fault.message}) {
        if (used + field->size() + 1 < capacity) {
            memcpy(report + used, field->c_str(), field->size() + 1);
            used += static_cast<uint32_t>(field->size()) + 1;
        }
    }
    return static_cast<uint32_t>(status);
}

// Reads the thread's rounding and denormal controls, where the architecture keeps them together.
extern "C" uint64_t driver_float_controls()
{
#if defined(__x86_64__)
    return __builtin_ia32_stmxcsr();
#elif defined(__aarch64__)
    uint64_t controls;
    asm volatile("mrs %0, fpcr" : "=r"(controls));
    return controls;
#else
    return 0;
#endif
}

// Denormals to zero, as XLA's threads run.
extern "C" void driver_flush_denormals(uint32_t on)
{
#if defined(__x86_64__)
    const unsigned mask = 0x8040u;
    __builtin_ia32_ldmxcsr((__builtin_ia32_stmxcsr() & ~mask) | (on != 0 ? mask : 0));
#elif defined(__aarch64__)
    uint64_t controls;
    asm volatile("mrs %0, fpcr" : "=r"(controls));
    controls = on != 0 ? controls | (1ull << 24) : controls & ~(1ull << 24);
    asm volatile("msr fpcr, %0" : : "r"(controls));
#else
    (void)on;
#endif
}
