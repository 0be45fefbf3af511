"""A small language model trained twice, once as plain JAX and once on kernels."""
