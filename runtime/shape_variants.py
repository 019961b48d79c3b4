"""The shapes that a compiled model takes: variants, each with fixed extents and ranges of extents.

    Variant("small", inputs=(((1, 8, 64), 3, 224, 224),), outputs=(((1, 64), 1000),), equal=())

is a variant of 1 to 64 images, best for 8. An axis is an extent, or (least, most) or (least, best, most). `equal` lists
the axes of inputs that must have the same extent: pairs of (input, axis).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from ..ir.lazy_dataclass import dataclass
from ..ir.step_fields import natural, string
from ..ir.types import Shape

Axis = int | tuple[int, ...]
Axes = tuple[Axis, ...]
Place = tuple[int, int]

MOST_AXES = 64  # of one tensor in a file


@dataclass(frozen=True)
class Variant:
    """The shapes of all inputs and outputs; `name` is "" for the only variant of a model."""

    name: str
    inputs: tuple[Axes, ...]
    outputs: tuple[Axes, ...]
    equal: tuple[tuple[Place, ...], ...] = ()

    @property
    def is_fixed(self) -> bool:
        """True for one shape of each input."""
        return all(isinstance(axis, int) for axes in self.inputs for axis in axes)

    def best(self) -> tuple[Shape, ...]:
        """The shapes of the inputs with the best extents; the largest where none is named."""
        return tuple([tuple(map(_best, axes)) for axes in self.inputs])

    def problem(self, names: Sequence[str], shapes: Sequence[Shape]) -> str | None:
        """Why the variant does not take inputs of these shapes; None if it does."""
        for name, axes, shape in zip(names, self.inputs, shapes, strict=True):
            what = f"input {name!r} has shape {shape}"
            if len(axes) != len(shape):
                return f"{what}: it must have {len(axes)} axes, {axes_text(axes)}"
            for number, (axis, n) in enumerate(zip(axes, shape, strict=True)):
                least, most = (axis, axis) if isinstance(axis, int) else (axis[0], axis[-1])
                if not least <= n <= most:
                    allowed = f"{least}" if least == most else f"from {least} to {most}"
                    return f"{what}: axis {number} must be {allowed}, as in {axes_text(axes)}"
        for places in self.equal:
            extents = [shapes[i][axis] for i, axis in places]
            other = next((k for k, n in enumerate(extents) if n != extents[0]), None)
            if other is not None:
                first, second = (f"axis {places[k][1]} of {names[places[k][0]]!r} is {extents[k]}" for k in (0, other))
                return f"{first} and {second}: they must be equal"
        return None


def refusal(variants: Sequence[Variant], names: Sequence[str], shapes: Sequence[Shape]) -> str:
    """Why no variant takes inputs of these shapes, and what is allowed."""
    problems = [v.problem(names, shapes) or "there is no program for these shapes" for v in variants]
    if len(variants) == 1:
        return problems[0]
    came = ", ".join(f"{name} {shape}" for name, shape in zip(names, shapes, strict=True))
    takes = "; ".join(f"{v.name}: {inputs_text(v, names)}" for v in variants)
    return f"no variant takes {came}. Variants are {takes}"


def inputs_text(variant: Variant, names: Sequence[str]) -> str:
    """The inputs in one line, as `data [1..64, 3, 224, 224]`."""
    return ", ".join(f"{name} {axes_text(axes)}" for name, axes in zip(names, variant.inputs, strict=True))


def axes_text(axes: Axes) -> str:
    """A shape with ranges, as `[1..8..64, 3, 224, 224]`."""
    return f"[{', '.join(map(_axis_text, axes))}]"


def _axis_text(axis: Axis) -> str:
    return str(axis) if isinstance(axis, int) else "..".join(map(str, axis))


def _best(axis: Axis) -> int:
    return axis if isinstance(axis, int) else axis[1]  # of (least, most) the largest


def described(
    name: str,
    inputs: Sequence[Sequence[Shape]],
    outputs: Sequence[Sequence[Shape]],
    best: Sequence[Shape] | None = None,
) -> Variant:
    """The variant that consists of these shapes: those of all inputs and those of all outputs, for each. `best` are
    shapes of inputs, whose extents are named as the best ones."""
    columns = [np.array(shapes, np.int64).reshape(len(inputs), -1).T for shapes in zip(*inputs, strict=True)]
    axes = [tuple(map(_axis, own)) for own in columns]
    groups: dict[bytes, list[Place]] = {}
    for i, own in enumerate(columns):
        for axis, column in enumerate(own):
            if isinstance(axes[i][axis], tuple):
                groups.setdefault(column.tobytes(), []).append((i, axis))
    if best is not None:
        axes = [tuple(map(_with_best, own, shape)) for own, shape in zip(axes, best, strict=True)]
    results = [np.array(shapes, np.int64).reshape(len(inputs), -1).T for shapes in zip(*outputs, strict=True)]
    equal = tuple([tuple(group) for group in groups.values() if len(group) > 1])
    return Variant(name, tuple(axes), tuple([tuple(map(_axis, own)) for own in results]), equal)


def _axis(column: np.ndarray) -> Axis:
    least, most = int(column.min()), int(column.max())
    return least if least == most else (least, most)


def _with_best(axis: Axis, best: int) -> Axis:
    return axis if isinstance(axis, int) else (axis[0], best, axis[-1])


# --- JSON -------------------------------------------------------------------------------------------------------------


def variant_to_json(variant: Variant) -> dict[str, Any]:
    """The variant as JSON."""
    return {"name": variant.name, "inputs": variant.inputs, "outputs": variant.outputs, "equal": variant.equal}


def variant_from_json(record: Any, inputs: int, outputs: int) -> Variant:
    """The variant of so many inputs and outputs. KeyError, TypeError or ValueError for anything else."""
    axes = [tuple([_axes_from_json(a) for a in record[kind]]) for kind in ("inputs", "outputs")]
    if [len(axes[0]), len(axes[1])] != [inputs, outputs]:
        raise ValueError(f"a variant has {len(axes[0])} inputs and {len(axes[1])} outputs, not {inputs} and {outputs}")
    equal = tuple([tuple([_place(p, axes[0]) for p in group]) for group in record["equal"]])
    if any(len(group) < 2 for group in equal):
        raise ValueError(f"equal axes {equal}")
    return Variant(string(record["name"]), axes[0], axes[1], equal)


def _axes_from_json(record: Any) -> Axes:
    if not isinstance(record, list) or len(cast("list[Any]", record)) > MOST_AXES:
        raise TypeError(f"axes {record!r}")
    return tuple([_axis_from_json(axis) for axis in cast("list[Any]", record)])


def _axis_from_json(record: Any) -> Axis:
    if not isinstance(record, list):
        return natural(record)
    axis = tuple(map(natural, cast("list[Any]", record)))
    if len(axis) not in (2, 3) or list(axis) != sorted(axis):
        raise ValueError(f"a range {record!r}")
    return axis


def _place(record: Any, inputs: tuple[Axes, ...]) -> Place:
    position, axis = map(natural, record)
    if position >= len(inputs) or axis >= len(inputs[position]):
        raise ValueError(f"there is no axis {axis} of input {position}")
    return position, axis
