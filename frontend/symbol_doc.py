"""The place of MXNet's additional documentation of symbols. Here an operator's documentation is its declaration's."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .symbol import Symbol


class SymbolDoc:
    """Helpers for documentation; a subclass called `NAMEDoc` documents the operator NAME."""

    @staticmethod
    def get_output_shape(sym: Symbol, **input_shapes: tuple[int, ...]) -> dict[str, tuple[int, ...]]:
        """The shapes of a symbol's outputs by name; MXNetError where they do not follow from the inputs'."""
        from .base import MXNetError

        shapes = sym.infer_shape(**input_shapes)[1]
        if shapes is None:
            raise MXNetError(f"the output shapes of {sym!r} do not follow from {input_shapes}")
        return dict(zip(sym.list_outputs(), shapes, strict=True))


class ActivationDoc(SymbolDoc):
    """`sym.Activation(data, act_type="relu")` applies a function to each element."""


class BroadcastPlusDoc(SymbolDoc):
    """`sym.broadcast_plus(a, b)` adds arrays whose axes of extent 1 are repeated."""


class ConcatDoc(SymbolDoc):
    """`sym.Concat(a, b, dim=1)` puts arrays one after the other along an axis."""


class DropoutDoc(SymbolDoc):
    """`sym.Dropout(data, p=0.5)` drops elements in training, and hands them on otherwise."""


class EmbeddingDoc(SymbolDoc):
    """`sym.Embedding(data, input_dim=10, output_dim=4)` gives rows of a table of weights."""


class FlattenDoc(SymbolDoc):
    """`sym.Flatten(data)` makes one axis of all axes but the first."""


class FullyConnectedDoc(SymbolDoc):
    """`sym.FullyConnected(data, num_hidden=10)` is data times the transposed weight, plus a bias."""
