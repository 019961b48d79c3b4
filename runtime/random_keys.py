"""Keys of random draws: a seed and a count of calls for each device.

A program that draws random numbers is a pure function of a key of four words: (low half of the seed, high half of the
seed, number of the call, draw in the call). A program in which several operators draw counts one call for each, so its
draws equal those of the operators called one by one.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Hashable

from ..ir.locks import ForkSafeLock
from .device import Device
from .devices import HOST
from .storage import Storage

_MASK = 0xFFFFFFFF


class _Stream:
    """A seed and the count of calls that drew from it."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.calls = 0


class _Streams:
    """The streams by device; the stream under None serves all other devices. `lock` guards the counts."""

    def __init__(self) -> None:
        self.by_device: dict[Hashable, _Stream] = {None: _Stream(int.from_bytes(os.urandom(8), "little"))}
        self.lock = ForkSafeLock()


_streams = _Streams()


def _mixed(seed: int) -> int:
    """Spread a small seed over 64 bits (the finalizer of SplitMix64)."""
    mask = (1 << 64) - 1
    word = (seed + 0x9E3779B97F4A7C15) & mask
    word = ((word ^ (word >> 30)) * 0xBF58476D1CE4E5B9) & mask
    word = ((word ^ (word >> 27)) * 0x94D049BB133111EB) & mask
    return word ^ (word >> 31)


def seed_all(seed: int) -> None:
    """Restart the random numbers of all devices, with one common stream."""
    _streams.by_device = {None: _Stream(_mixed(seed))}


def seed_device(seed: int, device: Hashable) -> None:
    """Restart the stream of one device. Equal seeds give equal numbers on all devices."""
    _streams.by_device = {**_streams.by_device, device: _Stream(_mixed(seed))}


def next_key(device: Hashable, draws: int = 1) -> tuple[int, int, int, int]:
    """The key of the next call on `device`, in which `draws` operators draw: four words of 32 bits."""
    streams = _streams.by_device
    stream = streams.get(device) or streams[None]
    with _streams.lock:
        number = stream.calls
        stream.calls += draws
    return stream.seed & _MASK, stream.seed >> 32, number & _MASK, 0


def positions() -> list[tuple[_Stream, int]]:
    """The counts of all streams, for `rewind`."""
    return [(stream, stream.calls) for stream in _streams.by_device.values()]


def rewind(counts: list[tuple[_Stream, int]]) -> None:
    """Set the streams back: the next calls draw the numbers again that followed these counts."""
    for stream, calls in counts:
        stream.calls = calls


def key_in_memory(stream: Hashable, draws: int, device: Device = HOST) -> Storage:
    """The next key of a stream, in the memory of `device`."""
    key = struct.pack("4I", *next_key(stream, draws))
    block = device.allocate(len(key))
    device.write(block.address, key)
    return block
