"""How tensor cores of GPUs multiply float32 numbers: the modes, and the one that the environment asks for.

float32   three products of tf32 numbers; errors are those of float32
tf32      one product of the nearest tf32 numbers, which have 10 bits of mantissa
bf16x3    three products of bfloat16 numbers
exact     float32 multiplications and additions, without tensor cores
"""

from __future__ import annotations

import os

from .settings import settings

PRECISIONS = ("float32", "tf32", "bf16x3", "exact")
_UNSET = ("", "0")


def default_precision() -> str:
    """The mode of `MXFORGE_MATMUL`, else that of MXNet's variables, else float32. ValueError for an unknown mode.

    MXNET_CUDA_ALLOW_TENSOR_CORE=0 forbids tensor cores, and MXNET_CUDA_TENSOR_OP_MATH_ALLOW_CONVERSION=1 allows them
    shorter numbers than float32: here tf32, which has float32's range. With NVIDIA_TF32_OVERRIDE=0, as in NVIDIA's
    libraries, tf32 is float32.
    """
    mode = settings().matmul
    if mode and mode not in PRECISIONS:
        raise ValueError(f"MXFORGE_MATMUL={mode!r} is unknown: use {', '.join(PRECISIONS)}")
    if not mode and os.environ.get("MXNET_CUDA_ALLOW_TENSOR_CORE", "1") == "0":
        mode = "exact"
    if not mode and os.environ.get("MXNET_CUDA_TENSOR_OP_MATH_ALLOW_CONVERSION", "") not in _UNSET:
        mode = "tf32"
    is_forbidden = mode == "tf32" and os.environ.get("NVIDIA_TF32_OVERRIDE", "") == "0"
    return "float32" if not mode or is_forbidden else mode
