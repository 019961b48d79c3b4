"""Calls of short programs as built-in functions, without ctypes (`native/python_calls.c`)."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

from ..device import DeviceError

Patch = tuple[int, int, int]
"""The position of an operand, the address of a word, and the offset in bytes of what the word points to."""

_METH_FASTCALL = 0x80  # of Python's stable interface


class _Method(ctypes.Structure):
    """Python's `PyMethodDef`."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


_new_function = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.POINTER(_Method), ctypes.py_object, ctypes.c_void_p)(
    ("PyCFunction_NewEx", ctypes.pythonapi)
)


def resolve_python(name: str) -> int:
    """The address of a function of Python's C interface; 0 for any other name."""
    function = getattr(ctypes.pythonapi, name, None) if name.startswith("Py") else None
    return 0 if function is None else ctypes.cast(function, ctypes.c_void_p).value or 0


class _Description(int):
    """The address of the description of a call. `kept` are the objects whose memory the call uses."""

    kept: tuple[Any, ...]


class DirectCalls:
    """Makes built-in functions that run programs while holding Python's lock."""

    def __init__(self, address: Callable[[str], int]) -> None:
        """`address` finds a symbol of the native code."""
        self._method = _Method(b"run", address("mxf_call"), _METH_FASTCALL, None)
        for name, value in (("mxf_refusal", DeviceError), ("mxf_none", None)):
            ctypes.c_void_p.from_address(address(name)).value = id(value)
        self._observed = ctypes.c_int32.from_address(address("mxf_observed"))

    def refuse(self, refused: bool) -> None:
        """While True, all functions raise DeviceError."""
        self._observed.value = refused

    def function(
        self,
        records: tuple[int, int],
        operands: int,
        patches: Sequence[Patch],
        owner: object,
        version: object = None,
    ) -> Callable[..., None]:
        """A function of the addresses of `operands` operands, as ints, which writes them into the words of `patches`
        and runs records. `records` are their address and number, and `owner` keeps them alive. With a `version`, which
        is not None, the function has it as a further argument.

        The function raises DeviceError and does nothing for an address of another device, or for another version.
        """
        key = 0 if version is None else id(version)
        words = [*records, operands, key, len(patches), *(word for patch in patches for word in patch)]
        block = (ctypes.c_int64 * len(words))(*words)
        description = _Description(ctypes.addressof(block))
        description.kept = block, owner, version
        return _new_function(ctypes.byref(self._method), description, None)
