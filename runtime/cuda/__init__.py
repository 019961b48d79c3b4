"""NVIDIA GPUs as devices, through the CUDA driver."""
