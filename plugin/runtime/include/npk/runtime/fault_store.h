// The newest faults of the process, for error messages and structured reports.
#ifndef NPK_RUNTIME_FAULT_STORE_H_
#define NPK_RUNTIME_FAULT_STORE_H_

#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <string>

#include "npk/runtime/device_runtime.h"
#include "npk/runtime/export.h"

namespace npk
{

struct FaultRecord {
    Fault fault;
    uint64_t launch_id = 0;
    uint64_t thread = 0; // pthread_self() of the thread that launched
    std::string python_location;

    // One line: code, kernel, core, Python line, what happened, and how to see the rest.
    NPK_EXPORT std::string message() const;
};

class NPK_EXPORT FaultStore
{
public:
    static FaultStore& instance();
    FaultStore();

    void add(FaultRecord record);
    std::optional<FaultRecord> newest() const;
    std::optional<FaultRecord> of_launch(uint64_t launch_id) const;
    std::optional<FaultRecord> of_thread(uint64_t thread) const;

private:
    template <typename Predicate>
    std::optional<FaultRecord> find(Predicate wanted) const;

    mutable std::mutex mutex_;
    std::deque<FaultRecord> records_;
};

} // namespace npk

#endif // NPK_RUNTIME_FAULT_STORE_H_
