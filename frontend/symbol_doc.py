"""MXNet's module for additional documentation of symbols. In mxforge, operators are documented in their
declarations."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .symbol import Symbol


class SymbolDoc:
    """Helpers for documentation; a subclass called `NAMEDoc` documents the operator NAME."""

    @staticmethod
    def get_output_shape(sym: Symbol, **input_shapes: tuple[int, ...]) -> dict[str, tuple[int, ...]]:
        """The shapes of a symbol's outputs by name. MXNetError if the input shapes do not determine them."""
        from .base import MXNetError

        shapes = sym.infer_shape(**input_shapes)[1]
        if shapes is None:
            raise MXNetError(f"the input shapes {input_shapes} do not determine the output shapes of {sym!r}")
        return dict(zip(sym.list_outputs(), shapes, strict=True))


class ActivationDoc(SymbolDoc):
    """`sym.Activation(data, act_type="relu")` applies a function to each element."""


class BroadcastPlusDoc(SymbolDoc):
    """`sym.broadcast_plus(a, b)` adds arrays and repeats axes of extent 1."""


class ConcatDoc(SymbolDoc):
    """`sym.Concat(a, b, dim=1)` joins arrays along an axis."""


class DropoutDoc(SymbolDoc):
    """`sym.Dropout(data, p=0.5)` drops elements in training, and returns the data otherwise."""


class EmbeddingDoc(SymbolDoc):
    """`sym.Embedding(data, input_dim=10, output_dim=4)` looks up rows of a weight matrix."""


class FlattenDoc(SymbolDoc):
    """`sym.Flatten(data)` merges all axes except the first."""


class FullyConnectedDoc(SymbolDoc):
    """`sym.FullyConnected(data, num_hidden=10)` is data times the transposed weight, plus a bias."""
