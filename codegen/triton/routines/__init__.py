"""Primitives with hand-written Triton kernels: sorts, scatters, cumulative operations, gradients of maxima."""
