"""The base class of initializers. They are selected by the suffix of a parameter's name or its `__init__` attribute."""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import registry

if TYPE_CHECKING:
    from ..ndarray import NDArray


class InitDesc(str):
    """A parameter's name with the attributes of its variable, which can specify an initializer."""

    attrs: Mapping[str, str]
    global_init: Initializer | None

    def __new__(
        cls, name: str, attrs: Mapping[str, Any] | None = None, global_init: Initializer | None = None
    ) -> InitDesc:
        desc = super().__new__(cls, name)
        desc.attrs = attrs or {}
        desc.global_init = global_init
        return desc


class Initializer:
    """Fills an array in place: `init(InitDesc("fc1_weight"), array)`. Subclasses define `_init_weight`.

    `dumps` writes `kwargs`, from which `create` makes an equal initializer.
    """

    def __init__(self, **kwargs: Any) -> None:
        self._kwargs = kwargs
        self._verbose = False
        self._print_func: Callable[[NDArray], str] | None = None

    def set_verbosity(self, verbose: bool = False, print_func: Callable[[NDArray], str] | None = None) -> Initializer:
        """If `verbose`, log each parameter with `print_func(array)`, by default its root mean square."""
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
        specified = desc.attrs.get("__init__", "")
        if specified:
            create(specified)._init_weight(desc, arr)
            self._verbose_print(desc, str(specified), arr)
            return
        suffix = next((s for s in _BY_SUFFIX if desc.endswith(s)), None)
        if suffix is None:
            self._init_default(desc, arr)
            return
        getattr(self, _BY_SUFFIX[suffix])(desc, arr)
        self._verbose_print(desc, suffix, arr)

    def _verbose_print(self, desc: str, init: str, arr: NDArray) -> None:
        if self._verbose and self._print_func:
            import logging

            logging.info("Initialized %s as %s: %s", desc, init, self._print_func(arr))

    def _legacy_init(self, name: str, arr: NDArray) -> None:
        from ..ndarray import NDArray

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
            raise ValueError(f"the bias of a spatial transformer must have 6 elements, not {arr.shape[0]}")
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
        from .. import random

        arr[:] = random.randint(-127, 127, shape=arr.shape, dtype="int32").asnumpy().astype(np.int8)

    def _init_default(self, name: str, _: NDArray) -> None:
        raise ValueError(
            f"Unknown initialization pattern for {name}. Default initialization is now limited to "
            '"weight", "bias", "gamma" (1.0), and "beta" (0.0).'
            "Please use mx.sym.Variable(init=mx.init.*) to set initialization pattern"
        )


# The method that fills a parameter, by the suffix of its name. The first match is used.
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
    """The weight (any, any, height, width), float32, of a transposed convolution that upsamples bilinearly."""
    half = math.ceil(shape[3] / 2.0)
    center = (2 * half - 1 - half % 2) / (2.0 * half)
    x, y = (1 - abs(np.arange(n) / half - center) for n in (shape[3], shape[2]))
    return np.broadcast_to(y[:, None] * x, tuple(shape)).astype(np.float32)


_register = registry.get_register_func(Initializer, "initializer")
alias = registry.get_alias_func(Initializer, "initializer")
create = registry.get_create_func(Initializer, "initializer")


def register(klass: type) -> type:
    """Register an initializer under its lower-case name."""
    return _register(klass)
