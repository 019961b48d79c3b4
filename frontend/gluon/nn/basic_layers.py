"""Dense, Dropout, Embedding, Flatten and Identity. Containers and normalisations are re-exported, as in MXNet."""

from __future__ import annotations

from typing import Any

from ..hybrid_block import HybridBlock
from .activations import Activation
from .containers import HybridLambda, HybridSequential, Lambda, Sequential
from .normalization import BatchNorm, BatchNormReLU, GroupNorm, InstanceNorm, LayerNorm, _BatchNorm  # noqa: F401

__all__ = [
    "BatchNorm",
    "BatchNormReLU",
    "Dense",
    "Dropout",
    "Embedding",
    "Flatten",
    "GroupNorm",
    "HybridLambda",
    "HybridSequential",
    "Identity",
    "InstanceNorm",
    "Lambda",
    "LayerNorm",
    "Sequential",
]


class Dense(HybridBlock):
    """activation(x W^T + b) with `units` output features. `flatten` reshapes x to (batch, features) first.

    Example:
        >>> layer = mx.gluon.nn.Dense(2, use_bias=False)
        >>> layer.initialize(mx.init.One())
        >>> layer(mx.nd.array([[1, 2, 3]])).asnumpy()
        array([[6., 6.]], dtype=float32)
    """

    def __init__(
        self,
        units: int,
        activation: str | None = None,
        use_bias: bool = True,
        flatten: bool = True,
        dtype: Any = "float32",
        weight_initializer: Any = None,
        bias_initializer: Any = "zeros",
        in_units: int = 0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self._units, self._in_units, self._flatten = units, in_units, flatten
        options = {"dtype": dtype, "allow_deferred_init": True}
        with self.name_scope():
            self.weight = self.params.get("weight", shape=(units, in_units), init=weight_initializer, **options)
            self.bias = self.params.get("bias", shape=(units,), init=bias_initializer, **options) if use_bias else None
            self.act = None if activation is None else Activation(activation, prefix=activation + "_")

    def hybrid_forward(self, F: Any, x: Any, weight: Any, bias: Any = None) -> Any:  # type: ignore[override]
        options = {"no_bias": bias is None, "num_hidden": self._units, "flatten": self._flatten}
        out = F.FullyConnected(x, weight, bias, name="fwd", **options)
        return out if self.act is None else self.act(out)

    def __repr__(self) -> str:
        units, width = self.weight.shape or (0, 0)
        return f"{type(self).__name__}({width or None} -> {units}, {self.act or 'linear'})"


class Dropout(HybridBlock):
    """In training, sets elements to zero with probability `rate` and divides the others by 1 - rate.

    The mask is shared along `axes`.

    Example:
        >>> layer = mx.gluon.nn.Dropout(0.5)
        >>> layer(mx.nd.ones((4,))).asnumpy()  # changes nothing outside of training
        array([1., 1., 1., 1.], dtype=float32)
    """

    def __init__(self, rate: float, axes: tuple[int, ...] = (), **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._rate, self._axes = rate, axes

    def hybrid_forward(self, F: Any, x: Any) -> Any:  # type: ignore[override]
        if self._rate > 0:
            return F.Dropout(x, p=self._rate, axes=self._axes, name="fwd", cudnn_off=False)
        return F.identity(x)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(p = {self._rate}, axes={self._axes})"


class Embedding(HybridBlock):
    """Looks up rows of a matrix (input_dim, output_dim) by integer index.

    Example:
        >>> layer = mx.gluon.nn.Embedding(100, 8)
        >>> layer.initialize()
        >>> layer(mx.nd.array([[3, 1, 4]])).shape
        (1, 3, 8)
    """

    def __init__(
        self,
        input_dim: int,
        output_dim: int,
        dtype: Any = "float32",
        weight_initializer: Any = None,
        sparse_grad: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self._kwargs = {
            "input_dim": input_dim,
            "output_dim": output_dim,
            "dtype": dtype,
            "sparse_grad": sparse_grad,
        }
        self.weight = self.params.get(
            "weight",
            shape=(input_dim, output_dim),
            init=weight_initializer,
            dtype=dtype,
            allow_deferred_init=True,
            grad_stype="row_sparse" if sparse_grad else "default",
        )

    def hybrid_forward(self, F: Any, x: Any, weight: Any) -> Any:  # type: ignore[override]
        return F.Embedding(x, weight, name="fwd", **self._kwargs)

    def __repr__(self) -> str:
        return "{}({input_dim} -> {output_dim}, {dtype})".format(type(self).__name__, **self._kwargs)


class Flatten(HybridBlock):
    """Reshapes (batch, d1, d2, ...) to (batch, d1 * d2 * ...).

    Example:
        >>> mx.gluon.nn.Flatten()(mx.nd.ones((2, 3, 4))).shape
        (2, 12)
    """

    def hybrid_forward(self, F: Any, x: Any) -> Any:  # type: ignore[override]
        return F.flatten(x)

    def __repr__(self) -> str:
        return type(self).__name__


class Identity(HybridBlock):
    """Returns its input."""

    def hybrid_forward(self, F: Any, x: Any) -> Any:  # type: ignore[override]
        return F.identity(x)
