// What dispatch is measured against: x + 1 as a handler written by hand.
#include <cstddef>

#include "xla/ffi/api/ffi.h"

namespace ffi = xla::ffi;

static ffi::Error add_one(ffi::Buffer<ffi::F32> x, ffi::ResultBuffer<ffi::F32> y)
{
    const float* in = x.typed_data();
    float* out = y->typed_data();
    const size_t n = x.element_count();
    for (size_t i = 0; i < n; ++i) out[i] = in[i] + 1.0f;
    return ffi::Error::Success();
}

XLA_FFI_DEFINE_HANDLER_SYMBOL(AddOne, add_one, ffi::Ffi::Bind().Arg<ffi::Buffer<ffi::F32>>().Ret<ffi::Buffer<ffi::F32>>());
