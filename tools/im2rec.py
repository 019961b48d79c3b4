"""`mxforge im2rec`: makes lists of the images in a folder, and record files of the images in a list, as MXNet's
tools/im2rec.py does."""

from __future__ import annotations

import argparse
import multiprocessing
import os
import random
import sys
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from itertools import islice
from typing import NamedTuple

import numpy as np

from ..frontend.base import MXNetError
from ..frontend.image_codec import codec
from ..frontend.io.image_pixels import resize
from ..frontend.recordio import IRHeader, MXIndexedRecordIO, pack, pack_img
from ..ir.file_errors import names_file
from .errors import ToolError, UsageError
from .progress import Progress

_SHUFFLE_SEED = 100  # MXNet's: lists of the same images have the same order
_GROUP = 16  # images of one task of a process
_BILINEAR = 1
_REPORTED = 10  # lines without a record whose reasons are shown


class Item(NamedTuple):
    """A line of a list: the number of an image, its path below the folder of images, and its labels."""

    number: int
    path: str
    labels: tuple[float, ...]


def run(options: argparse.Namespace) -> int:
    """Make lists (--list) or record files, and print what was written; returns status 0. ToolError if some lines of
    lists have no record."""
    prefix, root = os.path.abspath(options.prefix), os.path.abspath(options.root)
    if not os.path.isdir(root):
        raise ToolError(f"{options.root} is not a folder")
    if options.list:
        return _make_lists(prefix, root, options)
    lists = list(_lists(prefix))
    if not lists:
        raise ToolError(f"there is no list {prefix}*.lst: make one with --list")
    problems = Problems()
    for path in lists:
        print(f"{os.path.splitext(path)[0]}.rec: {_make_records(path, root, options, problems)} images")
    problems.require_none()
    return 0


# Lists.


def _make_lists(prefix: str, root: str, options: argparse.Namespace) -> int:
    if options.train_ratio + options.test_ratio > 1:
        raise UsageError("--train-ratio and --test-ratio add up to more than 1")
    items = list(_images(root, options.recursive, options.exts))
    if not items:
        raise ToolError(f"{root} has no images ({', '.join(options.exts)})")
    if options.shuffle:
        random.Random(_SHUFFLE_SEED).shuffle(items)
    size = -(-len(items) // options.chunks)
    for i in range(options.chunks):
        chunk = items[i * size : (i + 1) * size]
        name = prefix + (f"_{i}" if options.chunks > 1 else "")
        for suffix, part in _divided(chunk, size, options.train_ratio, options.test_ratio):
            _write_list(f"{name}{suffix}.lst", part)
            print(f"{name}{suffix}.lst: {len(part)} images")
    return 0


def _divided(chunk: list[Item], size: int, train: float, test: float) -> Iterator[tuple[str, list[Item]]]:
    """The suffixes and the images of the lists of a chunk."""
    if train == 1:
        yield "", chunk
        return
    tests, trained = int(size * test), int(size * train)
    if test:
        yield "_test", chunk[:tests]
    if train + test < 1:
        yield "_val", chunk[tests + trained :]
    yield "_train", chunk[tests : tests + trained]


def _images(root: str, recursive: bool, suffixes: Sequence[str]) -> Iterator[Item]:
    """The images in a folder. With `recursive` each folder below it is a class, which is printed; otherwise all have
    the class 0."""
    if not recursive:
        names = (name for name in sorted(os.listdir(root)) if _is_image(os.path.join(root, name), suffixes))
        yield from (Item(i, name, (0.0,)) for i, name in enumerate(names))
        return
    classes: dict[str, int] = {}
    number = 0
    for folder, below, names in os.walk(root, followlinks=True):
        below.sort()
        for name in sorted(names):
            path = os.path.join(folder, name)
            if _is_image(path, suffixes):
                label = classes.setdefault(folder, len(classes))
                yield Item(number, os.path.relpath(path, root), (float(label),))
                number += 1
    for folder, label in classes.items():
        print(os.path.relpath(folder, root), label)


def _is_image(path: str, suffixes: Sequence[str]) -> bool:
    return os.path.splitext(path)[1].lower() in suffixes and os.path.isfile(path)


def _write_list(path: str, items: Iterable[Item]) -> None:
    with names_file(path), open(path, "w", encoding="utf-8") as file:
        for item in items:
            labels = "".join(f"{label:f}\t" for label in item.labels)
            file.write(f"{item.number}\t{labels}{item.path}\n")


def _lists(prefix: str) -> Iterator[str]:
    """The list files whose paths begin with `prefix`, which can be a folder."""
    folder = prefix if os.path.isdir(prefix) else os.path.dirname(prefix)
    for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else ():
        path = os.path.join(folder, name)
        if path.startswith(prefix) and name.endswith(".lst") and os.path.isfile(path):
            yield path


class Problems:
    """Counts the lines of lists that have no record, and reports the first ones."""

    def __init__(self) -> None:
        self._count = 0

    def add(self, reason: str) -> None:
        """Report a line that is omitted."""
        self._count += 1
        if self._count <= _REPORTED:
            print(f"mxforge: warning: {reason}", file=sys.stderr)

    def require_none(self) -> None:
        """ToolError if a line was omitted."""
        if self._count:
            first = f"; the first {_REPORTED} are above" if self._count > _REPORTED else ""
            lines = "line of the lists has" if self._count == 1 else "lines of the lists have"
            raise ToolError(f"{self._count} {lines} no record{first}")


def _read_list(path: str, problems: Problems) -> Iterator[Item]:
    """The lines of a list. Invalid lines are reported and omitted."""
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, start=1):
            fields = [field.strip() for field in line.strip().split("\t")]
            try:
                if len(fields) < 3:
                    raise ValueError(f"{len(fields)} fields, not at least 3")
                yield Item(int(fields[0]), fields[-1], tuple(float(field) for field in fields[1:-1]))
            except ValueError as error:
                problems.add(f"{path}, line {number}: {error}: {line.rstrip()[:80]!r}")


# Records.


class Encoding(NamedTuple):
    """How images become records."""

    root: str
    pass_through: bool
    pack_label: bool
    center_crop: bool
    resize: int
    color: int
    quality: int
    encoding: str


def _make_records(path: str, root: str, options: argparse.Namespace, problems: Problems) -> int:
    """Write the records and the index of a list; returns the number of images. Images that cannot be read are reported
    and omitted."""
    how = Encoding(root, *(getattr(options, name) for name in Encoding._fields[1:]))
    base = os.path.splitext(path)[0]
    writer = MXIndexedRecordIO(f"{base}.idx", f"{base}.rec", "w")
    count, begin = 0, time.monotonic()
    try:
        with Progress(f"{base}.rec") as progress:
            for item, encoded in _encoded(_read_list(path, problems), how, options.num_thread):
                if isinstance(encoded, str):
                    problems.add(encoded)
                    continue
                writer.write_idx(item.number, encoded)
                count += 1
                progress.step(f"{base}.rec: {count} images, {count / (time.monotonic() - begin):.0f} a second")
    finally:
        writer.close()
    return count


def _encoded(items: Iterator[Item], how: Encoding, processes: int) -> Iterator[tuple[Item, bytes | str]]:
    """Each image with its record, or with the reason why it has none, in the order of the list."""
    groups = iter(lambda: list(islice(items, _GROUP)), [])
    if processes == 1:
        for group in groups:
            yield from zip(group, encode_images(group, how), strict=True)
        return
    with ProcessPoolExecutor(processes, multiprocessing.get_context("spawn")) as pool:
        started: deque[tuple[list[Item], Future[list[bytes | str]]]] = deque()
        started.extend((group, pool.submit(encode_images, group, how)) for group in islice(groups, 4 * processes))
        while started:
            group, future = started.popleft()
            yield from zip(group, future.result(), strict=True)
            started.extend((group, pool.submit(encode_images, group, how)) for group in islice(groups, 1))


def encode_images(items: Sequence[Item], how: Encoding) -> list[bytes | str]:
    """The record of each image, or the reason why it has none."""
    return [_encode_or_reason(item, how) for item in items]


def _encode_or_reason(item: Item, how: Encoding) -> bytes | str:
    path = os.path.join(how.root, item.path)
    try:
        with open(path, "rb") as file:
            return _encode(file.read(), item, how)
    except OSError as error:
        return f"{path}: {error.strerror}"
    except (MXNetError, AssertionError) as error:
        return f"{path}: {error}"


def _encode(data: bytes, item: Item, how: Encoding) -> bytes:
    first, *others = item.labels
    header = IRHeader(0, item.labels if others and how.pack_label else first, item.number, 0)
    if how.pass_through:
        return pack(header, data)
    image = codec.decode_packed(data, how.color) if data else None
    if image is None:
        raise MXNetError("it is not an image that can be decoded")
    if how.center_crop:
        image = _central_square(image)
    if how.resize:
        image = _with_shorter_edge(image, how.resize)
    return pack_img(header, image, quality=how.quality, img_fmt=how.encoding)


def _central_square(image: np.ndarray) -> np.ndarray:
    height, width = image.shape[:2]
    margin = abs(height - width) // 2
    return image[margin : margin + width] if height > width else image[:, margin : margin + height]


def _with_shorter_edge(image: np.ndarray, edge: int) -> np.ndarray:
    height, width = image.shape[:2]
    size = (height * edge // width, edge) if height > width else (edge, width * edge // height)
    if image.ndim == 2:
        return resize(image[:, :, None], *size, _BILINEAR)[:, :, 0]
    return resize(np.ascontiguousarray(image), *size, _BILINEAR)
