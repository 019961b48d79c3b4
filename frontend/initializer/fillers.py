"""Initializers with constants, random distributions, and layer-specific values."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from .base import Initializer, alias, bilinear_kernel, register

if TYPE_CHECKING:
    from ..ndarray import NDArray


@register
@alias("zeros")
class Zero(Initializer):
    """Fills with zeros."""

    def __init__(self) -> None:
        super().__init__()

    def _init_weight(self, name: str, arr: NDArray) -> None:
        arr[:] = 0


@register
@alias("ones")
class One(Initializer):
    """Fills with ones."""

    def __init__(self) -> None:
        super().__init__()

    def _init_weight(self, name: str, arr: NDArray) -> None:
        arr[:] = 1


@register
class Constant(Initializer):
    """Fills with one value, or with the values of an array.

    Example:
        >>> net = mx.gluon.nn.Dense(1, in_units=2, weight_initializer=mx.init.Constant(7))
        >>> net.initialize()
        >>> net.weight.data().asnumpy()
        array([[7., 7.]], dtype=float32)
    """

    def __init__(self, value: Any) -> None:
        super().__init__(value=value)
        self.value = value

    def _init_weight(self, name: str, arr: NDArray) -> None:
        arr[:] = self.value

    def dumps(self) -> str:
        """As `Initializer.dumps`. As in MXNet, an array in the arguments becomes a list."""
        value = self._kwargs["value"]
        if not np.isscalar(value):
            self._kwargs["value"] = (value.asnumpy() if hasattr(value, "asnumpy") else np.asarray(value)).tolist()
        return super().dumps()


@register
class Uniform(Initializer):
    """Draws uniformly from [-scale, scale)."""

    def __init__(self, scale: float = 0.07) -> None:
        super().__init__(scale=scale)
        self.scale = scale

    def _init_weight(self, name: str, arr: NDArray) -> None:
        _fill("uniform", -self.scale, self.scale, arr)


@register
class Normal(Initializer):
    """Draws from the normal distribution with mean 0 and standard deviation `sigma`.

    Example:
        >>> net = mx.gluon.nn.Dense(2, in_units=3)
        >>> net.initialize(mx.init.Normal(0.1))
        >>> net.weight.shape
        (2, 3)
    """

    def __init__(self, sigma: float = 0.01) -> None:
        super().__init__(sigma=sigma)
        self.sigma = sigma

    def _init_weight(self, name: str, arr: NDArray) -> None:
        _fill("normal", 0, self.sigma, arr)


def _fill(distribution: str, first: float, second: float, arr: NDArray) -> None:
    """Fill `arr` from a distribution with two parameters. One axis draws the same numbers as several, by kernels that
    arrays of all shapes share."""
    from .. import random

    flat = arr.reshape((-1,)) if arr.stype == "default" and arr.size else arr
    getattr(random, distribution)(float(first), float(second), flat.shape, out=flat)


@register
class Orthogonal(Initializer):
    """An orthogonal matrix times `scale` (Saxe et al. 2013). Weights are reshaped to (first axis, all others)."""

    def __init__(self, scale: float = 1.414, rand_type: str = "uniform") -> None:
        super().__init__(scale=scale, rand_type=rand_type)
        self.scale = scale
        self.rand_type = rand_type

    def _init_weight(self, name: str, arr: NDArray) -> None:
        from .. import random

        shape = (arr.shape[0], math.prod(arr.shape[1:]))
        if self.rand_type not in ("uniform", "normal"):
            raise ValueError(f"rand_type must be 'uniform' or 'normal', not {self.rand_type!r}")
        sample = random.uniform(-1.0, 1.0, shape) if self.rand_type == "uniform" else random.normal(0.0, 1.0, shape)
        u, _, v = np.linalg.svd(sample.asnumpy(), full_matrices=False)
        arr[:] = self.scale * (u if u.shape == shape else v).reshape(arr.shape)


@register
class Xavier(Initializer):
    """Draws with scale sqrt(magnitude / factor) (Glorot and Bengio 2010).

    `factor` is the fan-in ("in"), the fan-out ("out") or their mean ("avg"). The distribution is uniform in
    [-scale, scale), or normal with standard deviation `scale` ("gaussian").

    Example:
        >>> net = mx.gluon.nn.Dense(4, in_units=2)
        >>> net.initialize(mx.init.Xavier(magnitude=3))
        >>> bool((net.weight.data().abs() <= 1).min().asscalar())
        True
    """

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
    """Xavier for PReLU with this slope (He et al. 2015): gaussian, with magnitude 2 / (1 + slope^2)."""

    def __init__(self, factor_type: str = "avg", slope: float = 0.25) -> None:
        super().__init__("gaussian", factor_type, 2.0 / (1 + slope**2))
        self._kwargs = {"factor_type": factor_type, "slope": slope}


@register
class Bilinear(Initializer):
    """The weight of a transposed convolution that upsamples bilinearly."""

    def __init__(self) -> None:
        super().__init__()

    def _init_weight(self, name: str, arr: NDArray) -> None:
        arr[:] = bilinear_kernel(arr.shape)


@register
class LSTMBias(Initializer):
    """Fills with zeros, and with `forget_bias` for the forget gate, the second of an LSTM's four gates."""

    def __init__(self, forget_bias: float = 1.0) -> None:
        super().__init__(forget_bias=forget_bias)
        self.forget_bias = forget_bias

    def _init_weight(self, name: str, arr: NDArray) -> None:
        arr[:] = 0.0
        hidden = arr.shape[0] // 4
        arr[hidden : 2 * hidden] = self.forget_bias
