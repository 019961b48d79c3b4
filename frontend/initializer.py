"""Initializers: they fill new parameters, chosen by the end of the parameter's name or by its `__init__` attribute."""

from __future__ import annotations

import json
import logging
import math
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from . import registry

if TYPE_CHECKING:
    from .ndarray import NDArray


class InitDesc(str):
    """A parameter's name together with what its symbol says about initialization."""

    attrs: Mapping[str, str]
    global_init: Initializer | None

    def __new__(
        cls, name: str, attrs: Mapping[str, Any] | None = None, global_init: Initializer | None = None
    ) -> InitDesc:
        made = super().__new__(cls, name)
        made.attrs = attrs or {}
        made.global_init = global_init
        return made


class Initializer:
    """Fills an array in place: `init(InitDesc("fc1_weight"), array)`. Subclasses say `_init_weight`.

    `kwargs` are what `dumps` writes, so that `create` makes the same initializer again.
    """

    def __init__(self, **kwargs: Any) -> None:
        self._kwargs = kwargs
        self._verbose = False
        self._print_func: Callable[[NDArray], str] | None = None

    def set_verbosity(self, verbose: bool = False, print_func: Callable[[NDArray], str] | None = None) -> Initializer:
        """Log each parameter as it is filled, with `print_func(array)`: by default its root mean square."""
        self._verbose = verbose
        self._print_func = print_func or _root_mean_square
        return self

    def dumps(self) -> str:
        """JSON: the lower-case name and the arguments."""
        return json.dumps([type(self).__name__.lower(), self._kwargs])

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Initializer):
            return NotImplemented
        return type(self) is type(other) and self._kwargs == other._kwargs

    __hash__ = None  # type: ignore[assignment]

    def __call__(self, desc: str, arr: NDArray) -> None:
        if not isinstance(desc, InitDesc):
            self._legacy_init(desc, arr)
            return
        if desc.global_init is None:
            desc.global_init = self
        wish = desc.attrs.get("__init__", "")
        if wish:
            create(wish)._init_weight(desc, arr)
            self._report(desc, str(wish), arr)
            return
        suffix = next((s for s in _BY_SUFFIX if desc.endswith(s)), None)
        if suffix is None:
            self._init_default(desc, arr)
            return
        getattr(self, _BY_SUFFIX[suffix])(desc, arr)
        self._report(desc, suffix, arr)

    def _report(self, desc: str, how: str, arr: NDArray) -> None:
        if self._verbose and self._print_func:
            logging.info("Initialized %s as %s: %s", desc, how, self._print_func(arr))

    def _legacy_init(self, name: str, arr: NDArray) -> None:
        from .ndarray import NDArray

        warnings.warn(
            "Calling initializer with init(str, NDArray) has been deprecated."
            "please use init(mx.init.InitDesc(...), NDArray) instead.",
            DeprecationWarning,
            stacklevel=3,
        )
        if not isinstance(name, str):
            raise TypeError("name must be string")
        if not isinstance(arr, NDArray):
            raise TypeError("arr must be NDArray")
        if name.startswith("upsampling"):
            self._init_bilinear(name, arr)
        elif name.startswith("stn_loc") and name.endswith(("weight", "bias")):
            (self._init_zero if name.endswith("weight") else self._init_loc_bias)(name, arr)
        else:
            suffix = next((s for s in _LEGACY_BY_SUFFIX if name.endswith(s)), None)
            getattr(self, _LEGACY_BY_SUFFIX[suffix] if suffix else "_init_default")(name, arr)

    def _init_bilinear(self, _: str, arr: NDArray) -> None:
        arr[:] = bilinear_kernel(arr.shape)

    def _init_loc_bias(self, _: str, arr: NDArray) -> None:
        if arr.shape[0] != 6:
            raise ValueError(f"the bias of a spatial transformer has 6 elements, not {arr.shape[0]}")
        arr[:] = np.array([1.0, 0, 0, 0, 1.0, 0])

    def _init_zero(self, _: str, arr: NDArray) -> None:
        arr[:] = 0.0

    def _init_one(self, _: str, arr: NDArray) -> None:
        arr[:] = 1.0

    _init_bias = _init_beta = _init_quantized_bias = _init_zero
    _init_gamma = _init_one

    def _init_weight(self, name: str, arr: NDArray) -> None:
        raise NotImplementedError("Must override it")

    def _init_quantized_weight(self, _: str, arr: NDArray) -> None:
        from . import random

        arr[:] = random.randint(-127, 127, shape=arr.shape, dtype="int32").asnumpy().astype(np.int8)

    def _init_default(self, name: str, _: NDArray) -> None:
        raise ValueError(
            f"Unknown initialization pattern for {name}. Default initialization is now limited to "
            '"weight", "bias", "gamma" (1.0), and "beta" (0.0).'
            "Please use mx.sym.Variable(init=mx.init.*) to set initialization pattern"
        )


# The end of a parameter's name, and the method that fills it; the first match counts.
_BY_SUFFIX = {
    "weight": "_init_weight",
    "bias": "_init_bias",
    "gamma": "_init_gamma",
    "beta": "_init_beta",
    "min": "_init_zero",
    "max": "_init_one",
    "weight_quantize": "_init_quantized_weight",
    "bias_quantize": "_init_quantized_bias",
}
_LEGACY_BY_SUFFIX = {
    "bias": "_init_bias",
    "gamma": "_init_gamma",
    "beta": "_init_beta",
    "weight": "_init_weight",
    "moving_mean": "_init_zero",
    "moving_var": "_init_one",
    "moving_inv_var": "_init_zero",
    "moving_avg": "_init_zero",
    "min": "_init_zero",
    "max": "_init_one",
}


def _root_mean_square(arr: NDArray) -> str:
    values = arr.asnumpy()
    return str(float(np.linalg.norm(values) / math.sqrt(values.size)))


def bilinear_kernel(shape: Sequence[int]) -> np.ndarray:
    """The weight (any, any, height, width) of a transposed convolution that upsamples bilinearly."""
    half = math.ceil(shape[3] / 2.0)
    center = (2 * half - 1 - half % 2) / (2.0 * half)
    x, y = (1 - abs(np.arange(n) / half - center) for n in (shape[3], shape[2]))
    return np.broadcast_to(y[:, None] * x, tuple(shape)).astype(np.float32)


_register = registry.get_register_func(Initializer, "initializer")
alias = registry.get_alias_func(Initializer, "initializer")
create = registry.get_create_func(Initializer, "initializer")


def register(klass: type) -> type:
    """Make an initializer known by its lower-case name."""
    return _register(klass)


class Load:
    """Fills parameters from a file or a dictionary (without `arg:` and `aux:`), others by `default_init`."""

    def __init__(self, param: str | Mapping[str, NDArray], default_init: Any = None, verbose: bool = False) -> None:
        from .ndarray import load

        loaded: Mapping[str, Any] = load(param) if isinstance(param, str) else param
        self.param = {name.removeprefix("arg:").removeprefix("aux:"): arr for name, arr in loaded.items()}
        self.default_init = default_init
        self.verbose = verbose

    def __call__(self, name: str, arr: NDArray) -> None:
        found = self.param.get(str(name))
        if found is None and self.default_init is None:
            raise ValueError(
                f"Cannot Initialize {name}. Not found in loaded param and no default Initializer is provided."
            )
        if found is None:
            self.default_init(name, arr)
        elif arr.shape != found.shape:
            raise ValueError(
                f"Parameter {name} cannot be initialized from loading. "
                f"Shape mismatch, target {arr.shape} vs loaded {found.shape}"
            )
        else:
            arr[:] = found
        if self.verbose:
            logging.info("Initialized %s by %s", name, "default" if found is None else "loading")


class Mixed:
    """Several initializers, each for the names that its pattern matches; the first match counts."""

    def __init__(self, patterns: Sequence[str], initializers: Sequence[Any]) -> None:
        if len(patterns) != len(initializers):
            raise ValueError(f"{len(patterns)} patterns for {len(initializers)} initializers")
        self.map = list(zip(map(re.compile, patterns), initializers, strict=True))

    def __call__(self, name: str, arr: NDArray) -> None:
        for pattern, init in self.map:
            if pattern.match(name):
                init(name, arr)
                return
        raise ValueError(
            f"Parameter name {name} did not match any pattern. Consider "
            'add a ".*" pattern at the end with default Initializer.'
        )


@register
@alias("zeros")
class Zero(Initializer):
    """Zeros."""

    def _init_weight(self, name: str, arr: NDArray) -> None:
        arr[:] = 0


@register
@alias("ones")
class One(Initializer):
    """Ones."""

    def _init_weight(self, name: str, arr: NDArray) -> None:
        arr[:] = 1


@register
class Constant(Initializer):
    """One value everywhere, or the values of an array."""

    def __init__(self, value: Any) -> None:
        super().__init__(value=value)
        self.value = value

    def _init_weight(self, name: str, arr: NDArray) -> None:
        arr[:] = self.value

    def dumps(self) -> str:
        value = self.value
        if not np.isscalar(value):
            value = (value if isinstance(value, np.ndarray) else value.asnumpy()).tolist()
        return json.dumps([type(self).__name__.lower(), {"value": value}])


@register
class Uniform(Initializer):
    """Uniform in [-scale, scale)."""

    def __init__(self, scale: float = 0.07) -> None:
        super().__init__(scale=scale)
        self.scale = scale

    def _init_weight(self, name: str, arr: NDArray) -> None:
        _fill("uniform", -self.scale, self.scale, arr)


@register
class Normal(Initializer):
    """Normal with mean 0."""

    def __init__(self, sigma: float = 0.01) -> None:
        super().__init__(sigma=sigma)
        self.sigma = sigma

    def _init_weight(self, name: str, arr: NDArray) -> None:
        _fill("normal", 0, self.sigma, arr)


def _fill(distribution: str, first: float, second: float, arr: NDArray) -> None:
    """Fill `arr` from a distribution with two parameters."""
    from . import random

    getattr(random, distribution)(float(first), float(second), arr.shape, out=arr)


@register
class Orthogonal(Initializer):
    """An orthogonal matrix times `scale` (Saxe et al. 2013); further axes are folded into the second."""

    def __init__(self, scale: float = 1.414, rand_type: str = "uniform") -> None:
        super().__init__(scale=scale, rand_type=rand_type)
        self.scale = scale
        self.rand_type = rand_type

    def _init_weight(self, name: str, arr: NDArray) -> None:
        from . import random

        shape = (arr.shape[0], math.prod(arr.shape[1:]))
        if self.rand_type not in ("uniform", "normal"):
            raise ValueError(f"rand_type is 'uniform' or 'normal', not {self.rand_type!r}")
        drawn = random.uniform(-1.0, 1.0, shape) if self.rand_type == "uniform" else random.normal(0.0, 1.0, shape)
        u, _, v = np.linalg.svd(drawn.asnumpy(), full_matrices=False)
        arr[:] = self.scale * (u if u.shape == shape else v).reshape(arr.shape)


@register
class Xavier(Initializer):
    """Scaled by the numbers of connections (Glorot and Bengio 2010): by fan in, fan out or their mean."""

    def __init__(self, rnd_type: str = "uniform", factor_type: str = "avg", magnitude: float = 3) -> None:
        super().__init__(rnd_type=rnd_type, factor_type=factor_type, magnitude=magnitude)
        self.rnd_type = rnd_type
        self.factor_type = factor_type
        self.magnitude = float(magnitude)

    def _init_weight(self, name: str, arr: NDArray) -> None:
        shape = arr.shape
        if len(shape) < 2:
            raise ValueError(f"Xavier initializer cannot be applied to vector {name}. It requires at least 2D.")
        positions = math.prod(shape[2:])
        fan_in, fan_out = shape[1] * positions, shape[0] * positions
        factors = {"avg": (fan_in + fan_out) / 2.0, "in": fan_in, "out": fan_out}
        if self.factor_type not in factors:
            raise ValueError("Incorrect factor type")
        scale = math.sqrt(self.magnitude / factors[self.factor_type])
        if self.rnd_type not in ("uniform", "gaussian"):
            raise ValueError("Unknown random type")
        if self.rnd_type == "uniform":
            _fill("uniform", -scale, scale, arr)
        else:
            _fill("normal", 0, scale, arr)


@register
class MSRAPrelu(Xavier):
    """For rectifiers (He et al. 2015): gaussian, with the slope of a PReLU taken into account."""

    def __init__(self, factor_type: str = "avg", slope: float = 0.25) -> None:
        super().__init__("gaussian", factor_type, 2.0 / (1 + slope**2))
        self._kwargs = {"factor_type": factor_type, "slope": slope}


@register
class Bilinear(Initializer):
    """Bilinear upsampling by a transposed convolution."""

    def _init_weight(self, name: str, arr: NDArray) -> None:
        arr[:] = bilinear_kernel(arr.shape)


@register
class LSTMBias(Initializer):
    """Zeros, and `forget_bias` for the forget gate, the second of an LSTM's four."""

    def __init__(self, forget_bias: float = 1.0) -> None:
        super().__init__(forget_bias=forget_bias)
        self.forget_bias = forget_bias

    def _init_weight(self, name: str, arr: NDArray) -> None:
        arr[:] = 0.0
        hidden = arr.shape[0] // 4
        arr[hidden : 2 * hidden] = self.forget_bias


@register
class FusedRNN(Initializer):
    """Fills the packed parameters of the RNN operator piece by piece; `init` None means the global initializer."""

    _GATES = {"rnn_relu": ("",), "rnn_tanh": ("",), "lstm": ("_i", "_f", "_c", "_o"), "gru": ("_r", "_z", "_o")}

    def __init__(
        self,
        init: Any,
        num_hidden: int,
        num_layers: int,
        mode: str,
        bidirectional: bool = False,
        forget_bias: float = 1.0,
    ) -> None:
        init = create(init) if isinstance(init, str) else init
        super().__init__(
            init=init.dumps() if init is not None else None,
            num_hidden=num_hidden,
            num_layers=num_layers,
            mode=mode,
            bidirectional=bidirectional,
            forget_bias=forget_bias,
        )
        self._init = init
        self._num_hidden, self._num_layers, self._mode = num_hidden, num_layers, mode
        self._directions = ("l", "r") if bidirectional else ("l",)
        self._forget_bias = forget_bias

    def _pieces(self, size: int) -> list[tuple[str, tuple[int, ...]]]:
        """Name and shape of each gate's weights and biases in the order of the packed vector."""
        gates, hidden, both = self._GATES[self._mode], self._num_hidden, len(self._directions)
        per_unit = size // both // hidden // len(gates)
        inputs = per_unit - (self._num_layers - 1) * (hidden + both * hidden + 2) - hidden - 2
        cells = [
            (f"{d}{i}", inputs if i == 0 else both * hidden) for i in range(self._num_layers) for d in self._directions
        ]
        weights = [
            (f"{cell}_{group}{gate}_weight", (hidden, width))
            for cell, first in cells
            for group, width in (("i2h", first), ("h2h", hidden))
            for gate in gates
        ]
        biases = [(f"{cell}_{g}{gate}_bias", (hidden,)) for cell, _ in cells for g in ("i2h", "h2h") for gate in gates]
        return weights + biases

    def _init_weight(self, name: str, arr: NDArray) -> None:
        from .ndarray import concat, zeros

        fallback = name.global_init if isinstance(name, InitDesc) else None
        init = self._init or fallback
        if init is None:
            raise ValueError(f"FusedRNN has neither an initializer nor a global one for {name}")
        made: list[NDArray] = []
        for piece, shape in self._pieces(arr.size):
            part = zeros(shape, dtype=arr.dtype)
            if self._mode == "lstm" and piece.endswith("_f_bias"):
                part[:] = self._forget_bias
            else:
                init(InitDesc(piece, global_init=fallback), part)
            made.append(part.reshape((-1,)))
        arr[:] = concat(*made, dim=0)
