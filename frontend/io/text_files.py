"""Lines of text files, in blocks: of one file, of several separated by ";", or of all files in a folder."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import NamedTuple

from ..base import MXNetError
from ..tracebacks import cause_of

_BLOCK = 4 << 20


class Lines(NamedTuple):
    """Lines of a file without their ends, the first of which is line `first`. Blank lines are omitted: `numbers` are
    the numbers of the others, or None if no line is blank."""

    path: str
    first: int
    lines: list[str]
    numbers: list[int] | None

    def where(self, i: int) -> str:
        """The file and the number of a line, for errors."""
        return f"{self.path}, line {self.first + i if self.numbers is None else self.numbers[i]}"


def data_files(name: str, uri: str) -> list[str]:
    """The files that `uri` names. MXNetError if there are none, or if none has data."""
    files: list[str] = []
    for path in filter(None, uri.split(";")):
        path = path.removeprefix("file://")
        if os.path.isdir(path):
            inside = (os.path.join(path, entry) for entry in sorted(os.listdir(path)))
            files += [p for p in inside if os.path.isfile(p) and os.path.getsize(p)]
        elif not os.path.exists(path):
            raise MXNetError(f"{name}: the file {path} does not exist")
        elif os.path.getsize(path):
            files.append(path)
    if not files:
        raise MXNetError(f"{name}: {uri!r} has no file with data")
    return files


def read_lines(paths: list[str], part: int = 0, parts: int = 1) -> Iterator[Lines]:
    """The lines of files. A part has the lines that begin in its share of the bytes. MXNetError if a file cannot be
    read."""
    begin, end = _share(sum(os.path.getsize(p) for p in paths), part, parts)
    offset = 0
    for path in paths:
        size = os.path.getsize(path)
        try:
            yield from _read_file(path, begin - offset, end - offset)
        except OSError as error:
            raise MXNetError(f"cannot read {path}: {error.strerror}") from cause_of(error)
        except UnicodeDecodeError as error:
            raise MXNetError(f"{path} is not a text file: {error}") from cause_of(error)
        offset += size


def _share(total: int, part: int, parts: int) -> tuple[int, int]:
    step = -(-total // parts)
    return min(step * part, total), min(step * (part + 1), total)


def _read_file(path: str, begin: int, end: int) -> Iterator[Lines]:
    """The lines that begin at bytes from `begin` to before `end`."""
    with open(path, "rb") as file:
        number, position = 1, 0
        while position < end and (block := file.readlines(_BLOCK)):
            first, kept = number, []
            for line in block:
                if begin <= position < end:
                    kept.append(line)
                else:
                    first += position < begin
                position += len(line)
                number += 1
            yield _lines(path, first, kept)


def _lines(path: str, first: int, raw: list[bytes]) -> Lines:
    text = b"".join(raw).decode("utf-8-sig" if first == 1 else "utf-8")
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    if lines and not lines[-1]:
        lines.pop()
    numbers = None
    if not all(map(str.strip, lines)):
        numbers = [first + i for i, line in enumerate(lines) if line.strip()]
        lines = [line for line in lines if line.strip()]
    return Lines(path, first, lines, numbers)
