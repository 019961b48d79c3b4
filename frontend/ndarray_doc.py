"""MXNet's module for additional documentation of arrays. In mxforge, operators are documented in their declarations."""

from __future__ import annotations


class NDArrayDoc:
    """A subclass called `NAMEDoc` documents the operator NAME."""


class ReshapeDoc(NDArrayDoc):
    """`nd.reshape(x, shape=(-1, 2))` returns the same elements in another shape."""


class elemwise_addDoc(NDArrayDoc):
    """`nd.elemwise_add(a, b)` adds arrays of the same shape."""


class BroadcastToDoc(NDArrayDoc):
    """`nd.broadcast_to(x, shape=(2, 3))` repeats axes of extent 1; 0 in the shape keeps an axis."""


class StackDoc(NDArrayDoc):
    """`nd.stack(a, b, axis=0)` joins arrays of the same shape along a new axis."""


class CustomDoc(NDArrayDoc):
    """`nd.Custom(x, op_type="name")` calls an operator that a program registered."""
