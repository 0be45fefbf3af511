// Built kernels of this process, by the hash of their artifact, and how often each was launched.
#ifndef NPK_RUNTIME_KERNEL_STORE_H_
#define NPK_RUNTIME_KERNEL_STORE_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "npk/runtime/device_runtime.h"
#include "npk/runtime/export.h"
#include "npk/runtime/line_map.h"

namespace npk
{

// A loaded kernel. Never unloaded: an executable of XLA may outlive every Python object.
struct Kernel {
    Kernel(std::string hash, std::string name, std::unique_ptr<DeviceKernel> code, LineMap lines)
        : hash(std::move(hash)), name(std::move(name)), code(std::move(code)), lines(std::move(lines))
    {
    }

    const std::string hash;
    const std::string name;
    const std::unique_ptr<DeviceKernel> code;
    const LineMap lines;
    std::atomic<uint64_t> launches{0};
};

struct LaunchCount {
    std::string name;
    std::string hash;
    uint64_t launches;
};

class NPK_EXPORT KernelStore
{
public:
    static KernelStore& instance();
    KernelStore();

    // Adds a directory of artifacts; the newest is searched first. The caller vouches that only this user can
    // write to it, since loading an artifact runs its code.
    void add_root(const std::string& directory);
    std::vector<std::string> roots() const;

    // The kernel of an artifact; null with a coded `error` when it is missing or cannot be loaded.
    Kernel* load(const std::string& hash, const std::string& name, std::string* error);

    std::vector<LaunchCount> launches() const;
    void reset_launches();

private:
    mutable std::mutex mutex_;
    std::vector<std::string> roots_;
    std::unordered_map<std::string, std::unique_ptr<Kernel>> kernels_;
};

} // namespace npk

#endif // NPK_RUNTIME_KERNEL_STORE_H_
