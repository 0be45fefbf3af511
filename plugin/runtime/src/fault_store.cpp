#include "npk/runtime/fault_store.h"

#include <utility>

#include "fork_safe.h"

namespace npk
{
namespace
{

// A program that keeps faulting must not keep growing; older reports than these are of no use to anyone.
constexpr size_t kKept = 256;

} // namespace

std::string FaultRecord::message() const
{
    const std::string launch = std::to_string(launch_id);
    std::string text = fault.code + ": kernel " + fault.kernel;
    if (!fault.core.empty()) text += " on " + fault.core;
    if (!python_location.empty()) text += " at " + python_location;
    return text + ": " + fault.message + " (launch " + launch + "; npu_kernels.errors.last_fault(" + launch +
           ") has the report)";
}

FaultStore::FaultStore()
{
    hold_while_forking(mutex_);
}

FaultStore& FaultStore::instance()
{
    static FaultStore* store = new FaultStore; // outlives threads that still run kernels at exit
    return *store;
}

void FaultStore::add(FaultRecord record)
{
    std::lock_guard lock(mutex_);
    records_.push_back(std::move(record));
    if (records_.size() > kKept) records_.pop_front();
}

template <typename Predicate>
std::optional<FaultRecord> FaultStore::find(Predicate wanted) const
{
    std::lock_guard lock(mutex_);
    for (auto record = records_.rbegin(); record != records_.rend(); ++record) {
        if (wanted(*record)) return *record;
    }
    return std::nullopt;
}

std::optional<FaultRecord> FaultStore::newest() const
{
    return find([](const FaultRecord&) { return true; });
}

std::optional<FaultRecord> FaultStore::of_launch(uint64_t launch_id) const
{
    return find([=](const FaultRecord& record) { return record.launch_id == launch_id; });
}

std::optional<FaultRecord> FaultStore::of_thread(uint64_t thread) const
{
    return find([=](const FaultRecord& record) { return record.thread == thread; });
}

} // namespace npk
