#include "kernel_operator.h"

using namespace AscendC;

// y = x + 1 by way of the workspace, on as many elements as the tiling says, in one block.
extern "C" __global__ __aicore__ void through_workspace(GM_ADDR x, GM_ADDR y, GM_ADDR workspace, GM_ADDR tiling)
{
    GlobalTensor<int32_t> size;
    size.SetGlobalBuffer(reinterpret_cast<__gm__ int32_t*>(tiling), 1);
    const int32_t n = size.GetValue(0);
    GlobalTensor<float> in;
    GlobalTensor<float> kept;
    GlobalTensor<float> out;
    in.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(x), n);
    kept.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(workspace), n);
    out.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(y), n);
    for (int32_t i = 0; i < n; ++i) {
        kept.SetValue(i, in.GetValue(i));
    }
    for (int32_t i = 0; i < n; ++i) {
        out.SetValue(i, kept.GetValue(i) + 1.0f);
    }
}
