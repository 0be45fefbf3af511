// Python's view of the runtime: capsules for XLA, launch counts, faults, and launches on NumPy arrays for tests.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <stdexcept>
#include <string>
#include <vector>

#include "handler.h"
#include "npk/abi.h"
#include "npk/launch.h"
#include "npk/runtime/call.h"
#include "npk/runtime/fault_store.h"
#include "npk/runtime/kernel_store.h"

namespace py = pybind11;

namespace
{

py::capsule capsule(void* pointer)
{
    return py::capsule(pointer);
}

py::object to_python(const std::optional<npk::FaultRecord>& record)
{
    if (!record.has_value()) return py::none();
    const npk::Fault& fault = record->fault;
    py::dict details;
    for (const auto& [key, value] : fault.details) details[py::str(key)] = value;
    py::dict report;
    report["code"] = fault.code;
    report["message"] = record->message();
    report["kernel"] = fault.kernel;
    report["core"] = fault.core;
    report["launch_id"] = record->launch_id;
    report["thread"] = record->thread;
    report["source_line"] = fault.line;
    report["python_location"] = record->python_location;
    report["details"] = details;
    return report;
}

// Runs an artifact on NumPy arrays. Returns the message of the fault, or None.
py::object launch(const std::string& hash, const std::string& name, uint32_t blocks, size_t workspace_bytes,
                  const py::bytes& tiling, const std::vector<py::array>& inputs, std::vector<py::array>& outputs)
{
    std::string message;
    npk::Kernel* kernel = npk::KernelStore::instance().load(hash, name, &message);
    if (kernel == nullptr) throw std::runtime_error(message);
    std::vector<void*> arrays;
    std::vector<uint64_t> bytes;
    for (const py::array& array : inputs) {
        if (!(array.flags() & py::array::c_style)) throw std::invalid_argument("inputs must be C-contiguous");
        arrays.push_back(const_cast<void*>(array.data()));
        bytes.push_back(static_cast<uint64_t>(array.nbytes()));
    }
    for (py::array& array : outputs) {
        if (!(array.flags() & py::array::c_style)) throw std::invalid_argument("outputs must be C-contiguous");
        arrays.push_back(array.mutable_data());
        bytes.push_back(static_cast<uint64_t>(array.nbytes()));
    }
    const std::string tiling_bytes = tiling;
    bool ok = false;
    {
        py::gil_scoped_release release;
        npk::Call call(*kernel, blocks, workspace_bytes, tiling_bytes);
        ok = call.launch(arrays.data(), bytes.data(), static_cast<uint32_t>(inputs.size()),
                         static_cast<uint32_t>(outputs.size()), &message);
    }
    if (ok) return py::none();
    return py::str(message);
}

} // namespace

PYBIND11_MODULE(_native, m)
{
    m.doc() = "Native side of npu_kernels: the device runtime and the XLA FFI handler.";
    m.attr("ABI_VERSION") = NPK_ABI_VERSION;

    m.def("ffi_target", [] {
        py::dict stages;
        stages["instantiate"] = capsule(npk::ffi::instantiate_handler());
        stages["execute"] = capsule(npk::ffi::execute_handler());
        return stages;
    });
    m.def("ffi_state_type", [] {
        py::dict type;
        type["type_id"] = capsule(npk::ffi::state_type_id());
        type["type_info"] = capsule(npk::ffi::state_type_info());
        return type;
    });

    m.def("set_threads", &npk::twin::set_threads);
    m.def("add_artifact_root",
          [](const std::string& directory) { npk::KernelStore::instance().add_root(directory); });
    m.def("load", [](const std::string& hash, const std::string& name) -> py::object {
        std::string message;
        npk::Kernel* kernel = npk::KernelStore::instance().load(hash, name, &message);
        if (kernel == nullptr) return py::str(message);
        return py::none();
    });
    m.def("launches", [] {
        std::vector<std::tuple<std::string, std::string, uint64_t>> counts;
        for (auto& count : npk::KernelStore::instance().launches()) {
            counts.emplace_back(count.name, count.hash, count.launches);
        }
        return counts;
    });
    m.def("reset_launches", [] { npk::KernelStore::instance().reset_launches(); });

    m.def("last_fault", [] { return to_python(npk::FaultStore::instance().newest()); });
    m.def("fault_of_launch",
          [](uint64_t launch_id) { return to_python(npk::FaultStore::instance().of_launch(launch_id)); });
    m.def("fault_of_thread",
          [](uint64_t thread) { return to_python(npk::FaultStore::instance().of_thread(thread)); });

    m.def("launch", &launch, py::arg("hash"), py::arg("name"), py::arg("blocks"), py::arg("workspace_bytes"),
          py::arg("tiling"), py::arg("inputs"), py::arg("outputs"));
}
