"""Where the compiler finds the machine code of kernels that it has compiled before, for this program or for others."""

from __future__ import annotations

from typing import Protocol


class CodeStore(Protocol):
    """Machine code by the text that it is compiled from. The code of equal texts for one target is interchangeable."""

    def find(self, text: str) -> bytes | None:
        """The code of a text; None if it is not stored."""
        ...

    def add(self, text: str, code: bytes) -> None:
        """Store the code of a text."""
        ...


class MemoryStore:
    """Stores code in a dictionary."""

    def __init__(self) -> None:
        self.code: dict[str, bytes] = {}

    def find(self, text: str) -> bytes | None:
        return self.code.get(text)

    def add(self, text: str, code: bytes) -> None:
        self.code[text] = code


class NoStore:
    """Stores nothing."""

    def find(self, text: str) -> bytes | None:
        return None

    def add(self, text: str, code: bytes) -> None:
        pass


NO_STORE = NoStore()
