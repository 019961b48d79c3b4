"""Reads the attributes of the kernels of a cubin: registers, bytes of stack, sizes of parameters.

A cubin is an ELF file. Section `.nv.info.<kernel>` holds attributes as (format, attribute, size, data); `.nv.info`
holds numbers of registers and sizes of stack frames.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from ...ir.lazy_dataclass import dataclass
from ..elf.reader import LinkError, read_sections

_SIZED = 4  # the format of attributes that data follow
_PARAMETERS = (0x17, 0x45)  # EIATTR_KPARAM_INFO and its second version
_FRAME_SIZE = 0x11  # EIATTR_FRAME_SIZE: (symbol, bytes)
_REGISTER_COUNT = 0x2F  # EIATTR_REGCOUNT: (symbol, registers); older cubins store it in the section header of the code


@dataclass(frozen=True, slots=True)
class KernelResources:
    """`registers` per thread (the maximum of the cubin's kernels); `stack` in bytes per thread, 0 if no register is
    spilled. `parameters` are (offset, size) in order, in bytes."""

    registers: int
    stack: int
    parameters: tuple[tuple[int, int], ...]


def read_resources(cubin: bytes, kernel: str) -> KernelResources:
    """The resources of `kernel`. ValueError if the bytes are not a cubin that contains it."""
    try:
        sections = read_sections(cubin)
    except LinkError as error:
        raise ValueError(f"not a cubin: {error}") from None
    code, info = sections.get(f".text.{kernel}"), sections.get(f".nv.info.{kernel}")
    if code is None or info is None:
        raise ValueError(f"the cubin does not contain kernel {kernel}")
    module = [(a, *struct.unpack_from("<II", d)) for a, d in _attributes(sections[".nv.info"].content) if len(d) == 8]
    frames = [value for a, _, value in module if a == _FRAME_SIZE]
    registers = [value for a, _, value in module if a == _REGISTER_COUNT] or [code.info >> 24]
    parameters = sorted(_parameter(d) for a, d in _attributes(info.content) if a in _PARAMETERS)
    return KernelResources(
        max(registers), max(frames, default=0), tuple((offset, size) for _, offset, size in parameters)
    )


def _parameter(data: bytes) -> tuple[int, int, int]:
    """(ordinal, offset, size)"""
    _, ordinal, offset, packed = struct.unpack_from("<IHHI", data)
    return ordinal, offset, (packed >> 18) & 0x3FFF


def _attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    """The attributes that carry data."""
    at = 0
    while at < len(data):
        form, attribute, size = struct.unpack_from("<BBH", data, at)
        at += 4
        if form == _SIZED:
            yield attribute, data[at : at + size]
            at += size
