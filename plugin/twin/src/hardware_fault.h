// A core that touches memory it does not have (its stack's end included), divides by zero or traps ends with a fault
// instead of the process.
#ifndef NPK_TWIN_HARDWARE_FAULT_H
#define NPK_TWIN_HARDWARE_FAULT_H

namespace npk::twin {

class CoreSlot;

// Prepares the calling thread, and the process the first time.
void expect_hardware_faults();

// After a core's fiber came back: records the fault when a signal ended it.
void report_hardware_fault(CoreSlot& slot);

} // namespace npk::twin

#endif
