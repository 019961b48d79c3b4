"""`mx.nd`: arrays, and every operator as a function that runs immediately."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..generated_functions import names_of as _names_of
from ..type_flags import _DTYPE_MX_TO_NP, _DTYPE_NP_TO_MX, _GRAD_REQ_MAP
from . import _internal, contrib, image, linalg, op, random, sparse, storage, utils
from .arithmetic import (
    add,
    divide,
    equal,
    greater,
    greater_equal,
    lesser,
    lesser_equal,
    logical_and,
    logical_or,
    logical_xor,
    maximum,
    minimum,
    modulo,
    multiply,
    not_equal,
    power,
    subtract,
    true_divide,
)
from .creation import (
    arange,
    concatenate,
    eye,
    full,
    histogram,
    linspace,
    moveaxis,
    onehot_encode,
    ones,
    split_v2,
    waitall,
)
from .dlpack import from_dlpack, to_dlpack_for_read, to_dlpack_for_write
from .keys import (
    get_indexing_dispatch_code,
    get_oshape_of_gather_nd_op,
    indexing_key_expand_implicit_axes,
)
from .ndarray import NDArray
from .utils import array, empty, from_numpy, load, load_frombuffer, save, zeros

if TYPE_CHECKING:
    from .op import *  # noqa: F403


def __getattr__(name: str) -> Any:
    function = globals()[name] = getattr(op, name)
    return function


def __dir__() -> list[str]:
    return sorted({*globals(), *_names_of("")})
