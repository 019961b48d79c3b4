"""Kernels of primitives that no index expression describes: running combinations, scatters, sorts, window gradients,
factorizations of matrices."""

from .emit import emit_routine, has_routine

__all__ = ["emit_routine", "has_routine"]
