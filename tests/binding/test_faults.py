"""A fault inside a compiled call reaches the user as an error with a code, a core and a Python line."""

from __future__ import annotations

import threading
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from npu_kernels import _native, errors
from npu_kernels.binding.registration import fault_in


@pytest.fixture
def overrun(add_one: Any) -> Any:
    """A kernel that is told of 4096 elements where there are 100."""
    return add_one(100, claims=4096, blocks=1)


def _message(f: Any, *args: Any) -> str:
    with pytest.raises(jax.errors.JaxRuntimeError) as caught:
        jax.block_until_ready(f(*args))
    return str(caught.value)


def test_the_first_line_has_code_kernel_core_and_python_line(overrun: Any) -> None:
    f = jax.jit(lambda x: overrun.bind(x, checked=True)[0])
    first = _message(f, jnp.zeros(100)).splitlines()[0]
    # XLA puts the class of the status before what the handler says.
    assert first.removeprefix("INTERNAL: ").startswith("NPK-RC01: kernel add_one on AIV 0 at /model/kernels.py:7: ")


def test_last_fault_is_the_report_of_the_launch_in_the_message(overrun: Any) -> None:
    message = _message(jax.jit(lambda x: overrun.bind(x, checked=True)[0]), jnp.zeros(100))
    fault = fault_in(message)
    assert fault is not None
    assert fault == errors.last_fault() == errors.last_fault(fault.launch_id)
    assert (fault.code, fault.kernel, fault.core) == ("NPK-RC01", "add_one", "AIV 0")
    assert fault.python_location == "/model/kernels.py:7"
    assert "in.GetValue(i)" in overrun.source.text.splitlines()[fault.source_line - 1]
    assert "rule" in fault.details
    assert fault.message in message


def test_the_process_goes_on_after_a_fault(overrun: Any, add_one: Any) -> None:
    bad = jax.jit(lambda x: overrun.bind(x, checked=True)[0])
    good = jax.jit(lambda x: add_one(100).bind(x, checked=True)[0])
    for _ in range(3):
        _message(bad, jnp.zeros(100))
        np.testing.assert_array_equal(good(jnp.zeros(100)), np.ones(100))


def test_each_thread_finds_its_own_fault_by_launch(add_one: Any) -> None:
    kernels = {f"thread_{i}": add_one(100, claims=4096, blocks=1, name=f"thread_{i}") for i in range(4)}
    found: dict[str, Any] = {}

    def work(name: str) -> None:
        f = jax.jit(lambda x: kernels[name].bind(x, checked=True)[0])
        found[name] = fault_in(_message(f, jnp.zeros(100)))

    threads = [threading.Thread(target=work, args=(name,)) for name in kernels]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {name: fault.kernel for name, fault in found.items()} == {name: name for name in kernels}
    assert len({fault.launch_id for fault in found.values()}) == 4


def test_a_fault_of_a_direct_launch_is_known_by_its_thread(overrun: Any) -> None:
    artifact = overrun.build(checked=True)
    x, y = np.zeros(100, np.float32), np.zeros(100, np.float32)
    message = _native.launch(artifact.hash, "add_one", 1, 0, np.int32(4096).tobytes(), [x], [y])
    report = _native.fault_of_thread(threading.get_ident())
    assert message is not None and report is not None and report["message"] == message


def test_an_unknown_launch_has_no_fault() -> None:
    assert errors.last_fault(2**62) is None


def test_only_the_newest_faults_are_kept(overrun: Any) -> None:
    artifact = overrun.build(checked=True)
    x, y = np.zeros(100, np.float32), np.zeros(100, np.float32)
    first = None
    for _ in range(300):
        message = _native.launch(artifact.hash, "add_one", 1, 0, np.int32(4096).tobytes(), [x], [y])
        assert message is not None
        first = first or fault_in(message)
    assert first is not None
    assert errors.last_fault(first.launch_id) is None
    assert errors.last_fault() is not None


def test_an_eager_checked_call_raises_our_own_error(overrun: Any) -> None:
    with pytest.raises(errors.KernelFault) as caught:
        overrun(jnp.zeros(100), checked=True)
    assert caught.value.code == "NPK-RC01"
    assert caught.value.location == "/model/kernels.py:7"
