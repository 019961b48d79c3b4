"""The files of the suites of readers. `data_programs.py` reads them in each framework."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path

import numpy as np

from ...frontend.image_codec import codec
from ...frontend.recordio import IRHeader, MXIndexedRecordIO, pack

IMAGES, DIFFERENT, SIDE = 1000, 100, 256
RECORDS = 100_000


def picture(random: np.random.Generator, side: int) -> np.ndarray:
    """An image with the spectrum of photos: amplitudes that fall with the frequency, and channels that are alike."""
    frequencies = np.hypot(*np.meshgrid(np.fft.fftfreq(side), np.fft.rfftfreq(side), indexing="ij"))
    frequencies[0, 0] = 1
    noise = random.standard_normal((4, side, side))
    grey, *colours = np.fft.irfft2(np.fft.rfft2(noise) / frequencies**1.2, (side, side))
    image = np.stack([grey + 0.4 * colour for colour in colours], 2)
    image = 128 + 55 * (image - image.mean()) / image.std()
    return image.clip(0, 255).astype(np.uint8)


def _write_images(path: Path) -> None:
    random = np.random.default_rng(0)
    encoded = [codec.encode(picture(random, SIDE), ".jpg", 95) for _ in range(DIFFERENT)]
    _write(path, (pack(IRHeader(0, float(i % 10), i, 0), encoded[i % DIFFERENT]) for i in range(IMAGES)))


def _write_records(path: Path) -> None:
    _write(path, (bytes(60 + i % 80) for i in range(RECORDS)))


def _write(path: Path, records: Iterable[bytes]) -> None:
    writer = MXIndexedRecordIO(str(path.with_suffix(".idx")), str(path), "w")
    for key, record in enumerate(records):
        writer.write_idx(key, record)
    writer.close()


_SUITES: dict[str, tuple[str, Callable[[Path], None]]] = {
    "read-images": (
        f"{IMAGES} JPEG images of {SIDE} x {SIDE}: random crops of 224, mirrored, normalized",
        _write_images,
    ),
    "read-records": (f"{RECORDS} small records, in order", _write_records),
    "read-index": (f"{RECORDS} small records, by a shuffled index", _write_records),
}


@cache
def _folder() -> Path:
    """A folder that is removed at the end of the process."""
    folder = tempfile.mkdtemp(prefix="mxforge-bench-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


def records(name: str) -> int:
    """The records that a call of the suite reads."""
    return IMAGES if name == "read-images" else RECORDS


def data_suite(name: str) -> tuple[str, str]:
    """A description of the suite, and the path of its record file. The file is made if it does not exist."""
    words, write = _SUITES[name]
    path = _folder() / f"{write.__name__.removeprefix('_write_')}.rec"
    if not path.exists():
        write(path)
    return words, str(path)
