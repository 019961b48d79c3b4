"""The size of an encoded image, read from its header: images that claim to be huge are refused before decoding."""

from __future__ import annotations

import struct
from typing import NamedTuple

from ..base import MXNetError

LARGEST = 1 << 28
"""The number of pixels of the largest image that is decoded."""

_START_OF_FRAME = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_WITHOUT_LENGTH = frozenset((0x01, *range(0xD0, 0xD9)))


class ImageSize(NamedTuple):
    height: int
    width: int


def image_size(data: bytes) -> ImageSize | None:
    """The size that the header of a JPEG, PNG, BMP, GIF or WebP file claims. None for other formats and damaged
    headers."""
    try:
        if data[:2] == b"\xff\xd8":
            return _jpeg(data)
        if data[:8] == b"\x89PNG\r\n\x1a\n":
            width, height = struct.unpack_from(">II", data, 16)
        elif data[:6] in (b"GIF87a", b"GIF89a"):
            width, height = struct.unpack_from("<HH", data, 6)
        elif data[:2] == b"BM":
            width, height = struct.unpack_from("<ii", data, 18)
        elif data[:4] == b"RIFF" and data[8:12] == b"WEBP":
            return _webp(data)
        else:
            return None
    except (IndexError, struct.error):
        return None
    return ImageSize(abs(height), abs(width))


def require_decodable(data: bytes, where: str = "") -> None:
    """MXNetError, which begins with `where`, if the header claims too many pixels."""
    size = image_size(data)
    if size is not None and size.height * size.width > LARGEST:
        raise MXNetError(f"{where}an image of {size.height} x {size.width} pixels is too large to be decoded")


def _jpeg(data: bytes) -> ImageSize | None:
    at = 2
    while data[at] == 0xFF:
        marker = data[at + 1]
        if marker == 0xFF:  # a fill byte
            at += 1
        elif marker in _WITHOUT_LENGTH:
            at += 2
        elif marker in _START_OF_FRAME:
            return ImageSize(*struct.unpack_from(">HH", data, at + 5))
        else:
            at += 2 + struct.unpack_from(">H", data, at + 2)[0]
    return None


def _webp(data: bytes) -> ImageSize | None:
    kind = data[12:16]
    if kind == b"VP8X":
        return ImageSize(int.from_bytes(data[27:30], "little") + 1, int.from_bytes(data[24:27], "little") + 1)
    if kind == b"VP8L":
        bits = int.from_bytes(data[21:25], "little")
        return ImageSize((bits >> 14 & 0x3FFF) + 1, (bits & 0x3FFF) + 1)
    if kind == b"VP8 ":
        width, height = struct.unpack_from("<HH", data, 26)
        return ImageSize(height & 0x3FFF, width & 0x3FFF)
    return None
