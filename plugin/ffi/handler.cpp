#include "handler.h"

#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "npk/runtime/call.h"
#include "npk/runtime/kernel_store.h"
#include "xla/ffi/api/ffi.h"

namespace npk::ffi
{
namespace
{

namespace xffi = xla::ffi;

// What instantiation prepares for every execution of one call site.
struct CallState {
    static xffi::TypeId id;
    static xffi::TypeInfo info;

    CallState(Kernel& kernel, uint32_t blocks, size_t workspace_bytes, const std::string& tiling)
        : call(kernel, blocks, workspace_bytes, tiling)
    {
    }

    Call call;
};

xffi::TypeId CallState::id = {};
xffi::TypeInfo CallState::info = xffi::MakeTypeInfo<CallState>();

int digit(char c)
{
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    return -1;
}

// Tiling data travels as hexadecimal text: attributes are text in HLO, and text must be UTF-8.
bool decode_hex(std::string_view text, std::string* bytes)
{
    if (text.size() % 2 != 0) return false;
    for (size_t i = 0; i < text.size(); i += 2) {
        const int high = digit(text[i]);
        const int low = digit(text[i + 1]);
        if (high < 0 || low < 0) return false;
        bytes->push_back(static_cast<char>(high << 4 | low));
    }
    return true;
}

using StateOrError = xffi::ErrorOr<std::unique_ptr<CallState>>;

StateOrError error(xffi::ErrorCode code, std::string message)
{
    return xffi::Unexpected(xffi::Error(code, std::move(message)));
}

StateOrError instantiate(std::string_view hash, std::string_view name, int64_t blocks, int64_t workspace_bytes,
                         std::string_view tiling_hex)
{
    try {
        std::string tiling;
        if (blocks < 0 || blocks > UINT32_MAX || workspace_bytes < 0 || !decode_hex(tiling_hex, &tiling)) {
            return error(xffi::ErrorCode::kInvalidArgument,
                         "NPK-RC11: kernel " + std::string(name) + ": malformed attributes of npu_kernels.launch");
        }
        std::string message;
        Kernel* kernel = KernelStore::instance().load(std::string(hash), std::string(name), &message);
        if (kernel == nullptr) return error(xffi::ErrorCode::kNotFound, message);
        return std::make_unique<CallState>(*kernel, static_cast<uint32_t>(blocks),
                                           static_cast<size_t>(workspace_bytes), tiling);
    } catch (const std::exception& failure) {
        return error(xffi::ErrorCode::kInternal, "NPK-RC11: kernel " + std::string(name) + ": " + failure.what());
    }
}

xffi::Error execute(CallState* state, xffi::RemainingArgs args, xffi::RemainingRets rets, xffi::Dictionary)
{
    constexpr size_t kInline = 30;
    const size_t total = args.size() + rets.size();
    void* few_arrays[kInline];
    uint64_t few_bytes[kInline];
    std::vector<void*> many_arrays;
    std::vector<uint64_t> many_bytes;
    void** arrays = few_arrays;
    uint64_t* bytes = few_bytes;
    try {
        if (total > kInline) {
            many_arrays.resize(total);
            many_bytes.resize(total);
            arrays = many_arrays.data();
            bytes = many_bytes.data();
        }
        size_t at = 0;
        for (size_t i = 0; i < args.size(); ++i, ++at) {
            auto buffer = args.get<xffi::AnyBuffer>(i);
            if (!buffer.has_value()) return buffer.error();
            arrays[at] = buffer->untyped_data();
            bytes[at] = buffer->size_bytes();
        }
        for (size_t i = 0; i < rets.size(); ++i, ++at) {
            auto buffer = rets.get<xffi::AnyBuffer>(i);
            if (!buffer.has_value()) return buffer.error();
            arrays[at] = (*buffer)->untyped_data();
            bytes[at] = (*buffer)->size_bytes();
        }
        std::string message;
        if (state->call.launch(arrays, bytes, static_cast<uint32_t>(args.size()),
                               static_cast<uint32_t>(rets.size()), &message)) {
            return xffi::Error::Success();
        }
        return xffi::Error::Internal(std::move(message));
    } catch (const std::exception& failure) {
        return xffi::Error::Internal("NPK-RC11: kernel " + state->call.kernel().name + ": " + failure.what());
    }
}

XLA_FFI_DEFINE_HANDLER(kInstantiate, instantiate,
                       xffi::Ffi::BindInstantiate()
                           .Attr<std::string_view>("hash")
                           .Attr<std::string_view>("name")
                           .Attr<int64_t>("blocks")
                           .Attr<int64_t>("workspace_bytes")
                           .Attr<std::string_view>("tiling"));

XLA_FFI_DEFINE_HANDLER(kExecute, execute,
                       xffi::Ffi::Bind().Ctx<xffi::State<CallState>>().RemainingArgs().RemainingRets().Attrs());

} // namespace

void* instantiate_handler()
{
    return reinterpret_cast<void*>(kInstantiate);
}
void* execute_handler()
{
    return reinterpret_cast<void*>(kExecute);
}
void* state_type_id()
{
    return &CallState::id;
}
void* state_type_info()
{
    return &CallState::info;
}

} // namespace npk::ffi
