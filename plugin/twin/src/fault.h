// How a fault leaves a core: recorded once for the launch, then unwound as an exception that never leaves a fiber.
#ifndef NPK_TWIN_FAULT_H
#define NPK_TWIN_FAULT_H

#include "npk/abi.h"

namespace npk::twin {

// Thrown through the kernel's frames; caught where the core's fiber began.
struct CoreUnwind {};

// Records the report for the calling core's launch and unwinds the core.
[[noreturn]] void raise_fault(const NpkFaultReport& report);

} // namespace npk::twin

#endif
