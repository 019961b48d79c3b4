"""How a golden case is written down: an operator, its attributes and a recipe for each input array.

Used by make_goldens.py under MXNet's own Python (3.9); needs NumPy alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Uniform:
    """Random multiples of 1/64 in [low, high], exact in every float type; whole numbers for integer types."""

    shape: tuple[int, ...]
    low: float
    high: float
    dtype: str

    def draw(self, random: np.random.Generator) -> np.ndarray:
        steps = 1 if np.dtype(self.dtype).kind in "iu" else 64
        return (random.integers(int(self.low * steps), int(self.high * steps) + 1, self.shape) / steps).astype(
            self.dtype
        )


@dataclass(frozen=True)
class Distinct:
    """A random permutation of 0 .. n-1, scaled: values of which no two are equal, so that an order is unique."""

    shape: tuple[int, ...]
    dtype: str

    def draw(self, random: np.random.Generator) -> np.ndarray:
        size = int(np.prod(self.shape))
        scale = 1 if np.dtype(self.dtype).kind in "iu" else 4
        return ((random.permutation(size) - size // 2) / scale).astype(self.dtype).reshape(self.shape)


@dataclass(frozen=True)
class Case:
    """One call: `inputs` are recipes or arrays in the operator's order, `attributes` are MXNet's strings.

    `out` are the inputs that the results are like, where MXNet has to be told because it does not infer them.
    """

    op: str
    inputs: tuple[Any, ...]
    attributes: dict[str, str]
    train: bool = False
    out: tuple[int, ...] = ()

    def draw(self, random: np.random.Generator) -> list[np.ndarray]:
        return [x if isinstance(x, np.ndarray) else x.draw(random) for x in self.inputs]


def r(*shape: int, low: float = -1, high: float = 1, dtype: str = "float32") -> Uniform:
    return Uniform(shape, low, high, dtype)


def distinct(*shape: int, dtype: str = "float32") -> Distinct:
    return Distinct(shape, dtype)


def a(values: Any, dtype: str = "float32") -> np.ndarray:
    return np.array(values, dtype)


def case(op: str, *inputs: Any, train: bool = False, out: tuple[int, ...] = (), **attributes: Any) -> Case:
    return Case(op, inputs, {key: str(value) for key, value in attributes.items()}, train, out)


def cotangent(shape: tuple[int, ...]) -> np.ndarray:
    """Multiples of 1/64 in [-1, 1], the same for each shape."""
    return ((np.arange(int(np.prod(shape, dtype=int))) * 37 + 11) % 129 / 64 - 1).reshape(shape).astype("float32")
