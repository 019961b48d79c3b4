"""`mxforge.kv`: arrays by key, where workers meet."""

from __future__ import annotations

from . import base, kvstore, kvstore_server
from .base import KVStoreBase
from .kvstore import KVStore, create
from .kvstore_server import KVStoreServer
