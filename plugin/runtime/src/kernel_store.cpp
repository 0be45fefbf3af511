#include "npk/runtime/kernel_store.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "fork_safe.h"

namespace npk
{
namespace
{

bool is_hash(const std::string& text)
{
    return text.size() >= 32 && std::all_of(text.begin(), text.end(), [](char c) {
               return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
           });
}

std::string joined(const std::vector<std::string>& roots)
{
    std::string text;
    for (const std::string& root : roots) text += (text.empty() ? "" : ", ") + root;
    return text.empty() ? "no directory: npu_kernels was not imported before this executable" : text;
}

} // namespace

KernelStore::KernelStore()
{
    hold_while_forking(mutex_);
}

KernelStore& KernelStore::instance()
{
    static KernelStore* store = new KernelStore; // executables may be destroyed after static destructors
    return *store;
}

void KernelStore::add_root(const std::string& directory)
{
    std::lock_guard lock(mutex_);
    roots_.erase(std::remove(roots_.begin(), roots_.end(), directory), roots_.end());
    roots_.insert(roots_.begin(), directory);
}

std::vector<std::string> KernelStore::roots() const
{
    std::lock_guard lock(mutex_);
    return roots_;
}

Kernel* KernelStore::load(const std::string& hash, const std::string& name, std::string* error)
{
    std::lock_guard lock(mutex_);
    if (auto found = kernels_.find(hash); found != kernels_.end()) return found->second.get();
    if (!is_hash(hash)) {
        *error = "NPK-CA01: kernel " + name + ": '" + hash + "' is not the hash of an artifact.";
        return nullptr;
    }
    for (const std::string& root : roots_) {
        const std::string folder = root + "/" + hash.substr(0, 2) + "/" + hash;
        const std::string library = folder + "/kernel.so";
        if (access(library.c_str(), R_OK) != 0) continue;
        std::string reason;
        std::unique_ptr<DeviceKernel> code = twin_runtime().load(library, &reason);
        if (code == nullptr) {
            *error = "NPK-CA03: kernel " + name + ": " + library + " cannot be loaded: " + reason +
                     ". Delete that folder; the next call of the kernel builds it again.";
            return nullptr;
        }
        auto kernel = std::make_unique<Kernel>(hash, name, std::move(code), LineMap::read(folder + "/lines.tsv"));
        return kernels_.emplace(hash, std::move(kernel)).first->second.get();
    }
    *error = "NPK-CA01: kernel " + name + ": its artifact " + hash + " is not in the cache (searched " +
             joined(roots_) +
             "). Build it by calling or lowering the kernel from Python with these shapes on this "
             "machine, or set NPU_KERNELS_CACHE_DIR to the directory that holds it; in a process that lowered it "
             "before the artifact went, call jax.clear_caches() first.";
    return nullptr;
}

std::vector<LaunchCount> KernelStore::launches() const
{
    std::lock_guard lock(mutex_);
    std::vector<LaunchCount> counts;
    for (const auto& [hash, kernel] : kernels_) {
        counts.push_back({kernel->name, hash, kernel->launches.load(std::memory_order_relaxed)});
    }
    return counts;
}

void KernelStore::reset_launches()
{
    std::lock_guard lock(mutex_);
    for (const auto& entry : kernels_) entry.second->launches.store(0, std::memory_order_relaxed);
}

} // namespace npk
