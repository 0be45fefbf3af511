"""Cores run as they do on the chip: all blocks at once where they synchronise, with hand-over between their units."""

from __future__ import annotations

import os
import platform
import threading

import numpy as np
import pytest

from .harness import Kernel, Source, TwinFault, driver, launch_once

_HEAD = '#include "kernel_operator.h"\nusing namespace AscendC;\n'


def kernel(text: str, num_args: int, kernel_type: str = "AIV_ONLY", *, checked: bool = False) -> Kernel:
    return Kernel(Source("kernel", _HEAD + text, "kernel", num_args, kernel_type), checked=checked)


# Every core adds its neighbours' last values to its own, round after round.
_RING = """
extern "C" __global__ __aicore__ void kernel(GM_ADDR values, GM_ADDR rounds)
{
    GlobalTensor<int32_t> v, r;
    v.SetGlobalBuffer((__gm__ int32_t*)values);
    r.SetGlobalBuffer((__gm__ int32_t*)rounds);
    const int32_t me = GetBlockIdx(), all = GetBlockNum(), count = r.GetValue(0);
    for (int32_t i = 0; i < count; ++i) {
        const int32_t from = i % 2 * all, to = all - from;
        v.SetValue(to + me, v.GetValue(from + me) + v.GetValue(from + (me + 1) % all) % 7);
        SyncAll();
    }
}
"""


@pytest.mark.parametrize("blocks", [1, 2, 48])
@pytest.mark.parametrize("checked", [False, True], ids=["fast", "checked"])
def test_sync_all_in_a_loop(blocks: int, checked: bool) -> None:
    values = np.zeros(2 * blocks, np.int32)
    values[:blocks] = np.arange(blocks)
    kernel(_RING, 2, checked=checked).launch(values, np.array([100], np.int32), blocks=blocks)
    row = np.arange(blocks, dtype=np.int32)
    for _ in range(100):
        row = row + np.roll(row, -1) % 7
    np.testing.assert_array_equal(values[:blocks], row)


def test_sync_all_with_workspaces() -> None:
    text = """
extern "C" __global__ __aicore__ void kernel(GM_ADDR values, GM_ADDR workspace)
{
    TPipe pipe;
    TBuf<TPosition::VECCALC> buffer;
    pipe.InitBuffer(buffer, 32 * GetBlockNum());
    GlobalTensor<int32_t> v, w;
    v.SetGlobalBuffer((__gm__ int32_t*)values);
    w.SetGlobalBuffer((__gm__ int32_t*)workspace);
    v.SetValue(GetBlockIdx(), GetBlockIdx() + 1);
    SyncAll(w, buffer.Get<int32_t>());
    const int32_t next = v.GetValue((GetBlockIdx() + 1) % GetBlockNum());
    SyncAll(w, buffer.Get<int32_t>());
    v.SetValue(GetBlockIdx(), next);
}
"""
    values = np.zeros(6, np.int32)
    kernel(text, 2, checked=True).launch(values, np.zeros(6 * 8, np.int32), blocks=6)
    np.testing.assert_array_equal(values, [2, 3, 4, 5, 6, 1])


_FIRST_CORES = """
extern "C" __global__ __aicore__ void kernel(GM_ADDR values, GM_ADDR workspace, GM_ADDR used)
{
    TPipe pipe;
    TBuf<TPosition::VECCALC> buffer;
    pipe.InitBuffer(buffer, 32 * GetBlockNum());
    GlobalTensor<int32_t> v, w, u;
    v.SetGlobalBuffer((__gm__ int32_t*)values);
    w.SetGlobalBuffer((__gm__ int32_t*)workspace);
    u.SetGlobalBuffer((__gm__ int32_t*)used);
    const int32_t me = GetBlockIdx(), meet = u.GetValue(0), cores = u.GetValue(1);
    if (me < meet) {
        v.SetValue(me, me + 1);
        SyncAll(w, buffer.Get<int32_t>(), cores);
        int32_t sum = 0;
        for (int32_t i = 0; i < cores; ++i) {
            sum += v.GetValue(i);
        }
        SyncAll(w, buffer.Get<int32_t>(), cores);
        v.SetValue(me, sum);
    }
    SyncAll();
    if (me == 5) {
        v.SetValue(6, v.GetValue(0));
    }
}
"""


def test_sync_all_of_the_first_cores() -> None:
    compiled = kernel(_FIRST_CORES, 3, checked=True)
    values, workspace = np.zeros(7, np.int32), np.zeros(6 * 8, np.int32)
    compiled.launch(values, workspace, np.array([4, 4], np.int32), blocks=6)
    np.testing.assert_array_equal(values, [10, 10, 10, 10, 0, 0, 10])
    for meet, cores in ((5, 4), (6, 7)):
        with pytest.raises(TwinFault, match=f"usedCores is {cores} on core") as caught:
            compiled.launch(values, workspace, np.array([meet, cores], np.int32), blocks=6)
        assert caught.value.code == "NPK-RC08"
    with pytest.raises(TwinFault, match="AIV 0 in SyncAll"):
        compiled.launch(values, workspace, np.array([3, 4], np.int32), blocks=6)


_IDENTITY = """
extern "C" __global__ __aicore__ void kernel(GM_ADDR out)
{
    GlobalTensor<int32_t> o;
    o.SetGlobalBuffer((__gm__ int32_t*)out);
    const int32_t row = ASCEND_IS_AIC ? GetBlockIdx() : GetBlockNum() + GetBlockIdx();
    o.SetValue(row * 4, GetBlockIdx());
    o.SetValue(row * 4 + 1, GetSubBlockIdx());
    o.SetValue(row * 4 + 2, GetTaskRation());
    o.SetValue(row * 4 + 3, ASCEND_IS_AIC ? 1 : 2);
}
"""


@pytest.mark.parametrize(("kernel_type", "ratio"), [("MIX_AIC_1_2", 2), ("MIX_AIC_1_1", 1)])
def test_a_mixed_kernel_starts_one_cube_core_and_its_vector_cores(kernel_type: str, ratio: int) -> None:
    out = np.zeros((3 + 3 * ratio, 4), np.int32)
    kernel(_IDENTITY, 1, kernel_type).launch(out, blocks=3)
    cube = [[i, 0, 1, 1] for i in range(3)]
    vector = [[i, i % ratio, ratio, 2] for i in range(3 * ratio)]
    np.testing.assert_array_equal(out, cube + vector)


@pytest.mark.parametrize("kernel_type", ["AIV_ONLY", "AIC_ONLY"])
def test_other_kernels_start_one_core_for_each_block(kernel_type: str) -> None:
    kind = 1 if kernel_type == "AIC_ONLY" else 2
    out = np.zeros((10, 4), np.int32)
    kernel(_IDENTITY, 1, kernel_type).launch(out, blocks=5)
    rows = out[:5] if kind == 1 else out[5:]
    np.testing.assert_array_equal(rows, [[i, 0, 1, kind] for i in range(5)])


# The cube core and its two vector cores pass a counter to and fro in global memory.
_HAND_OVER = """
extern "C" __global__ __aicore__ void kernel(GM_ADDR state, GM_ADDR rounds)
{
    GlobalTensor<int32_t> s, r;
    s.SetGlobalBuffer((__gm__ int32_t*)state + (ASCEND_IS_AIC ? GetBlockIdx() : GetBlockIdx() / 2) * 4);
    r.SetGlobalBuffer((__gm__ int32_t*)rounds);
    const int32_t count = r.GetValue(0);
    for (int32_t i = 0; i < count; ++i) {
        if ASCEND_IS_AIC {
            s.SetValue(0, s.GetValue(1) + s.GetValue(2) + 1);
            CrossCoreSetFlag<2, PIPE_FIX>(3);
            CrossCoreWaitFlag(4);
        } else {
            CrossCoreWaitFlag(3);
            s.SetValue(1 + GetSubBlockIdx(), s.GetValue(0) % 1000 + GetSubBlockIdx());
            CrossCoreSetFlag<2, PIPE_MTE3>(4);
        }
    }
}
"""


@pytest.mark.parametrize("checked", [False, True], ids=["fast", "checked"])
def test_cube_and_vector_cores_hand_over_with_flags(checked: bool) -> None:
    state = np.zeros((5, 4), np.int32)
    kernel(_HAND_OVER, 2, "MIX_AIC_1_2", checked=checked).launch(state, np.array([50], np.int32), blocks=5)
    a = b = c = 0
    for _ in range(50):
        a = b + c + 1
        b, c = a % 1000, a % 1000 + 1
    np.testing.assert_array_equal(state[:, :3], [[a, b, c]] * 5)


_MODES = """
extern "C" __global__ __aicore__ void kernel(GM_ADDR values, GM_ADDR sums)
{
    GlobalTensor<int32_t> v, s;
    v.SetGlobalBuffer((__gm__ int32_t*)values);
    s.SetGlobalBuffer((__gm__ int32_t*)sums);
    if ASCEND_IS_AIC { return; }
    const int32_t me = GetBlockIdx(), all = 2 * GetBlockNum();
    v.SetValue(me, me + 1);
    CrossCoreSetFlag<1, PIPE_MTE3>(5);
    CrossCoreWaitFlag<1>(5);
    s.SetValue(me, v.GetValue(me / 2 * 2) * v.GetValue(me / 2 * 2 + 1));
    CrossCoreSetFlag<0, PIPE_MTE3>(6);
    CrossCoreWaitFlag(6);
    int32_t total = 0;
    for (int32_t i = 0; i < all; ++i) {
        total += s.GetValue(i);
    }
    v.SetValue(me, total);
}
"""


def test_flags_within_a_group_and_across_all_cores() -> None:
    values, sums = np.zeros(8, np.int32), np.zeros(8, np.int32)
    kernel(_MODES, 2, "MIX_AIC_1_2").launch(values, sums, blocks=4)
    products = np.repeat([1 * 2, 3 * 4, 5 * 6, 7 * 8], 2)
    np.testing.assert_array_equal(sums, products)
    np.testing.assert_array_equal(values, products.sum())


def test_a_missing_partner_is_a_deadlock_with_names() -> None:
    text = """
extern "C" __global__ __aicore__ void kernel(GM_ADDR out)
{
    (void)out;
    if ASCEND_IS_AIC {
        CrossCoreWaitFlag(7);
    }
}
"""
    with pytest.raises(TwinFault) as caught:
        kernel(text, 1, "MIX_AIC_1_2", checked=True).launch(np.zeros(4, np.int32), blocks=3)
    assert caught.value.code == "NPK-RC09"
    assert caught.value.line == 8
    for core in range(3):
        assert f"AIC {core} for cross-core flag 7 (line 8)" in caught.value.message


def test_a_core_that_skips_sync_all_is_a_deadlock() -> None:
    text = """
extern "C" __global__ __aicore__ void kernel(GM_ADDR out)
{
    (void)out;
    if (GetBlockIdx() != 2) {
        SyncAll();
    }
}
"""
    with pytest.raises(TwinFault, match="AIV 0 in SyncAll; AIV 1 in SyncAll; AIV 3 in SyncAll") as caught:
        kernel(text, 1).launch(np.zeros(4, np.int32), blocks=4)
    assert caught.value.code == "NPK-RC09"


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("CrossCoreSetFlag<0, PIPE_MTE3>(16);", "0 to 15"),
        ("CrossCoreWaitFlag(16);", "0 to 15"),
        ("CrossCoreSetFlag<2, PIPE_MTE3>(1);", "need a mixed kernel"),
        ("for (int i = 0; i < 16; ++i) CrossCoreSetFlag<0, PIPE_MTE3>(1);", "four bits"),
    ],
)
def test_misuse_of_a_cross_core_flag_is_a_fault(statement: str, message: str) -> None:
    text = f'extern "C" __global__ __aicore__ void kernel(GM_ADDR out) {{ (void)out; {statement} }}'
    with pytest.raises(TwinFault, match=message) as caught:
        kernel(text, 1).launch(np.zeros(4, np.int32))
    assert caught.value.code == "NPK-RC07"


def test_a_fault_on_one_core_stops_the_others_and_the_next_launch_is_sound() -> None:
    text = """
extern "C" __global__ __aicore__ void kernel(GM_ADDR out, GM_ADDR who)
{
    GlobalTensor<int32_t> o, w;
    o.SetGlobalBuffer((__gm__ int32_t*)out);
    w.SetGlobalBuffer((__gm__ int32_t*)who);
    TPipe pipe;
    TQue<TPosition::VECIN, 1> queue;
    pipe.InitBuffer(queue, 1, 32);
    if (GetBlockIdx() == w.GetValue(0)) {
        queue.DeQue<float>();
    }
    SyncAll();
    o.SetValue(GetBlockIdx(), 1);
}
"""
    compiled = kernel(text, 2)
    out = np.zeros(8, np.int32)
    for _ in range(3):
        with pytest.raises(TwinFault) as caught:
            compiled.launch(out, np.array([5], np.int32), blocks=8)
        assert (caught.value.code, caught.value.core) == ("NPK-RC06", "AIV 5")
        np.testing.assert_array_equal(out, 0)
    compiled.launch(out, np.array([-1], np.int32), blocks=8)
    np.testing.assert_array_equal(out, 1)


def test_atomic_add_from_all_cores() -> None:
    text = """
extern "C" __global__ __aicore__ void kernel(GM_ADDR out)
{
    GlobalTensor<float> o;
    o.SetGlobalBuffer((__gm__ float*)out, 100);
    TPipe pipe;
    TBuf<TPosition::VECCALC> buffer;
    pipe.InitBuffer(buffer, 512);
    LocalTensor<float> t = buffer.Get<float>();
    Duplicate(t, 1.0f, 100);
    PipeBarrier<PIPE_ALL>();
    SetAtomicAdd<float>();
    DataCopyPad(o, t, {1, 400, 0, 0, 0});
    SetAtomicNone();
}
"""
    out = np.arange(100, dtype=np.float32)
    kernel(text, 1).launch(out, blocks=40)
    np.testing.assert_array_equal(out, np.arange(100) + 40)


_HALVE = """
extern "C" __global__ __aicore__ void kernel(GM_ADDR x)
{
    GlobalTensor<float> g;
    g.SetGlobalBuffer((__gm__ float*)x + 64 * GetBlockIdx(), 64);
    TPipe pipe;
    TBuf<TPosition::VECCALC> buffer;
    pipe.InitBuffer(buffer, 256);
    LocalTensor<float> t = buffer.Get<float>();
    DataCopy(t, g, 64);
    PipeBarrier<PIPE_ALL>();
    Muls(t, t, 0.5f, 64);
    PipeBarrier<PIPE_ALL>();
    DataCopy(g, t, 64);
}
"""


@pytest.mark.parametrize("blocks", [1, 16])
def test_denormals_live_in_a_thread_that_flushes_them(blocks: int) -> None:
    x = np.full(64 * blocks, 1.5e-38, np.float32)
    compiled = kernel(_HALVE, 1)
    driver().driver_flush_denormals(1)
    before = driver().driver_float_controls()
    try:
        compiled.launch(x, blocks=blocks)
        after = driver().driver_float_controls()
    finally:
        driver().driver_flush_denormals(0)
    assert before == after
    np.testing.assert_array_equal(x.view(np.uint32), np.float32(0.75e-38).view(np.uint32))


def test_many_threads_share_the_pool() -> None:
    compiled = kernel(_RING, 2)
    blocks, wrong = 6, []
    row = np.arange(blocks, dtype=np.int32)
    for _ in range(20):
        row = row + np.roll(row, -1) % 7

    def work() -> None:
        for _ in range(30):
            values = np.zeros(2 * blocks, np.int32)
            values[:blocks] = np.arange(blocks)
            compiled.launch(values, np.array([20], np.int32), blocks=blocks)
            if not np.array_equal(values[:blocks], row):
                wrong.append(values)

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_launches_with_a_pool_of_its_own() -> None:
    compiled = kernel(_HALVE, 1)
    compiled.launch(np.ones(64 * 16, np.float32), blocks=16)
    child = os.fork()
    if child == 0:
        x = np.ones(64 * 16, np.float32)
        try:
            compiled.launch(x, blocks=16)
            os._exit(0 if (x == 0.5).all() else 1)
        except BaseException:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_printf_reaches_standard_output(capfd: pytest.CaptureFixture[str]) -> None:
    text = 'extern "C" __global__ __aicore__ void kernel(GM_ADDR x) { (void)x; AscendC::printf("block %d of %s\\n", 3, "four"); }'
    launch_once(_HEAD + text, np.zeros(1, np.int32))
    assert capfd.readouterr().out == "block 3 of four\n"


@pytest.mark.parametrize("blocks", [0, 65536])
def test_a_launch_needs_a_legal_number_of_blocks(blocks: int) -> None:
    with pytest.raises(TwinFault, match=f"the launch has {blocks} blocks") as caught:
        kernel(_HALVE, 1).launch(np.ones(64, np.float32), blocks=blocks)
    assert caught.value.code == "NPK-RC11"


_RECURSE = """
int64_t sum(int64_t n) { volatile int64_t room[64] = {n}; return n == 0 ? 0 : sum(n - 1) % 1000003 + room[0]; }
extern "C" __global__ __aicore__ void kernel(GM_ADDR x)
{
    GlobalTensor<int64_t> g;
    g.SetGlobalBuffer((__gm__ int64_t*)x);
    g.SetValue(1, sum(g.GetValue(0)));
}
"""


@pytest.mark.parametrize("checked", [False, True], ids=["fast", "checked"])
def test_a_used_up_stack_is_a_fault(checked: bool) -> None:
    compiled = kernel(_RECURSE, 1, checked=checked)
    for _ in range(2):
        with pytest.raises(TwinFault, match="the core's stack of 256 KB is used up") as caught:
            compiled.launch(np.array([10**6, 0], np.int64))
        assert (caught.value.code, caught.value.core) == ("NPK-RC10", "AIV 0")
    x = np.array([100, 0], np.int64)
    compiled.launch(x)
    assert x[1] == 5050


_NO_TRAP = platform.machine() not in ("x86_64", "AMD64")

_TRAPS = """
__attribute__((noinline)) int32_t large_frame(int32_t at)
{
    volatile int8_t values[400 * 1024];
    values[at] = 1;
    return values[at];
}
extern "C" __global__ __aicore__ void kernel(GM_ADDR x)
{
    GlobalTensor<int32_t> g;
    g.SetGlobalBuffer((__gm__ int32_t*)x);
    const int32_t a = g.GetValue(1), b = g.GetValue(2);
    switch (g.GetValue(0)) {
    case 0: g.SetValue(3, a / b); break;
    case 1: g.SetValue(3, a % b); break;
    case 2: __builtin_trap();
    case 3: g.SetValue(3, large_frame(a)); break;
    }
}
"""

_INT_MIN = np.iinfo(np.int32).min


@pytest.mark.parametrize(
    ("what", "code"),
    [
        pytest.param((0, 7, 0), "NPK-RC08", marks=pytest.mark.skipif(_NO_TRAP, reason="Arm divides by zero")),
        pytest.param((1, 7, 0), "NPK-RC08", marks=pytest.mark.skipif(_NO_TRAP, reason="Arm divides by zero")),
        pytest.param((0, _INT_MIN, -1), "NPK-RC08", marks=pytest.mark.skipif(_NO_TRAP, reason="Arm wraps")),
        ((2, 0, 0), "NPK-RC11"),
        ((3, 0, 0), "NPK-RC10"),
    ],
    ids=["quotient", "remainder", "overflow", "trap", "frame larger than the stack"],
)
def test_what_the_host_traps_is_a_fault_and_the_process_goes_on(what: tuple[int, int, int], code: str) -> None:
    for checked in (False, True):
        compiled = kernel(_TRAPS, 1, checked=checked)
        with pytest.raises(TwinFault) as caught:
            compiled.launch(np.array([*what, 0], np.int32))
        assert (caught.value.code, caught.value.core) == (code, "AIV 0")
        x = np.array([0, 7, 2, 0], np.int32)
        compiled.launch(x)
        assert x[3] == 3


def test_a_wild_access_is_a_fault_and_the_process_goes_on() -> None:
    text = """
extern "C" __global__ __aicore__ void kernel(GM_ADDR x)
{
    GlobalTensor<int32_t> g;
    g.SetGlobalBuffer((__gm__ int32_t*)x + (GetBlockIdx() == 1 ? (1ll << 45) : 0));
    g.SetValue(0, 7);
}
"""
    compiled, x = kernel(text, 1), np.zeros(8, np.int32)
    with pytest.raises(TwinFault, match="no memory of the kernel") as caught:
        compiled.launch(x, blocks=3)
    assert (caught.value.code, caught.value.core) == ("NPK-RC01", "AIV 1")
    compiled.launch(x, blocks=1)
    assert x[0] == 7
