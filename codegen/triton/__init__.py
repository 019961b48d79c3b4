"""The second target: Kernels as Triton source text, compiled for NVIDIA GPUs without a GPU and without torch."""
