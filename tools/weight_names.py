"""Matches the weights in a file with the parameters of a model that has other names for them.

Layers are matched in order: each layer of the model takes the first layer of the file that has the same parameters with
the same shapes. This is right for networks that are built alike. Two equal layers of parallel branches can be exchanged
if the file lists them otherwise, so the names are printed: a user has to check them.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence

from ..frontend.symbol import Symbol
from ..frontend.symbol.network import Network
from ..ir.dialects.mx.shapes import UNKNOWN, PartialShape
from ..ir.types import Shape
from .errors import ToolError

_SAME = {
    "gamma": "weight",
    "alpha": "weight",
    "beta": "bias",
    "moving_mean": "running_mean",
    "moving_var": "running_var",
}
"""PyTorch's names of the parameters of layers, by MXNet's."""

_PLAIN = re.compile(
    r"(?P<layer>.*?)[._]?(?P<role>running_mean|running_var|moving_mean|moving_var|weight|bias|gamma|beta|alpha)"
)
_RECURRENT = re.compile(r"(?P<layer>.*?)[._]?(?P<kind>weight|bias)_(?P<side>[ih])h_l(?P<number>\d+)(?P<back>_reverse)?")
_NUMBERED = re.compile(r"(?P<before>.*?[^\d])(?P<number>\d+)(?P<after>\D*)")
"""A layer whose name has a number last."""

_UNUSED = re.compile(r"(.*\.)?num_batches_tracked")
"""Counters of PyTorch's normalization, which MXNet does not have."""

_SHOWN = 4

Layers = dict[str, dict[str, str]]
"""The name of each parameter, by its role, of each layer, in order."""


def match_names(symbol: Symbol, shapes: Mapping[str, Shape]) -> dict[str, str]:
    """The model's name for each array of a file that has the same name or can be matched, in the order of the file.

    `shapes` are the shapes of the arrays. ToolError if a parameter of the model has no array.
    """
    inputs = symbol.list_inputs()
    wanted = _shapes(symbol, inputs)
    same = {name: name for name in shapes if name in wanted}
    left = {name: shape for name, shape in shapes.items() if name not in same and not _UNUSED.fullmatch(name)}
    missing = [name for name in inputs if name not in same and _role(name) is not None]
    matched = _matched(_as_created(_layers(missing)), wanted, _layers(left), left)
    rest = [name for name in missing if name not in matched.values()]
    if rest:
        free = [name for name in left if name not in matched]
        raise ToolError(f"no array in the file fits {shown(rest)} (not used: {shown(free) or 'none'})")
    return {name: matched.get(name) or name for name in shapes if name in same or name in matched}


def _matched(
    layers: Layers, wanted: Mapping[str, PartialShape], stored: Layers, shapes: Mapping[str, Shape]
) -> dict[str, str]:
    matched: dict[str, str] = {}
    free = dict(stored)
    for roles in layers.values():
        for name, others in free.items():
            if roles.keys() == others.keys() and all(_fits(shapes[others[r]], wanted[n]) for r, n in roles.items()):
                matched.update({others[role]: n for role, n in roles.items()})
                del free[name]
                break
    return matched


def _shapes(symbol: Symbol, inputs: Sequence[str]) -> dict[str, PartialShape]:
    """The shapes of all inputs, as far as the model determines them."""
    network = Network(symbol._entries)
    inferred = network.infer({}, {}).shapes
    numbers = {node.name: network.first[node] for node in network.variables}
    return {name: inferred.get(numbers[name]) for name in inputs}


def _fits(shape: Shape, wanted: PartialShape) -> bool:
    if wanted is None:
        return True
    return len(shape) == len(wanted) and all(n is UNKNOWN or n == m for m, n in zip(shape, wanted, strict=True))


def _as_created(layers: Layers) -> Layers:
    """The layers in the order of their creation, as far as their names have numbers.

    A symbol lists the layers of a branch before those of another one by the operands of the sum, while PyTorch lists
    them as they are created. Gluon numbers layers when it creates them: `stage1_conv0`, `stage1_conv1`, ...
    """
    alike: dict[tuple[str, str], list[str]] = {}
    for layer in layers:
        numbered = _NUMBERED.fullmatch(layer)
        if numbered is not None:
            alike.setdefault((numbered["before"], numbered["after"]), []).append(layer)
    sorted_layers = {key: iter(sorted(names, key=_number)) for key, names in alike.items()}
    order: list[str] = []
    for layer in layers:
        numbered = _NUMBERED.fullmatch(layer)
        order.append(layer if numbered is None else next(sorted_layers[numbered["before"], numbered["after"]]))
    return {layer: layers[layer] for layer in order}


def _number(layer: str) -> int:
    numbered = _NUMBERED.fullmatch(layer)
    return int(numbered["number"]) if numbered else 0


def _layers(names: Sequence[str] | Mapping[str, Shape]) -> Layers:
    layers: Layers = {}
    for name in names:
        split = _role(name)
        if split is not None:
            layers.setdefault(split[0], {})[split[1]] = name
    return layers


def _role(name: str) -> tuple[str, str] | None:
    """The layer of a parameter and its role there, by PyTorch's name; None for other arrays."""
    recurrent = _RECURRENT.fullmatch(name)
    if recurrent is not None:
        side = {"i": "i2h", "h": "h2h"}[recurrent["side"]]
        direction = "r" if recurrent["back"] else "l"
        return f"{recurrent['layer']}.{direction}{recurrent['number']}_{side}", recurrent["kind"]
    plain = _PLAIN.fullmatch(name)
    return None if plain is None else (plain["layer"], _SAME.get(plain["role"], plain["role"]))


def name_map(names: Mapping[str, str], stored: Collection[str]) -> list[str]:
    """A line for each array whose name differs from the model's, then one for each array of the file that no parameter
    of the model fits, which is not used. Counters that MXNet does not have are left out."""
    differing = [f"{name} -> {other}" for name, other in names.items() if name != other]
    rest = [name for name in stored if name not in names and not _UNUSED.fullmatch(name)]
    return [*differing, *(f"{name} -> not used" for name in rest)]


def shown(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more
