// Access to the core that runs the calling code.
#ifndef NPK_CORE_H
#define NPK_CORE_H

#include "npk/abi.h"

#ifndef NPK_TWIN_CHECKED
#define NPK_TWIN_CHECKED 0
#endif

namespace npk {

// Set once, when the runtime asks the library for its kernel.
inline const NpkHost* host_table = nullptr;

inline NpkCore& core()
{
    return *host_table->current();
}

} // namespace npk

#endif
