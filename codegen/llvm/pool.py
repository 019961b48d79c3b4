"""What generated code and the runtime need to know of the thread pool, which is C.

`runtime/host/native/pool.c` describes it, and `runtime/host/native/pool.h` has the same numbers for C.
"""

from __future__ import annotations

RUN = "mxf_run"
"""The function that runs launch records."""

LARGEST_POOL = 1024
"""The most threads."""

CHUNKS_OF_THREAD, MOST_CHUNKS_OF_FEW = 8, 32
"""The most chunks of a launch for each thread, and of a launch that less than four threads share."""

LONG_CHUNK, CHUNK_ALIGNMENT = 1024, 64
"""Chunks of `LONG_CHUNK` units and more start at multiples of `CHUNK_ALIGNMENT`."""
