"""Deformable convolutions: one convolution of the input computes the sampling offsets of another one."""

from __future__ import annotations

from typing import Any

from ...hybrid_block import HybridBlock
from ...nn.activations import Activation
from ...nn.conv_layers import Sizes, _infer_weight_shape, _sizes

__all__ = ["DeformableConvolution", "ModulatedDeformableConvolution"]


class DeformableConvolution(HybridBlock):
    """The deformable convolution of Dai et al. 2017: each tap of the kernel is moved by a learned offset."""

    _operator = "DeformableConvolution"
    _numbers_per_tap = 2
    _offset_first = True

    def __init__(
        self,
        channels: int,
        kernel_size: Sizes = (1, 1),
        strides: Sizes = (1, 1),
        padding: Sizes = (0, 0),
        dilation: Sizes = (1, 1),
        groups: int = 1,
        num_deformable_group: int = 1,
        layout: str = "NCHW",
        use_bias: bool = True,
        in_channels: int = 0,
        activation: str | None = None,
        weight_initializer: Any = None,
        bias_initializer: Any = "zeros",
        offset_weight_initializer: Any = "zeros",
        offset_bias_initializer: Any = "zeros",
        offset_use_bias: bool = True,
        op_name: str = "DeformableConvolution",
        adj: tuple[int, ...] | None = None,
        prefix: str | None = None,
        params: Any = None,
    ) -> None:
        super().__init__(prefix=prefix, params=params)
        if layout not in ("NCHW", "NHWC"):
            raise AssertionError(f"Only supports 'NCHW' and 'NHWC' layout for now, not {layout!r}")
        self._channels, self._in_channels, self._op_name = channels, in_channels, op_name
        self._make_options(kernel_size, strides, padding, dilation, groups, layout, num_deformable_group)
        self._kwargs_offset["no_bias"] = not offset_use_bias
        self._kwargs_deformable_conv["no_bias"] = not use_bias
        if adj:
            self._kwargs_offset["adj"] = adj
            self._kwargs_deformable_conv["adj"] = adj
        with self.name_scope():
            makers = [
                lambda: self._make_offset(in_channels, offset_weight_initializer, offset_bias_initializer),
                lambda: self._make_weight(weight_initializer, bias_initializer),
            ]
            for make in makers if self._offset_first else reversed(makers):
                make()
            self.act = Activation(activation, prefix=activation + "_") if activation else None

    def _make_options(
        self,
        kernel_size: Sizes,
        strides: Sizes,
        padding: Sizes,
        dilation: Sizes,
        groups: int,
        layout: str,
        deformable_groups: int,
    ) -> None:
        """The parameters of both convolutions."""
        kernel = _sizes(kernel_size, 2, "kernel_size")
        taps = kernel[0] * kernel[1] * deformable_groups
        self.offset_split_index = 2 * taps
        common: dict[str, Any] = {
            "kernel": kernel,
            "stride": _sizes(strides, 2, "strides"),
            "dilate": _sizes(dilation, 2, "dilation"),
            "pad": _sizes(padding, 2, "padding"),
            "num_group": groups,
            "layout": layout,
        }
        self._kwargs_offset = {**common, "num_filter": self._numbers_per_tap * taps}
        self._kwargs_deformable_conv = {
            **common,
            "num_filter": self._channels,
            "num_deformable_group": deformable_groups,
        }

    def _make_offset(self, in_channels: int, weight_initializer: Any, bias_initializer: Any) -> None:
        layout = self._kwargs_offset["layout"]
        shape = tuple({"N": 1, "C": in_channels}.get(axis, 0) for axis in layout)
        shapes = _infer_weight_shape("Convolution", shape, self._kwargs_offset)
        self.offset_weight = self.params.get(
            "offset_weight", shape=shapes[1], init=weight_initializer, allow_deferred_init=True
        )
        self.offset_bias = None
        if not self._kwargs_offset["no_bias"]:
            self.offset_bias = self.params.get(
                "offset_bias", shape=shapes[2], init=bias_initializer, allow_deferred_init=True
            )

    def _make_weight(self, weight_initializer: Any, bias_initializer: Any) -> None:
        shape: Any = [self._channels, 0, *self._kwargs_offset["kernel"]]  # a list, as in MXNet's graphs
        self.deformable_conv_weight = self.params.get(
            "deformable_conv_weight", shape=shape, init=weight_initializer, allow_deferred_init=True
        )
        self.deformable_conv_bias = None
        if not self._kwargs_deformable_conv["no_bias"]:
            self.deformable_conv_bias = self.params.get(
                "deformable_conv_bias", shape=(self._channels,), init=bias_initializer, allow_deferred_init=True
            )

    def hybrid_forward(  # type: ignore[override]
        self,
        F: Any,
        x: Any,
        offset_weight: Any,
        deformable_conv_weight: Any,
        offset_bias: Any = None,
        deformable_conv_bias: Any = None,
    ) -> Any:
        bias = () if offset_bias is None else (offset_bias,)
        offset = F.Convolution(x, offset_weight, *bias, cudnn_off=True, **self._kwargs_offset)
        arrays = {"data": x, **self._offset_arguments(F, offset), "weight": deformable_conv_weight}
        if deformable_conv_bias is not None:
            arrays["bias"] = deformable_conv_bias
        operator = getattr(F.contrib, self._operator)
        out = operator(name="fwd", **arrays, **self._kwargs_deformable_conv)
        return self.act(out) if self.act else out

    def _offset_arguments(self, F: Any, offset: Any) -> dict[str, Any]:
        """The operator's arguments that are computed from the result of the offset convolution."""
        return {"offset": offset}

    def _alias(self) -> str:
        return "deformable_conv"

    def __repr__(self) -> str:
        options, shape = self._kwargs_deformable_conv, self.deformable_conv_weight.shape or (0, 0)
        parts = [f"{shape[1] or None} -> {shape[0]}", f"kernel_size={options['kernel']}", f"stride={options['stride']}"]
        parts += [f"padding={options['pad']}"] if options["pad"] != (0, 0) else []
        parts += [f"dilation={options['dilate']}"] if options["dilate"] != (1, 1) else []
        parts += [f"groups={options['num_group']}"] if options["num_group"] != 1 else []
        parts += ["bias=False"] if self.deformable_conv_bias is None else []
        parts += [str(self.act)] if self.act else []
        return f"{type(self).__name__}({', '.join(parts)})"


class ModulatedDeformableConvolution(DeformableConvolution):
    """The deformable convolution of Zhu et al. 2018: each tap also has a learned weight in [0, 2]."""

    _operator = "ModulatedDeformableConvolution"
    _numbers_per_tap = 3
    _offset_first = False

    def __init__(
        self,
        channels: int,
        kernel_size: Sizes = (1, 1),
        strides: Sizes = (1, 1),
        padding: Sizes = (0, 0),
        dilation: Sizes = (1, 1),
        groups: int = 1,
        num_deformable_group: int = 1,
        layout: str = "NCHW",
        use_bias: bool = True,
        in_channels: int = 0,
        activation: str | None = None,
        weight_initializer: Any = None,
        bias_initializer: Any = "zeros",
        offset_weight_initializer: Any = "zeros",
        offset_bias_initializer: Any = "zeros",
        offset_use_bias: bool = True,
        op_name: str = "ModulatedDeformableConvolution",
        adj: tuple[int, ...] | None = None,
        prefix: str | None = None,
        params: Any = None,
    ) -> None:
        super().__init__(
            channels,
            kernel_size,
            strides,
            padding,
            dilation,
            groups,
            num_deformable_group,
            layout,
            use_bias,
            in_channels,
            activation,
            weight_initializer,
            bias_initializer,
            offset_weight_initializer,
            offset_bias_initializer,
            offset_use_bias,
            op_name,
            adj,
            prefix,
            params,
        )

    def _offset_arguments(self, F: Any, offset: Any) -> dict[str, Any]:
        offsets = F.slice_axis(offset, axis=1, begin=0, end=self.offset_split_index)
        weights = F.slice_axis(offset, axis=1, begin=self.offset_split_index, end=None)
        return {"offset": offsets, "mask": F.sigmoid(weights) * 2}

    def _alias(self) -> str:
        return "modulated_deformable_conv"

    def __repr__(self) -> str:
        return HybridBlock.__repr__(self)
