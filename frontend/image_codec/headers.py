"""Reads the size of an encoded image from its header, to refuse an image that is too large before it is decoded."""

from __future__ import annotations

import os
import struct

from ..base import MXNetError

Size = tuple[int, int]
"""Width and height."""

LARGEST = 1 << 28
"""The default limit of pixels in an image: 805 MB in RGB."""
_LIMIT_VARIABLE = "OPENCV_IO_MAX_IMAGE_PIXELS"
_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
"""The JPEG markers that start a frame, whose header contains the size."""
_NO_LENGTH = frozenset((0x01, *range(0xD0, 0xD9)))
"""The JPEG markers without a segment."""


def require_moderate_size(data: bytes) -> None:
    """Raise MXNetError if the header of an image claims more pixels than OPENCV_IO_MAX_IMAGE_PIXELS, or 2**28 without
    that environment variable. Other formats than JPEG, PNG, GIF, BMP and WebP are left to their decoder."""
    size = size_of(data)
    if size is None:
        return
    limit = _limit()
    if size[0] * size[1] > limit:
        claim = f"The header of the image claims {size[0]} x {size[1]} pixels, more than the limit of {limit}"
        raise MXNetError(f"Decoding failed. {claim}, which the environment variable {_LIMIT_VARIABLE} can raise")


def _limit() -> int:
    text = os.environ.get(_LIMIT_VARIABLE, str(LARGEST))
    try:
        return int(text)
    except ValueError:
        raise MXNetError(f"the environment variable {_LIMIT_VARIABLE}={text!r} is not a number of pixels") from None


def size_of(data: bytes) -> Size | None:
    """Width and height by the header of a JPEG, PNG, GIF, BMP or WebP image. None for other data."""
    try:
        if data[:2] == b"\xff\xd8":
            return _jpeg(data)
        if data[:8] == b"\x89PNG\r\n\x1a\n":
            return struct.unpack_from(">II", data, 16)
        if data[:4] == b"GIF8":
            return struct.unpack_from("<HH", data, 6)
        if data[:2] == b"BM":
            width, height = struct.unpack_from("<ii", data, 18)
            return abs(width), abs(height)
        return _webp(data) if data[:4] == b"RIFF" and data[8:12] == b"WEBP" else None
    except (struct.error, IndexError):  # the data end within the header
        return None


def _jpeg(data: bytes) -> Size | None:
    """The size in the header of the first frame."""
    at = 2
    while data[at] == 0xFF:
        marker = data[at + 1]
        if marker in _FRAMES:
            height, width = struct.unpack_from(">HH", data, at + 5)
            return width, height
        if marker == 0xFF:  # padding
            at += 1
        elif marker in _NO_LENGTH:
            at += 2
        else:
            at += 2 + struct.unpack_from(">H", data, at + 2)[0]
    return None


def _webp(data: bytes) -> Size | None:
    chunk = data[12:16]
    if chunk == b"VP8 ":
        width, height = struct.unpack_from("<HH", data, 26)
        return width & 0x3FFF, height & 0x3FFF
    if chunk == b"VP8L":
        (bits,) = struct.unpack_from("<I", data, 21)
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    if chunk == b"VP8X":
        return int.from_bytes(data[24:27], "little") + 1, int.from_bytes(data[27:30], "little") + 1
    return None
