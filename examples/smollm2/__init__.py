"""SmolLM2-135M-Instruct in plain JAX, answered once as written and once on generated Ascend C."""
