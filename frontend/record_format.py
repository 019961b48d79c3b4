"""The bytes of RecordIO files: sequences of records.

A record is the word MAGIC, a word with the length in its low 29 bits, the data, and zeros up to a multiple of 4. If
the data contain MAGIC at a multiple of 4, the record is split there and MAGIC is omitted; the upper 3 bits of the
length word number the kind of part: whole, first, middle or last. All words are little-endian.
"""

from __future__ import annotations

import struct

MAGIC_BYTES = struct.pack("<I", 0xCED7230A)
LENGTH_BITS = 29
LONGEST = (1 << LENGTH_BITS) - 1
WHOLE, FIRST, MIDDLE, LAST = range(4)
HEAD = 8
_HEAD = struct.Struct("<4sI")
_ZEROS = (b"", b"\0\0\0", b"\0\0", b"\0")


def encode_record(data: bytes) -> bytes:
    """The bytes of a record in a file. ValueError if the data are too long."""
    if len(data) > LONGEST:
        raise ValueError(f"a record holds at most {LONGEST} bytes, not {len(data)}")
    if MAGIC_BYTES not in data:
        return b"".join((_HEAD.pack(MAGIC_BYTES, len(data)), data, _ZEROS[len(data) % 4]))
    parts = _split_at_magic(data)
    kinds = (WHOLE,) if len(parts) == 1 else (FIRST, *[MIDDLE] * (len(parts) - 2), LAST)
    return b"".join(
        piece
        for kind, part in zip(kinds, parts, strict=True)
        for piece in (_HEAD.pack(MAGIC_BYTES, kind << LENGTH_BITS | len(part)), part, _ZEROS[len(part) % 4])
    )


def _split_at_magic(data: bytes) -> list[bytes]:
    """The pieces of `data` between occurrences of MAGIC at multiples of 4."""
    parts, begin, at = [], 0, data.find(MAGIC_BYTES)
    while at >= 0:
        if at % 4:
            at = data.find(MAGIC_BYTES, at + 1)
            continue
        parts.append(data[begin:at])
        begin = at + 4
        at = data.find(MAGIC_BYTES, begin)
    return [*parts, data[begin:]]


def parse_record(chunk: bytes, at: int = 0) -> tuple[bytes | None, int]:
    """The data of the record at `chunk[at]`, and the bytes that it takes. If the chunk ends before the record, the data
    are None, and the number is at most what it takes. ValueError if there is no record.
    """
    if len(chunk) - at >= HEAD:
        magic, word = _HEAD.unpack_from(chunk, at)
        if magic == MAGIC_BYTES and word <= LONGEST:  # the common case: a whole record
            begin = at + HEAD
            used = HEAD + word + -word % 4
            return (chunk[begin : begin + word] if len(chunk) >= at + used else None), used
    return _parse_parts(chunk, at)


def _parse_parts(chunk: bytes, begin: int) -> tuple[bytes | None, int]:
    at, parts, kind = begin, [], FIRST
    while kind != LAST:
        if len(chunk) < at + HEAD:
            return None, at + HEAD - begin
        magic, word = _HEAD.unpack_from(chunk, at)
        kind, length = word >> LENGTH_BITS, word & LONGEST
        if magic != MAGIC_BYTES and not parts:
            raise ValueError("no record starts here")
        if not parts and kind != FIRST:
            raise ValueError("a record starts with a middle or last part")
        if magic != MAGIC_BYTES or (parts and kind not in (MIDDLE, LAST)):
            raise ValueError("a record lacks its last part")
        at += HEAD + length + -length % 4
        if len(chunk) < at:
            return None, at - begin
        end = at - (-length % 4)
        parts.append(chunk[end - length : end])
    return MAGIC_BYTES.join(parts), at - begin


def find_record(chunk: bytes) -> int:
    """The first multiple of 4 at which a record begins, or -1."""
    at = chunk.find(MAGIC_BYTES)
    while 0 <= at <= len(chunk) - HEAD:
        if at % 4 == 0 and chunk[at + HEAD - 1] >> 5 in (WHOLE, FIRST):
            return at
        at = chunk.find(MAGIC_BYTES, at + 1)
    return -1


def truncated(there: int, used: int) -> str:
    """The reason for an error: the file ends `there` bytes after the start of a record that takes at least `used`."""
    if there < HEAD:
        return "the file ends within the header of a record"
    return f"a record of at least {used} bytes exceeds the end of the file, which is after {there}"
