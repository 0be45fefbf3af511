// One kernel with everything a launch needs besides its arrays.
#ifndef NPK_RUNTIME_CALL_H_
#define NPK_RUNTIME_CALL_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "npk/runtime/export.h"
#include "npk/runtime/kernel_store.h"

namespace npk
{

class NPK_EXPORT Call
{
public:
    Call(Kernel& kernel, uint32_t blocks, size_t workspace_bytes, const std::string& tiling);
    ~Call();
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;

    const Kernel& kernel() const noexcept { return kernel_; }

    // Runs the kernel on `num_inputs + num_outputs` arrays and blocks until it ended. Threads may share a call.
    // False with `message` (first line starts with the code) when it faulted; the report is in the FaultStore.
    bool launch(void* const* arrays, const uint64_t* bytes, uint32_t num_inputs, uint32_t num_outputs,
                std::string* message);

private:
    bool refuse(std::string reason, uint64_t launch_id, std::string* message) const;
    bool fail(Fault fault, uint64_t launch_id, std::string* message) const;

    Kernel& kernel_;
    const uint32_t blocks_;
    const size_t workspace_bytes_;
    void* tiling_ = nullptr;
    const uint64_t tiling_bytes_;
};

} // namespace npk

#endif // NPK_RUNTIME_CALL_H_
