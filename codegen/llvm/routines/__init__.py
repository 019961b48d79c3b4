"""Kernels of primitives that no index expression describes: cumulative operations, scatters, sorts, gradients of
windows, matrix factorizations."""

from .emit import emit_routine, has_routine

__all__ = ["emit_routine", "has_routine"]
