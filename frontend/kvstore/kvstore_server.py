"""The server of a distributed KVStore, which mxforge does not have."""

from __future__ import annotations

from typing import Any

from ..base import MXNetError

__all__ = ["KVStoreServer"]

_TEXT = "KVStoreServer: mxforge supports stores on one machine only and has no server"


class KVStoreServer:
    """Raises MXNetError: mxforge has no distributed stores."""

    def __init__(self, kvstore: Any) -> None:
        raise MXNetError(_TEXT)

    def run(self) -> None:
        """Raises MXNetError."""
        raise MXNetError(_TEXT)
