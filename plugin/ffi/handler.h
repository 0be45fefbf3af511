// The one XLA FFI handler, `npu_kernels.launch`, in the form XLA registers it.
#ifndef NPK_FFI_HANDLER_H_
#define NPK_FFI_HANDLER_H_

namespace npk::ffi
{

// Addresses of the two stages' handlers, and of the type of the state that instantiation hands to execution.
void* instantiate_handler();
void* execute_handler();
void* state_type_id();
void* state_type_info();

} // namespace npk::ffi

#endif // NPK_FFI_HANDLER_H_
