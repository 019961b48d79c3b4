"""Reads and writes the libraries of kernels in the package: code of networks of the model zoo, for common processors.

    magic (8 bytes) | number of kernels (8, little-endian) | digests of their texts in order (16 each)
    | ends of their codes, counted from the first code (8 each) | codes

A kernel is found by a digest of its LLVM text, so one that is out of date is never found. A library contains only
kernels of float32 and integers: they give the same bits on all processors of a level, whatever further instructions
these have. `tools/make_kernels.py` compiles the libraries.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from ...codegen.llvm.target import CpuTarget

LIBRARIES = Path(__file__).parent / "objects"
_MAGIC = b"mxkernel"
_DIGEST, _HEADER = 16, 16
_NARROW = re.compile(r"\b(half|bfloat)\b")


class KernelLibrary:
    """A library in memory."""

    def __init__(self, data: bytes) -> None:
        """ValueError for data that is not a library."""
        count = int.from_bytes(data[8:_HEADER], "little")
        codes = _HEADER + count * (_DIGEST + 8)
        if data[:8] != _MAGIC or codes > len(data):
            raise ValueError("not a library of kernels, or a truncated one")
        digests = data[_HEADER : _HEADER + count * _DIGEST]
        self._digests = {digests[_DIGEST * k : _DIGEST * (k + 1)]: k for k in range(count)}
        self._ends = [0, *np.frombuffer(data, "<i8", count, _HEADER + count * _DIGEST).tolist()]
        self._codes = memoryview(data)[codes:]
        if sorted(self._ends) != self._ends or self._ends[-1] != len(self._codes):
            raise ValueError("a library of kernels that is damaged")

    def find(self, text: str) -> bytes | None:
        """The code of a text; None if the library does not have it."""
        position = self._digests.get(digest(text))
        if position is None:
            return None
        return bytes(self._codes[self._ends[position] : self._ends[position + 1]])


AARCH64 = "aarch64"
"""The library of all AArch64 processors."""


def library_name(target: CpuTarget) -> str:
    """The library whose kernels a target can use: that of its level of x86-64, or of its architecture."""
    return AARCH64 if target.triple.startswith("aarch64") else target.cpu


@cache
def read_library(name: str) -> KernelLibrary:
    """The library of this name, which is empty if the package has none. ValueError if its file is damaged."""
    try:
        return KernelLibrary(library_file(name).read_bytes())
    except FileNotFoundError:
        return KernelLibrary(to_bytes({}))


def library_file(name: str) -> Path:
    """The file of a library."""
    return LIBRARIES / f"{name}.kernels"


def digest(text: str) -> bytes:
    """What identifies a text in a library."""
    return hashlib.blake2s(text.encode(), digest_size=_DIGEST).digest()


def is_portable(text: str) -> bool:
    """True for a kernel whose results are the same on all processors with the instructions of its library: narrow
    floats are rounded by other instructions where a processor has them."""
    return not _NARROW.search(text)


def to_bytes(kernels: Mapping[str, bytes]) -> bytes:
    """A library of kernels by their texts."""
    rows = sorted((digest(text), code) for text, code in kernels.items())
    ends = np.cumsum([len(code) for _, code in rows], dtype="<i8")
    head = _MAGIC + len(rows).to_bytes(8, "little") + b"".join(key for key, _ in rows) + ends.tobytes()
    return head + b"".join(code for _, code in rows)
