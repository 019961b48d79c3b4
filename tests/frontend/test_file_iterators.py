"""Iterators over files beyond the recorded programs: damaged files, threads, descriptors, seeds, fuzzing."""

from __future__ import annotations

import gc
import gzip
import os
import random
import struct
import subprocess
import sys
import threading
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mxforge as mx
import numpy as np
import pytest

pytestmark = pytest.mark.usefixtures("few_objects_to_traverse")

RECORDS = Path(__file__).resolve().parents[1] / "data" / "records"
SHAPE = (3, 20, 20)


def images(name: str | Path = "images", size: int = 3, **options: Any) -> Any:
    path = RECORDS / f"{name}.rec" if isinstance(name, str) else name
    given: dict[str, Any] = {"data_shape": SHAPE, "verbose": False, "preprocess_threads": 2, **options}
    return mx.io.ImageRecordIter(path_imgrec=str(path), batch_size=size, **given)


def drawn(**options: Any) -> list[np.ndarray]:
    return [batch.data[0].asnumpy() for batch in images(**options)]


def written(path: Path, *contents: bytes) -> Path:
    writer = mx.recordio.MXIndexedRecordIO(str(path.with_suffix(".idx")), str(path), "w")
    for key, content in enumerate(contents):
        writer.write_idx(key, content)
    writer.close()
    return path


def image_record(number: int, label: Any = 1.0, encoded: bytes | None = None) -> bytes:
    header = mx.recordio.IRHeader(0, label, number, 0)
    if encoded is None:
        return mx.recordio.pack_img(header, np.full((22, 22, 3), number, np.uint8), quality=1, img_fmt=".png")
    return mx.recordio.pack(header, encoded)


def png_header(height: int, width: int) -> bytes:
    head = b"IHDR" + struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + head + struct.pack(">I", zlib.crc32(head))


JPEG_BOMB = b"\xff\xd8\xff\xe0\x00\x04ab\xff\xc0\x00\x11\x08" + struct.pack(">HH", 50_000, 50_000) + b"\x03" + b"\0" * 9


# Images.


@pytest.mark.parametrize(
    ("encoded", "reason"),
    [
        (b"no image", "OpenCV cannot decode the 8 bytes"),
        (b"", "OpenCV cannot decode the 0 bytes"),
        (png_header(50_000, 50_000), "claims 50000 x 50000 pixels"),
        (JPEG_BOMB, "claims 50000 x 50000 pixels"),
    ],
)
def test_images_that_cannot_be_decoded_are_named(tmp_path: Path, encoded: bytes, reason: str) -> None:
    records = [image_record(0), image_record(1), image_record(7, encoded=encoded)]
    path = written(tmp_path / "a.rec", *records)
    batches = images(path, 1)
    assert [next(batches).label[0].asscalar() for _ in range(2)] == [1, 1]
    position = int((tmp_path / "a.idx").read_text().split()[-1])
    with pytest.raises(mx.MXNetError, match=rf"a\.rec, record at byte {position}, image 7: .*{reason}"):
        next(batches)
    with pytest.raises(mx.MXNetError, match=reason):  # again, until a reset
        next(batches)
    batches.reset()
    assert next(batches).pad == 0


def test_damaged_records_are_named(tmp_path: Path) -> None:
    path = written(tmp_path / "a.rec", image_record(0), image_record(1))
    whole = path.read_bytes()
    second = int((tmp_path / "a.idx").read_text().split()[-1])
    for damaged, reason in (
        (whole[:-4], rf"at byte {second}: a record of at least \d+ bytes exceeds the end of the file"),
        (whole[: second + 5], rf"at byte {second}: the file ends within the header"),
        (whole[:second] + b"\0" * 4 + whole[second + 4 :], rf"at byte {second}: no record starts here"),
        (whole[:8] + struct.pack("<I", 5) + whole[12:], "record at byte 0: a record has 5 labels|label_width is 1"),
    ):
        path.write_bytes(damaged)
        with pytest.raises(mx.MXNetError, match=f"a.rec.*{reason}"):
            list(images(path, 1))


def test_an_index_that_does_not_match_is_named(tmp_path: Path) -> None:
    path = written(tmp_path / "a.rec", image_record(0), image_record(1))
    index = tmp_path / "a.idx"
    for text, reason in (
        ("1\t4\n", "at byte 4: no record starts here; the index .*a.idx has a record there"),
        ("0\t0\n1\t20\n", "has only 20 bytes before the next one; the index"),
        ("0\t99999\n", "a.idx, line 1: there is no byte 99999 in"),
        ("0 zero\n", "a.idx, line 1: '0 zero"),
        ("", "a.idx is empty"),
    ):
        index.write_text(text)
        with pytest.raises(mx.MXNetError, match=reason):
            list(images(path, 1, path_imgidx=str(index)))


def test_labels_of_another_width_are_named(tmp_path: Path) -> None:
    path = written(tmp_path / "a.rec", image_record(0), image_record(5, [1, 2]))
    with pytest.raises(mx.MXNetError, match=r"a\.rec, record at byte \d+, image 5: the record has 2 labels, but"):
        list(images(path, 1))
    (tmp_path / "a.lst").write_text("0\t1\tx.png\n5\ttext\ty.png\n")
    with pytest.raises(mx.MXNetError, match=r"a\.lst, line 2: not a number and labels"):
        images(path, 1, path_imglist=str(tmp_path / "a.lst"))


def test_rounding_is_refused_where_it_repeats_examples_twice() -> None:
    with pytest.raises(mx.MXNetError, match="batch_size=15 is more than twice the number of examples, which is 7"):
        images(size=15)
    [batch] = images(size=15, round_batch=False)
    assert batch.pad == 8 and not batch.data[0].asnumpy()[7:].any()


# Order and random numbers.

RANDOM = {"rand_crop": True, "rand_mirror": True, "max_rotate_angle": 20, "brightness": 0.3, "pca_noise": 0.1}


def test_seeds_determine_images_and_not_threads_or_prefetching() -> None:
    one = drawn(seed_aug=3, preprocess_threads=1, prefetch_buffer=1, **RANDOM)
    for options in ({"preprocess_threads": 2}, {"prefetch_buffer": 6}):
        assert all(np.array_equal(a, b) for a, b in zip(one, drawn(seed_aug=3, **options, **RANDOM), strict=True))
    assert not np.array_equal(one[0], drawn(seed_aug=4, **RANDOM)[0])


@pytest.mark.parametrize("index", ["", str(RECORDS / "images.idx")])
def test_shuffled_epochs_have_all_images(index: str) -> None:
    batches = images(size=1, shuffle=True, seed=5, path_imgidx=index)
    orders = []
    for _ in range(3):
        orders.append([int(batch.index[0]) for batch in batches])
        batches.reset()
    assert all(sorted(order) == list(range(0, 70, 10)) for order in orders)
    assert orders[0] != orders[1] != orders[2]
    again = images(size=1, shuffle=True, seed=5, path_imgidx=index)
    assert [int(batch.index[0]) for batch in again] == orders[0]


def test_parts_have_all_images_once() -> None:
    for index in ("", str(RECORDS / "images.idx")):
        parts = [images(size=1, num_parts=3, part_index=i, path_imgidx=index) for i in range(3)]
        assert [int(batch.index[0]) for part in parts for batch in part] == list(range(0, 70, 10))


def test_a_reset_within_an_epoch_begins_again() -> None:
    batches = images(size=3)
    first = next(batches).index.tolist()
    next(batches)
    batches.reset()
    assert next(batch.index.tolist() for batch in batches) == first == [0, 10, 20]


def test_several_files_are_one(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.rec").write_bytes((RECORDS / "images.rec").read_bytes())
    for uri in (str(tmp_path), f"{tmp_path}/a.rec;{tmp_path}/b.rec"):
        found = [batch.index.tolist() for batch in mx.io.ImageRecordIter(
            path_imgrec=uri, data_shape=SHAPE, batch_size=7, verbose=False
        )]  # fmt: skip
        assert found == [list(range(0, 70, 10))] * 2


# Threads, processes and descriptors.


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_iterators_leave_no_threads_and_descriptors(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("1\n2\n3\n")
    gc.collect()
    before, opened = set(threading.enumerate()), descriptors()
    for _ in range(3):
        batches = images()
        next(batches)
        batches.reset()
        next(batches)
        del batches
        for _ in mx.io.CSVIter(data_csv=str(tmp_path / "a.csv"), data_shape=(1,), batch_size=1):
            break
    with pytest.raises(mx.MXNetError):
        images("pairs")  # fails while the first batch is loaded
    gc.collect()
    for thread in set(threading.enumerate()) - before:
        thread.join(10)
    assert set(threading.enumerate()) <= before
    assert descriptors() <= opened


def test_a_forked_process_is_refused() -> None:
    batches = images()
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        try:
            next(batches)
            next(batches)
        except mx.MXNetError as error:
            os.write(writer, str(error).encode())
        os._exit(0)
    os.waitpid(child, 0)
    assert b"ImageRecordIter cannot be used in a forked process" in os.read(reader, 1000)
    os.close(reader)
    os.close(writer)
    assert next(batches).pad == 0


def test_record_files_do_not_need_the_compiler() -> None:
    program = "import mxforge.recordio, sys; print([m for m in ('llvmlite', 'cv2') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_files_over_4_gigabytes(tmp_path: Path) -> None:
    path, index = tmp_path / "large.rec", tmp_path / "large.idx"
    record = image_record(3)
    far = (1 << 32) + 400
    written(path, record)
    with open(path, "r+b") as file:
        content = file.read()
        file.seek(far)
        file.write(content)  # between them is a hole
    index.write_text(f"0\t0\n1\t{far}\n")
    reader = mx.recordio.MXIndexedRecordIO(str(index), str(path), "r")
    assert reader.read_idx(1) == record
    [batch] = images(path, 1, path_imgidx=str(index), num_parts=2, part_index=1)
    assert batch.index.tolist() == [3]


# Text.


def rows(text: str | bytes, tmp_path: Path, kind: str = "csv", **options: Any) -> list[Any]:
    path = tmp_path / "a.txt"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    iterator: Any = mx.io.CSVIter if kind == "csv" else mx.io.LibSVMIter
    batches = iterator(**{f"data_{kind}": str(path), "data_shape": (3,), "batch_size": 1, **options})
    return [batch.data[0].asnumpy()[0].tolist() for batch in batches]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("1,2,3\n4,5\n", "line 2: 2 fields, but the shape has 3 elements: '4,5'"),
        ("1,2,3\n\n4,x,6\n", "line 3: 'x' is not a number: '4,x,6'"),
        ("1,2,3\n4,,6\n", "line 2: '' is not a number"),
        (b"1,2,3\n\xff\xfe\n", "not a text file"),
        ("", "has no file with data"),
    ],
)
def test_lines_of_csv_files_are_named(text: str, reason: str, tmp_path: Path) -> None:
    with pytest.raises(mx.MXNetError, match=reason):
        rows(text, tmp_path)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("1 0:1\n1 2:1 1:1\n", "line 2: the index 1 is not ascending"),
        ("1 0:1 0:2\n", "line 1: the index 0 is not ascending"),
        ("1 3:1\n", "line 1: the index 3 is not below 3"),
        ("1 -1:1\n", "line 1: the index -1 is negative"),
        ("1 2\n", "line 1: '2' is not index:value"),
        ("x 1:2\n", "line 1: could not convert string to float: 'x'"),
    ],
)
def test_lines_of_libsvm_files_are_named(text: str, reason: str, tmp_path: Path) -> None:
    with pytest.raises(mx.MXNetError, match=reason):
        rows(text, tmp_path, "libsvm")


def test_good_rows_before_a_bad_one_are_read(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("1,2,3\n4,x,6\n")
    batches = mx.io.CSVIter(data_csv=str(tmp_path / "a.csv"), data_shape=(3,), batch_size=1)
    assert next(batches).data[0].asnumpy().tolist() == [[1, 2, 3]]
    with pytest.raises(mx.MXNetError, match="line 2"):
        next(batches)


def test_parts_of_text_have_all_rows_once(tmp_path: Path) -> None:
    text = "".join(f"{i} 0:{i}\n" for i in range(1, 40))
    found = [rows(text, tmp_path, "libsvm", num_parts=4, part_index=i) for i in range(4)]
    assert [row[0] for part in found for row in part] == list(range(1, 40))


def test_files_of_mnist(tmp_path: Path) -> None:
    pixels = np.arange(12, dtype=np.uint8).reshape(3, 2, 2)
    image = struct.pack(">IIII", 2051, 3, 2, 2) + pixels.tobytes()
    label = struct.pack(">II", 2049, 3) + b"\x04\x05\x06"
    (tmp_path / "image.gz").write_bytes(gzip.compress(image))
    (tmp_path / "label").write_bytes(label)
    names = {"image": str(tmp_path / "image.gz"), "label": str(tmp_path / "label"), "silent": True}
    [batch] = mx.io.MNISTIter(batch_size=3, seed=1, **names)
    order = batch.label[0].asnumpy().astype(int) - 4
    assert sorted(order) == [0, 1, 2]
    np.testing.assert_array_equal(batch.data[0].asnumpy()[:, 0] * 256, pixels[order])
    for content, reason in ((label[:-1], "ends at byte 10"), (image, "is not an IDX file of bytes with 1 axes")):
        (tmp_path / "label").write_bytes(content)
        with pytest.raises(mx.MXNetError, match=f"label {reason}"):
            mx.io.MNISTIter(batch_size=1, **names)


# Fuzzing.


def mutated(data: bytes, source: random.Random) -> bytes:
    """`data` with a few bytes replaced, removed or repeated."""
    out = bytearray(data)
    for _ in range(source.randint(1, 4)):
        at = source.randrange(len(out))
        match source.randrange(4):
            case 0:
                out[at] = source.randrange(256)
            case 1:
                del out[at : at + source.randint(1, 40)]
            case 2:
                out[at:at] = out[at : at + source.randint(1, 40)]
            case _:
                del out[at:]
        if not out:
            return b"\0"
    return bytes(out)


def read_records(path: Path) -> None:
    reader = mx.recordio.MXRecordIO(str(path), "r")
    while (record := reader.read()) is not None:
        mx.recordio.unpack(record)


READERS: dict[str, tuple[bytes, Callable[[Path], Any]]] = {
    "images": ((RECORDS / "images.rec").read_bytes(), lambda path: list(images(path, 2))),
    "photos": ((RECORDS / "photos.rec").read_bytes(), lambda path: list(images(path, 2))),
    "parts": ((RECORDS / "images.rec").read_bytes(), lambda path: list(images(path, 2, num_parts=3, part_index=1))),
    "objects": (
        (RECORDS / "objects.rec").read_bytes(),
        lambda path: list(
            mx.io.ImageDetRecordIter(
                path_imgrec=str(path), data_shape=SHAPE, batch_size=2, rand_crop_prob=1, verbose=False
            )
        ),
    ),
    "records": ((RECORDS / "images.rec").read_bytes(), read_records),
    "csv": (
        b"1,2,3\n4,5,6\n7e1,-8,9.5\n",
        lambda path: list(mx.io.CSVIter(data_csv=str(path), data_shape=(3,), batch_size=1)),
    ),
    "libsvm": (
        b"1 0:1 2:3\n2\n3 1:4.5 # text\n",
        lambda path: list(mx.io.LibSVMIter(data_libsvm=str(path), data_shape=(3,), batch_size=1)),
    ),
}


@pytest.mark.parametrize("kind", READERS)
def test_mutated_files_are_read_or_refused(kind: str, tmp_path: Path) -> None:
    content, read = READERS[kind]
    source, path, refused = random.Random(kind), tmp_path / "a", 0
    for _ in range(40):
        path.write_bytes(mutated(content, source))
        try:
            read(path)
        except mx.MXNetError as error:
            refused += 1
            assert str(path) in str(error) or "number of examples" in str(error)
        except StopIteration:
            pass  # a part without records
    assert refused > 0
