"""`mx.sym.linalg`: factorizations, products and solvers of matrices, created from the operators' declarations."""

from __future__ import annotations

from .ops import attribute_finder

__getattr__, __dir__ = attribute_finder("linalg", globals())
