"""A compiled Triton kernel as bytes: one object of a program's code, which a device loads.

    kernel code = magic (8 bytes) | u64 length of header | header (JSON) | code

The header holds every field except the code. Numbers are little-endian.
"""

from __future__ import annotations

import json
import struct
from dataclasses import asdict
from typing import Literal

from ...ir.lazy_dataclass import dataclass
from .part import Part

Form = Literal["cubin", "ttir"]

_MAGIC = b"mxftrit1"
MOST_COUNTERS = 4096
_PREFIX = struct.Struct("<8sQ")


@dataclass(frozen=True, slots=True)
class KernelCode:
    """One kernel. `parameters` are the types of its run-time arguments in Triton's spelling (`*fp32`, `i32`): buffers,
    then extents. A block has `num_warps` warps of 32 threads and `shared` bytes of shared memory. `code` is TTIR text
    or a cubin, depending on `form`. `counters`: the last argument, which launches do not have, are the device's
    `MOST_COUNTERS` int32, which are 0 before and after each launch. `part` is the source, if kernels
    of several launches can contain it.
    """

    name: str
    form: Form
    parameters: tuple[str, ...]
    num_warps: int
    shared: int
    code: bytes
    counters: bool = False
    part: Part | None = None

    def to_bytes(self) -> bytes:
        header = asdict(self)
        del header["code"]
        text = json.dumps(header, separators=(",", ":")).encode()
        return b"".join((_PREFIX.pack(_MAGIC, len(text)), text, self.code))

    @staticmethod
    def from_bytes(data: bytes) -> KernelCode:
        """The kernel that `to_bytes` wrote. ValueError for any other bytes."""
        if len(data) < _PREFIX.size:
            raise ValueError("not the code of a Triton kernel: too short")
        magic, length = _PREFIX.unpack_from(data)
        if magic != _MAGIC:
            raise ValueError(f"not the code of a Triton kernel: it starts with {magic!r}")
        end = _PREFIX.size + length
        try:
            header = json.loads(data[_PREFIX.size : end])
            header["parameters"] = tuple(header["parameters"])
            if header.get("part") is not None:
                header["part"] = Part.from_record(header["part"])
            return KernelCode(**header, code=data[end:])
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"the header of a Triton kernel is damaged: {error}") from None
