"""MXNet's numbers for dtypes, storage types and gradient requests, which are stored in files and used by programs."""

from __future__ import annotations

from typing import Any

from .dtypes import dtype_of, numpy_type

DTYPE_FLAGS = {
    "float32": 0,
    "float64": 1,
    "float16": 2,
    "uint8": 3,
    "int32": 4,
    "int8": 5,
    "int64": 6,
    "bool": 7,
    "int16": 8,
    "bfloat16": 12,
}
DTYPE_NAMES = {str(flag): name for name, flag in DTYPE_FLAGS.items()}
"""The names of dtypes by number, as strings: attributes of variables contain these."""

_DTYPE_NP_TO_MX: dict[Any, int] = {None: -1, **{numpy_type(dtype_of(name)): flag for name, flag in DTYPE_FLAGS.items()}}
_DTYPE_MX_TO_NP: dict[int, Any] = {flag: dtype for dtype, flag in _DTYPE_NP_TO_MX.items()}
_GRAD_REQ_MAP = {"null": 0, "write": 1, "add": 3}
_STORAGE_TYPE_UNDEFINED, _STORAGE_TYPE_DEFAULT, _STORAGE_TYPE_ROW_SPARSE, _STORAGE_TYPE_CSR = -1, 0, 1, 2
STORAGE_FLAGS = {
    "default": _STORAGE_TYPE_DEFAULT,
    "row_sparse": _STORAGE_TYPE_ROW_SPARSE,
    "csr": _STORAGE_TYPE_CSR,
}
_STORAGE_TYPE_STR_TO_ID = {"undefined": _STORAGE_TYPE_UNDEFINED, **STORAGE_FLAGS}
_STORAGE_TYPE_ID_TO_STR = {number: name for name, number in _STORAGE_TYPE_STR_TO_ID.items()}
