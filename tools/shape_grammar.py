"""The options of the command line that give the shapes of inputs."""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping
from typing import Any

Axes = tuple[int | tuple[int, ...], ...]
"""A shape with ranges: (least, most) or (least, best, most)."""

Declared = Mapping[str, tuple[Axes, str | None]]
"""The shapes of inputs that the user specified, each with a dtype or None."""

SHAPES = "--input-shape"
_SHAPE = re.compile(r"(?P<name>[^=]+)=(?P<shape>\d+(,\d+)*|\d+(x\d+)+)?(:(?P<dtype>[a-z]+\d*))?")
_EXTENT = r"\d+(\.\.\d+){0,2}"
_RANGES = re.compile(
    rf"(?P<name>[^=]+)=(?P<shape>{_EXTENT}(,{_EXTENT})*|{_EXTENT}(x{_EXTENT})+)?(:(?P<dtype>[a-z]+\d*))?"
)
_ANY_SHAPE = re.compile(r"[^-=/][^=/]*=\d[^/]*")


class InputShape(argparse.Action):
    """Collects `NAME=D,D,...[:DTYPE]`, also as `NAME=DxDx...`, in a dictionary from names to (shape, dtype or None)."""

    pattern = _SHAPE
    known_as = "NAME=D,D,... (such as data=1,3,224,224)"

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: object, _: object = None
    ) -> None:
        setattr(namespace, self.dest, self.added(parser, getattr(namespace, self.dest), str(values)))

    def added(self, parser: argparse.ArgumentParser, known: dict[str, Any], text: str) -> dict[str, Any]:
        """The known shapes and the one in the text."""
        option = self.option_strings[0]
        match = self.pattern.fullmatch(text)
        if match is None and ".." in text and self.pattern is _SHAPE:
            ways = "pass one shape (compile takes ranges; schedules for dynamic shapes follow formulas)"
            parser.error(f"argument {option}: {text!r} is a range of shapes: {ways}")
        if match is None:
            parser.error(f"argument {option}: {text!r} is not {self.known_as}")
        if match["name"] in known:
            parser.error(f"argument {option}: input {match['name']!r} has two shapes: pass one")
        axes = tuple([self._axis(parser, axis) for axis in re.findall(r"[\d.]+", match["shape"] or "")])
        return {**known, match["name"]: (axes, match["dtype"])}

    def _axis(self, parser: argparse.ArgumentParser, text: str) -> int | tuple[int, ...]:
        extents = tuple(map(int, text.split("..")))
        if len(extents) == 1:
            return extents[0]
        if list(extents) != sorted(extents) or extents[0] < 1:
            ways = "a range is LEAST..MOST or LEAST..BEST..MOST, and its least extent is at least 1"
            parser.error(f"argument {self.option_strings[0]}: {text!r} is not a range: {ways}")
        return extents if extents[0] < extents[-1] else extents[0]


class InputShapes(InputShape):
    """`InputShape` with ranges of extents: `data=1..64,3,224,224`, or `data=1..8..64,3,224,224` with the best one."""

    pattern = _RANGES
    known_as = "NAME=D,D,... (such as data=1,3,224,224 or data=1..8..64,3,224,224)"


class VariantShapes(InputShapes):
    """Collects `NAME SHAPE...` in a dictionary from names of variants to shapes."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: object, _: object = None
    ) -> None:
        assert isinstance(values, list)
        name, *texts = map(str, values)  # pyright: ignore[reportUnknownArgumentType]
        known: dict[str, Any] = getattr(namespace, self.dest)
        if not texts or "=" in name:
            parser.error(f"argument {self.option_strings[0]}: pass a name and shapes, such as small data=1,3,224,224")
        if name in known:
            parser.error(f"argument {self.option_strings[0]}: there are two variants {name!r}: pass one")
        shapes: dict[str, Any] = {}
        for text in texts:
            shapes = self.added(parser, shapes, text)
        setattr(namespace, self.dest, {**known, name: shapes})


def add_shapes(parser: argparse._ActionsContainer, *, ranges: bool = False) -> None:
    """Add the option for the shapes of inputs."""
    text = "the shape of an input, if the model does not contain it; several can follow"
    more = "; an extent can be a range, as 1..64, or 1..8..64 with the best one" if ranges else ""
    parser.add_argument(
        SHAPES,
        action=InputShapes if ranges else InputShape,
        dest="shapes",
        default={},
        metavar="NAME=D,D,...[:DTYPE]",
        help=text + more,
    )


def add_variants(parser: argparse._ActionsContainer) -> None:
    """Add the option for the shapes of several variants."""
    parser.add_argument(
        "--variant",
        action=VariantShapes,
        dest="variants",
        default={},
        nargs="+",
        metavar=("NAME", "SHAPE"),
        help="other shapes, under a name, for the same folder; SHAPE as for --input-shape, which gives shapes that "
        "all variants have",
    )
    parser.add_argument(
        "--unpacked",
        action="store_true",
        help="store the parameters of several shapes once as they are: programs pack them in their first runs",
    )


def with_shapes(arguments: list[str]) -> list[str]:
    """The arguments with `--input-shape` before each shape that follows another one."""
    expanded: list[str] = []
    after_shape = False
    for argument in arguments:
        is_shape = bool(_ANY_SHAPE.fullmatch(argument))
        if after_shape and is_shape:
            expanded.append(SHAPES)
        after_shape = argument.startswith(f"{SHAPES}=") or (is_shape and (after_shape or expanded[-1:] == [SHAPES]))
        expanded.append(argument)
    return expanded
