"""Operators of `mx.np.random`: draws from distributions whose parameters are numbers or arrays that broadcast.

Their gradients by the parameters are those of the draws as functions of the parameters (reparametrisation).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from ...graph import Value
from ...types import DType, Shape
from . import random_bits as draw
from . import random_rejection as rejection
from .gradients import no_gradient
from .operator import Operator, declare, operator
from .parameters import Bool, Floats, Int, OptionalFloat, OptionalInts, Text

if TYPE_CHECKING:
    from .builder import MxBuilder

RandomDType = Literal["float16", "float32", "float64"]
Draw = Callable[["MxBuilder", Shape, list[Value]], Value]


def _gumbel(b: MxBuilder, shape: Shape, p: list[Value]) -> Value:
    return b.sub(p[0], b.mul(p[1], b.log(draw.exponential(b, shape))))


def _logistic(b: MxBuilder, shape: Shape, p: list[Value]) -> Value:
    u = draw.uniform_open(b, shape)
    return b.add(p[0], b.mul(p[1], b.sub(b.log(u), b.log1p(b.neg(u)))))


def _bernoulli(b: MxBuilder, shape: Shape, p: list[Value]) -> Value:
    return b.cast(b.lt(draw.uniform(b, shape), p[0]), DType.F32)


def _over(b: MxBuilder, x: Value, a: Value) -> Value:
    return b.exp(b.div(b.log(x), a))


# name, parameters, draw, description, suffixes of further operators, whether the dtype can be chosen
_Row = tuple[str, tuple[str, ...], Draw, str, bool]
_TABLE: tuple[_Row, ...] = (
    (
        "uniform",
        ("low", "high"),
        lambda b, s, p: b.add(p[0], b.mul(draw.uniform(b, s), b.sub(p[1], p[0]))),
        "Uniform numbers in [low, high).",
        True,
    ),
    (
        "normal",
        ("loc", "scale"),
        lambda b, s, p: b.add(p[0], b.mul(draw.normal(b, s), p[1])),
        "Normal numbers with mean loc and standard deviation scale.",
        True,
    ),
    ("gumbel", ("loc", "scale"), _gumbel, "Gumbel numbers.", False),
    ("logistic", ("loc", "scale"), _logistic, "Logistic numbers.", False),
    (
        "gamma",
        ("shape", "scale"),
        lambda b, s, p: rejection.gamma(b, s, b.stop_gradient(p[0]), p[1]),
        "Gamma numbers.",
        True,
    ),
    (
        "exponential",
        ("scale",),
        lambda b, s, p: b.mul(draw.exponential(b, s), p[0]),
        "Exponential numbers with mean scale.",
        False,
    ),
    (
        "rayleigh",
        ("scale",),
        lambda b, s, p: b.mul(b.sqrt(b.mul(draw.exponential(b, s), 2)), p[0]),
        "Rayleigh numbers.",
        False,
    ),
    ("weibull", ("a",), lambda b, s, p: _over(b, draw.exponential(b, s), p[0]), "Weibull numbers.", False),
    (
        "pareto",
        ("a",),
        lambda b, s, p: b.expm1(b.div(draw.exponential(b, s), p[0])),
        "Pareto II numbers.",
        False,
    ),
    (
        "powerd",
        ("a",),
        lambda b, s, p: _over(b, draw.uniform_open(b, s), p[0]),
        "Numbers with density a x^(a-1).",
        False,
    ),
)
_DEFAULTS = {"exponential": 1.0, "rayleigh": 1.0}
_BATCHED = ("uniform", "normal")
"""The distributions with an operator `_npi_NAME_n`, whose `size` precedes the shape of the parameters."""


class Distribution(Operator):
    """Draws from a distribution.

    Args:
        input1, input2: Arrays for the parameters that are None, in order.
        low, high, loc, scale, shape, a: Parameters of the distribution, None for an array.
        size: Shape of the result; by default that to which the parameters broadcast.
        dtype: Dtype of the result.
    Returns:
        An array of the draws.
    """

    inputs = ("input1?", "input2?")
    own_dtypes = frozenset(("input1", "input2"))
    names: ClassVar[tuple[str, ...]] = ()
    batched: ClassVar[bool] = False

    def has_input(self, name: str) -> bool:
        return sum(getattr(self, n) is None for n in type(self).names) >= int(name[-1])

    def output_dtypes(self, inputs: Sequence[DType]) -> Sequence[DType | None]:
        return [DType.from_numpy(getattr(self, "dtype", "float32"))]

    def complete_dtypes(self, inputs: list[DType | None], outputs: list[DType | None]) -> None:
        """The parameters have dtypes of their own."""
        inputs[:] = [d or DType.F32 for d in inputs]

    def parameters_of(self, b: MxBuilder, inputs: Sequence[Value]) -> tuple[Shape, list[Value]]:
        """The shape of the result, and the parameters broadcast to it."""
        rest = iter(inputs)
        values = [getattr(self, name) for name in type(self).names]
        operands = [b.cast(next(rest), DType.F32) if v is None else b.constant(v, DType.F32) for v in values]
        shape: Shape = ()
        for operand in operands:
            shape = _joined(shape, operand.type.shape)
        size: Shape | None = getattr(self, "size", None)
        if size is not None:
            target = (*size, *shape) if type(self).batched else size
            if not type(self).batched and _joined(shape, target) != tuple(target):
                raise ValueError(f"parameters of shape {shape} do not broadcast to size={size}")
            shape = tuple(target)
        return shape, [b.broadcast_to(p, shape) for p in operands]


def _joined(x: Shape, y: Shape) -> Shape:
    rank = max(len(x), len(y))
    pairs = list(zip((1,) * (rank - len(x)) + tuple(x), (1,) * (rank - len(y)) + tuple(y), strict=True))
    if any(m != n and 1 not in (m, n) for m, n in pairs):
        raise ValueError(f"shapes {x} and {y} do not broadcast")
    return tuple(n if m == 1 else m for m, n in pairs)


def _declare(name: str, names: tuple[str, ...], function: Draw, doc: str, has_dtype: bool) -> None:
    def decompose(self: Any, b: MxBuilder, *inputs: Value) -> Value:
        shape, values = self.parameters_of(b, inputs)
        return b.cast(function(b, shape, values), DType.from_numpy(getattr(self, "dtype", "float32")))

    parameters: dict[str, Any] = {n: OptionalFloat for n in names} | {"size": OptionalInts, "ctx": Text}
    members: dict[str, Any] = {n: None for n in names} | {"size": None, "ctx": "cpu"}
    if has_dtype:
        parameters["dtype"], members["dtype"] = RandomDType, "float32"
    members |= {"__doc__": doc, "decompose": decompose, "names": names}
    if len(names) == 1:
        members["inputs"] = ("input1?",)
        members[names[0]] = _DEFAULTS.get(name)
    declare(f"_npi_{name}", Distribution, members, (), parameters)
    if name in _BATCHED:
        declare(f"_npi_{name}_n", Distribution, {**members, "batched": True}, (), parameters)


for _row in _TABLE:
    _declare(*_row)


@operator("_npi_bernoulli")
class Bernoulli(Operator):
    """Ones with a probability, and zeros.

    Args:
        input1: The probabilities or logits as an array.
        prob: The probability, None for an array.
        logit: The logarithm of the odds, None for an array.
        size: Shape of the result.
        dtype: Dtype of the result.
        is_logit: True if logits are passed.
    """

    inputs = ("input1?",)
    own_dtypes = frozenset(("input1",))
    gradient = no_gradient
    prob: OptionalFloat
    logit: OptionalFloat
    size: OptionalInts = None
    ctx: Text = "cpu"
    dtype: Literal["bool", "float16", "float32", "float64", "int32", "uint8"] = "float32"
    is_logit: Bool

    def has_input(self, name: str) -> bool:
        return self.prob is None and self.logit is None

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        number = self.logit if self.is_logit else self.prob
        x = b.cast(inputs[0], DType.F32) if inputs else b.constant(number or 0.0, DType.F32)
        shape = x.type.shape if self.size is None else self.size
        x = b.broadcast_to(b.sigmoid(x) if self.is_logit else x, shape)
        return b.cast(_bernoulli(b, shape, [x]), DType.from_numpy(self.dtype))


@operator("_npi_multinomial")
class Multinomial(Operator):
    """How often each of several outcomes occurs in n experiments, of dtype int64.

    Args:
        a: The probabilities as an array.
        n: The number of experiments.
        pvals: The probabilities as numbers.
        size: Shape of the draws.
    Returns:
        (*size, number of outcomes).
    """

    inputs = ("a?",)
    gradient = no_gradient
    output_dtype = DType.I64
    n: Int
    pvals: Floats = ()
    size: OptionalInts = None

    def has_input(self, name: str) -> bool:
        return not self.pvals

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        import numpy as np

        p = b.cast(inputs[0], DType.F32) if inputs else b.constant(np.array(self.pvals, np.float32))
        size = self.size or ()
        shape = (*size, self.n, p.type.size)
        upper = b.broadcast_along(_cumulated(b, p), shape, -1)
        lower = b.sub(upper, b.broadcast_along(p, shape, -1))
        u = b.broadcast(draw.uniform(b, shape[:-1]), shape, range(len(shape) - 1))
        last = b.eq(b.iota(shape, DType.I32, len(shape) - 1), p.type.size - 1)
        inside = b.and_(b.ge(u, lower), b.or_(last, b.lt(u, upper)))
        return b.sum(b.cast(inside, DType.I64), (len(shape) - 2,))


def _cumulated(b: MxBuilder, p: Value) -> Value:
    from ...scalar import ReduceOp

    return b.cumulative(ReduceOp.ADD, p, 0)


@operator("_npi_choice")
class Choice(Operator):
    """Positions that are drawn with or without replacement, of dtype int64.

    Args:
        input1: The array of which elements are drawn, or the probabilities.
        input2: The probabilities beside an array.
        a: The number of positions.
        size: Shape of the result.
        replace: False to draw each position at most once.
        weighted: True with probabilities.
    """

    inputs = ("input1?",)
    gradient = no_gradient
    output_dtype = DType.I64
    a: Int
    size: OptionalInts = None
    ctx: Text = "cpu"
    replace: Bool = True
    weighted: Bool = False

    def has_input(self, name: str) -> bool:
        return self.weighted

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        size = self.size or ()
        count = 1
        for n in size:
            count *= n
        if self.replace:
            if not inputs:
                u = draw.uniform(b, size)
                return b.minimum(b.cast(b.floor(b.mul(u, float(self.a))), DType.I64), self.a - 1)
            cumulated = _cumulated(b, b.cast(inputs[0], DType.F32))
            shape = (*size, self.a)
            u = b.broadcast(draw.uniform(b, size), shape, range(len(size)))
            before = b.ge(u, b.broadcast_along(cumulated, shape, -1))
            return b.minimum(b.sum(b.cast(before, DType.I64), (len(size),)), self.a - 1)
        if count > self.a:
            raise ValueError("Cannot take a larger sample than population when 'replace=False'")
        keys = draw.exponential(b, (self.a,))
        if inputs:
            keys = b.div(keys, b.cast(inputs[0], DType.F32))
        order = b.argsort(keys, 0, count=count)
        return b.reshape(b.cast(order, DType.I64), size)
