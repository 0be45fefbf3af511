// What the rest of the project needs from a device: load a kernel library, launch it, hold memory.
// The twin implements it on the host; a chip's runtime is another implementation of the same class.
#ifndef NPK_RUNTIME_DEVICE_RUNTIME_H_
#define NPK_RUNTIME_DEVICE_RUNTIME_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace npk
{

// A fault found while a kernel ran. `line` is a line of the generated source, 0 when unknown.
struct Fault {
    std::string code;
    std::string kernel;
    std::string core;
    std::string message;
    uint32_t line = 0;
    std::vector<std::pair<std::string, std::string>> details;
};

// A kernel library as its device knows it.
class DeviceKernel
{
public:
    virtual ~DeviceKernel() = default;
    virtual const char* entry() const noexcept = 0;
    virtual uint32_t num_args() const noexcept = 0;
    virtual bool checked() const noexcept = 0;
};

// One launch. Arguments are inputs, outputs, workspace, tiling, in the order of the kernel's signature;
// `arg_bytes[i]` is the size of what `args[i]` points to.
struct LaunchArgs {
    void* const* args = nullptr;
    const uint64_t* arg_bytes = nullptr;
    uint32_t num_args = 0;
    uint32_t num_inputs = 0;
    uint32_t num_outputs = 0;
    uint32_t blocks = 1;
};

class DeviceRuntime
{
public:
    virtual ~DeviceRuntime() = default;
    virtual const char* name() const noexcept = 0;

    // Null with `error` set when the library is not one of this device and this version.
    virtual std::unique_ptr<DeviceKernel> load(const std::string& library, std::string* error) = 0;

    // Blocks until the kernel ended. False with `fault` set when it faulted.
    virtual bool launch(const DeviceKernel& kernel, const LaunchArgs& args, std::optional<Fault>* fault) noexcept = 0;

    // Device memory aligned for every instruction; null when there is none left.
    virtual void* allocate(size_t bytes) noexcept = 0;
    virtual void release(void* memory) noexcept = 0;
};

// The twin of this process.
DeviceRuntime& twin_runtime();

} // namespace npk

#endif // NPK_RUNTIME_DEVICE_RUNTIME_H_
