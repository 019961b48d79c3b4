"""Kernels of primitives whose result depends on an order of steps, which no index expression describes: cumulative
operations, scatters, sorts, gradients of maxima over windows, and matrix factorizations.
"""

from .emit import emit_routine, has_routine

__all__ = ["emit_routine", "has_routine"]
