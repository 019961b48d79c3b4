"""The rates of this machine that bound the time of an operator."""

from __future__ import annotations

from typing import Any

from ...runtime.host.probes import peak_operations, read_bandwidth

_BUFFERS = tuple(1 << power for power in range(16, 28, 2))
"""From a buffer in the first cache to one in memory."""
_SECONDS = 0.1


def rates() -> dict[str, Any]:
    """`operations`: float32 operations per second. `bandwidths`: (bytes of a buffer, bytes per second that are read of
    it) by size."""
    bandwidths = [(size, read_bandwidth(size, _SECONDS)) for size in _BUFFERS]
    return {"operations": peak_operations(_SECONDS), "bandwidths": bandwidths}
