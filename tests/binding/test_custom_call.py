"""One custom call runs every kernel: under jit, eagerly, in loops, from threads, and after export."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from npu_kernels import _native
from npu_kernels.binding import launches
from npu_kernels.errors import KnobError


def _call(kernel: Any, checked: bool = False) -> Any:
    return lambda x: kernel.bind(x, checked=checked)[0]


def test_a_kernel_runs_inside_jit_between_other_operations(add_one: Any) -> None:
    f = jax.jit(lambda x: _call(add_one(11))(x * 2) * 3)
    x = np.arange(11, dtype=np.float32)
    np.testing.assert_array_equal(f(x), (2 * x + 1) * 3)


def test_a_kernel_runs_eagerly(add_one: Any) -> None:
    np.testing.assert_array_equal(_call(add_one(5))(jnp.zeros(5)), np.ones(5))


def test_an_empty_array_gives_an_empty_array(add_one: Any) -> None:
    assert _call(add_one(0))(jnp.zeros(0)).shape == (0,)


def test_the_jaxpr_names_the_kernel(add_one: Any) -> None:
    text = str(jax.make_jaxpr(_call(add_one(4, name="my_kernel")))(jnp.zeros(4)))
    assert "npu_kernel_call[checked=False kernel=my_kernel]" in text


def test_stablehlo_carries_hash_name_blocks_workspace_and_tiling(add_one: Any) -> None:
    text = jax.jit(_call(add_one(4, blocks=3))).lower(jnp.zeros(4)).as_text()
    assert "@npu_kernels.launch" in text
    for attribute in ("blocks = 3", 'name = "add_one"', 'tiling = "04000000"', "workspace_bytes = 0", 'hash = "'):
        assert attribute in text


def test_launches_are_counted_per_kernel_and_per_iteration_of_a_loop(add_one: Any) -> None:
    first, second = add_one(4, name="first"), add_one(4, name="second")

    @jax.jit
    def f(x: Any) -> Any:
        x = jax.lax.fori_loop(0, 25, lambda _, x: _call(first)(x), x)
        return _call(second)(x)

    np.testing.assert_array_equal(f(jnp.zeros(4)), np.full(4, 26))
    assert launches() == {"first": 25, "second": 1}


def test_a_scan_compiles_its_kernel_once_and_launches_it_each_time(add_one: Any) -> None:
    kernel = add_one(3)
    f = jax.jit(lambda x: jax.lax.scan(lambda c, _: (_call(kernel)(c), None), x, length=7)[0])
    assert f.lower(jnp.zeros(3)).as_text().count("@npu_kernels.launch") == 1
    np.testing.assert_array_equal(f(jnp.zeros(3)), np.full(3, 7))
    assert launches() == {"add_one": 7}


def test_a_call_whose_result_is_unused_is_not_launched(add_one: Any) -> None:
    kernel = add_one(3)

    @jax.jit
    def f(x: Any) -> Any:
        _call(kernel)(x)
        return x

    f(jnp.zeros(3)).block_until_ready()
    assert launches()["add_one"] == 0


def test_no_python_runs_between_launches(add_one: Any) -> None:
    kernel = add_one(4)
    f = jax.jit(lambda x: jax.lax.fori_loop(0, 5000, lambda _, x: _call(kernel)(x), x))
    f(jnp.zeros(4)).block_until_ready()
    entered = []
    threading.setprofile_all_threads(lambda *event: entered.append(event)) if hasattr(
        threading, "setprofile_all_threads"
    ) else sys.setprofile(lambda *event: entered.append(event))
    try:
        f(jnp.zeros(4)).block_until_ready()
    finally:
        threading.setprofile_all_threads(None) if hasattr(threading, "setprofile_all_threads") else sys.setprofile(None)
    assert launches()["add_one"] == 10000
    assert len(entered) < 1000


@pytest.mark.parametrize("checked", [False, True])
def test_call_sites_of_different_sizes_share_workspaces_one_after_the_other(
    through_workspace: Any, checked: bool
) -> None:
    kernels = [through_workspace(size) for size in (1000, 600, 30, 1000)]
    f = jax.jit(lambda xs: [_call(kernel, checked)(x) for kernel, x in zip(kernels, xs, strict=True)])
    xs = [np.arange(kernel.outputs[0].shape[0], dtype=np.float32) for kernel in kernels]
    for _ in range(3):
        for x, y in zip(xs, f(xs), strict=True):
            np.testing.assert_array_equal(y, x + 1)


def test_threads_share_an_executable_and_have_workspaces_of_their_own(through_workspace: Any) -> None:
    kernel = through_workspace(64)
    f = jax.jit(lambda x: jax.lax.fori_loop(0, 50, lambda _, x: _call(kernel)(x), x))
    f(jnp.zeros(64)).block_until_ready()
    wrong: list[Any] = []

    def work(start: int) -> None:
        for _ in range(10):
            result = np.asarray(f(jnp.full(64, float(start))))
            if not (result == start + 50).all():
                wrong.append(result)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert launches()["through_workspace"] == 50 * 61


def test_threads_that_build_and_load_at_once_get_one_kernel_each(add_one: Any, fresh_cache: Path) -> None:
    kernels = [add_one(9, name=f"kernel_{i}") for i in range(4)]
    results: dict[int, Any] = {}
    threads = [
        threading.Thread(target=lambda i=i: results.update({i: np.asarray(_call(kernels[i % 4])(jnp.zeros(9)))}))
        for i in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(results) == list(range(8))
    assert all((r == 1).all() for r in results.values())
    assert launches() == {f"kernel_{i}": 2 for i in range(4)}


@pytest.mark.parametrize("threads", ["1", "2", "1000"])
def test_any_number_of_threads_runs_all_blocks(add_one: Any, threads: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NPU_KERNELS_THREADS", threads)
    np.testing.assert_array_equal(jax.jit(_call(add_one(1000, blocks=40)))(jnp.zeros(1000)), np.ones(1000))


def test_a_number_of_threads_that_cannot_be_used_is_refused_at_the_call(
    add_one: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NPU_KERNELS_THREADS", "many")
    with pytest.raises(KnobError, match="NPK-KN01: NPU_KERNELS_THREADS='many'"):
        _call(add_one(5))(jnp.zeros(5))


def test_a_wrong_number_of_arguments_is_refused_before_the_launch(add_one: Any) -> None:
    artifact = add_one(4).build(checked=False)
    x = np.zeros(4, np.float32)
    message = _native.launch(artifact.hash, "add_one", 1, 0, b"\4\0\0\0", [x, x], [x])
    assert message is not None and message.startswith("NPK-RC11: kernel add_one: takes 4 arguments")


EXPORTED = """
import sys, pathlib, numpy as np, jax, jax.export
from npu_kernels.binding import ensure_registered, launches
ensure_registered()
exported = jax.export.deserialize(bytearray(pathlib.Path(sys.argv[1]).read_bytes()))
print(np.asarray(exported.call(np.zeros(4, np.float32))).tolist(), dict(launches()))
"""


def _run_exported(path: Path, cache: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-P", "-c", EXPORTED, str(path)],
        env={**os.environ, "NPU_KERNELS_CACHE_DIR": str(cache)},
        capture_output=True,
        text=True,
    )


def test_an_exported_program_runs_in_another_process_that_has_the_artifact(
    add_one: Any, fresh_cache: Path, tmp_path: Path
) -> None:
    check = jax.export.DisabledSafetyCheck.custom_call("npu_kernels.launch")
    exported = jax.export.export(jax.jit(_call(add_one(4))), disabled_checks=[check])(jnp.zeros(4))
    (tmp_path / "program").write_bytes(exported.serialize())
    result = _run_exported(tmp_path / "program", fresh_cache)
    assert result.stdout.strip() == "[1.0, 1.0, 1.0, 1.0] {'add_one': 1}", result.stderr


def test_an_artifact_missing_at_load_is_an_error_that_says_how_to_build_it(
    add_one: Any, fresh_cache: Path, tmp_path: Path
) -> None:
    lowered = jax.jit(_call(add_one(4, name="gone"))).lower(jnp.zeros(4))
    (hash_,) = (folder.name for folder in (fresh_cache / "artifacts").glob("*/*"))
    (fresh_cache / "artifacts" / hash_[:2]).rename(tmp_path / "elsewhere")
    with pytest.raises(jax.errors.JaxRuntimeError, match=r"NPK-CA01: kernel gone: .*Build it by calling or lowering"):
        lowered.compile()
