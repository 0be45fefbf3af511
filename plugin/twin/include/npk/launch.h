// C++ interface of the twin's runtime: run a kernel library's kernel on the host.
#ifndef NPK_LAUNCH_H
#define NPK_LAUNCH_H

#include <cstdint>
#include <optional>
#include <string>

#include "npk/abi.h"

#define NPK_TWIN_EXPORT __attribute__((visibility("default")))

namespace npk::twin {

enum class Status : uint32_t {
    kOk = 0,
    kFault = 1,    // a core broke a rule, or all cores wait; `Fault` says what
    kInvalid = 2,  // the launch itself is wrong (argument count, ABI, number of blocks)
};

struct Fault {
    std::string code;    // "NPK-RC01"
    std::string rule;    // "ErrorRead2", ...
    std::string kernel;
    std::string core;    // "AIV 3"
    std::string api;     // Ascend C call
    std::string file;    // generated source
    uint32_t line = 0;   // 0: unknown
    std::string message; // one sentence with the numbers
    std::string memory;  // "UB", "GM", ...
    uint64_t begin = 0;  // byte range within the memory or the argument
    uint64_t end = 0;
    uint64_t limit = 0;
};

struct LaunchArgs {
    void* const* args = nullptr;         // one pointer per kernel parameter
    const uint64_t* arg_bytes = nullptr; // size of each argument; may be null in fast mode
    uint32_t num_args = 0;
    uint32_t blocks = 1;
};

// The table to pass to a library's `npk_kernel_desc`.
NPK_TWIN_EXPORT const NpkHost* host();

// Runs all blocks and returns when they ended; sets `fault` unless it returns kOk.  The calling thread takes part.  Never
// throws, never aborts.  Safe from any number of threads at once and in a forked child.
NPK_TWIN_EXPORT Status launch(const NpkKernelDesc& kernel, const LaunchArgs& launch,
                              std::optional<Fault>* fault) noexcept;

// Threads that run a launch from now on, the calling one included; 0, as at the start: as many as the process has CPUs.
NPK_TWIN_EXPORT void set_threads(uint32_t threads) noexcept;

} // namespace npk::twin

#endif
