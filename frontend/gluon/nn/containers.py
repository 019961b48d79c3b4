"""Chains of blocks, and blocks that wrap functions."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from ... import ndarray, symbol
from ..hybrid_block import HybridBlock
from ..plain_block import Block
from ..utils import _indent

__all__ = ["HybridLambda", "HybridSequential", "Lambda", "Sequential"]


class _Chain(Block):
    """The base class of Sequential and HybridSequential: a list of children."""

    _has_summary_row = False

    def add(self, *blocks: Block) -> None:
        """Append blocks."""
        for block in blocks:
            self.register_child(block)

    def __repr__(self) -> str:
        lines = [f"  ({key}): {_indent(repr(block), 2)}" for key, block in self._children.items()]
        return f"{type(self).__name__}(\n" + "\n".join(lines) + "\n)"

    def __getitem__(self, key: Any) -> Any:
        """A layer, or for a slice a new chain that shares the layers."""
        layers = list(self._children.values())[key]
        if not isinstance(layers, list):
            return layers
        chain = type(self)(prefix=self._prefix)
        with chain.name_scope():
            chain.add(*layers)
        return chain

    def __len__(self) -> int:
        return len(self._children)


class Sequential(_Chain):
    """Calls its children in order, each on the output of the previous one."""

    def forward(self, x: Any) -> Any:  # type: ignore[override]
        for block in self._children.values():
            x = block(x)
        return x

    def hybridize(self, active: bool = True, **kwargs: Any) -> None:
        if self._children and all(isinstance(c, HybridBlock) for c in self._children.values()):
            warnings.warn(
                f"All children of this Sequential layer '{self.prefix}' are HybridBlocks. "
                "Consider using HybridSequential for the best performance.",
                stacklevel=2,
            )
        super().hybridize(active, **kwargs)


class HybridSequential(_Chain, HybridBlock):
    """Calls its children in order, each on the output of the previous one. When hybridized, they form one graph.

    Example:
        >>> net = mx.gluon.nn.HybridSequential()
        >>> net.add(mx.gluon.nn.Dense(8, activation="relu"), mx.gluon.nn.Dense(2))
        >>> net.initialize()
        >>> net.hybridize()
        >>> net(mx.nd.ones((4, 3))).shape, len(net)
        ((4, 2), 2)
    """

    def hybrid_forward(self, F: Any, x: Any) -> Any:  # type: ignore[override]
        for block in self._children.values():
            x = block(x)
        return x


class Lambda(Block):
    """A block that calls a function of arrays. `function` can be the name of an operator of `nd`."""

    def __init__(self, function: str | Callable[..., Any], prefix: str | None = None) -> None:
        super().__init__(prefix=prefix)
        if isinstance(function, str):
            if not hasattr(ndarray, function):
                raise AssertionError(f"Function name {function} is not found in ndarray.")
            function = getattr(ndarray, function)
        if not callable(function):
            raise ValueError(f"Unrecognized function in lambda: {function} of type {type(function)}")
        self._func_impl = function

    def forward(self, *args: Any) -> Any:
        return self._func_impl(*args)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._func_impl.__name__})"


class HybridLambda(HybridBlock):
    """A block that calls `function(F, x, ...)` on arrays or symbols. `function` can be the name of an operator.

    Example:
        >>> double = mx.gluon.nn.HybridLambda(lambda F, x: F.concat(x, x, dim=1))
        >>> double(mx.nd.ones((1, 2))).shape
        (1, 4)
    """

    def __init__(self, function: str | Callable[..., Any], prefix: str | None = None) -> None:
        super().__init__(prefix=prefix)
        if isinstance(function, str):
            name = function
            if not (hasattr(ndarray, name) and hasattr(symbol, name)):
                raise AssertionError(f"Function name {name} is not found in symbol/ndarray.")
            self._func: Callable[..., Any] = lambda F, *args: getattr(F, name)(*args)
            self._func_name = name
        elif callable(function):
            self._func = function
            self._func_name = function.__name__
        else:
            raise ValueError(f"Unrecognized function in lambda: {function} of type {type(function)}")

    def hybrid_forward(self, F: Any, x: Any, *args: Any) -> Any:  # type: ignore[override]
        return self._func(F, x, *args)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._func_name})"
