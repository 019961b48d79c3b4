"""Makes random programs, reproducibly by seed. The reference target runs every step when it is drawn.

So shapes follow MXNet's rules, steps that raise are dropped, and the results of the program are known.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import mxforge as mx
import numpy as np
from random_programs import Array, Program, Step, apply

nd: Any = mx.nd

MOST_ELEMENTS = 20_000
LARGEST = 60.0  # the largest magnitude of a value, which limits rounding errors
TOLERANCES = {"float64": 1e-9, "float32": 5e-4, "float16": 3e-2}
SMALL = [(3, 4), (2, 5, 3), (1, 6), (4, 1, 3), (2, 3, 4, 4), (1, 4, 5, 5), (7,), (6, 6), (2, 1), (5, 17)]
LARGE = [(64, 130), (2, 16, 20, 20), (300, 40), (3, 50, 33)]
UNUSUAL = [(0, 3), (2, 0, 4), (3, 0), ()]

Drawn = tuple[str, list[int], dict[str, Any]]


class Value:
    """An array with its number in the program. It is `exact` if it was computed without rounding, so that comparisons
    of its elements agree on all targets."""

    def __init__(self, number: int, array: Any, exact: bool) -> None:
        self.number, self.array, self.exact = number, array, exact
        self.shape: tuple[int, ...] = array.shape
        dtype = np.dtype(array.dtype)
        self.dtype = str(dtype) if dtype.names is None else dtype.names[0]  # bfloat16 is a dtype with one field

    @property
    def is_float(self) -> bool:
        return "float" in self.dtype

    @property
    def rank(self) -> int:
        return len(self.shape)


class Maker:
    """Draws steps that read existing values."""

    def __init__(self, seed: int, attempt: int = 0) -> None:
        self.seed, self.rng = seed, np.random.default_rng((seed, attempt) if attempt else seed)
        self.values: list[Value] = []
        self.steps: list[Step] = []
        self.counts: list[int] = []
        self.refused = 0
        self.unusual = self.rng.random() < 0.04
        self.dtype = str(self.rng.choice(["float32", "float16", "float64", "int32"], p=[0.72, 0.1, 0.1, 0.08]))
        shapes = self.shapes()
        for _ in range(self.integer(2, 4)):
            dtype = self.dtype if self.chance(0.85) else str(self.rng.choice(["float32", "int32", "uint8", "int64"]))
            self.values.append(Value(len(self.values), nd.array(self.data(self.one(shapes), dtype), dtype=dtype), True))
        self.inputs = tuple(v.array.asnumpy() for v in self.values)

    # -- drawing

    def shapes(self) -> list[tuple[int, ...]]:
        """The shapes of which the inputs have some."""
        return [*SMALL, *(UNUSUAL * 3 if self.unusual else []), *(LARGE if self.chance(0.15) else [])]

    def data(self, shape: tuple[int, ...], dtype: str) -> Array:
        if dtype.startswith("float"):
            return self.rng.standard_normal(shape).astype(dtype)
        return self.rng.integers(0 if dtype == "uint8" else -4, 6, shape).astype(dtype)

    def chance(self, probability: float) -> bool:
        return bool(self.rng.random() < probability)

    def integer(self, low: int, high: int) -> int:
        """A random integer in [low, high]."""
        return int(self.rng.integers(low, high + 1))

    def one(self, items: Any) -> Any:
        return items[self.integer(0, len(items) - 1)]

    def pick(self, accept: Callable[[Value], bool] = lambda v: True) -> Value:
        """A random value; later values are more likely. LookupError if none is accepted."""
        found = [v for v in self.values if accept(v)]
        if not found:
            raise LookupError
        return found[len(found) - 1 - min(len(found) - 1, int(self.rng.exponential(4)))]

    def interval(self, extent: int) -> tuple[int, int]:
        """Start and stop of a slice of an axis; (0, 1) for an empty axis, which raises later."""
        begin = self.integer(0, max(0, extent - 1))
        return begin, self.integer(begin + 1, max(begin + 1, extent))

    def like(self, x: Value) -> Value:
        return self.pick(lambda v: v.shape == x.shape and v.dtype == x.dtype)

    def axis(self, x: Value) -> int:
        """A random axis. LookupError for a scalar."""
        if not x.rank:
            raise LookupError
        return self.integer(0, x.rank - 1)

    # -- growing

    def add(self, drawn: Drawn, exact: bool) -> None:
        """Run a step, and keep it unless it raises or its results are too large."""
        name, operands, parameters = drawn
        step = Step(name, tuple(operands), parameters)
        try:
            results = apply(nd, step, [self.values[i].array for i in operands])
            arrays = [r.asnumpy() for r in results]
        except (mx.MXNetError, ValueError, TypeError, IndexError):
            self.refused += 1
            return
        if any(a.size > MOST_ELEMENTS or not _moderate(a) for a in arrays):
            return
        exact = exact and all(self.values[i].exact for i in operands)
        if not self.accepts(step, [self.values[i] for i in operands], exact):
            return
        self.values += [Value(len(self.values) + k, r, exact) for k, r in enumerate(results)]
        self.steps.append(step)
        self.counts.append(len(results))

    def accepts(self, step: Step, operands: Sequence[Value], exact: bool) -> bool:
        """False for a step that does not suit the program; a kind of maker decides."""
        return True

    def program(self, size: int, steps: Sequence[tuple[Draw, bool]]) -> Program:
        """A program of about `size` of the steps. Its outputs are the values without readers, and some with readers."""
        for _ in range(4 * size):
            if len(self.steps) >= size:
                break
            draw, exact = self.one(steps)
            try:
                self.add(draw(self), exact)
            except LookupError:
                continue
        read = {i for s in self.steps for i in s.operands}
        computed = range(len(self.inputs), len(self.values))
        outputs = [i for i in computed if i not in read or self.chance(0.15)][-8:]
        expected = tuple(self.values[i].array.asnumpy() for i in outputs)
        return Program(
            *(
                self.seed,
                self.inputs,
                tuple(self.steps),
                tuple(self.counts),
                tuple(outputs),
                expected,
                self._tolerance(),
            )
        )

    def _tolerance(self) -> float:
        used = [TOLERANCES[v.dtype] for v in self.values if v.dtype in TOLERANCES]
        return max(used, default=0.0)


def _moderate(a: Array) -> bool:
    return a.size == 0 or bool(np.isfinite(a).all() and np.abs(a.astype(np.float64)).max() <= LARGEST)


Draw = Callable[[Maker], Drawn]
"""Draws a step on values of the maker: its name, operands and parameters. LookupError if no value is suitable."""
