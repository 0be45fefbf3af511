"""One of two processes with two devices each; ``test_sharding.py`` starts both."""

from __future__ import annotations

import sys
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

from npu_kernels.kernels import rms_norm


def main(port: str, process: int) -> None:
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.distributed.initialize(f"localhost:{port}", num_processes=2, process_id=process)
    assert (len(jax.local_devices()), len(jax.devices())) == (2, 4)
    mesh = jax.make_mesh((4,), ("d",), axis_types=(AxisType.Auto,))
    x = np.asarray(jax.random.normal(jax.random.key(0), (8, 64)))
    expected = x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-6)
    placed = jax.make_array_from_callback(x.shape, NamedSharding(mesh, P("d")), lambda index: x[index])

    def norm(x: Any) -> Any:
        return rms_norm(x, eps=1e-6)

    compiled = jax.jit(norm).lower(placed).compile()
    assert "all-gather" not in compiled.as_text()
    for shard in compiled(placed).addressable_shards:
        assert shard.data.shape == (2, 64)
        np.testing.assert_allclose(shard.data, expected[shard.index], rtol=1e-5)

    # A sum over the processes, by the partitioner and by hand.
    total = jax.jit(lambda x: jnp.abs(norm(x)).sum())(placed)
    np.testing.assert_allclose(total, np.abs(expected).sum(), rtol=1e-5)
    by_hand = jax.shard_map(
        lambda x: jax.lax.psum(jnp.abs(norm(x)).sum(), "d"), mesh=mesh, in_specs=P("d"), out_specs=P()
    )
    np.testing.assert_allclose(jax.jit(by_hand)(placed), np.abs(expected).sum(), rtol=1e-5)
    jax.distributed.shutdown()
    print("agrees")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
