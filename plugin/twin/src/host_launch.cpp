// The C boundary for host programs that launch kernels they contain, such as unit tests (tikicpulib.h).
#include <cstdio>

#include "npk/launch.h"

extern "C" __attribute__((visibility("default"))) const NpkHost* npk_twin_host()
{
    return npk::twin::host();
}

extern "C" __attribute__((visibility("default"))) int npk_twin_launch(const NpkKernelDesc* kernel, void* const* args,
                                                                      const uint64_t* arg_bytes, uint32_t num_args,
                                                                      uint32_t blocks, char* message,
                                                                      size_t message_bytes)
{
    npk::twin::Fault fault;
    const npk::twin::LaunchArgs launch = {args, arg_bytes, num_args, blocks};
    const npk::twin::Status status = npk::twin::launch(*kernel, launch, &fault);
    if (status != npk::twin::Status::kOk) {
        std::snprintf(message, message_bytes, "%s: %s (%s, %s, line %u)", fault.code.c_str(), fault.message.c_str(),
                      fault.kernel.c_str(), fault.core.c_str(), fault.line);
    }
    return static_cast<int>(status);
}
