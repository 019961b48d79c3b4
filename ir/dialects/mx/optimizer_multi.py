"""Operators that update several weights at once, and operators on several arrays for optimizers.

The operands of weight 0 come first, then those of weight 1, and so on: weight_0, grad_0, mom_0, weight_1, ...
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from ...graph import Value
from ...scalar import ReduceOp
from ...types import DType
from . import optimizer_rules as rules
from .operator import Operator, Results, declare, operator
from .optimizer_ops import guarded_adamw, with_corrections
from .optimizer_rules import Formula, Step, wide
from .parameters import Bool, Float, Floats, Int, Ints
from .shapes import PartialShape, unify_all, unify_some

if TYPE_CHECKING:
    from .builder import MxBuilder


class MultiUpdate(Operator):
    """Shared arguments of several operators.

    Args:
        data: The arrays of the first weight, then those of the second, and so on: weight, gradient, states.
        lrs: Learning rates, one per weight.
        wds: Weight decays, one per weight.
        etas: Factors of the whole step, one per weight.
        learning_rates: Learning rates, one per weight.
        momentum: Weight of the last step in the next one.
        rescale_grad: Factor of the gradients.
        clip_gradient: The rescaled gradients are limited to [-clip_gradient, clip_gradient]; no limit if negative.
        num_weights: Number of weights.
        num_tensors: Number of weights.
        beta1: Weight of the old value in the running mean of the gradient.
        beta2: Weight of the old value in the running mean of the squared gradient.
        epsilon: A small number that keeps the denominator positive.
        lower_bound: Smallest norm of the weight in the trust ratio; no limit if negative.
        upper_bound: Largest norm of the weight in the trust ratio; no limit if negative.
        bias_correction: True to divide the running means by 1 - beta^t.
        step_count: Step numbers, starting at 1, one per weight.
    Returns:
        The new weights.
    """

    inputs = ("data*",)
    variadic = ""
    counter: ClassVar[str] = "num_weights"
    kinds: ClassVar[tuple[str, ...]] = ()
    last: ClassVar[tuple[str, ...]] = ()
    plural: ClassVar[dict[str, str]] = {}

    @property
    def count(self) -> int:
        """The number of weights."""
        return getattr(self, type(self).counter)

    def require_count(self, passed: int) -> None:
        if self.count < 1:
            raise ValueError(f"{self.mx_name()}: {type(self).counter}={self.count} must be positive")
        super().require_count(passed)
        for name in type(self).plural.values():
            numbers: tuple[float, ...] | None = getattr(self, name, None)
            if numbers is not None and len(numbers) != self.count:
                raise ValueError(f"{self.mx_name()}: {name} has {len(numbers)} numbers for {self.count} weights")

    def input_names(self, passed: int | None = None) -> tuple[str, ...]:
        return (*(f"{kind}_{i}" for i in range(self.count) for kind in self.kinds), *self.last)

    def output_names(self) -> tuple[str, ...]:
        return ("output",) if self.count == 1 else tuple(f"output{i}" for i in range(self.count))

    @property
    def auxiliary(self) -> dict[str, int]:
        states = tuple(kind for kind in self.kinds if kind not in ("weight", "grad"))
        return {n: i for i, n in enumerate(self.input_names()) if n.rpartition("_")[0] in states}

    def complete(self, inputs: list[PartialShape], outputs: list[PartialShape]) -> None:
        width = len(self.kinds)
        for i in range(self.count):
            outputs[i] = unify_some(inputs, range(i * width, (i + 1) * width), outputs[i])

    def complete_dtypes(self, inputs: list[DType | None], outputs: list[DType | None]) -> None:
        mixed, width = "weight32" in self.kinds, len(self.kinds)
        for i, _ in enumerate(inputs):
            first = i - i % width
            shared, state = i >= self.count * width, mixed and i - first > 1
            known = DType.F32 if shared or state else inputs[first] or outputs[first // width]
            inputs[i] = inputs[i] or known

    def output_dtypes(self, inputs: Sequence[DType]) -> Sequence[DType | None]:
        return list(inputs[: self.count * len(self.kinds) : len(self.kinds)])

    def decompose(self, b: MxBuilder, *inputs: Value) -> Results:
        width = len(self.kinds)
        parts = [inputs[i * width : (i + 1) * width] for i in range(self.count)]
        return tuple(self._update_one(b, i, part, inputs[self.count * width :]) for i, part in enumerate(parts))

    def _update_one(self, b: MxBuilder, i: int, part: Sequence[Value], last: Sequence[Value]) -> Value:
        named = dict(zip(self.kinds, part, strict=True))
        dtype = wide(part[0].type.dtype)
        states = {name: b.cast(v, dtype) for name, v in named.items() if name not in ("weight", "grad", "weight32")}
        rounded = b.cast(named["weight"], dtype)
        weight = b.cast(named["weight32"], dtype) if "weight32" in named else rounded
        step = Step(b, weight, b.cast(named["grad"], dtype), states, self._numbers(b, i, last), rounded=rounded)
        new = self.rule(b, step, last)
        if "weight32" in named:
            b.update(named["weight32"], new)
        for name, value in step.new.items():
            b.update(named[name], b.cast(value, named[name].type.dtype))
        return b.cast(new, named["weight"].type.dtype)

    def _numbers(self, b: MxBuilder, i: int, last: Sequence[Value]) -> Callable[[str], Value]:
        preloaded = dict(zip(self.last, last, strict=True))

        def number(name: str) -> Value:
            source = type(self).plural.get(name)
            if source in preloaded:
                return b.reshape(b.slice_axis(preloaded[source], 0, i, i + 1), ())
            return b.number(self, name) if source is None else b.number(self, source, i)

        return number

    def rule(self, b: MxBuilder, step: Step, last: Sequence[Value]) -> Value:
        """The new weight of one step."""
        raise NotImplementedError


_SGD_KINDS: dict[str, tuple[tuple[str, ...], Formula]] = {
    "multi_sgd_update": (("weight", "grad"), rules.sgd),
    "multi_sgd_mom_update": (("weight", "grad", "mom"), rules.sgd_mom),
    "multi_mp_sgd_update": (("weight", "grad", "weight32"), rules.sgd),
    "multi_mp_sgd_mom_update": (("weight", "grad", "mom", "weight32"), rules.sgd_mom),
}


def _sgd_text(name: str, preloaded: bool) -> str:
    single = name.replace("multi_", "")
    if preloaded:
        return f"{single} of several weights at once; the last two arrays are the learning rates and the weight decays."
    return f"{single} of several weights at once."


def _declare_sgd(name: str, kinds: tuple[str, ...], formula: Formula, preloaded: bool) -> None:
    def apply(self: MultiUpdate, b: MxBuilder, step: Step, last: Sequence[Value]) -> Value:
        return formula(step)

    types: dict[str, Any] = {} if preloaded else {"lrs": Floats, "wds": Floats}
    defaults: dict[str, Any] = {"momentum": 0.0} if "mom" in kinds else {}
    defaults |= {"rescale_grad": 1.0, "clip_gradient": -1.0}
    types |= {**dict.fromkeys(defaults, Float), "num_weights": Int}
    members = {
        **defaults,
        "num_weights": 1,
        "kinds": kinds,
        "last": ("lrs", "wds") if preloaded else (),
        "plural": {"lr": "lrs", "wd": "wds"},
        "scalars": tuple(p for p in types if p != "num_weights"),
        "rule": apply,
        "__doc__": _sgd_text(name, preloaded),
    }
    declare(f"preloaded_{name}" if preloaded else name, MultiUpdate, members, (), types)


for _name, (_kinds, _formula) in _SGD_KINDS.items():
    _declare_sgd(_name, _kinds, _formula, False)
    _declare_sgd(_name, _kinds, _formula, True)


class _MultiAdamW(MultiUpdate):
    last = ("rescale_grad",)
    plural = {"lr": "lrs", "wd": "wds", "eta": "etas"}
    scalars = ("lrs", "beta1", "beta2", "epsilon", "wds", "etas", "clip_gradient")
    lrs: Floats
    beta1: Float = 0.899999976
    beta2: Float = 0.999000013
    epsilon: Float = 9.99999994e-09
    wds: Floats
    etas: Floats
    clip_gradient: Float = -1.0
    num_weights: Int = 1

    def rule(self, b: MxBuilder, step: Step, last: Sequence[Value]) -> Value:
        return guarded_adamw(b, step, last[0])


@operator("_multi_adamw_update")
class MultiAdamWUpdate(_MultiAdamW):
    """_adamw_update of several weights at once."""

    kinds = ("weight", "grad", "mean", "var")


@operator("_multi_mp_adamw_update")
class MultiMpAdamWUpdate(_MultiAdamW):
    """_mp_adamw_update of several weights at once."""

    kinds = ("weight", "grad", "mean", "var", "weight32")


class _MultiLamb(MultiUpdate):
    counter = "num_tensors"
    plural = {"lr": "learning_rates", "wd": "wds", "t": "step_count"}
    scalars = (
        "learning_rates",
        "beta1",
        "beta2",
        "epsilon",
        "wds",
        "rescale_grad",
        "lower_bound",
        "upper_bound",
        "clip_gradient",
        "step_count",
    )
    learning_rates: Floats
    beta1: Float = 0.899999976
    beta2: Float = 0.999000013
    epsilon: Float = 9.99999997e-07
    wds: Floats
    rescale_grad: Float = 1.0
    lower_bound: Float = -1.0
    upper_bound: Float = -1.0
    clip_gradient: Float = -1.0
    bias_correction: Bool = True
    step_count: Ints
    num_tensors: Int = 1

    def rule(self, b: MxBuilder, step: Step, last: Sequence[Value]) -> Value:
        return rules.lamb(with_corrections(step, self.bias_correction))


@operator("_multi_lamb_update")
class MultiLambUpdate(_MultiLamb):
    """Both phases of LAMB for several weights at once."""

    kinds = ("weight", "grad", "mean", "var")


@operator("_multi_mp_lamb_update")
class MultiMpLambUpdate(_MultiLamb):
    """Both phases of LAMB for several weights at once, with float32 copies of the weights."""

    kinds = ("weight", "grad", "mean", "var", "weight32")


class _OfArrays(Operator):
    """Shared arguments of several operators.

    Args:
        data: The arrays.
        num_arrays: Number of arrays.
    """

    if TYPE_CHECKING:
        num_arrays: int

    inputs = ("data*",)
    variadic = ""

    def input_names(self, passed: int | None = None) -> tuple[str, ...]:
        return tuple(f"array_{i}" for i in range(self.num_arrays))

    def check(self) -> None:
        if self.num_arrays < 1:
            raise ValueError(f"{self.mx_name()}: num_arrays={self.num_arrays} must be positive")


@operator("multi_sum_sq")
class MultiSumSq(_OfArrays):
    """The sum of squares of each of several arrays.

        output[i] = sum(data[i]^2)

    Returns:
        (num_arrays,), float32.
    Example:
        >>> nd.multi_sum_sq(nd.array([3, 4]), nd.array([1]), num_arrays=2).asnumpy()
        array([25.,  1.], dtype=float32)
    """

    num_arrays: Int
    output_dtype = DType.F32

    def complete(self, inputs: list[PartialShape], outputs: list[PartialShape]) -> None:
        outputs[0] = (self.num_arrays,)

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        def total(x: Value) -> Value:
            wider = b.cast(x, DType.F32)
            return b.reshape(b.sum(b.mul(wider, wider)), (1,))

        return b.concat([total(x) for x in inputs], 0)


def _all_finite(b: MxBuilder, inputs: Sequence[Value]) -> Value:
    """(1,), float32: 1 if every element is finite, else 0."""
    verdicts = [b.reshape(b.reduce(ReduceOp.AND, b.is_finite(x)), (1,)) for x in inputs]
    all_finite = verdicts[0]
    for other in verdicts[1:]:
        all_finite = b.and_(all_finite, other)
    return b.cast(all_finite, DType.F32)


@operator("multi_all_finite")
class MultiAllFinite(_OfArrays):
    """1 if no element of several arrays is infinite or NaN, else 0.

    Args:
        init_output: False to keep a 0 in `out`.
    Returns:
        (1,), float32.
    """

    has_gradient = False
    num_arrays: Int = 1
    init_output: Bool = True
    output_dtype = DType.F32

    def complete(self, inputs: list[PartialShape], outputs: list[PartialShape]) -> None:
        outputs[0] = (1,)

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        return _all_finite(b, inputs)


@operator("multi_lars")
class MultiLars(Operator):
    """Learning rates of layers by LARS.

        output = lrs * eta * |w| / (|g| * rescale_grad + wds * |w| + eps), or lrs if a norm is 0

    Args:
        lrs: (N,), learning rates.
        weights_sum_sq: (N,), sums of squares of the weights.
        grads_sum_sq: (N,), sums of squares of the gradients.
        wds: (N,), weight decays.
        eta: The trust coefficient.
        eps: A small number that keeps the denominator positive.
        rescale_grad: Factor of the gradients.
    Returns:
        (N,).
    """

    inputs = ("lrs", "weights_sum_sq", "grads_sum_sq", "wds")
    scalars = ("eta", "eps", "rescale_grad")
    eta: Float
    eps: Float
    rescale_grad: Float = 1.0

    def complete(self, inputs: list[PartialShape], outputs: list[PartialShape]) -> None:
        unify_all(inputs, outputs)

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        lrs, weights, grads, wds = inputs
        eta, eps, scale = (b.number_like(self, name, lrs) for name in ("eta", "eps", "rescale_grad"))
        weight, grad = b.sqrt(weights), b.sqrt(grads)
        below = b.add(b.add(b.mul(grad, scale), b.mul(wds, weight)), eps)
        valid = b.and_(b.gt(weight, 0), b.gt(grad, 0))
        return b.select(valid, b.div(b.mul(b.mul(lrs, eta), weight), below), lrs)


@operator("reset_arrays")
class ResetArrays(_OfArrays):
    """Fills several arrays with zeros, in place. Has no result."""

    outputs = ()
    num_arrays: Int

    def complete_dtypes(self, inputs: list[DType | None], outputs: list[DType | None]) -> None:
        """The dtypes of the arrays are independent."""

    @property
    def auxiliary(self) -> dict[str, int]:
        return {name: i for i, name in enumerate(self.input_names())}

    def decompose(self, b: MxBuilder, *inputs: Value) -> Results:
        for x in inputs:
            b.update(x, b.full_like(x, 0))
        return ()
