"""Normalisation layers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...dtypes import is_half
from ..hybrid_block import HybridBlock

__all__ = ["BatchNorm", "BatchNormReLU", "GroupNorm", "InstanceNorm", "LayerNorm"]


class _Normalization(HybridBlock):
    """The base class of normalisations: learned `gamma` and `beta`, and `repr`."""

    _kwargs: Mapping[str, Any]
    _shows_channels = True
    _unknown_channels: int | None = 0

    def _make_affine(
        self,
        channels: int,
        scale: bool,
        center: bool,
        gamma_initializer: Any,
        beta_initializer: Any,
        fixed: bool = False,
    ) -> None:
        """Create gamma and beta. They receive no gradient if `scale` or `center` is False.

        With `fixed`, setting `grad_req` later does not enable gradients of a disabled parameter.
        """
        for name, used, init in (("gamma", scale, gamma_initializer), ("beta", center, beta_initializer)):
            param = self.params.get(
                name,
                grad_req="write" if used else "null",
                shape=(channels,),
                init=init,
                allow_deferred_init=True,
                differentiable=used or not fixed,
            )
            setattr(self, name, param)

    def __repr__(self) -> str:
        parts = [f"{key}={value!r}" for key, value in self._kwargs.items()]
        if self._shows_channels:
            channels = (self._reg_params["gamma"].shape or (0,))[0]
            parts.append(f"in_channels={channels or self._unknown_channels}")
        return f"{type(self).__name__}({', '.join(parts)})"


class _BatchNorm(_Normalization):
    """Normalises each channel over all other axes, with the batch's statistics in training, else with moving ones.

    `fuse_relu` applies ReLU to the result.
    """

    _unknown_channels = None

    def __init__(
        self,
        axis: int = 1,
        momentum: float = 0.9,
        epsilon: float = 1e-5,
        center: bool = True,
        scale: bool = True,
        use_global_stats: bool = False,
        fuse_relu: bool = False,
        beta_initializer: Any = "zeros",
        gamma_initializer: Any = "ones",
        running_mean_initializer: Any = "zeros",
        running_variance_initializer: Any = "ones",
        in_channels: int = 0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.fuse_relu = fuse_relu
        self._kwargs = {
            "axis": axis,
            "eps": epsilon,
            "momentum": momentum,
            "fix_gamma": not scale,
            "use_global_stats": use_global_stats,
        }
        if in_channels:
            self.in_channels = in_channels
        self._make_affine(in_channels, scale, center, gamma_initializer, beta_initializer, fixed=True)
        statistics = (("running_mean", running_mean_initializer), ("running_var", running_variance_initializer))
        for name, init in statistics:
            param = self.params.get(
                name,
                grad_req="null",
                shape=(in_channels,),
                init=init,
                allow_deferred_init=True,
                differentiable=False,
            )
            setattr(self, name, param)

    def cast(self, dtype: Any) -> None:
        # 16 bits are not precise enough for the statistics.
        super().cast("float32" if is_half(dtype) else dtype)

    def hybrid_forward(  # type: ignore[override]
        self, F: Any, x: Any, gamma: Any, beta: Any, running_mean: Any, running_var: Any
    ) -> Any:
        function = F.contrib.BatchNormWithReLU if self.fuse_relu else F.BatchNorm
        return function(x, gamma, beta, running_mean, running_var, name="fwd", **self._kwargs)


class _NamedBatchNorm(_BatchNorm):
    """A batch normalisation whose class attribute `_fused` determines if ReLU follows."""

    _fused = False

    def __init__(
        self,
        axis: int = 1,
        momentum: float = 0.9,
        epsilon: float = 1e-5,
        center: bool = True,
        scale: bool = True,
        use_global_stats: bool = False,
        beta_initializer: Any = "zeros",
        gamma_initializer: Any = "ones",
        running_mean_initializer: Any = "zeros",
        running_variance_initializer: Any = "ones",
        in_channels: int = 0,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            axis,
            momentum,
            epsilon,
            center,
            scale,
            use_global_stats,
            self._fused,
            beta_initializer,
            gamma_initializer,
            running_mean_initializer,
            running_variance_initializer,
            in_channels,
            **kwargs,
        )


class BatchNorm(_NamedBatchNorm):
    """Normalises each channel over all other axes, with the batch's statistics in training, else with moving ones.

    Example:
        >>> layer = mx.gluon.nn.BatchNorm()
        >>> layer.initialize()
        >>> x = mx.nd.array([[1], [3]])
        >>> with mx.autograd.train_mode():
        ...     print(layer(x).asnumpy().round(2).tolist())
        [[-1.0], [1.0]]
    """


class BatchNormReLU(_NamedBatchNorm):
    """BatchNorm followed by ReLU."""

    _fused = True


class InstanceNorm(_Normalization):
    """Normalises each channel of each sample over the spatial axes."""

    def __init__(
        self,
        axis: int = 1,
        epsilon: float = 1e-5,
        center: bool = True,
        scale: bool = False,
        beta_initializer: Any = "zeros",
        gamma_initializer: Any = "ones",
        in_channels: int = 0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self._kwargs = {"eps": epsilon, "axis": axis, "center": center, "scale": scale}
        self._axis, self._epsilon = axis, epsilon
        self._make_affine(in_channels, scale, center, gamma_initializer, beta_initializer)

    def hybrid_forward(self, F: Any, x: Any, gamma: Any, beta: Any) -> Any:  # type: ignore[override]
        if self._axis == 1:
            return F.InstanceNorm(x, gamma, beta, name="fwd", eps=self._epsilon)
        x = x.swapaxes(1, self._axis)
        return F.InstanceNorm(x, gamma, beta, name="fwd", eps=self._epsilon).swapaxes(1, self._axis)


class LayerNorm(_Normalization):
    """Normalises along one axis, then scales by gamma and shifts by beta.

    Example:
        >>> layer = mx.gluon.nn.LayerNorm()
        >>> layer.initialize()
        >>> layer(mx.nd.array([[1, 3]])).asnumpy().round(2)
        array([[-1.,  1.]], dtype=float32)
    """

    def __init__(
        self,
        axis: int = -1,
        epsilon: float = 1e-5,
        center: bool = True,
        scale: bool = True,
        beta_initializer: Any = "zeros",
        gamma_initializer: Any = "ones",
        in_channels: int = 0,
        prefix: str | None = None,
        params: Any = None,
    ) -> None:
        super().__init__(prefix=prefix, params=params)
        self._kwargs = {"eps": epsilon, "axis": axis, "center": center, "scale": scale}
        self._axis, self._epsilon, self._center, self._scale = axis, epsilon, center, scale
        self._make_affine(in_channels, scale, center, gamma_initializer, beta_initializer)

    def hybrid_forward(self, F: Any, data: Any, gamma: Any, beta: Any) -> Any:  # type: ignore[override]
        return F.LayerNorm(data, gamma=gamma, beta=beta, axis=self._axis, eps=self._epsilon)


class GroupNorm(_Normalization):
    """Normalises each sample over groups of channels, (batch, channels, ...)."""

    _shows_channels = False

    def __init__(
        self,
        num_groups: int = 1,
        epsilon: float = 1e-5,
        center: bool = True,
        scale: bool = True,
        beta_initializer: Any = "zeros",
        gamma_initializer: Any = "ones",
        prefix: str | None = None,
        params: Any = None,
    ) -> None:
        super().__init__(prefix=prefix, params=params)
        self._kwargs = {"eps": epsilon, "num_groups": num_groups, "center": center, "scale": scale}
        self._num_groups, self._epsilon = num_groups, epsilon
        self._make_affine(num_groups, scale, center, gamma_initializer, beta_initializer)

    def hybrid_forward(self, F: Any, data: Any, gamma: Any, beta: Any) -> Any:  # type: ignore[override]
        return F.GroupNorm(data, gamma=gamma, beta=beta, num_groups=self._num_groups, eps=self._epsilon)
