"""Convolutions, transposed convolutions, and pooling in one, two and three dimensions."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from types import FunctionType
from typing import Any, ClassVar, TypeVar

from ... import symbol
from ...util import legacy_shapes
from ..hybrid_block import HybridBlock
from .activations import Activation

Sizes = int | Sequence[int]
_C = TypeVar("_C", bound="_Spatial")
_LAYOUTS = {1: ("NCW",), 2: ("NCHW", "NHWC"), 3: ("NCDHW", "NDHWC")}
_POOL_LAYOUTS = {1: ("NCW", "NWC"), 2: ("NCHW", "NHWC"), 3: ("NCDHW", "NDHWC")}


def _repeated(value: Sizes, dimensions: int) -> tuple[int, ...]:
    """One number for each dimension. A sequence is returned as a tuple, of any length."""
    return (value,) * dimensions if isinstance(value, int) else tuple(value)


def _sizes(value: Sizes, dimensions: int, what: str) -> tuple[int, ...]:
    """One number for each dimension. A sequence of another length raises AssertionError, which names it `what`."""
    sizes = _repeated(value, dimensions)
    if len(sizes) != dimensions:
        raise AssertionError(f"{what} must be a number or a list of {dimensions} ints, not {value}")
    return sizes


def _infer_weight_shape(op_name: str, data_shape: tuple[int, ...], kwargs: Mapping[str, Any]) -> list[tuple[int, ...]]:
    """The shapes of an operator's arguments, data first, inferred from the data's shape. An unknown extent is 0."""
    used = getattr(symbol, op_name)(symbol.var("data", shape=data_shape), name="shapes", **kwargs)
    with legacy_shapes():
        return used.infer_shape_partial()[0]


def _by_dimensions(cls: type[_C]) -> type[_C]:
    """Change a constructor's defaults to its number of dimensions, as in MXNet: `strides=(1, 1)` for two."""
    n, plain = cls.dimensions, cls.__init__
    names = list(inspect.signature(plain).parameters)
    defaults: list[Any] = list(plain.__defaults__ or ())
    first = plain.__code__.co_argcount - len(defaults)
    for i, name in enumerate(names[first : plain.__code__.co_argcount]):
        if name == "layout":
            defaults[i] = _POOL_LAYOUTS[n][0]
        elif name in cls.spatial and n > 1:
            defaults[i] = (defaults[i],) * n
    init: Any = FunctionType(plain.__code__, plain.__globals__, plain.__name__, tuple(defaults), plain.__closure__)
    init.__annotations__, init.__qualname__ = plain.__annotations__, f"{cls.__qualname__}.__init__"
    cls.__init__ = init
    return cls


class _Spatial(HybridBlock):
    """A layer over `dimensions` spatial axes. The arguments named in `spatial` have one number per spatial axis."""

    dimensions: ClassVar[int] = 2
    spatial: ClassVar[tuple[str, ...]] = ()


class _Conv(_Spatial):
    """A convolution. A subclass defines `dimensions` and the operator."""

    spatial = ("strides", "padding", "dilation", "output_padding")
    _operator = "Convolution"

    def __init__(
        self,
        channels: int,
        kernel_size: Sizes,
        strides: Sizes = 1,
        padding: Sizes = 0,
        dilation: Sizes = 1,
        groups: int = 1,
        layout: str | None = None,
        activation: str | None = None,
        use_bias: bool = True,
        weight_initializer: Any = None,
        bias_initializer: Any = "zeros",
        in_channels: int = 0,
        **kwargs: Any,
    ) -> None:
        op_name, adj = kwargs.pop("op_name", None), kwargs.pop("adj", None)
        super().__init__(**kwargs)
        n = self.dimensions
        layout = layout or _LAYOUTS[n][0]
        if layout not in _LAYOUTS[n]:
            raise AssertionError(f"Only supports {' and '.join(map(repr, _LAYOUTS[n]))} layout for now, not {layout!r}")
        self._channels, self._in_channels = channels, in_channels
        self._op_name = op_name or self._operator
        self._kwargs: dict[str, Any] = {
            "kernel": _sizes(kernel_size, n, "kernel_size"),
            "stride": _sizes(strides, n, "strides"),
            "dilate": _sizes(dilation, n, "dilation"),
            "pad": _sizes(padding, n, "padding"),
            "num_filter": channels,
            "num_group": groups,
            "no_bias": not use_bias,
            "layout": layout,
        }
        if adj is not None:
            self._kwargs["adj"] = adj
        with self.name_scope():
            shapes = self._parameter_shapes(layout, in_channels)
            self.weight = self.params.get("weight", shape=shapes[0], init=weight_initializer, allow_deferred_init=True)
            self.bias = None
            if use_bias:
                self.bias = self.params.get("bias", shape=shapes[1], init=bias_initializer, allow_deferred_init=True)
            self.act = None if activation is None else Activation(activation, prefix=activation + "_")

    def _parameter_shapes(self, layout: str, in_channels: int) -> list[tuple[int, ...]]:
        """The shapes of weight and bias, inferred from the number of channels only."""
        shape = tuple({"N": 1, "C": in_channels}.get(axis, 0) for axis in layout)
        return _infer_weight_shape(self._op_name, shape, self._kwargs)[1:]

    def hybrid_forward(self, F: Any, x: Any, weight: Any, bias: Any = None) -> Any:  # type: ignore[override]
        operands = (x, weight) if bias is None else (x, weight, bias)
        out = getattr(F, self._op_name)(*operands, name="fwd", **self._kwargs)
        return out if self.act is None else self.act(out)

    def _alias(self) -> str:
        return "conv"

    def __repr__(self) -> str:
        options, shape = self._kwargs, self.weight.shape or (0, 0)
        n = self.dimensions
        parts = [f"{shape[1] or None} -> {shape[0]}", f"kernel_size={options['kernel']}", f"stride={options['stride']}"]
        parts += [f"padding={options['pad']}"] if options["pad"] != (0,) * n else []
        parts += [f"dilation={options['dilate']}"] if options["dilate"] != (1,) * n else []
        parts += [f"groups={options['num_group']}"] if options["num_group"] != 1 else []
        parts += ["bias=False"] if self.bias is None else []
        parts += [str(self.act)] if self.act else []
        return f"{type(self).__name__}({', '.join(parts)})"


@_by_dimensions
class Conv1D(_Conv):
    """Convolution of (batch, channels, width)."""

    dimensions = 1


@_by_dimensions
class Conv2D(_Conv):
    """Convolution of (batch, channels, height, width), or of (batch, height, width, channels) with layout NHWC.

    Example:
        >>> layer = mx.gluon.nn.Conv2D(8, kernel_size=3, strides=2, padding=1)
        >>> layer.initialize()
        >>> layer(mx.nd.ones((1, 3, 32, 32))).shape
        (1, 8, 16, 16)
        >>> layer.weight.shape
        (8, 3, 3, 3)
    """

    dimensions = 2


@_by_dimensions
class Conv3D(_Conv):
    """Convolution of (batch, channels, depth, height, width)."""

    dimensions = 3


class _ConvTranspose(_Conv):
    """A transposed convolution. `output_padding` is added to the extents of the result, at the end of each axis."""

    _operator = "Deconvolution"

    def __init__(
        self,
        channels: int,
        kernel_size: Sizes,
        strides: Sizes = 1,
        padding: Sizes = 0,
        output_padding: Sizes = 0,
        dilation: Sizes = 1,
        groups: int = 1,
        layout: str | None = None,
        activation: str | None = None,
        use_bias: bool = True,
        weight_initializer: Any = None,
        bias_initializer: Any = "zeros",
        in_channels: int = 0,
        **kwargs: Any,
    ) -> None:
        self.outpad = _sizes(output_padding, self.dimensions, "output_padding")
        super().__init__(
            channels,
            kernel_size,
            strides,
            padding,
            dilation,
            groups,
            layout,
            activation,
            use_bias,
            weight_initializer,
            bias_initializer,
            in_channels,
            adj=self.outpad,
            **kwargs,
        )


@_by_dimensions
class Conv1DTranspose(_ConvTranspose):
    """Transposed convolution of (batch, channels, width)."""

    dimensions = 1


@_by_dimensions
class Conv2DTranspose(_ConvTranspose):
    """Transposed convolution of (batch, channels, height, width).

    Example:
        >>> layer = mx.gluon.nn.Conv2DTranspose(3, kernel_size=4, strides=2, padding=1)
        >>> layer.initialize()
        >>> layer(mx.nd.ones((1, 8, 16, 16))).shape
        (1, 3, 32, 32)
    """

    dimensions = 2


@_by_dimensions
class Conv3DTranspose(_ConvTranspose):
    """Transposed convolution of (batch, channels, depth, height, width)."""

    dimensions = 3


class _Pooling(_Spatial):
    """A pooling layer. A subclass defines `dimensions`, `pool_type` and whether pooling is global."""

    spatial = ("pool_size",)
    pool_type = "max"

    def _configure(
        self, pool: Sizes, strides: Sizes | None, padding: Sizes, ceil_mode: bool, global_pool: bool, layout: str | None
    ) -> None:
        n = self.dimensions
        layout = layout or _POOL_LAYOUTS[n][0]
        if layout not in _POOL_LAYOUTS[n]:
            allowed = " and ".join(_POOL_LAYOUTS[n])
            raise AssertionError(f"Only {allowed} layouts are valid for {n}D Pooling, not {layout!r}")
        kernel = _sizes(pool, n, "pool_size")
        self._kwargs: dict[str, Any] = {
            "kernel": kernel,
            "stride": kernel if strides is None else _repeated(strides, n),
            "pad": _repeated(padding, n),
            "global_pool": global_pool,
            "pool_type": self.pool_type,
            "layout": layout,
            "pooling_convention": "full" if ceil_mode else "valid",
        }

    def _alias(self) -> str:
        return "pool"

    def hybrid_forward(self, F: Any, x: Any) -> Any:  # type: ignore[override]
        return F.Pooling(x, name="fwd", **self._kwargs)

    def __repr__(self) -> str:
        return (
            "{}(size={kernel}, stride={stride}, padding={pad}, ceil_mode={}, global_pool={global_pool}, "
            "pool_type={pool_type}, layout={layout})"
        ).format(type(self).__name__, self._kwargs["pooling_convention"] == "full", **self._kwargs)


# In MXNet, the constructors differ in the order of layout and ceil_mode.


class _MaxPool(_Pooling):
    def __init__(
        self,
        pool_size: Sizes = 2,
        strides: Sizes | None = None,
        padding: Sizes = 0,
        layout: str | None = None,
        ceil_mode: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self._configure(pool_size, strides, padding, ceil_mode, False, layout)


class _MaxPoolCeilFirst(_MaxPool):
    def __init__(
        self,
        pool_size: Sizes = 2,
        strides: Sizes | None = None,
        padding: Sizes = 0,
        ceil_mode: bool = False,
        layout: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(pool_size, strides, padding, layout, ceil_mode, **kwargs)


class _AvgPool(_MaxPool):
    def __init__(
        self,
        pool_size: Sizes = 2,
        strides: Sizes | None = None,
        padding: Sizes = 0,
        layout: str | None = None,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(pool_size, strides, padding, layout, ceil_mode, **kwargs)
        self._kwargs["count_include_pad"] = count_include_pad


class _AvgPoolCeilFirst(_AvgPool):
    def __init__(
        self,
        pool_size: Sizes = 2,
        strides: Sizes | None = None,
        padding: Sizes = 0,
        ceil_mode: bool = False,
        layout: str | None = None,
        count_include_pad: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(pool_size, strides, padding, layout, ceil_mode, count_include_pad, **kwargs)


class _GlobalPool(_Pooling):
    def __init__(self, layout: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._configure(1, None, 0, True, True, layout)


_SHAPES = {
    1: "(batch, channels, width)",
    2: "(batch, channels, height, width)",
    3: "(batch, channels, depth, height, width)",
}


def _pooling(name: str, base: type[_Pooling], dimensions: int, pool_type: str, doc: str) -> Any:
    """Create a pooling class."""
    body = {
        "dimensions": dimensions,
        "pool_type": pool_type,
        "__doc__": f"{doc} of {_SHAPES[dimensions]}.",
        "__module__": __name__,
    }
    return _by_dimensions(type(name, (base,), body))


MaxPool1D = _pooling("MaxPool1D", _MaxPool, 1, "max", "Maximum over windows")
MaxPool2D = _pooling("MaxPool2D", _MaxPool, 2, "max", "Maximum over windows")
MaxPool3D = _pooling("MaxPool3D", _MaxPoolCeilFirst, 3, "max", "Maximum over windows")
AvgPool1D = _pooling("AvgPool1D", _AvgPool, 1, "avg", "Mean over windows")
AvgPool2D = _pooling("AvgPool2D", _AvgPoolCeilFirst, 2, "avg", "Mean over windows")
AvgPool3D = _pooling("AvgPool3D", _AvgPoolCeilFirst, 3, "avg", "Mean over windows")
GlobalMaxPool1D = _pooling("GlobalMaxPool1D", _GlobalPool, 1, "max", "Maximum over all positions")
GlobalMaxPool2D = _pooling("GlobalMaxPool2D", _GlobalPool, 2, "max", "Maximum over all positions")
GlobalMaxPool3D = _pooling("GlobalMaxPool3D", _GlobalPool, 3, "max", "Maximum over all positions")
GlobalAvgPool1D = _pooling("GlobalAvgPool1D", _GlobalPool, 1, "avg", "Mean over all positions")
GlobalAvgPool2D = _pooling("GlobalAvgPool2D", _GlobalPool, 2, "avg", "Mean over all positions")
GlobalAvgPool3D = _pooling("GlobalAvgPool3D", _GlobalPool, 3, "avg", "Mean over all positions")


class ReflectionPad2D(HybridBlock):
    """Pads height and width by reflection. `padding` is one number, or begin and end for each of the four axes."""

    def __init__(self, padding: int | tuple[int, ...] = 0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if isinstance(padding, int):
            padding = (0, 0, 0, 0, padding, padding, padding, padding)
        if len(padding) != 8:
            raise AssertionError(f"padding must be a number or 8 numbers, not {padding}")
        self._padding = padding

    def hybrid_forward(self, F: Any, x: Any) -> Any:  # type: ignore[override]
        return F.pad(x, mode="reflect", pad_width=self._padding)
