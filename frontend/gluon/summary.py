"""The table of `Block.summary`: layers, output shapes and numbers of parameters."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

from ..ndarray import NDArray

if TYPE_CHECKING:
    from .plain_block import Block

_ROW = "{:>20}  {:>42} {:>15}"


def print_summary(block: Block, inputs: tuple[Any, ...]) -> None:
    """Run `block` on `inputs` with a hook on each layer except containers, and print the table.

    Raises AssertionError if a layer is hybridized.
    """
    rows: list[tuple[str, str, int]] = [("Input", _shapes(list(inputs)), 0)]
    handles: list[Any] = []
    seen: set[Any] = set()
    counts = {"shared": 0, "trainable": 0}

    def observe(layer: Block, _: Any, outputs: Any) -> None:
        own = 0
        for param in layer.params.values():
            size = prod(param.shape or (0,))
            own += size
            counts["trainable"] += size if param.grad_req != "null" else 0
            counts["shared"] += size if param in seen else 0
            seen.add(param)
        rows.append((f"{type(layer).__name__}-{len(rows)}", _shapes(outputs), own))

    def attach(layer: Block) -> None:
        if getattr(layer, "_active", False):
            raise AssertionError(f'"{layer.name}" must not be hybridized to print summary.')
        if layer._has_summary_row:
            handles.append(layer.register_forward_hook(observe))

    try:
        block.apply(attach)
        block(*inputs)
    finally:
        for handle in handles:
            handle.detach()
    _print(rows, counts)


def _print(rows: list[tuple[str, str, int]], counts: dict[str, int]) -> None:
    print("-" * 80)
    print(_ROW.format("Layer (type)", "Output Shape", "Param #"))
    print("=" * 80)
    for row in rows:
        print(_ROW.format(*row))
    print("=" * 80)
    total = sum(row[2] for row in rows)
    print("Parameters in forward computation graph, duplicate included")
    print(f"   Total params: {total}")
    print(f"   Trainable params: {counts['trainable']}")
    print(f"   Non-trainable params: {total - counts['trainable']}")
    print(f"Shared params in forward computation graph: {counts['shared']}")
    print(f"Unique parameters in model: {total - counts['shared']}")
    print("-" * 80)


def _shapes(value: Any) -> str:
    """The shapes of nested arrays as text, without the brackets of the outermost list."""
    nested = _nested(value)
    return str(nested)[1:-1] if isinstance(nested, list) else str(nested)


def _nested(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_nested(item) for item in value]
    return value.shape if isinstance(value, NDArray) else value
