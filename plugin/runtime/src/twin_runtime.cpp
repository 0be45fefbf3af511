// The twin as a device: kernel libraries are host code, device memory is host memory.
#include <dlfcn.h>

#include <cstdlib>
#include <new>
#include <utility>

#include "npk/abi.h"
#include "npk/launch.h"
#include "npk/runtime/device_runtime.h"

namespace npk
{
namespace
{

// The coarsest start alignment an instruction asks of global memory, and a whole number of cache lines.
constexpr size_t kAlignment = 512;

class TwinKernel final : public DeviceKernel
{
public:
    explicit TwinKernel(const NpkKernelDesc& desc) : desc_(desc) {}
    const char* entry() const noexcept override { return desc_.name; }
    uint32_t num_args() const noexcept override { return desc_.num_args; }
    bool checked() const noexcept override { return desc_.checked != 0; }
    const NpkKernelDesc& desc() const noexcept { return desc_; }

private:
    const NpkKernelDesc& desc_; // static data of the library, which is never unloaded
};

void add_detail(Fault* fault, const char* key, std::string value)
{
    if (!value.empty()) fault->details.emplace_back(key, std::move(value));
}

void convert(const twin::Fault& from, Fault* to)
{
    to->code = from.code;
    to->kernel = from.kernel;
    to->core = from.core;
    to->message = from.message;
    to->line = from.line;
    add_detail(to, "rule", from.rule);
    add_detail(to, "api", from.api);
    add_detail(to, "file", from.file);
    add_detail(to, "memory", from.memory);
    if (from.end > from.begin || from.limit != 0) {
        add_detail(to, "begin", std::to_string(from.begin));
        add_detail(to, "end", std::to_string(from.end));
        add_detail(to, "limit", std::to_string(from.limit));
    }
}

class TwinRuntime final : public DeviceRuntime
{
public:
    const char* name() const noexcept override { return "twin"; }

    std::unique_ptr<DeviceKernel> load(const std::string& library, std::string* error) override
    {
        void* handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
        if (handle == nullptr) {
            *error = dlerror();
            return nullptr;
        }
        auto describe = reinterpret_cast<NpkKernelDescFn>(dlsym(handle, NPK_KERNEL_DESC_SYMBOL));
        const NpkKernelDesc* desc = describe != nullptr ? describe(twin::host()) : nullptr;
        if (desc != nullptr && desc->abi_version == NPK_ABI_VERSION && desc->struct_size >= sizeof(NpkKernelDesc)) {
            return std::make_unique<TwinKernel>(*desc);
        }
        *error =
            describe == nullptr ? "it is not a kernel library" : "it was built for another version of the twin";
        dlclose(handle);
        return nullptr;
    }

    bool launch(const DeviceKernel& kernel, const LaunchArgs& args, std::optional<Fault>* fault) noexcept override
    {
        twin::LaunchArgs launch;
        launch.args = args.args;
        launch.arg_bytes = args.arg_bytes;
        launch.num_args = args.num_args;
        launch.blocks = args.blocks;
        std::optional<twin::Fault> found;
        const auto status = twin::launch(static_cast<const TwinKernel&>(kernel).desc(), launch, &found);
        if (status == twin::Status::kOk) return true;
        if (found->code.empty()) found->code = "NPK-RC11";
        convert(*found, &fault->emplace());
        return false;
    }

    void* allocate(size_t bytes) noexcept override
    {
        return ::operator new(bytes, std::align_val_t{kAlignment}, std::nothrow);
    }

    void release(void* memory) noexcept override { ::operator delete(memory, std::align_val_t{kAlignment}); }
};

} // namespace

DeviceRuntime& twin_runtime()
{
    static TwinRuntime* runtime = new TwinRuntime; // launches may run at exit
    return *runtime;
}

} // namespace npk
