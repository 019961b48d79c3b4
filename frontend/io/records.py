"""The records of .rec files for iterators: in the order of the files, or by an index; shuffled, and divided into parts.

Files are read at explicit positions, so that nothing depends on a file's current position.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Iterator
from itertools import islice, pairwise
from math import ceil
from typing import NamedTuple

import numpy as np

from ..base import MXNetError
from ..record_format import find_record, parse_record, truncated
from ..tracebacks import cause_of

_CHUNK = 4 << 20
_SHUFFLED_CHUNK = 64 << 20
_SHUFFLE_PARTS_RATIO = 1.1  # MXNet makes a tenth more parts than would fill the buffer
_WINDOW = 1 << 20


class Record(NamedTuple):
    """The bytes of a record, and where it is."""

    data: bytes
    path: str
    position: int

    def where(self) -> str:
        """The file and the byte at which the record begins, for errors."""
        return f"{self.path}, record at byte {self.position}"


class RecordFiles:
    """Files as one sequence of bytes. They are open until `close`, or until the last reference is gone."""

    def __init__(self, paths: list[str]) -> None:
        self._paths = paths
        self._files: list[int] = []  # descriptors
        self._begins = [0]
        for path in paths:
            try:
                self._files.append(os.open(path, os.O_RDONLY))
            except OSError as error:
                raise MXNetError(f"cannot open {path}: {error.strerror}") from cause_of(error)
            self._begins.append(self._begins[-1] + os.fstat(self._files[-1]).st_size)

    def __del__(self) -> None:
        self.close()

    @property
    def size(self) -> int:
        return self._begins[-1]

    def close(self) -> None:
        while self._files:
            os.close(self._files.pop())

    def read(self, position: int, count: int) -> bytes:
        """At most `count` bytes of the file that has this position."""
        if not self._files:
            raise MXNetError(f"{self._paths[0]} is closed")
        at = self._file_at(position)
        count = min(count, self._begins[at + 1] - position)
        try:
            return os.pread(self._files[at], count, position - self._begins[at])
        except OSError as error:
            raise MXNetError(f"cannot read {self._paths[at]}: {error.strerror}") from cause_of(error)

    def end_of_file(self, position: int) -> int:
        """The position at which the file with this position ends."""
        return self._begins[self._file_at(position) + 1]

    def place(self, position: int) -> tuple[str, int]:
        """The file that has this position, and the position in it."""
        at = self._file_at(position)
        return self._paths[at], position - self._begins[at]

    def damaged(self, position: int, what: str) -> MXNetError:
        path, offset = self.place(position)
        return MXNetError(f"invalid record file {path}, at byte {offset}: {what}")

    def _file_at(self, position: int) -> int:
        return min(bisect_right(self._begins, position) - 1, len(self._paths) - 1)

    def first_record(self, position: int) -> int:
        """The position of the first record that begins at `position` or later; the size if there is none."""
        position += -position % 4
        while position < self.size:
            end = self.end_of_file(position)
            while position < end:
                window = self.read(position, _WINDOW + 8)
                at = find_record(window)
                if at >= 0:
                    return position + at
                position = min(position + _WINDOW, end)
        return self.size

    def records(self, begin: int, end: int) -> Iterator[Record]:
        """The records that begin at `begin`, which is the start of one, to before `end`."""
        position, start, chunk = begin, begin, b""
        while position < end:
            data, used = self._parse(chunk, position - start, position)
            if data is None:
                chunk, start = self.read(position, max(used, _CHUNK)), position
                continue
            yield Record(data, *self.place(position))
            position += used

    def record(self, position: int, space: int) -> Record:
        """The record at a position, which has at most `space` bytes."""
        chunk = self.read(position, space)
        data, used = self._parse(chunk, 0, position)
        if data is None:
            raise self.damaged(position, f"a record of {used} bytes has only {space} bytes before the next one")
        return Record(data, *self.place(position))

    def _parse(self, chunk: bytes, at: int, position: int) -> tuple[bytes | None, int]:
        """The record at `chunk[at]`, which is at `position`, and its length; None if the chunk is too short."""
        try:
            data, used = parse_record(chunk, at)
        except ValueError as error:
            raise self.damaged(position, str(error)) from None
        left = self.end_of_file(position) - position
        if data is None and used > left:
            raise self.damaged(position, truncated(left, used))
        return data, used


class Shuffling(NamedTuple):
    """How records are shuffled: all within buffers, and with `chunk` > 0, parts of so many MB in another order."""

    shuffle: bool = False
    seed: int = 0
    chunk: int = 0
    chunk_seed: int = 0


class OrderedRecords:
    """The records of a part of the files, in their order. A part has the records that begin in its share of the bytes.

    Shuffled, the order changes within each 64 MB; see `Shuffling`.
    """

    def __init__(self, files: RecordFiles, part: int, parts: int, shuffling: Shuffling) -> None:
        self._files, self._shuffling = files, shuffling
        pieces = 1
        if shuffling.chunk:
            pieces = max(ceil(files.size * _SHUFFLE_PARTS_RATIO / (parts * (shuffling.chunk << 20))), 1)
        step = -(-files.size // (parts * pieces))
        step += -step % 4
        bounds = [files.first_record(min(step * (part * pieces + i), files.size)) for i in range(pieces + 1)]
        self._pieces = list(pairwise(bounds))
        self._epoch = -1
        self.rewind()

    def rewind(self) -> None:
        self._epoch += 1
        self._records = self._shuffled() if self._shuffling.shuffle else self._in_order()

    def take(self, count: int) -> list[Record]:
        return list(islice(self._records, count))

    def _in_order(self) -> Iterator[Record]:
        order = range(len(self._pieces))
        if len(order) > 1:
            order = generator(self._shuffling.chunk_seed, self._epoch).permutation(len(order))
        for i in order:
            yield from self._files.records(*self._pieces[i])

    def _shuffled(self) -> Iterator[Record]:
        random = generator(self._shuffling.seed, self._epoch)
        limit = self._shuffling.chunk << 17 or _SHUFFLED_CHUNK
        buffer: list[Record] = []
        nbytes = 0
        for record in self._in_order():
            buffer.append(record)
            nbytes += len(record.data)
            if nbytes >= limit:
                yield from (buffer[i] for i in random.permutation(len(buffer)))
                buffer, nbytes = [], 0
        yield from (buffer[i] for i in random.permutation(len(buffer)))


class IndexedRecords:
    """The records of a part of an index: of an equal number of records, except the last part. Shuffled, each epoch has
    another order of all of them."""

    def __init__(self, files: RecordFiles, index: str, part: int, parts: int, shuffling: Shuffling) -> None:
        self._files, self._index, self._shuffling = files, index, shuffling
        positions = np.array([*sorted(_positions(files, index)), files.size])
        count = len(positions) - 1
        step = -(-count // parts)
        begin = min(step * part, count)
        self._positions = positions[begin : min(begin + step, count) + 1]
        self._epoch = -1
        self.rewind()

    def rewind(self) -> None:
        self._epoch += 1
        count = max(len(self._positions) - 1, 0)
        self._order = np.arange(count)
        if self._shuffling.shuffle:
            self._order = generator(self._shuffling.seed, self._epoch).permutation(count)
        self._next = 0

    def take(self, count: int) -> list[Record]:
        order = self._order[self._next : self._next + count]
        self._next += len(order)
        return [self._read(int(self._positions[i]), int(self._positions[i + 1])) for i in order]

    def _read(self, begin: int, end: int) -> Record:
        try:
            return self._files.record(begin, end - begin)
        except MXNetError as error:
            raise MXNetError(f"{error}; the index {self._index} has a record there") from None


def _positions(files: RecordFiles, index: str) -> Iterator[int]:
    """The positions of the records in an index file."""
    number, line = 0, ""
    try:
        with open(index, encoding="utf-8") as lines:
            for number, line in enumerate(lines, start=1):
                _, position = line.split()
                yield int(position)
                if not 0 <= int(position) < files.size:
                    raise MXNetError(
                        f"{index}, line {number}: there is no byte {position} in {files.size} bytes of records"
                    )
    except OSError as error:
        raise MXNetError(f"cannot read the index {index}: {error.strerror}") from cause_of(error)
    except ValueError as error:
        raise MXNetError(f"invalid index {index}, line {number}: {line[:80]!r}") from cause_of(error)
    if not number:
        raise MXNetError(f"the index {index} is empty")


def generator(seed: int, epoch: int) -> np.random.Generator:
    """The random numbers of an epoch."""
    return np.random.default_rng((seed & 0xFFFFFFFFFFFFFFFF, epoch))
