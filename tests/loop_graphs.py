"""Graphs whose kernels are loops without a contraction, for several tests."""

from __future__ import annotations

from mxforge.ir.dialects.core import CoreBuilder
from mxforge.ir.graph import Value
from rewriting import tensor


def summed(b: CoreBuilder) -> Value:
    return b.sum(b.input(tensor(5, 1000)), (1,))


def softmax(b: CoreBuilder) -> Value:
    x = b.input(tensor(4, 300))
    e = b.exp(b.sub(x, b.broadcast_to(b.max(x, 1, keepdims=True), (4, 300))))
    return b.div(e, b.broadcast_to(b.sum(e, 1, keepdims=True), (4, 300)))
