"""`mxforge cache`: shows the folder of compiled programs, empties it, or removes the oldest of them."""

from __future__ import annotations

import argparse

from ..runtime.cache import DiskCache
from .errors import ToolError
from .inspect_text import counted, size
from .schemas.machine import CacheReport
from .schemas.print_json import as_json


def run(options: argparse.Namespace) -> int:
    """Print folder and size after the requested change; returns status 0. ToolError if no folder can be used."""
    limit = 0 if options.clear else None if options.shrink is None else options.shrink << 20
    cache = DiskCache(enabled=True)
    if cache.folder is None:
        raise ToolError(cache.problem)
    if limit is not None:
        DiskCache(limit=limit, enabled=True).evict()
    count, nbytes = cache.usage()
    if options.json:
        report = CacheReport(folder=str(cache.folder), entries=count, bytes=nbytes, limit_bytes=cache.limit)
        print(as_json("cache", report))
    else:
        what = counted(count, "program or object", "programs and objects")
        print(f"{cache.folder}  {what}, {size(nbytes)} of at most {size(cache.limit)}")
    return 0
