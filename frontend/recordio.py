"""RecordIO files: sequences of byte records, read in order or by an index, and the header of image records."""

from __future__ import annotations

import numbers
import os
import struct
from collections import namedtuple
from collections.abc import Callable, Iterable
from typing import IO, Any

import numpy as np

from .base import MXNetError
from .record_format import HEAD as _HEAD
from .record_format import encode_record, parse_record, truncated
from .tracebacks import cause_of

_IR_FORMAT = "IfQQ"
_IR_SIZE = struct.calcsize(_IR_FORMAT)

IRHeader = namedtuple("HEADER", ["flag", "label", "id", "id2"])
"""The header of an image: `label` is a number, or an array of `flag` numbers; `id2` is the upper part of `id`."""


class MXRecordIO:
    """A record file open for reading ("r") or writing ("w"). MXNetError if it cannot be opened.

    Example:
        >>> writer = mx.recordio.MXRecordIO("numbers.rec", "w")
        >>> writer.write(b"one")
        >>> writer.close()
        >>> mx.recordio.MXRecordIO("numbers.rec", "r").read()
        b'one'
    """

    def __init__(self, uri: str, flag: str) -> None:
        self.uri = os.fspath(uri)
        self.flag = flag
        self.pid: int | None = None
        self.is_open = False
        self.open()

    def open(self) -> None:
        """Open the file at its start. Opening for writing empties it."""
        if self.flag not in ("r", "w"):
            raise ValueError(f"Invalid flag {self.flag}")
        self.writable = self.flag == "w"
        try:
            self.handle: IO[bytes] = open(self.uri, "wb" if self.writable else "rb")  # noqa: SIM115
        except OSError as error:
            raise MXNetError(f"cannot open the record file {self.uri}: {error.strerror}") from cause_of(error)
        self.size = os.fstat(self.handle.fileno()).st_size
        self.pid = os.getpid()
        self.is_open = True

    def __del__(self) -> None:
        self.close()

    def __getstate__(self) -> dict[str, Any]:
        """The state without the file handle. Closes the file; a copy opens it again if it was open."""
        is_open = self.is_open
        self.close()
        return {**{key: value for key, value in self.__dict__.items() if key != "handle"}, "is_open": is_open}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__ = state
        is_open, self.is_open = state["is_open"], False
        if is_open:
            self.open()

    def _check_pid(self, allow_reset: bool = False) -> None:
        """Reopen the file in a forked process if `allow_reset`, else raise RuntimeError: processes would share a
        position."""
        if not self.is_open:
            raise MXNetError(f"the record file {self.uri} is closed")
        if self.pid == os.getpid():
            return
        if not allow_reset:
            raise RuntimeError("Forbidden operation in multiple processes")
        self.reset()

    def close(self) -> None:
        """Close the file. A closed file stays closed."""
        if getattr(self, "is_open", False):
            self.handle.close()
            self.is_open = False
            self.pid = None

    def reset(self) -> None:
        """Go back to the first record. A file open for writing becomes empty."""
        self.close()
        self.open()

    def write(self, buf: bytes) -> None:
        """Append a record of at most 2**29 - 1 bytes."""
        assert self.writable
        self._check_pid()
        try:
            self.handle.write(encode_record(bytes(buf)))
        except ValueError as error:
            raise MXNetError(str(error)) from cause_of(error)

    def read(self) -> bytes | None:
        """The next record, or None at the end. MXNetError if the file is damaged or truncated."""
        assert not self.writable
        self._check_pid()
        head = self.handle.read(_HEAD)
        if not head:
            return None
        begin = self.handle.tell() - len(head)
        data, used = self._parse(head, begin)
        while data is None:
            if begin + used > self.size:
                raise self._damaged(begin, truncated(self.size - begin, used))
            head += self.handle.read(used - len(head))
            data, used = self._parse(head, begin)
        return data

    def _parse(self, chunk: bytes, begin: int) -> tuple[bytes | None, int]:
        try:
            return parse_record(chunk)
        except ValueError as error:
            raise self._damaged(begin, str(error)) from None

    def _damaged(self, position: int, what: str) -> MXNetError:
        return MXNetError(f"invalid record file {self.uri}, at byte {position}: {what}")


class MXIndexedRecordIO(MXRecordIO):
    """A record file with an index: a text file of lines with a key, a tab and the byte position of its record."""

    def __init__(self, idx_path: str, uri: str, flag: str, key_type: Callable[[Any], Any] = int) -> None:
        self.idx_path = os.fspath(idx_path)
        self.idx: dict[Any, int] = {}
        self.keys: list[Any] = []
        self.key_type = key_type
        self.fidx: IO[str] | None = None
        super().__init__(uri, flag)

    def open(self) -> None:
        """Open both files and read the index."""
        super().open()
        self.idx, self.keys = {}, []
        self.fidx = open(self.idx_path, self.flag, encoding="utf-8")  # noqa: SIM115
        if self.writable:
            return
        try:
            self._read_index(self.fidx)
        except MXNetError:
            self.close()
            raise

    def _read_index(self, lines: Iterable[str]) -> None:
        number, line = 0, ""
        try:
            for number, line in enumerate(lines, start=1):  # noqa: B007
                key, position = line.rstrip("\n").split("\t")
                self._add(self.key_type(key), int(position))
        except UnicodeDecodeError as error:
            reason = f"invalid index {self.idx_path}, after line {number}: it is not UTF-8"
            raise MXNetError(reason) from cause_of(error)
        except ValueError as error:
            raise MXNetError(f"invalid index {self.idx_path}, line {number}: {line[:80]!r}") from cause_of(error)

    def _add(self, key: Any, position: int) -> None:
        self.idx[key] = position
        self.keys.append(key)

    def close(self) -> None:
        """Close both files."""
        if getattr(self, "is_open", False):
            super().close()
            if self.fidx is not None:
                self.fidx.close()

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "fidx": None}

    def seek(self, idx: Any) -> None:
        """Go to the record of a key."""
        assert not self.writable
        self._check_pid(allow_reset=True)
        if not 0 <= self.idx[idx] <= self.size:
            raise MXNetError(f"{self.idx_path} puts {idx!r} at byte {self.idx[idx]}; {self.uri} has {self.size}")
        self.handle.seek(self.idx[idx])

    def tell(self) -> int:
        """The byte position of the next written record."""
        assert self.writable
        return self.handle.tell()

    def read_idx(self, idx: Any) -> bytes | None:
        """The record of a key. KeyError if the index does not have it."""
        self.seek(idx)
        return self.read()

    def write_idx(self, idx: Any, buf: bytes) -> None:
        """Append a record under a key."""
        key, position = self.key_type(idx), self.tell()
        self.write(buf)
        assert self.fidx is not None
        self.fidx.write(f"{key}\t{position}\n")
        self._add(key, position)


def pack(header: Any, s: bytes) -> bytes:
    """A header and bytes as one record. An array label is stored between them as float32.

    Example:
        >>> record = mx.recordio.pack(mx.recordio.IRHeader(0, 3.0, 7, 0), b"data")
        >>> header, data = mx.recordio.unpack(record)
        >>> header.label, header.id, data
        (3.0, 7, b'data')
    """
    header = IRHeader(*header)
    if isinstance(header.label, numbers.Number):
        header = header._replace(flag=0)
    else:
        label = np.asarray(header.label, np.float32)
        header = header._replace(flag=label.size, label=0)
        s = label.tobytes() + s
    return struct.pack(_IR_FORMAT, *header) + s


def unpack(s: bytes) -> tuple[Any, bytes]:
    """Header and bytes of a record that `pack` made. MXNetError if it is too short for its label."""
    if len(s) < _IR_SIZE:
        raise MXNetError(f"a record of {len(s)} bytes has no header, which takes {_IR_SIZE}")
    header = IRHeader(*struct.unpack(_IR_FORMAT, s[:_IR_SIZE]))
    s = s[_IR_SIZE:]
    if header.flag > 0:
        if 4 * header.flag > len(s):
            raise MXNetError(f"a record has {header.flag} labels by its header, but ends after {len(s) // 4}")
        header = header._replace(label=np.frombuffer(s, np.float32, header.flag))
        s = s[4 * header.flag :]
    return header, s


def unpack_img(s: bytes, iscolor: int = -1) -> tuple[Any, np.ndarray | None]:
    """Header and image of a record; the image has shape (H, W, 3) in BGR order, or (H, W) if grey."""
    from .image_codec.codec import decode_packed

    header, s = unpack(s)
    return header, decode_packed(s, iscolor)


def pack_img(header: Any, img: np.ndarray, quality: int = 95, img_fmt: str = ".jpg") -> bytes:
    """A header and an image as one record, encoded as .jpg (`quality` 1 to 100) or .png (1 to 9)."""
    from .image_codec.codec import encode

    return pack(header, encode(img, img_fmt, quality))
