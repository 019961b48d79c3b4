"""CUDA source compiled at run time, which mxforge does not support: its own compiler creates all kernels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .base import MXNetError

__all__ = ["CudaKernel", "CudaModule"]

_TEXT = "mx.rtc compiles CUDA source for NVIDIA GPUs, which mxforge does not: use operators, or a CustomOp"


class CudaModule:
    """Raises MXNetError."""

    def __init__(self, source: str, options: Sequence[str] = (), exports: Sequence[str] = ()) -> None:
        raise MXNetError(_TEXT)

    def get_kernel(self, name: str, signature: str) -> CudaKernel:
        """Raises MXNetError."""
        raise MXNetError(_TEXT)


class CudaKernel:
    """Raises MXNetError."""

    def __init__(self, handle: Any, name: str, is_ndarray: Any, dtypes: Any) -> None:
        raise MXNetError(_TEXT)

    def launch(self, args: Any, ctx: Any, grid_dims: Any, block_dims: Any, shared_mem: int = 0) -> None:
        """Raises MXNetError."""
        raise MXNetError(_TEXT)
