"""Every rule of checked mode: the smallest kernel that breaks it is reported, the corrected one runs."""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np
import pytest

from npu_kernels.errors import ToolchainError

from .harness import Kernel, Source, TwinFault


@dataclass(frozen=True)
class Rule:
    """`broken` and `fixed` are statements; `g` and `o` are 256 floats in global memory, `pipe` a TPipe."""

    name: str
    code: str
    rule: str
    message: str
    broken: str
    fixed: str


_BUFFERS = "TBuf<TPosition::VECCALC> one, two; pipe.InitBuffer(one, 1024); pipe.InitBuffer(two, 1024);"
_TENSORS = _BUFFERS + "LocalTensor<float> a = one.Get<float>(), b = two.Get<float>();"
_FILLED = _TENSORS + "Duplicate(a, 1.0f, 256); Duplicate(b, 2.0f, 256); PipeBarrier<PIPE_ALL>();"
_QUEUE = "TQue<TPosition::VECIN, 1> q; pipe.InitBuffer(q, 1, 1024);"

RULES = [
    Rule(
        "read beyond an argument",
        "NPK-RC01",
        "ErrorRead3",
        "bytes 32 to 1056 of argument 0 .counted from 0., which has 1024 bytes",
        _TENSORS + "DataCopy(a, g[8], 256); PipeBarrier<PIPE_ALL>();",
        _TENSORS + "DataCopy(a, g, 256); PipeBarrier<PIPE_ALL>();",
    ),
    Rule(
        "write beyond an argument",
        "NPK-RC01",
        "ErrorWrite2",
        "bytes 1020 to 1028 of argument 1",
        _FILLED + "DataCopyPad(o[255], a, {1, 8, 0, 0, 0});",
        _FILLED + "DataCopyPad(o[254], a, {1, 8, 0, 0, 0});",
    ),
    Rule(
        "scalar write in front of an argument",
        "NPK-RC01",
        "ErrorWrite2",
        "SetValue writes",
        "g.SetValue(uint64_t(-100000000), 1.0f);",
        "g.SetValue(0, 1.0f);",
    ),
    Rule(
        "vector instruction beyond its buffer",
        "NPK-RC01",
        "ErrorWrite2",
        "dst reaches byte 1056 of its buffer of 1024 bytes in UB",
        _FILLED + "Adds(a[8], b, 1.0f, 256);",
        _FILLED + "Adds(a[8], b, 1.0f, 248);",
    ),
    Rule(
        "strided repeats beyond their buffer",
        "NPK-RC01",
        "ErrorRead3",
        "of its buffer of 1024 bytes",
        _FILLED + "Adds(a, b, 1.0f, 64, 4, {1, 1, 8, 9});",
        _FILLED + "Adds(a, b, 1.0f, 64, 4, {1, 1, 8, 8});",
    ),
    Rule(
        "memory that no buffer owns",
        "NPK-RC01",
        "ErrorWrite1",
        "where no buffer is allocated",
        _TENSORS + "Duplicate(b[256], 1.0f, 8);",
        _TENSORS + "Duplicate(b[248], 1.0f, 8);",
    ),
    Rule(
        "tensor larger than its buffer",
        "NPK-RC01",
        "ErrorBuffer3",
        "1056 bytes at offset 0 exceed the buffer of 1024 bytes",
        _BUFFERS + "one.Get<float>(264);",
        _BUFFERS + "one.Get<float>(256);",
    ),
    Rule(
        "read of what was never written",
        "NPK-RC02",
        "ErrorRead2",
        "byte 400 was never written",
        _TENSORS + "Duplicate(a, 1.0f, 100); PipeBarrier<PIPE_V>(); Adds(b, a, 1.0f, 101);",
        _TENSORS + "Duplicate(a, 1.0f, 100); PipeBarrier<PIPE_V>(); Adds(b, a, 1.0f, 100);",
    ),
    Rule(
        "store of what was never written",
        "NPK-RC02",
        "ErrorRead2",
        "DataCopyPad reads",
        _TENSORS + "DataCopyPad(o, a, {1, 64, 0, 0, 0});",
        _TENSORS + "Duplicate(a, 0.0f, 16); PipeBarrier<PIPE_ALL>(); DataCopyPad(o, a, {1, 64, 0, 0, 0});",
    ),
    Rule(
        "padding of undefined content",
        "NPK-RC02",
        "ErrorRead2",
        "byte 28 was never written",
        _TENSORS
        + "DataCopyPad(a, g, {1, 28, 0, 0, 0}, {false, 0, 1, 0.0f}); PipeBarrier<PIPE_ALL>(); Adds(b, a, 1.0f, 8);",
        _TENSORS
        + "DataCopyPad(a, g, {1, 28, 0, 0, 0}, {true, 0, 1, 0.0f}); PipeBarrier<PIPE_ALL>(); Adds(b, a, 1.0f, 8);",
    ),
    Rule(
        "use before the data arrived",
        "NPK-RC03",
        "ErrorSync2",
        "Adds .V. reads .* DataCopy .MTE2, line .* writes .* SetFlag/WaitFlag<HardEvent::MTE2_V> is missing",
        _TENSORS + "DataCopy(a, g, 256); Adds(b, a, 1.0f, 256);",
        _TENSORS
        + "DataCopy(a, g, 256); SetFlag<HardEvent::MTE2_V>(EVENT_ID0); WaitFlag<HardEvent::MTE2_V>(EVENT_ID0); Adds(b, a, 1.0f, 256);",
    ),
    Rule(
        "store before the result is there",
        "NPK-RC03",
        "ErrorSync2",
        "SetFlag/WaitFlag<HardEvent::V_MTE3> is missing",
        _TENSORS + "Duplicate(a, 1.0f, 256); DataCopy(o, a, 256);",
        _TENSORS
        + "Duplicate(a, 1.0f, 256); SetFlag<HardEvent::V_MTE3>(EVENT_ID1); WaitFlag<HardEvent::V_MTE3>(EVENT_ID1); DataCopy(o, a, 256);",
    ),
    Rule(
        "buffer filled again while it is stored",
        "NPK-RC03",
        "ErrorSync1",
        "which DataCopy .MTE3, line .* reads",
        _FILLED + "DataCopy(o, a, 256); Duplicate(a, 3.0f, 256);",
        _FILLED + "DataCopy(o, a, 256); PipeBarrier<PIPE_ALL>(); Duplicate(a, 3.0f, 256);",
    ),
    Rule(
        "buffer loaded again while it is read",
        "NPK-RC03",
        "ErrorSync1",
        "HardEvent::V_MTE2",
        _FILLED + "Adds(b, a, 1.0f, 256); DataCopy(a, g, 256);",
        _FILLED
        + "Adds(b, a, 1.0f, 256); SetFlag<HardEvent::V_MTE2>(EVENT_ID0); WaitFlag<HardEvent::V_MTE2>(EVENT_ID0); DataCopy(a, g, 256);"
        + "PipeBarrier<PIPE_ALL>();",
    ),
    Rule(
        "dependent vector instructions",
        "NPK-RC03",
        "ErrorSync2",
        "PipeBarrier<PIPE_V> is missing",
        _TENSORS + "Duplicate(a, 1.0f, 256); Adds(b, a, 1.0f, 256);",
        _TENSORS + "Duplicate(a, 1.0f, 256); PipeBarrier<PIPE_V>(); Adds(b, a, 1.0f, 256);",
    ),
    Rule(
        "scalar read of a vector result",
        "NPK-RC03",
        "ErrorSync2",
        "HardEvent::V_S",
        _TENSORS + "Duplicate(a, 1.0f, 256); o.SetValue(0, a.GetValue(3));",
        _TENSORS
        + "Duplicate(a, 1.0f, 256); SetFlag<HardEvent::V_S>(EVENT_ID0); WaitFlag<HardEvent::V_S>(EVENT_ID0); o.SetValue(0, a.GetValue(3));",
    ),
    Rule(
        "vector read of a scalar write",
        "NPK-RC03",
        "ErrorSync2",
        "HardEvent::S_V",
        _FILLED + "a.SetValue(5, 2.0f); Adds(b, a, 1.0f, 256);",
        _FILLED
        + "a.SetValue(5, 2.0f); SetFlag<HardEvent::S_V>(EVENT_ID0); WaitFlag<HardEvent::S_V>(EVENT_ID0); Adds(b, a, 1.0f, 256);",
    ),
    Rule(
        "flag of another pair of pipes",
        "NPK-RC03",
        "ErrorSync2",
        "HardEvent::MTE2_V",
        _TENSORS
        + "DataCopy(a, g, 256); SetFlag<HardEvent::MTE2_MTE3>(EVENT_ID0); WaitFlag<HardEvent::MTE2_MTE3>(EVENT_ID0); Adds(b, a, 1.0f, 256);",
        _TENSORS
        + "DataCopy(a, g, 256); SetFlag<HardEvent::MTE2_S>(EVENT_ID0); WaitFlag<HardEvent::MTE2_S>(EVENT_ID0); Adds(b, a, 1.0f, 256);",
    ),
    Rule(
        "tensor used before DeQue",
        "NPK-RC03",
        "ErrorSync2",
        "HardEvent::MTE2_V",
        _TENSORS
        + _QUEUE
        + "LocalTensor<float> t = q.AllocTensor<float>(); DataCopy(t, g, 256); Adds(b, t, 1.0f, 256); q.FreeTensor(t);",
        _TENSORS
        + _QUEUE
        + "LocalTensor<float> t = q.AllocTensor<float>(); DataCopy(t, g, 256); q.EnQue(t); t = q.DeQue<float>(); Adds(b, t, 1.0f, 256); q.FreeTensor(t);",
    ),
    Rule(
        "misaligned start in the unified buffer",
        "NPK-RC04",
        "ErrorRead4",
        "src starts at byte 1028 of UB, which is not a multiple of 32",
        _FILLED + "Adds(a, b[1], 1.0f, 8);",
        _FILLED + "Adds(a, b[8], 1.0f, 8);",
    ),
    Rule(
        "misaligned offset in a buffer",
        "NPK-RC04",
        "ErrorRead4",
        "offset 4 is not a multiple of 32",
        _BUFFERS + "one.GetWithOffset<float>(8, 4);",
        _BUFFERS + "one.GetWithOffset<float>(8, 32);",
    ),
    Rule(
        "count of Compare",
        "NPK-RC04",
        "ParameterRange",
        "count in bytes is 400, not a multiple of 256",
        _FILLED + "Compare(a.ReinterpretCast<uint8_t>(), a, b, CMPMODE::LT, 100);",
        _FILLED + "Compare(a.ReinterpretCast<uint8_t>(), a, b, CMPMODE::LT, 128);",
    ),
    Rule(
        "count of DataCopy",
        "NPK-RC04",
        "ParameterRange",
        "not a multiple of 32",
        _TENSORS + "DataCopy(a, g, 7);",
        _TENSORS + "DataCopy(a, g, 8);",
    ),
    Rule(
        "repeats of a reduction",
        "NPK-RC04",
        "ParameterRange",
        "repeatTime is 256, at most 255 is allowed",
        _FILLED + "WholeReduceSum(b, a, 8, 256, 0, 1, 0);",
        _FILLED + "WholeReduceSum(b, a, 8, 255, 0, 1, 0);",
    ),
    Rule(
        "pieces of DataCopyPad",
        "NPK-RC04",
        "ParameterRange",
        "blockCount is 4096, at most 4095 is allowed",
        _TENSORS + "DataCopyPad(a, g, {4096, 4, 0, 0, 0}, {false, 0, 0, 0.0f});",
        _TENSORS + "DataCopyPad(a, g, {32, 4, 0, 0, 0}, {false, 0, 0, 0.0f});",
    ),
    Rule(
        "memory of the unified buffer",
        "NPK-RC05",
        "MemoryLimit",
        "UB: needs 201760 B of 196352 B .buffers so far: 1024 . 100000; wanted now: 100736",
        "TBuf<TPosition::VECCALC> x, y, z; pipe.InitBuffer(x, 1000); pipe.InitBuffer(y, 100000); pipe.InitBuffer(z, 100720);",
        "TBuf<TPosition::VECCALC> x, y, z; pipe.InitBuffer(x, 1000); pipe.InitBuffer(y, 100000); pipe.InitBuffer(z, 95328);",
    ),
    Rule(
        "number of buffers",
        "NPK-RC05",
        "BufferCount",
        "at most 64 buffers",
        "TBuf<TPosition::VECCALC> x[65]; for (auto& t : x) { pipe.InitBuffer(t, 32); }",
        "TBuf<TPosition::VECCALC> x[64]; for (auto& t : x) { pipe.InitBuffer(t, 32); }",
    ),
    Rule(
        "more tensors than buffers",
        "NPK-RC06",
        "QueueFull",
        "all 1 buffers of the queue are in use",
        _QUEUE + "q.AllocTensor<float>(); q.AllocTensor<float>();",
        _QUEUE + "q.FreeTensor(q.AllocTensor<float>()); q.FreeTensor(q.AllocTensor<float>());",
    ),
    Rule(
        "DeQue of an empty queue",
        "NPK-RC06",
        "QueueEmpty",
        "the queue is empty",
        _QUEUE + "q.DeQue<float>();",
        _QUEUE + "q.EnQue(q.AllocTensor<float>()); q.FreeTensor(q.DeQue<float>());",
    ),
    Rule(
        "EnQue of a free tensor",
        "NPK-RC06",
        "QueueState",
        "the tensor is not allocated",
        _QUEUE + "LocalTensor<float> t = q.AllocTensor<float>(); q.FreeTensor(t); q.EnQue(t);",
        _QUEUE + "LocalTensor<float> t = q.AllocTensor<float>(); q.EnQue(t); q.FreeTensor(q.DeQue<float>());",
    ),
    Rule(
        "tensor freed while it waits",
        "NPK-RC06",
        "QueueState",
        "still waits in the queue",
        _QUEUE + "LocalTensor<float> t = q.AllocTensor<float>(); q.EnQue(t); q.FreeTensor(t);",
        _QUEUE + "LocalTensor<float> t = q.AllocTensor<float>(); q.EnQue(t); q.FreeTensor(q.DeQue<float>());",
    ),
    Rule(
        "tensor freed twice",
        "NPK-RC06",
        "ErrorFree",
        "freed twice",
        _QUEUE + "LocalTensor<float> t = q.AllocTensor<float>(); q.FreeTensor(t); q.FreeTensor(t);",
        _QUEUE + "LocalTensor<float> t = q.AllocTensor<float>(); q.FreeTensor(t);",
    ),
    Rule(
        "tensor of another queue",
        "NPK-RC06",
        "ErrorBuffer1",
        "not one of this queue's buffers",
        _QUEUE + _TENSORS + "q.EnQue(a);",
        _QUEUE + _TENSORS + "q.EnQue(q.AllocTensor<float>()); q.FreeTensor(q.DeQue<float>());",
    ),
    Rule(
        "more tensors than the queue is deep",
        "NPK-RC06",
        "QueueDepth",
        "1 tensors wait in a queue of depth 1",
        "TQue<TPosition::VECIN, 1> q; pipe.InitBuffer(q, 2, 64); q.EnQue(q.AllocTensor<float>()); q.EnQue(q.AllocTensor<float>());",
        "TQue<TPosition::VECIN, 2> q; pipe.InitBuffer(q, 2, 64); q.EnQue(q.AllocTensor<float>()); q.EnQue(q.AllocTensor<float>());"
        "q.FreeTensor(q.DeQue<float>()); q.FreeTensor(q.DeQue<float>());",
    ),
    Rule(
        "tensor never freed",
        "NPK-RC06",
        "ErrorLeak",
        "allocated and never freed",
        _QUEUE + "q.AllocTensor<float>();",
        _QUEUE + "q.FreeTensor(q.AllocTensor<float>());",
    ),
    Rule(
        "queue without buffers",
        "NPK-RC06",
        "ErrorBuffer0",
        "call InitBuffer first",
        "TQue<TPosition::VECIN, 1> q; q.AllocTensor<float>();",
        _QUEUE + "q.FreeTensor(q.AllocTensor<float>());",
    ),
    Rule(
        "buffer without memory",
        "NPK-RC06",
        "ErrorBuffer0",
        "call InitBuffer first",
        "TBuf<TPosition::VECCALC> x; x.Get<float>();",
        _BUFFERS + "one.Get<float>();",
    ),
    Rule(
        "event waited for but not set",
        "NPK-RC07",
        "ErrorSync3",
        "event 2 of V_MTE3 is waited for but was not set",
        "WaitFlag<HardEvent::V_MTE3>(EVENT_ID2);",
        "SetFlag<HardEvent::V_MTE3>(EVENT_ID2); WaitFlag<HardEvent::V_MTE3>(EVENT_ID2);",
    ),
    Rule(
        "event set but not waited for",
        "NPK-RC07",
        "ErrorSync3",
        "event 1 of V_MTE3 was set and never waited for",
        "SetFlag<HardEvent::V_MTE3>(EVENT_ID1);",
        "SetFlag<HardEvent::V_MTE3>(EVENT_ID1); WaitFlag<HardEvent::V_MTE3>(EVENT_ID1);",
    ),
    Rule(
        "event set twice",
        "NPK-RC07",
        "ErrorSync4",
        "event 0 of V_S is set twice",
        "SetFlag<HardEvent::V_S>(EVENT_ID0); SetFlag<HardEvent::V_S>(EVENT_ID0);",
        "SetFlag<HardEvent::V_S>(EVENT_ID0); WaitFlag<HardEvent::V_S>(EVENT_ID0);",
    ),
    Rule(
        "event id out of range",
        "NPK-RC07",
        "EventId",
        "event id 8: the ids of a pair of pipes are 0 to 7",
        "SetFlag<HardEvent::V_S>(8);",
        "SetFlag<HardEvent::V_S>(7); WaitFlag<HardEvent::V_S>(7);",
    ),
    Rule(
        "event ids used up",
        "NPK-RC07",
        "EventId",
        "all 8 event ids",
        "for (int i = 0; i < 9; ++i) { pipe.AllocEventID<HardEvent::V_S>(); }",
        "for (int i = 0; i < 9; ++i) { pipe.ReleaseEventID<HardEvent::V_S>(pipe.AllocEventID<HardEvent::V_S>()); }",
    ),
    Rule(
        "comparison of integers other than equal",
        "NPK-RC08",
        "DtypeLegality",
        "CMPMODE::EQ",
        _FILLED
        + "LocalTensor<int32_t> i = a.ReinterpretCast<int32_t>(); Compares(b.ReinterpretCast<uint8_t>(), i, 1, CMPMODE::LT, 64);",
        _FILLED
        + "LocalTensor<int32_t> i = a.ReinterpretCast<int32_t>(); Compares(b.ReinterpretCast<uint8_t>(), i, 1, CMPMODE::EQ, 64);",
    ),
    Rule(
        "mode of Select",
        "NPK-RC08",
        "SelectMode",
        "a scalar operand needs VSEL_TENSOR_SCALAR_MODE",
        _FILLED + "Select(b, a.ReinterpretCast<uint8_t>(), a, 0.0f, SELMODE::VSEL_TENSOR_TENSOR_MODE, 64);",
        _FILLED + "Select(b, a.ReinterpretCast<uint8_t>(), a, 0.0f, SELMODE::VSEL_TENSOR_SCALAR_MODE, 64);",
    ),
    Rule(
        "memory of the other unit",
        "NPK-RC08",
        "ErrorBuffer2",
        "L1, bias table and fixpipe buffer belong to cube cores",
        "TBuf<TPosition::A1> x; pipe.InitBuffer(x, 1024); DataCopy(x.Get<float>(), g, 256);",
        _TENSORS + "DataCopy(a, g, 256);",
    ),
]

_TEXT = """
#include "kernel_operator.h"
using namespace AscendC;
extern "C" __global__ __aicore__ void kernel(GM_ADDR in, GM_ADDR out, GM_ADDR which)
{
    GlobalTensor<float> g, o;
    GlobalTensor<int32_t> w;
    g.SetGlobalBuffer((__gm__ float*)in, 256);
    o.SetGlobalBuffer((__gm__ float*)out, 256);
    w.SetGlobalBuffer((__gm__ int32_t*)which);
    TPipe pipe;
    switch (w.GetValue(0)) {
"""
_FIRST_LINE = _TEXT.count("\n") + 1


@functools.cache
def compiled() -> Kernel:
    branches = []
    for number, rule in enumerate(RULES):
        branches.append(f"case {2 * number}: {{ {rule.broken} break; }}")
        branches.append(f"case {2 * number + 1}: {{ {rule.fixed} break; }}")
    text = _TEXT + "\n".join(branches) + "\n}\n}\n"
    return Kernel(Source("checked_rules", text, "kernel", 3), checked=True)


def run(branch: int) -> None:
    # Global memory with other arguments around it, far enough apart that one cannot be taken for the other.
    memory = np.zeros(3 * 4096, np.float32)
    compiled().launch(memory[4096 : 4096 + 256], memory[2 * 4096 : 2 * 4096 + 256], np.array([branch], np.int32))


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_the_broken_kernel_is_reported(rule: Rule) -> None:
    number = RULES.index(rule)
    with pytest.raises(TwinFault, match=rule.message) as caught:
        run(2 * number)
    fault = caught.value
    assert (fault.code, fault.rule) == (rule.code, rule.rule)
    assert fault.core == "AIV 0"
    # A leak is found where the kernel ends, which is no call of the kernel's text.
    assert fault.line == (0 if rule.rule == "ErrorLeak" else _FIRST_LINE + 2 * number)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_the_corrected_kernel_runs(rule: Rule) -> None:
    run(2 * RULES.index(rule) + 1)


@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        (
            "LocalTensor<bfloat16_t> t; Add(t, t, t, 8);",
            "NPK-RC08: Add takes half, float, int16_t, int32_t on arch 2201",
        ),
        ("LocalTensor<int32_t> t; Div(t, t, t, 8);", "NPK-RC08: Div takes half, float on arch 2201"),
        ("LocalTensor<int32_t> t; Exp(t, t, 8);", "NPK-RC08: Exp takes half, float on arch 2201"),
        ("LocalTensor<float> t; And(t, t, t, 8);", "NPK-RC08: And takes int16_t, uint16_t on arch 2201"),
        (
            "LocalTensor<half> h; LocalTensor<bfloat16_t> b; Cast(b, h, RoundMode::CAST_RINT, 8);",
            "no Cast between these types",
        ),
        ("LocalTensor<int32_t> t; ReduceSum(t, t, t, 8);", "NPK-RC08: reductions take half and float on arch 2201"),
        ("PipeBarrier<PIPE_S>();", "PipeBarrier does not take PIPE_S"),
        ("CrossCoreSetFlag<3, PIPE_V>(1);", "arch 2201 has the modes 0, 1 and 2"),
    ],
)
def test_what_the_unit_lacks_is_refused_by_the_compiler(statement: str, reason: str) -> None:
    text = f"""
#include "kernel_operator.h"
using namespace AscendC;
extern "C" __global__ __aicore__ void kernel(GM_ADDR x) {{ (void)x; {statement} }}
"""
    with pytest.raises(ToolchainError) as caught:
        Kernel(Source("refused", text, "kernel", 1), checked=False)
    assert reason in str(caught.value)
