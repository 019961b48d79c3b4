"""MXNet's variables for the memory of GPUs, as far as they mean something here. They are read when a GPU is opened.

    MXNET_GPU_MEM_POOL_RESERVE              the percentage of the memory that other programs should find free
    MXNET_GPU_MEM_POOL_TYPE                 Naive, Round or Unpooled: the sizes of blocks
    MXNET_GPU_MEM_POOL_PAGE_SIZE            Naive and Round: sizes are multiples of this (default: 4096)
    MXNET_GPU_MEM_LARGE_ALLOC_ROUND_SIZE    Naive: sizes above this are multiples of this (default: 2 MiB)
    MXNET_GPU_MEM_POOL_ROUND_LINEAR_CUTOFF  Round: sizes are powers of two up to this one (default: 24), then multiples

Without a type, blocks have the classes of `storage.size_of_block`, which waste less.
"""

from __future__ import annotations

import os

from ...ir.lazy_dataclass import dataclass
from ...ir.suggestions import see, suggestion
from ..errors import invalid_value
from ..storage import size_of_block

_PREFIX = "MXNET_GPU_MEM_"
_TYPE, _RESERVE = f"{_PREFIX}POOL_TYPE", f"{_PREFIX}POOL_RESERVE"
_PAGE, _CUTOFF = f"{_PREFIX}POOL_PAGE_SIZE", f"{_PREFIX}POOL_ROUND_LINEAR_CUTOFF"
_LARGE = f"{_PREFIX}LARGE_ALLOC_ROUND_SIZE"
TYPES = ("Naive", "Round", "Unpooled")
_LARGEST_CUTOFF = 34  # 16 GiB, MXNet's largest


@dataclass(frozen=True, slots=True)
class PoolSettings:
    """The values of the variables. `reserve` is a share of the memory."""

    type: str = ""
    reserve: float = 0.0
    page: int = 4096
    large: int = 2 << 20
    cutoff: int = 24

    @property
    def is_pooled(self) -> bool:
        """False if freed blocks return to the driver."""
        return self.type != "Unpooled"

    def size(self, nbytes: int) -> int:
        """The size of the block for a buffer of `nbytes`."""
        if self.type == "Naive":
            return _multiple(nbytes, self.large if nbytes > self.large else self.page)
        if self.type == "Round":
            most = 1 << self.cutoff
            return max(_multiple(nbytes, most) if nbytes > most else 1 << (nbytes - 1).bit_length(), self.page)
        return size_of_block(nbytes)


def _multiple(nbytes: int, of: int) -> int:
    return -(-nbytes // of) * of


def read_pool_settings() -> PoolSettings:
    """The settings of the environment. The error of `errors.invalid_value` names a variable that has a wrong value."""
    kind = os.environ.get(_TYPE, "")
    if kind and kind not in TYPES:
        raise invalid_value(
            f"{_TYPE}={kind!r} is not one of {', '.join(TYPES)}.{suggestion(kind, TYPES)}{see('compatibility')}"
        )
    reserve = _number(_RESERVE, 0, 0, 100)
    page, large = _number(_PAGE, 4096, 512, 1 << 30), _number(_LARGE, 2 << 20, 512, 1 << 40)
    return PoolSettings(kind, reserve / 100, page, large, _number(_CUTOFF, 24, 9, _LARGEST_CUTOFF))


def _number(name: str, default: int, least: int, most: int) -> int:
    text = os.environ.get(name, "")
    if not text:
        return default
    if not text.isdecimal() or not least <= int(text) <= most:
        raise invalid_value(f"{name}={text!r} is not a whole number from {least:,} to {most:,}{see('compatibility')}")
    return int(text)
