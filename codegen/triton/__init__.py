"""The GPU target: emits Kernels as Triton source text and compiles it for NVIDIA GPUs, without a GPU or torch."""
