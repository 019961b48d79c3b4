"""The server of a distributed KVStore, which mxforge does not have."""

from __future__ import annotations

from typing import Any

from ..base import MXNetError

__all__ = ["KVStoreServer"]

_TEXT = "KVStoreServer: mxforge's stores are of one machine, there is no server to run"


class KVStoreServer:
    """Raises MXNetError: stores are of one machine."""

    def __init__(self, kvstore: Any) -> None:
        raise MXNetError(_TEXT)

    def run(self) -> None:
        """Raises MXNetError."""
        raise MXNetError(_TEXT)
