#include "npk/runtime/call.h"

#include <pthread.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <memory>
#include <new>
#include <utility>

#include "npk/runtime/fault_store.h"
#include "npk/runtime/workspace.h"

namespace npk
{
namespace
{

std::atomic<uint64_t> next_launch{1};

// Arguments of nearly every kernel fit on the stack; the rest pay for one allocation.
constexpr uint32_t kInline = 32;

template <typename T>
class ArgArray
{
public:
    explicit ArgArray(uint32_t size)
    {
        if (size > kInline) many_ = std::make_unique<T[]>(size);
    }
    T* data() { return many_ ? many_.get() : few_.data(); }

private:
    std::array<T, kInline> few_;
    std::unique_ptr<T[]> many_;
};

} // namespace

Call::Call(Kernel& kernel, uint32_t blocks, size_t workspace_bytes, const std::string& tiling)
    : kernel_(kernel), blocks_(blocks), workspace_bytes_(workspace_bytes), tiling_bytes_(tiling.size())
{
    if (tiling.empty()) return;
    tiling_ = twin_runtime().allocate(tiling.size());
    if (tiling_ == nullptr) throw std::bad_alloc();
    std::memcpy(tiling_, tiling.data(), tiling.size());
}

Call::~Call()
{
    if (tiling_ != nullptr) twin_runtime().release(tiling_);
}

bool Call::launch(void* const* arrays, const uint64_t* bytes, uint32_t num_inputs, uint32_t num_outputs,
                  std::string* message)
{
    const uint32_t num_arrays = num_inputs + num_outputs;
    const uint32_t num_args = num_arrays + 2; // workspace and tiling follow the arrays
    const uint64_t launch_id = next_launch.fetch_add(1, std::memory_order_relaxed);
    if (num_args != kernel_.code->num_args()) {
        return refuse("takes " + std::to_string(kernel_.code->num_args()) +
                          " arguments, workspace and tiling included, but was given " + std::to_string(num_args),
                      launch_id, message);
    }
    ArgArray<void*> args(num_args);
    ArgArray<uint64_t> arg_bytes(num_args);
    const WorkspaceCache::Block workspace = workspaces().borrow(workspace_bytes_);
    if (workspace.memory == nullptr && workspace_bytes_ != 0) {
        return refuse("no memory for its workspace of " + std::to_string(workspace_bytes_) + " bytes", launch_id,
                      message);
    }
    std::copy_n(arrays, num_arrays, args.data());
    std::copy_n(bytes, num_arrays, arg_bytes.data());
    args.data()[num_arrays] = workspace.memory;
    arg_bytes.data()[num_arrays] = workspace_bytes_;
    args.data()[num_arrays + 1] = tiling_;
    arg_bytes.data()[num_arrays + 1] = tiling_bytes_;

    kernel_.launches.fetch_add(1, std::memory_order_relaxed);
    std::optional<Fault> fault;
    const bool ok = twin_runtime().launch(
        *kernel_.code, {args.data(), arg_bytes.data(), num_args, num_inputs, num_outputs, blocks_}, &fault);
    workspaces().give_back(workspace);
    if (ok) return true;
    fault->kernel = kernel_.name;
    return fail(std::move(*fault), launch_id, message);
}

bool Call::refuse(std::string reason, uint64_t launch_id, std::string* message) const
{
    Fault fault;
    fault.code = "NPK-RC11";
    fault.kernel = kernel_.name;
    fault.message = std::move(reason);
    return fail(std::move(fault), launch_id, message);
}

bool Call::fail(Fault fault, uint64_t launch_id, std::string* message) const
{
    FaultRecord record;
    record.python_location = kernel_.lines.python_location(fault.line);
    record.fault = std::move(fault);
    record.launch_id = launch_id;
    record.thread = static_cast<uint64_t>(pthread_self());
    *message = record.message();
    FaultStore::instance().add(std::move(record));
    return false;
}

} // namespace npk
