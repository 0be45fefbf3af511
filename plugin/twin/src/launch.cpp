#include "npk/launch.h"

#include <exception>

#include "launch_state.h"
#include "thread_pool.h"

namespace npk::twin {
namespace {

constexpr uint32_t kMaxBlocks = 65535;

Status refuse(const NpkKernelDesc& kernel, std::optional<Fault>* fault, std::string message)
{
    Fault& refused = fault->emplace();
    refused.code = "NPK-RC11";
    refused.rule = "Launch";
    refused.kernel = kernel.name != nullptr ? kernel.name : "";
    refused.message = std::move(message);
    return Status::kInvalid;
}

Status run(const NpkKernelDesc& kernel, const LaunchArgs& args, std::optional<Fault>* fault)
{
    if (kernel.abi_version != NPK_ABI_VERSION) {
        return refuse(kernel, fault, "the kernel was compiled for another version of the twin; build it again");
    }
    if (args.num_args != kernel.num_args) {
        return refuse(kernel, fault,
                      "the kernel takes " + std::to_string(kernel.num_args) + " arguments, but the launch has " +
                          std::to_string(args.num_args));
    }
    if (args.blocks == 0 || args.blocks > kMaxBlocks) {
        return refuse(kernel, fault,
                      "the launch has " + std::to_string(args.blocks) + " blocks; 1 to 65535 are allowed");
    }
    if (current_slot() != nullptr) {
        return refuse(kernel, fault, "a kernel cannot launch a kernel");
    }
    ThreadPool& pool = thread_pool();
    LaunchState launch(kernel, args, args.blocks > 1 && pool.limit() != 0);
    Help help{&launch, 0};
    const bool helped = pool.request(help, args.blocks - 1);
    participate(launch, pool.slots());
    if (helped) {
        pool.finish(help);
    }
    if (launch.faulted()) {
        *fault = launch.fault();
        return Status::kFault;
    }
    return Status::kOk;
}

} // namespace

Status launch(const NpkKernelDesc& kernel, const LaunchArgs& launch_args, std::optional<Fault>* fault) noexcept
{
    try {
        return run(kernel, launch_args, fault);
    } catch (const std::exception& error) {
        return refuse(kernel, fault, error.what());
    }
}

void set_threads(uint32_t threads) noexcept
{
    choose_threads(threads);
}

} // namespace npk::twin
