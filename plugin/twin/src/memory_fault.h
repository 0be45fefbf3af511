// A core that touches memory it does not have, its stack's end included, ends with a fault instead of the process.
#ifndef NPK_TWIN_MEMORY_FAULT_H
#define NPK_TWIN_MEMORY_FAULT_H

namespace npk::twin {

class CoreSlot;

// Prepares the calling thread, and the process the first time; undone when the object goes.
class MemoryFaultGuard {
public:
    MemoryFaultGuard();
    ~MemoryFaultGuard();
    MemoryFaultGuard(const MemoryFaultGuard&) = delete;
    MemoryFaultGuard& operator=(const MemoryFaultGuard&) = delete;

private:
    bool own_stack_ = false;
};

// After a core's fiber came back: records the fault when a memory fault ended it.
void report_memory_fault(CoreSlot& slot);

} // namespace npk::twin

#endif
