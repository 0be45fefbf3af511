"""A decorated Python function is a JAX function: checked, specialised, traced, built and run."""

from __future__ import annotations

import threading
import traceback
from typing import Any

import jax
import jax.export
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from jaxtyping import Float

import npu_kernels.language as nl
from npu_kernels import npu_kernel
from npu_kernels.binding import launches
from npu_kernels.errors import LanguageError, LoweringError, SignatureError, ToolchainError, TransformError

traced_bodies: list[str] = []


@npu_kernel
def scale(x: Float[nl.Tensor, "rows dim"], *, factor: float = 2.0) -> Float[nl.Tensor, "rows dim"]:
    """Multiplies by a number."""
    traced_bodies.append(repr(factor))
    rows, _dim = x.shape
    out = nl.output(x.shape, x.dtype)
    for r in nl.parallel(rows, step=8):
        t = nl.load(x[r : r + 8, :]).astype(nl.float32)
        nl.store(out[r : r + 8, :], (t * factor).astype(out.dtype))
    return out


@npu_kernel
def add_row(
    x: Float[nl.Tensor, "rows dim"], row: Float[nl.Tensor, "dim"]
) -> tuple[Float[nl.Tensor, "rows dim"], Float[nl.Tensor, "rows"]]:
    rows, _dim = x.shape
    total = nl.output(x.shape, x.dtype)
    sums = nl.output((rows,), x.dtype)
    r0 = nl.load(row)
    for r in nl.parallel(rows, step=4):
        t = nl.load(x[r : r + 4, :]) + r0
        nl.store(total[r : r + 4, :], t)
        nl.store(sums[r : r + 4], nl.sum(t, axis=-1))
    return total, sums


@npu_kernel
def transposed_claim(x: Float[nl.Tensor, "rows dim"]) -> Float[nl.Tensor, "dim rows"]:
    rows, _dim = x.shape
    out = nl.output(x.shape, x.dtype)
    for r in nl.parallel(rows, step=8):
        nl.store(out[r : r + 8, :], nl.load(x[r : r + 8, :]))
    return out


def _x(rows: int, dim: int, dtype: Any = np.float32) -> Any:
    return np.random.default_rng(rows * 1000 + dim).standard_normal((rows, dim)).astype(dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("shape", [(1, 1), (8, 32), (13, 50)])
def test_eager_jit_and_interpreted_calls_give_the_same(shape: tuple[int, int], dtype: Any) -> None:
    x = _x(*shape, dtype)
    eager = scale(x, factor=3.0)
    assert (eager.shape, eager.dtype) == (x.shape, x.dtype)
    # The product of an element and 3 in float32, rounded once: every path must do exactly that.
    expected = (x.astype(np.float32) * np.float32(3)).astype(dtype)
    for result in (eager, jax.jit(lambda x: scale(x, factor=3.0))(x), scale(x, factor=3.0, interpret=True)):
        np.testing.assert_array_equal(np.asarray(result), expected)


def test_several_outputs_are_a_tuple() -> None:
    x, row = _x(7, 33), np.arange(33, dtype=np.float32)
    total, sums = jax.jit(add_row)(x, row)
    np.testing.assert_array_equal(total, x + row)
    # 33 terms of size below 40 in float32, summed in another order: 33 roundings of at most 2^-24 of 1056.
    np.testing.assert_allclose(sums, (x.astype(np.float64) + row).sum(-1), atol=33 * 2.0**-24 * 1056)


def test_the_body_runs_once_per_shapes_dtypes_and_statics() -> None:
    traced_bodies.clear()
    for _ in range(2):
        for x in (_x(3, 17), _x(3, 18), _x(3, 17, np.float16)):
            for factor in (1, 1.0, 0.0, -0.0):
                scale.lower(x, factor=factor)
    assert len(traced_bodies) == 3 * 4


GAIN = 2.0


def amplified(t: Any) -> Any:
    return t * GAIN


@npu_kernel
def amplify(x: nl.Tensor) -> nl.Tensor:
    out = nl.output(x.shape, x.dtype)
    nl.store(out, amplified(nl.load(x)))
    return out


def test_a_global_that_changed_is_seen_by_the_next_call(monkeypatch: pytest.MonkeyPatch) -> None:
    shape = jax.ShapeDtypeStruct((4,), jnp.float32)
    before = amplify.lower(shape)
    assert amplify.lower(shape) is before
    monkeypatch.setitem(globals(), "GAIN", 3.0)
    assert "3.0" in str(amplify.lower(shape).ir) and "3.0" not in str(before.ir)


@npu_kernel
def exp(x: nl.Tensor) -> nl.Tensor:
    out = nl.output(x.shape, x.dtype)
    nl.store(out, nl.exp(nl.load(x)))
    return out


def test_a_kernel_may_have_the_name_of_a_c_function() -> None:
    assert np.allclose(exp(np.zeros(4, np.float32)), 1.0)


def test_negative_zero_is_another_static_than_zero() -> None:
    x = np.ones((1, 8), np.float32)
    assert not np.signbit(scale(x, factor=0.0)).any()
    assert np.signbit(scale(x, factor=-0.0)).all()


def test_a_traced_call_is_built_while_lowering_and_launched_once_per_execution() -> None:
    f = jax.jit(lambda x: scale(scale(x, factor=1.5), factor=2.5))
    x = _x(5, 21)
    before = launches()["scale"]
    for _ in range(3):
        f(x).block_until_ready()
    assert launches()["scale"] - before == 6


def test_the_kernel_keeps_its_name_and_doc() -> None:
    assert (scale.name, scale.__name__, scale.__doc__) == ("scale", "scale", "Multiplies by a number.")


def test_two_sizes_for_one_name_are_refused_at_the_line_of_the_call() -> None:
    with pytest.raises(SignatureError) as caught:
        add_row(_x(3, 8), np.zeros(9, np.float32))
    assert caught.value.code == "NPK-SH02"
    assert "dimension `dim` is 8 by axis 1 of `x`, but axis 0 of `row` has size 9" in str(caught.value)
    line = next(
        frame.lineno for frame in traceback.extract_tb(caught.value.__traceback__) if frame.filename == __file__
    )
    assert caught.value.location == f"{__file__}:{line}"


def test_a_refused_call_shows_one_frame_of_the_package() -> None:
    with pytest.raises(SignatureError) as caught:
        jax.jit(add_row)(_x(3, 8), np.zeros(9, np.float32))
    frames = traceback.extract_tb(caught.value.__traceback__)
    assert sum("npu_kernels/binding" in frame.filename for frame in frames) == 1
    assert caught.value.__cause__ is None


@pytest.mark.parametrize(
    ("call", "code"),
    [
        (lambda: scale(), "NPK-SG02"),
        (lambda: scale(_x(2, 2), _x(2, 2)), "NPK-SG02"),
        (lambda: scale(_x(2, 2), scale=3), "NPK-SG02"),
        (lambda: scale("text"), "NPK-SG02"),
        (lambda: scale(_x(2, 2), factor=jnp.float32(3)), "NPK-SG02"),
        (lambda: jax.jit(lambda f: scale(_x(2, 2), factor=f))(3.0), "NPK-SG02"),
        (lambda: scale(_x(2, 2), factor=[1.0]), "NPK-SG02"),
        (lambda: scale(np.zeros(3, np.float32)), "NPK-SH01"),
        (lambda: scale(np.zeros((2, 2), np.int8)), "NPK-DT01"),
        (lambda: scale(np.zeros((2, 2), np.int32)), "NPK-DT01"),
        (lambda: transposed_claim(_x(3, 4)), "NPK-SH02"),
    ],
)
def test_a_call_that_does_not_fit_is_refused(call: Any, code: str) -> None:
    with pytest.raises(SignatureError) as caught:
        call()
    assert caught.value.code == code
    assert (caught.value.location or "").startswith(__file__)


def test_an_error_in_the_body_keeps_the_authors_frame() -> None:
    @npu_kernel
    def wrong(x: Float[nl.Tensor, "rows dim"]) -> Float[nl.Tensor, "rows dim"]:
        out = nl.output(x.shape, x.dtype)
        nl.store(out[0:1, :], nl.load(x[0:99999, :]))
        return out

    with pytest.raises(LanguageError) as caught:
        wrong(_x(4, 8))
    frames = traceback.extract_tb(caught.value.__traceback__)
    assert frames[-1].filename == __file__
    assert "nl.load(x[0:99999, :])" in (frames[-1].line or "")


def test_interpret_is_eager_only() -> None:
    with pytest.raises(TransformError, match=r"NPK-TR01.*interpret"):
        jax.jit(lambda x: scale(x, interpret=True))(_x(2, 2))


def test_a_symbolic_size_is_refused_by_name() -> None:
    (size,) = jax.export.symbolic_shape("batch")
    spec = jax.ShapeDtypeStruct((size, 8), jnp.float32)
    with pytest.raises(TransformError, match=r"NPK-TR01.*`x` has the symbolic shape \(batch, 8\)"):
        jax.export.export(jax.jit(lambda x: scale(x)))(spec)


@pytest.mark.parametrize("wrap", [lambda f: f, jax.jit], ids=["eager", "jit"])
def test_a_missing_compiler_is_our_error_whoever_calls(
    wrap: Any, fresh_cache: Any, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ToolchainError, match="NPK-TC01"):
        wrap(lambda x: scale(x, factor=7.0))(_x(2, 3))


def test_threads_trace_kernels_of_their_own_at_once() -> None:
    results: dict[int, Any] = {}

    def work(i: int) -> None:
        own = npu_kernel(scale.__wrapped__)  # one kernel traces one call at a time
        for rows in range(1, 6):
            results[10 * i + rows] = own.lower(_x(rows + i, 16), factor=float(i)).ir

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 20
    for key, traced in results.items():
        i, rows = divmod(key, 10)
        assert traced.dims == {"rows": rows + i, "dim": 16}
        assert traced.statics == {"factor": float(i)}


def test_checked_mode_is_another_artifact_with_the_same_result(monkeypatch: pytest.MonkeyPatch) -> None:
    x = _x(9, 40)
    plain = jax.jit(lambda x: scale(x)).lower(x).as_text()
    by_argument = jax.jit(lambda x: scale(x, check=True)).lower(x).as_text()
    monkeypatch.setenv("NPU_KERNELS_CHECK", "1")
    by_knob = jax.jit(lambda x: scale(x)).lower(x).as_text()
    hash_of = lambda text: text.split('hash = "')[1][:64]  # noqa: E731
    assert hash_of(by_argument) == hash_of(by_knob) != hash_of(plain)
    np.testing.assert_array_equal(scale(x, check=True), scale(x, check=False))


def test_lower_gives_ir_source_and_report_without_building(fresh_cache: Any) -> None:
    lowered = scale.lower(jax.ShapeDtypeStruct((64, 128), jnp.float16), factor=0.5)
    assert "scale" in str(lowered.ir)
    assert "__global__ __aicore__ void scale_kernel(" in lowered.source
    assert not (fresh_cache / "artifacts").exists()
    report = lowered.report().as_dict()
    assert report["kernel"] == "scale"
    assert 1 <= report["blocks"] <= 8
    assert report["units"] == 8
    assert 0 < report["used"]["UB"] <= report["capacity"]["UB"]
    assert sum(b["bytes"] for b in report["buffers"] if b["memory"] == "UB") == report["used"]["UB"]


def test_a_report_prints_as_a_table() -> None:
    text = str(scale.lower(jax.ShapeDtypeStruct((64, 128), jnp.float32)).report())
    for word in ("UB", "together", "blocks", "iterations"):
        assert word in text


def test_a_kernel_too_large_for_the_chip_is_refused_while_tracing() -> None:
    spec = jax.ShapeDtypeStruct((8, 200_000), jnp.float32)
    with pytest.raises(LoweringError, match="NPK-UB01") as caught:
        jax.make_jaxpr(lambda x: scale(x))(spec)
    assert (caught.value.location or "").startswith(__file__)


def test_a_library_function_reports_a_misfit_at_the_callers_line_and_shows_no_inner_frames() -> None:

    from npu_kernels.errors import OperandError
    from npu_kernels.kernels import attention

    q, k = jnp.ones((1, 4, 3, 8)), jnp.ones((1, 4, 2, 8))
    with pytest.raises(OperandError, match="NPK-AT02") as caught:
        attention(q, k, k)
    assert caught.value.location is not None and caught.value.location.startswith(__file__)
    frames = [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]
    assert frames[1:] == ["wrapper"]
