"""The server of a distributed KVStore: workers keep the values themselves, so there is none."""

from __future__ import annotations

from typing import Any

from ..base import MXNetError

__all__ = ["KVStoreServer"]

_TEXT = "KVStoreServer: mxforge has no server: the workers of a distributed store keep its values"


class KVStoreServer:
    """Raises MXNetError: distributed stores have no servers."""

    def __init__(self, kvstore: Any) -> None:
        raise MXNetError(_TEXT)

    def run(self) -> None:
        """Raises MXNetError."""
        raise MXNetError(_TEXT)
