"""Activation layers."""

from __future__ import annotations

from typing import Any

from ... import initializer
from ..hybrid_block import HybridBlock

__all__ = ["ELU", "GELU", "PReLU", "SELU", "Activation", "LeakyReLU", "Swish"]


class Activation(HybridBlock):
    """An activation by name: 'relu', 'sigmoid', 'tanh', 'softrelu' or 'softsign'.

    Example:
        >>> mx.gluon.nn.Activation("relu")(mx.nd.array([-1, 2])).asnumpy()
        array([0., 2.], dtype=float32)
    """

    def __init__(self, activation: str, **kwargs: Any) -> None:
        self._act_type = activation
        super().__init__(**kwargs)

    def _alias(self) -> str:
        return self._act_type

    def hybrid_forward(self, F: Any, x: Any) -> Any:  # type: ignore[override]
        return F.Activation(x, act_type=self._act_type, name="fwd")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._act_type})"


class LeakyReLU(HybridBlock):
    """x where x > 0, else alpha * x.

    Example:
        >>> mx.gluon.nn.LeakyReLU(0.5)(mx.nd.array([-1, 2])).asnumpy()
        array([-0.5,  2. ], dtype=float32)
    """

    def __init__(self, alpha: float, **kwargs: Any) -> None:
        if alpha < 0:
            raise AssertionError("Slope coefficient for LeakyReLU must be no less than 0.")
        super().__init__(**kwargs)
        self._alpha = alpha

    def hybrid_forward(self, F: Any, x: Any) -> Any:  # type: ignore[override]
        return F.LeakyReLU(x, act_type="leaky", slope=self._alpha, name="fwd")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._alpha})"


class PReLU(HybridBlock):
    """x where x > 0, else alpha * x. `alpha` is learned: one number per channel, or one for all if `in_channels` is
    1."""

    def __init__(self, alpha_initializer: Any = None, in_channels: int = 1, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if alpha_initializer is None:
            alpha_initializer = initializer.Constant(0.25)
        with self.name_scope():
            self.alpha = self.params.get("alpha", shape=(in_channels,), init=alpha_initializer)

    def hybrid_forward(self, F: Any, x: Any, alpha: Any) -> Any:  # type: ignore[override]
        return F.LeakyReLU(x, gamma=alpha, act_type="prelu", name="fwd")


class ELU(HybridBlock):
    """x where x > 0, else alpha * (exp(x) - 1)."""

    def __init__(self, alpha: float = 1.0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._alpha = alpha

    def hybrid_forward(self, F: Any, x: Any) -> Any:  # type: ignore[override]
        return F.LeakyReLU(x, act_type="elu", slope=self._alpha)


class SELU(HybridBlock):
    """The self-normalising ELU of Klambauer et al. 2017."""

    def hybrid_forward(self, F: Any, x: Any) -> Any:  # type: ignore[override]
        return F.LeakyReLU(x, act_type="selu", name="fwd")


class GELU(HybridBlock):
    """x * Phi(x) = x / 2 * (1 + erf(x / sqrt(2))), where Phi is the normal distribution function."""

    def hybrid_forward(self, F: Any, x: Any) -> Any:  # type: ignore[override]
        return F.LeakyReLU(x, act_type="gelu", name="fwd")


class Swish(HybridBlock):
    """x * sigmoid(beta * x)."""

    def __init__(self, beta: float = 1.0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._beta = beta

    def hybrid_forward(self, F: Any, x: Any) -> Any:  # type: ignore[override]
        return x * F.sigmoid(self._beta * x, name="fwd")
