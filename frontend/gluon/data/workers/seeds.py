"""Seeds of random numbers in worker processes: each batch has its own, so numbers do not depend on the workers.

The seeds of an epoch follow from the states of the three generators in the loader's process: `mx.random`, NumPy's and
Python's. The epoch draws one key from `mx.random`, so that epochs differ. NumPy's and Python's generators are read and
not advanced, because a loader of MXNet leaves them alone too: their later numbers are those of MXNet.
"""

from __future__ import annotations

import hashlib
import random
import struct
from array import array

import numpy as np

from .....runtime.random_keys import next_key, seed_all
from ....context import current_context

Seeds = tuple[int, bytes, int]
"""The seeds of mx.random, of NumPy and of Python for one batch."""


class EpochSeeds:
    """The seeds of the batches of one epoch."""

    def __init__(self) -> None:
        low, high, number, _ = next_key(current_context())
        self._own = struct.pack("3I", low, high, number)
        self._numpy = _state_of_numpy() + struct.pack("I", number)
        self._python = _state_of_python() + struct.pack("I", number)

    def of(self, batch: int) -> Seeds:
        """The seeds of a batch, by its position in the epoch."""
        own, for_numpy, python = (_digest(state, batch) for state in (self._own, self._numpy, self._python))
        return int.from_bytes(own[:8], "little") >> 1, for_numpy, int.from_bytes(python, "little")


def plant(seeds: Seeds) -> None:
    """Seed the three generators of this process."""
    own, for_numpy, python = seeds
    seed_all(own)
    np.random.seed(np.frombuffer(for_numpy, np.uint32))
    random.seed(python)


def _digest(state: bytes, batch: int) -> bytes:
    return hashlib.blake2b(state + struct.pack("Q", batch), digest_size=16).digest()


def _state_of_numpy() -> bytes:
    state = np.random.get_state(legacy=True)
    return b"".join(part.tobytes() if isinstance(part, np.ndarray) else repr(part).encode() for part in state)


def _state_of_python() -> bytes:
    _, words, gauss = random.getstate()
    return array("Q", words).tobytes() + repr(gauss).encode()
