// Access to the core that runs the calling code.
#ifndef NPK_CORE_H
#define NPK_CORE_H

#include "npk/abi.h"

#ifndef NPK_TWIN_CHECKED
#define NPK_TWIN_CHECKED 0
#endif

// Where the instructions of `npk/instances.h`, and the functions below NPK_HAS_BODIES, are compiled:
//   0: here, as far as this file uses them
//   1: elsewhere; this file is linked with them
//   2: part NPK_INSTANCE_PART of the instructions here, the functions with part 0
#ifndef NPK_TWIN_PREBUILT
#define NPK_TWIN_PREBUILT 0
#endif

#if NPK_TWIN_PREBUILT == 0
#define NPK_HAS_BODIES 1
#define NPK_BODY inline
#else
#define NPK_HAS_BODIES (NPK_TWIN_PREBUILT == 2 && NPK_INSTANCE_PART == 0)
#define NPK_BODY
#endif

// A function template that is compiled once for each of its types, and optimised the same way for every call, however
// large the kernel around it is.  None of them is `inline`: compilers instantiate inline functions even where
// `extern template` says that somebody else does.
#define NPK_OUT_OF_LINE __attribute__((noinline))

namespace npk {

// Set once, when the runtime asks the library for its kernel.
inline const NpkHost* host_table = nullptr;

inline NpkCore& core()
{
    return *host_table->current();
}

} // namespace npk

#endif
