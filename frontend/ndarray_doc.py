"""The place of MXNet's additional documentation of arrays. Here an operator's documentation is its declaration's."""

from __future__ import annotations


class NDArrayDoc:
    """A subclass called `NAMEDoc` documents the operator NAME."""


class ReshapeDoc(NDArrayDoc):
    """`nd.reshape(x, shape=(-1, 2))` is the same elements under another shape."""


class elemwise_addDoc(NDArrayDoc):
    """`nd.elemwise_add(a, b)` adds arrays of one shape."""


class BroadcastToDoc(NDArrayDoc):
    """`nd.broadcast_to(x, shape=(2, 3))` repeats axes of extent 1; 0 in the shape keeps an axis."""


class StackDoc(NDArrayDoc):
    """`nd.stack(a, b, axis=0)` puts arrays of one shape along a new axis."""


class CustomDoc(NDArrayDoc):
    """`nd.Custom(x, op_type="name")` calls an operator that a program registered."""
