// Access to the core that runs the calling code.
#ifndef NPK_CORE_H
#define NPK_CORE_H

#include "npk/abi.h"

#ifndef NPK_TWIN_CHECKED
#define NPK_TWIN_CHECKED 0
#endif

// A function with a loop of its own is compiled once and optimised the same way for every call, however large the
// kernel around it is.
#define NPK_OUT_OF_LINE __attribute__((noinline)) inline

namespace npk {

// Set once, when the runtime asks the library for its kernel.
inline const NpkHost* host_table = nullptr;

inline NpkCore& core()
{
    return *host_table->current();
}

} // namespace npk

#endif
