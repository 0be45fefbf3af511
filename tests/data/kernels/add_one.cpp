#include "kernel_operator.h"

using namespace AscendC;

// y = x + 1 on as many elements as the tiling says; block b takes b, b + blocks, ...
extern "C" __global__ __aicore__ void add_one(GM_ADDR x, GM_ADDR y, GM_ADDR workspace, GM_ADDR tiling)
{
    GlobalTensor<int32_t> size;
    size.SetGlobalBuffer(reinterpret_cast<__gm__ int32_t*>(tiling), 1);
    const int32_t n = size.GetValue(0);
    GlobalTensor<float> in;
    GlobalTensor<float> out;
    in.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(x), n);
    out.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(y), n);
    for (int32_t i = GetBlockIdx(); i < n; i += GetBlockNum()) {
        out.SetValue(i, in.GetValue(i) + 1.0f);
    }
}
