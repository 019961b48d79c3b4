"""`mxforge.kv`: key-value stores of arrays, which workers share."""

from __future__ import annotations

from . import base, kvstore, kvstore_server
from .base import KVStoreBase
from .kvstore import KVStore, create
from .kvstore_server import KVStoreServer
