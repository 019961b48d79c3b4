"""Random expressions of `mx.np`, compared with NumPy in float64: values and shapes, eager, recorded, hybridized and
traced, and gradients against finite differences. Some arrays have no elements, and some are integers.

    python tests/random_numpy.py --first 1 --count 200
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable
from typing import Any

import numpy as onp
from mxforge import autograd, gluon, np, util

Expression = tuple[str, tuple[int, ...]]
"""The text of an expression, and its shape."""

UNARY = "exp sin cos tanh arctan square cbrt expm1 sinh arcsinh abs negative".split()
BINARY = "add subtract multiply maximum minimum hypot arctan2 logaddexp fmax fmin".split()
REDUCTIONS = "sum mean max min".split()
ONE_DTYPE = ("maximum", "minimum")
"""Functions that refuse operands of two dtypes, as in MXNet."""
OF_NOTHING = ("sum",)
"""Reductions of arrays without elements."""


class Maker:
    """Makes expressions of the arrays x0, x1, ... from a seed."""

    def __init__(self, seed: int) -> None:
        self.random = onp.random.RandomState(seed)
        self.arrays: list[onp.ndarray] = []

    def pick(self, values: Any) -> Any:
        return values[self.random.randint(len(values))]

    def leaf(self, shape: tuple[int, ...], beside: bool = False) -> Expression:
        """An array; some of its axes can have extent 1, or be missing. It can be one of integers if it is `beside`
        floats; else these are divided, since a function of integers gives integers in MXNet."""
        own = [1 if self.random.rand() < 0.2 else n for n in shape]
        own = own[self.random.randint(0, 2) if self.random.rand() < 0.2 and own else 0 :]
        values = self.random.uniform(-2, 2, own)
        are_integers = self.random.rand() < 0.15
        self.arrays.append(values.round().astype("int32") if are_integers else values)
        name = f"x{len(self.arrays) - 1}"
        return f"np.true_divide({name}, 2)" if are_integers and not beside else name, tuple(own)

    def shape(self) -> tuple[int, ...]:
        extents = [1, 2, 3, 4, 0] if self.random.rand() < 0.15 else [1, 2, 3, 4]
        return tuple(int(self.pick(extents)) for _ in range(self.random.randint(0, 4)))

    def expression(self, depth: int) -> Expression:
        if not depth:
            return self.leaf(self.shape())
        return self.pick([self.unary, self.binary, self.binary, self.reduction, self.moved, self.product])(depth)

    def unary(self, depth: int) -> Expression:
        text, shape = self.expression(depth - 1)
        return f"np.{self.pick(UNARY)}(np.tanh({text}))", shape

    def binary(self, depth: int) -> Expression:
        text, shape = self.expression(depth - 1)
        other, own = self.leaf(shape, beside=True)
        if self.random.rand() < 0.3:
            return self.pick([f"({text} * 1.5 - 2)", f"(2 - {text})", f"({text} / 2)", f"({text} ** 2)"]), shape
        if self.random.rand() < 0.2:
            return f"np.where({text} > 0, {text}, {other})", onp.broadcast_shapes(shape, own)
        names = [name for name in BINARY if self.arrays[-1].dtype.kind == "f" or name not in ONE_DTYPE]
        return f"np.{self.pick(names)}({text}, {other})", onp.broadcast_shapes(shape, own)

    def reduction(self, depth: int) -> Expression:
        text, shape = self.expression(depth - 1)
        name = self.pick(OF_NOTHING if 0 in shape else REDUCTIONS)
        if not shape or self.random.rand() < 0.3:
            return f"np.{name}({text})", ()
        axis, kept = int(self.random.randint(len(shape))), bool(self.random.rand() < 0.5)
        rest = tuple(1 if i == axis else n for i, n in enumerate(shape) if kept or i != axis)
        return f"np.{name}({text}, axis={axis - len(shape)}, keepdims={kept})", rest

    def moved(self, depth: int) -> Expression:
        text, shape = self.expression(depth - 1)
        forms: list[Callable[[], Expression]] = [lambda: (f"np.expand_dims({text}, 0)", (1, *shape))]
        if shape:
            forms += [
                lambda: (f"np.transpose({text})", shape[::-1]),
                lambda: (f"np.reshape({text}, (-1,))", (int(onp.prod(shape)),)),
                lambda: (f"np.flip({text}, 0)", shape),
                lambda: (f"np.roll({text}, 1, 0)", shape),
                lambda: (f"np.concatenate([{text}, {text}], axis=0)", (2 * shape[0], *shape[1:])),
                lambda: (f"np.repeat({text}, 2, axis=0)", (2 * shape[0], *shape[1:])),
                lambda: (f"({text})[1:]", (shape[0] - 1, *shape[1:])) if shape[0] > 1 else (text, shape),
                lambda: (f"np.cumsum({text}, axis=0)", shape),
            ]
        return self.pick(forms)()

    def product(self, depth: int) -> Expression:
        text, shape = self.expression(depth - 1)
        if not shape:
            return f"np.dot({text}, {text})", ()
        self.arrays.append(self.random.uniform(-1, 1, (shape[-1], 2)))
        other = f"x{len(self.arrays) - 1}"
        name = self.pick(["dot", "matmul"])
        return f"np.{name}({text}, {other})", (*shape[:-1], 2)


class Written(gluon.HybridBlock):
    """An expression as a block whose `forward` takes arrays."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text

    def forward(self, *arrays: Any) -> Any:  # type: ignore[override]
        return eval(self.text, {"np": np, **{f"x{i}": a for i, a in enumerate(arrays)}})


class Block(gluon.HybridBlock):
    """An expression as a block."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text

    def hybrid_forward(self, F: Any, *arrays: Any) -> Any:  # type: ignore[override]
        return eval(self.text, {"np": F.np, **{f"x{i}": a for i, a in enumerate(arrays)}})


def check(seed: int) -> None:
    """AssertionError, with the expression, if a result or a gradient is wrong."""
    maker = Maker(seed)
    text, shape = maker.expression(int(maker.random.randint(1, 5)))
    text = f"({text} + 0)"

    def plain(arrays: list[onp.ndarray]) -> onp.ndarray:
        return eval(text, {"np": onp, **{f"x{i}": a for i, a in enumerate(arrays)}})

    expected = plain(maker.arrays)
    arrays = [np.array(a, dtype="float32" if a.dtype.kind == "f" else "int32") for a in maker.arrays]
    named = {f"x{i}": a for i, a in enumerate(arrays)}
    for a in arrays:
        a.attach_grad()
    where = f"{seed}: {text} of {[a.shape for a in arrays]}"
    eager = eval(text, {"np": np, **named})
    assert type(eager) is np.ndarray and eager.shape == shape == expected.shape, where
    onp.testing.assert_allclose(eager.asnumpy(), expected, 2e-4, 2e-4, err_msg=where)
    with autograd.record():
        recorded = eval(text, {"np": np, **named})
    onp.testing.assert_allclose(recorded.asnumpy(), expected, 2e-4, 2e-4, err_msg=where)
    weights = maker.random.uniform(-1, 1, shape)
    recorded.backward(np.array(weights, dtype=recorded.dtype))
    _check_gradients(maker, plain, arrays, weights, where)
    warnings.filterwarnings("ignore", "The .* input to HybridBlock is not used")
    for block in (Block(text), Written(text)):
        block.hybridize()
        onp.testing.assert_allclose(block(*arrays).asnumpy(), expected, 2e-4, 2e-4, err_msg=where)


def _check_gradients(maker: Maker, plain: Any, arrays: list[Any], weights: onp.ndarray, where: str) -> None:
    """Compare the slope along a random direction, unless a kink is near.

    Equal extremes share a gradient differently than a slope would.
    """
    if "np.max(" in where or "np.min(" in where:
        return
    direction = [maker.random.uniform(-1, 1, a.shape) * (a.dtype.kind == "f") for a in maker.arrays]
    ours = sum(float((a.grad.asnumpy() * d).sum()) for a, d in zip(arrays, direction, strict=True))
    slopes = [_slope(plain, maker.arrays, direction, weights, step) for step in (1e-5, 1e-6)]
    size = 1 + abs(slopes[1])
    if abs(slopes[0] - slopes[1]) < 1e-4 * size:
        assert abs(ours - slopes[1]) < 5e-3 * size, f"{where}: slope {ours} instead of {slopes[1]}"


def _slope(plain: Any, arrays: Any, direction: Any, weights: onp.ndarray, step: float) -> float:
    ahead, behind = ([a + s * d for a, d in zip(arrays, direction, strict=True)] for s in (step, -step))
    return float(((plain(ahead) - plain(behind)) * weights).sum() / (2 * step))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--count", type=int, default=200)
    options = parser.parse_args()
    util.set_np()
    failures = 0
    for seed in range(options.first, options.first + options.count):
        try:
            check(seed)
        except Exception as error:
            failures += 1
            print(f"{seed}: {type(error).__name__}: {str(error).strip()[:600]}")
    print(f"{options.count} expressions, {failures} fail")


if __name__ == "__main__":
    main()
