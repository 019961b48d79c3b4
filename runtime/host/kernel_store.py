"""Stores the machine code of kernels, found by the LLVM text that it was compiled from.

A kernel is searched for in this process, in the library that the package has for this processor
(`kernel_library.py`), and in the disk cache. Networks have many kernels in common, such as the tiles of products and
the transforms of Winograd, so a program that was never compiled finds most of its code.
"""

from __future__ import annotations

import hashlib

from ...codegen.llvm.cpu import Cpu
from ...ir.caches import Cache
from ..cache import DiskCache
from .kernel_library import read_library

_code: Cache[str, bytes] = Cache("kernels", 1 << 14, len, 16 << 20)


class KernelStore:
    """Implements `ir.code_store.CodeStore` for a CPU. `identity` is that of the compiler: code on disk that another
    version compiled is not used."""

    def __init__(self, target: Cpu, disk: DiskCache, identity: str) -> None:
        self._identity = f"kernel\0{target.triple}\0{target.cpu}\0{target.features}\0{identity}\0"
        self._disk, self._library = disk, read_library(target.cpu)

    def find(self, text: str) -> bytes | None:
        key = self._key(text)
        found = _code.find(key) or self._library.find(text) or self._disk.get(key)
        return found and _code.add(key, found)

    def add(self, text: str, code: bytes) -> None:
        key = self._key(text)
        _code.add(key, code)
        self._disk.put(key, code)

    def _key(self, text: str) -> str:
        return hashlib.sha256((self._identity + text).encode()).hexdigest()
