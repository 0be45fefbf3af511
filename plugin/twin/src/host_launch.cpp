// The C boundary for host programs that launch kernels they contain, such as unit tests (tikicpulib.h).
#include <cstdio>
#include <cstdlib>

#include "npk/launch.h"

namespace {

// These programs have no Python that reads the variable for them.  False when its value cannot be used.
bool read_threads(const char* text)
{
    if (text == nullptr || *text == '\0') {
        return true;
    }
    char* end = nullptr;
    const long value = std::strtol(text, &end, 10);
    if (*end != '\0' || value < 1 || value > 4096) {
        return false;
    }
    npk::twin::set_threads(static_cast<uint32_t>(value));
    return true;
}

} // namespace

extern "C" __attribute__((visibility("default"))) const NpkHost* npk_twin_host()
{
    return npk::twin::host();
}

extern "C" __attribute__((visibility("default"))) int npk_twin_launch(const NpkKernelDesc* kernel, void* const* args,
                                                                      const uint64_t* arg_bytes, uint32_t num_args,
                                                                      uint32_t blocks, char* message,
                                                                      size_t message_bytes)
{
    if (const char* threads = std::getenv("NPU_KERNELS_THREADS"); !read_threads(threads)) {
        std::snprintf(message, message_bytes,
                      "NPK-KN01: NPU_KERNELS_THREADS=%s cannot be used: expected a whole number from 1 to 4096", threads);
        return static_cast<int>(npk::twin::Status::kInvalid);
    }
    std::optional<npk::twin::Fault> fault;
    const npk::twin::LaunchArgs launch = {args, arg_bytes, num_args, blocks};
    const npk::twin::Status status = npk::twin::launch(*kernel, launch, &fault);
    if (status != npk::twin::Status::kOk) {
        std::snprintf(message, message_bytes, "%s: %s (%s, %s, line %u)", fault->code.c_str(), fault->message.c_str(),
                      fault->kernel.c_str(), fault->core.c_str(), fault->line);
    }
    return static_cast<int>(status);
}
