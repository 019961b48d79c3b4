"""Stores the machine code of kernels, found by the text that it was compiled from.

A kernel is searched for in this process, in a library that the package has (`host/kernel_library.py`), and in the disk
cache. Networks have many kernels in common, such as the tiles of products and the transforms of Winograd, so a program
that was never compiled finds most of its code.
"""

from __future__ import annotations

import hashlib
from typing import Protocol

from ..ir.caches import Cache
from .cache import DiskCache

_code: Cache[str, bytes] = Cache("kernels", 1 << 14, len, 16 << 20)


class Library(Protocol):
    """Kernels that the package has for a target."""

    def find(self, text: str) -> bytes | None:
        """The code of a text; None if the library does not have it."""
        ...


class KernelStore:
    """Implements `ir.code_store.CodeStore` for a target, whose `Target.code_identity` is given. `compiler` is the
    identity of the compiler: code on disk that another version compiled is not used."""

    def __init__(self, code_identity: str, library: Library, disk: DiskCache, compiler: str) -> None:
        self._identity = f"kernel\0{code_identity}\0{compiler}\0"
        self._disk, self._library = disk, library

    def find(self, text: str) -> bytes | None:
        key = self._key(text)
        code = _code.find(key) or self._library.find(text) or self._disk.get(key)
        return code and _code.add(key, code)

    def add(self, text: str, code: bytes) -> None:
        key = self._key(text)
        _code.add(key, code)
        self._disk.put(key, code)

    def _key(self, text: str) -> str:
        return hashlib.sha256((self._identity + text).encode()).hexdigest()
