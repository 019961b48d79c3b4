"""The ways to call an operator by name: eagerly, as a symbol, in a hybridized block."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import mxforge as mx
from mxforge.ir.dialects.mx.operator import lookup

NAMESPACES = ("contrib", "linalg", "image", "sparse", "random")


def function(module: Any, op: str) -> Callable[..., Any]:
    """The function of nd or sym for an operator's full name."""
    for name in NAMESPACES:
        space = getattr(module, name)
        if op.startswith(f"_{name}_") and hasattr(space, op[len(name) + 2 :]):
            return getattr(space, op[len(name) + 2 :])
    return getattr(module, op, None) or getattr(module._internal, op)


def applied(module: Any, op: str, inputs: Sequence[Any], attributes: Mapping[str, str]) -> Any:
    """Call the operator of nd or sym on inputs in the order of its declaration. If some are optional, all are passed
    by name, since a positional call cannot omit one."""
    cls = lookup(op)
    if not any(name.endswith("?") for name in cls.inputs):
        return function(module, op)(*inputs, **attributes)
    names = cls.parse(attributes).input_names()
    return function(module, op)(**dict(zip(names, inputs, strict=False)), **attributes)


class Calls(mx.gluon.HybridBlock):
    """A block that makes several calls (operator, parameters, number of inputs) on slices of its inputs. It also
    returns its first input, for operators without inputs."""

    def __init__(self, calls: Sequence[tuple[str, Mapping[str, str], int]]) -> None:
        super().__init__()
        self.calls = calls

    def hybrid_forward(self, F: Any, x: Any, *inputs: Any) -> list[Any]:
        rest = list(inputs)
        outputs: list[Any] = [F.identity(x)]
        for op, attributes, count in self.calls:
            made = applied(F, op, [rest.pop(0) for _ in range(count)], attributes)
            outputs += list(made) if isinstance(made, list | tuple | mx.sym.Symbol) else [made]
        return outputs
