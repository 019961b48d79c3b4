"""Operators that draw random numbers. The distributions are MXNet's, the numbers are not."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import log, prod
from typing import TYPE_CHECKING, Annotated, Any, Literal

from ...graph import Value
from ...scalar import ReduceOp
from ...types import DType, Shape
from . import random_bits as draw
from . import random_rejection as rejection
from .gradients import no_gradient
from .open_shapes import Shaped
from .operator import Elementwise, Operator, Results, declare, operator
from .parameters import OR_NONE, Bool, Float, Int, Ints, OptionalInts, Text
from .shapes import PartialShape, unify_all, unify_at

if TYPE_CHECKING:
    from .builder import MxBuilder

RandomDType = Annotated[Literal["float16", "float32", "float64"] | None, OR_NONE]
RandomIntDType = Annotated[Literal["int32", "int64"] | None, OR_NONE]
Parameters = tuple[tuple[str, float | int], ...]
Draw = Callable[["MxBuilder", Shape, list[Value]], Value]


def _affine(b: MxBuilder, noise: Value, shift: Value, scale: Value) -> Value:
    return b.add(b.mul(noise, scale), shift)


def _uniform(b: MxBuilder, shape: Shape, p: list[Value]) -> Value:
    return _affine(b, draw.uniform(b, shape), p[0], b.sub(p[1], p[0]))


def _normal(b: MxBuilder, shape: Shape, p: list[Value]) -> Value:
    return _affine(b, draw.normal(b, shape), p[0], p[1])


def _exponential(b: MxBuilder, shape: Shape, p: list[Value]) -> Value:
    return b.div(draw.exponential(b, shape), p[0])


def _gamma(b: MxBuilder, shape: Shape, p: list[Value]) -> Value:
    return rejection.gamma(b, shape, p[0], p[1])


def _poisson(b: MxBuilder, shape: Shape, p: list[Value]) -> Value:
    return rejection.poisson(b, shape, p[0])


def _negative_binomial(b: MxBuilder, shape: Shape, p: list[Value]) -> Value:
    return rejection.negative_binomial(b, shape, p[0], p[1])


def _generalized_negative_binomial(b: MxBuilder, shape: Shape, p: list[Value]) -> Value:
    return rejection.generalized_negative_binomial(b, shape, p[0], p[1])


# MXNet's name, parameters and their defaults, function of float32 parameters in the result's shape, other aliases
_TABLE: tuple[tuple[str, Parameters, Draw, tuple[str, ...]], ...] = (
    ("uniform", (("low", 0.0), ("high", 1.0)), _uniform, ("uniform",)),
    ("normal", (("loc", 0.0), ("scale", 1.0)), _normal, ("normal",)),
    ("exponential", (("lam", 1.0),), _exponential, ()),
    ("gamma", (("alpha", 1.0), ("beta", 1.0)), _gamma, ()),
    ("poisson", (("lam", 1.0),), _poisson, ()),
    ("negative_binomial", (("k", 1), ("p", 1.0)), _negative_binomial, ()),
    ("generalized_negative_binomial", (("mu", 1.0), ("alpha", 1.0)), _generalized_negative_binomial, ()),
)
_TEXTS = {
    "uniform": "Uniform numbers in [low, high).\n\n    density = 1 / (high - low)",
    "normal": "Normal numbers.\n\n    density = exp(-((x - loc) / scale)^2 / 2) / (scale * sqrt(2 * pi))",
    "exponential": "Exponential numbers.\n\n    density = lam * exp(-lam * x), for x >= 0",
    "gamma": "Gamma numbers.\n\n    density = x^(alpha - 1) * exp(-x / beta) / (gamma(alpha) * beta^alpha), for x >= 0",
    "poisson": "Poisson counts.\n\n    P(k) = lam^k * exp(-lam) / k!",
    "negative_binomial": "Numbers of failures before the k-th success, with success probability p.",
    "generalized_negative_binomial": "Counts of mean mu and variance mu + alpha * mu^2.",
}
# Descriptions of the parameters for docstrings; `mu` and `sigma` are the array parameters of normal numbers.
_ARGUMENTS: dict[str, dict[str, str]] = {
    "uniform": {"low": "Smallest number.", "high": "End of the interval (exclusive)."},
    "normal": {"loc": "The mean.", "scale": "The deviation.", "mu": "The means.", "sigma": "The deviations."},
    "exponential": {"lam": "The rate, 1 / mean."},
    "gamma": {"alpha": "The shape.", "beta": "The scale."},
    "poisson": {"lam": "The mean."},
    "negative_binomial": {"k": "Number of successes.", "p": "Probability of a success."},
    "generalized_negative_binomial": {"mu": "The mean.", "alpha": "The dispersion."},
}
# Conditions that MXNet requires of numbers. Array elements that do not satisfy them produce NaN.
_CONDITIONS: dict[str, dict[str, tuple[str, Callable[[Any], bool]]]] = {
    "uniform": {"high": ("at least low", lambda op: op.high >= op.low)},
    "normal": {"scale": ("positive", lambda op: op.scale > 0)},
    "exponential": {"lam": ("positive", lambda op: op.lam > 0)},
    "gamma": {"alpha": ("positive", lambda op: op.alpha > 0), "beta": ("positive", lambda op: op.beta > 0)},
    "poisson": {"lam": ("non-negative", lambda op: op.lam >= 0)},
    "negative_binomial": {
        "k": ("non-negative", lambda op: op.k >= 0),
        "p": ("between 0 and 1", lambda op: 0 <= op.p <= 1),
    },
    "generalized_negative_binomial": {
        "mu": ("non-negative", lambda op: op.mu >= 0),
        "alpha": ("non-negative", lambda op: op.alpha >= 0),
    },
}
# The names of the distributions' array parameters.
_SAMPLE_INPUTS = {
    "uniform": ("low", "high"),
    "normal": ("mu", "sigma"),
    "exponential": ("lam",),
    "gamma": ("alpha", "beta"),
    "poisson": ("lam",),
    "negative_binomial": ("k", "p"),
    "generalized_negative_binomial": ("mu", "alpha"),
}


class _Draw(Shaped):
    """Shared arguments of several operators.

    Args:
        shape: Shape of the result.
        dtype: Dtype of the result; float32 by default.
    """

    if TYPE_CHECKING:
        dtype: str | None

    def output_dtypes(self, inputs: Sequence[DType]) -> Sequence[DType | None]:
        return [DType.from_numpy(self.dtype or "float32")]


class _Sample(Operator):
    """Shared arguments of several operators.

    Args:
        shape: Shape of the draws per element of the parameters; one draw by default.
        dtype: Dtype of the result; float32 by default.
    Returns:
        An array with the parameters' shape followed by `shape`.
    """

    gradient = no_gradient
    shape: Ints = ()
    dtype: RandomDType = None

    def complete(self, inputs: list[PartialShape], outputs: list[PartialShape]) -> None:
        rank = None if outputs[0] is None else len(outputs[0]) - len(self.shape)
        if rank is not None and rank > 0 and outputs[0] is not None:
            unify_at(inputs, 0, outputs[0][:rank])
        unify_all(inputs)
        if inputs[0] is not None:
            unify_at(outputs, 0, inputs[0] + self.shape)

    def output_dtypes(self, inputs: Sequence[DType]) -> Sequence[DType | None]:
        return [DType.from_numpy(self.dtype or "float32")]


def _types(parameters: Parameters) -> dict[str, Any]:
    return {name: Int if isinstance(default, int) else Float for name, default in parameters}


def _checked(distribution: str, names: list[str]) -> dict[str, Any]:
    """Class members: `scalars`, the numbers that change from call to call, and `check`, which rejects invalid ones."""

    def check(self: Operator) -> None:
        for name, (condition, holds) in _CONDITIONS[distribution].items():
            if not holds(self):
                raise ValueError(f"{self.mx_name()}: {name}={getattr(self, name)} must be {condition}")

    return {"scalars": tuple(names), "check": check}


def _text(distribution: str, doc: str, names: Iterable[str], example: str = "") -> str:
    """The docstring of an operator."""
    arguments = "".join(f"    {name}: {_ARGUMENTS[distribution][name]}\n" for name in names)
    return f"{doc}\n\nArgs:\n{arguments}{example}"


def _declare_plain(distribution: str, parameters: Parameters, doc: str, function: Draw, more: tuple[str, ...]) -> None:
    names = [p for p, _ in parameters]

    def decompose(self: _Draw, b: MxBuilder, *inputs: Value) -> Value:
        shape = self.known_shape()
        like = b.full(shape, 0)
        values = function(b, shape, [b.number_like(self, p, like) for p in names])
        return b.cast(values, DType.from_numpy(self.dtype or "float32"))

    types = {**_types(parameters), "shape": OptionalInts, "ctx": Text, "dtype": RandomDType}
    example = f"Example:\n    >>> nd.random.{distribution}(shape=(2, 3)).shape\n    (2, 3)"
    text = _text(distribution, doc, names, example)
    members: dict[str, Any] = {**dict(parameters), "shape": None, "ctx": "", "dtype": None, "__doc__": text}
    members |= {"decompose": decompose, "extent_parameters": ("shape",)}
    members |= _checked(distribution, names)
    declare(f"_random_{distribution}", _Draw, members, (f"random_{distribution}", *more), types)


def _declare_like(distribution: str, parameters: Parameters, doc: str, function: Draw) -> None:
    names = [p for p, _ in parameters]

    def decompose(self: Operator, b: MxBuilder, *inputs: Value) -> Value:
        x = inputs[0].type
        like = b.full(x.shape, 0)
        return b.cast(function(b, x.shape, [b.number_like(self, p, like) for p in names]), x.dtype)

    text = _text(distribution, f"{doc}\n\nThe result has the shape and dtype of data.", names)
    members = {**dict(parameters), "__doc__": text, "decompose": decompose}
    declare(
        f"_random_{distribution}_like", Elementwise, members | _checked(distribution, names), (), _types(parameters)
    )


def _declare_sample(distribution: str, doc: str, function: Draw) -> None:
    def decompose(self: _Sample, b: MxBuilder, *inputs: Value) -> Value:
        parameter = inputs[0].type
        shape = parameter.shape + self.shape
        axes = tuple(range(parameter.rank))
        values = function(b, shape, [b.broadcast(b.cast(p, DType.F32), shape, axes) for p in inputs])
        return b.cast(values, DType.from_numpy(self.dtype or "float32"))

    text = _text(
        distribution, f"{doc}\n\nDraws `shape` numbers per element of the parameters.", _SAMPLE_INPUTS[distribution]
    )
    members = {"inputs": _SAMPLE_INPUTS[distribution], "__doc__": text, "decompose": decompose}
    declare(f"_sample_{distribution}", _Sample, members, (f"sample_{distribution}",))


for _kind, _parameters, _function, _more in _TABLE:
    _declare_plain(_kind, _parameters, _TEXTS[_kind], _function, _more)
    _declare_like(_kind, _parameters, _TEXTS[_kind], _function)
    _declare_sample(_kind, _TEXTS[_kind], _function)


@operator("_random_randint", aliases=("_npi_random_randint", "random_randint"))
class RandomRandint(Shaped):
    """Uniform integers in [low, high).

    Args:
        low: Smallest number.
        high: End of the interval (exclusive).
        shape: Shape of the result.
        dtype: Dtype of the result; int32 by default.
    Returns:
        An array of `shape`.
    """

    extent_parameters = ("shape",)
    low: Int
    high: Int
    shape: OptionalInts = None
    ctx: Text = ""
    dtype: RandomIntDType = None

    def check(self) -> None:
        if not 0 < self.high - self.low <= 2**32:
            raise ValueError(f"_random_randint: high={self.high}: must exceed low={self.low} by at most 2^32")

    def output_dtypes(self, inputs: Sequence[DType]) -> Sequence[DType | None]:
        return [DType.from_numpy(self.dtype or "int32")]

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        wide = b.cast(draw.bits(b, self.known_shape()), DType.I64)
        scaled = b.shift_right(b.mul(b.cast(wide, DType.U64), self.high - self.low), 32)
        return b.cast(b.add(b.cast(scaled, DType.I64), self.low), DType.from_numpy(self.dtype or "int32"))


@operator("_shuffle", aliases=("_npi_shuffle", "shuffle"))
class Shuffle(Elementwise):
    """The slices along the first axis, in random order.

    Returns:
        An array of data's shape.
    """

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        x = inputs[0]
        count = x.type.shape[0]
        return b.take(x, b.argsort(draw.bits(b, (count,)), 0), 0)


@operator("_sample_multinomial", aliases=("sample_multinomial",))
class SampleMultinomial(Operator):
    """Draws classes according to probabilities.

        P(output = k) = data[..., k]

    Args:
        data: (..., classes), probabilities that sum to 1.
        shape: Shape of the draws per row; one draw by default.
        get_prob: True to return the log probabilities of the draws as well.
        dtype: Dtype of the classes.
    Returns:
        output: (..., *shape), the classes.
    """

    shape: Ints = ()
    get_prob: Bool = False
    dtype: Literal["float16", "float32", "float64", "int32", "uint8"] = "int32"

    def output_names(self) -> tuple[str, ...]:
        return ("output0", "output1") if self.get_prob else ("output",)

    def output_dtypes(self, inputs: Sequence[DType]) -> Sequence[DType | None]:
        return [DType.from_numpy(self.dtype), inputs[0]][: self.num_outputs]

    def decompose(self, b: MxBuilder, *inputs: Value) -> Results:
        p = inputs[0]
        rows, kinds = p.type.size // p.type.shape[-1], p.type.shape[-1]
        count = prod(self.shape)
        table = b.reshape(p, (rows, kinds))
        picked = self._pick(b, table, rows, kinds, count)
        shape = p.type.shape[:-1] + self.shape or (1,)
        positions = b.reshape(b.cast(picked, DType.from_numpy(self.dtype)), shape)
        if not self.get_prob:
            return positions
        chosen = b.gather(table, b.expand_dims(picked, 2), (1,), 1)
        return positions, b.reshape(b.log(chosen), shape)

    def _pick(self, b: MxBuilder, table: Value, rows: int, kinds: int, count: int) -> Value:
        """(rows, count): the number of cumulative sums that are at most a uniform number."""
        sums = b.cumulative(ReduceOp.ADD, b.cast(table, DType.F32), 1)
        space = (rows, count, kinds)
        point = b.broadcast(draw.uniform(b, (rows, count)), space, (0, 1))
        below = b.cast(b.le(b.broadcast(sums, space, (0, 2)), point), DType.I32)
        return b.minimum(b.sum(below, (2,)), kinds - 1)


@operator("_sample_unique_zipfian")
class SampleUniqueZipfian(Operator):
    """Distinct integers per row, small ones more often: candidates for sampled losses.

        P(k) = log((k + 2) / (k + 1)) / log(range_max + 1)

    Args:
        range_max: End of the range of the numbers.
        shape: (rows, numbers per row).
    Returns:
        output0: The numbers, int64.
        output1: The number of draws for each row, int64.
    """

    inputs = ()
    outputs = ("output0", "output1")
    output_dtype = DType.I64
    range_max: Int
    shape: Ints = ()

    def check(self) -> None:
        if len(self.shape) != 2:
            raise ValueError(f"_sample_unique_zipfian: shape={self.shape} must be (rows, numbers)")
        if not 0 < self.shape[1] <= self.range_max:
            count, limit = self.shape[1], self.range_max
            raise ValueError(f"_sample_unique_zipfian: {count} distinct numbers below range_max={limit} are impossible")

    def decompose(self, b: MxBuilder, *inputs: Value) -> Results:
        return rejection.distinct(b, self.shape, self._draw)

    def _draw(self, b: MxBuilder, rows: Shape) -> Value:
        """One number per row: exp(uniform * log(range_max + 1)) - 1, truncated."""
        power = b.mul(b.cast(draw.uniform(b, rows), DType.F64), log(self.range_max + 1))
        return b.minimum(b.cast(b.sub(b.exp(power), 1.0), DType.I64), self.range_max - 1)
