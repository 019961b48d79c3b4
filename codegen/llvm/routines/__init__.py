"""Kernels of primitives whose result depends on an order of steps, which no index expression describes: cumulative
operations, scatters, sorts, gradients of maxima over windows, and matrix factorizations.
"""
