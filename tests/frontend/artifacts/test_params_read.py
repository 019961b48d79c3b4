"""Reading `.params`: every version, storage type and dtype, and damaged files."""

from __future__ import annotations

import mmap
import os
import random
import struct
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mxforge.frontend.artifacts import ArtifactError, BFloat16Data, CSRData, RowSparseData, read_params
from mxforge.frontend.artifacts.params import Source

DATA = Path(__file__).parents[2] / "data"
FIXTURES, ARTIFACTS = DATA / "fixtures", DATA / "artifacts"
FLAGS = ("<f4", "<f8", "<f2", "u1", "<i4", "i1", "<i8", "?", "<i2", "<u2", "<u4", "<u8")

# Hand-made bytes, as old versions of MXNet or an attacker would write them.

V1, V2, V3 = 0xF993FAC8, 0xF993FAC9, 0xF993FACA
CPU = struct.pack("<ii", 1, 0)


def shape(*dims: int) -> bytes:
    return struct.pack(f"<i{len(dims)}q", len(dims), *dims)


def v0(array: np.ndarray, flag: int) -> bytes:
    """An array of a version before 0.9: no magic number, 32-bit extents."""
    dims = struct.pack(f"<I{array.ndim}I", array.ndim, *array.shape)
    return dims + CPU + struct.pack("<i", flag) + array.tobytes()


def v1(array: np.ndarray, flag: int) -> bytes:
    return struct.pack("<I", V1) + shape(*array.shape) + CPU + struct.pack("<i", flag) + array.tobytes()


def v2(array: np.ndarray, flag: int, magic: int = V2, storage: int = 0) -> bytes:
    head = struct.pack("<Ii", magic, storage) + shape(*array.shape) + CPU
    return head + struct.pack("<i", flag) + array.tobytes()


def v3(array: np.ndarray, flag: int) -> bytes:
    return v2(array, flag, V3)


def csr(dims: tuple[int, ...], data: list[float], indptr: list[int], indices: list[int]) -> bytes:
    head = struct.pack("<Ii", V2, 2) + shape(len(data)) + shape(*dims) + CPU + struct.pack("<i", 0)
    head += struct.pack("<i", 6) + shape(len(indptr)) + struct.pack("<i", 6) + shape(len(indices))
    return head + np.array(data, "<f4").tobytes() + np.array(indptr + indices, "<i8").tobytes()


def row_sparse(dims: tuple[int, ...], data: np.ndarray, indices: list[int]) -> bytes:
    head = struct.pack("<Ii", V2, 1) + shape(*data.shape) + shape(*dims) + CPU + struct.pack("<i", 0)
    head += struct.pack("<i", 6) + shape(len(indices))
    return head + data.astype("<f4").tobytes() + np.array(indices, "<i8").tobytes()


def listed(*arrays: bytes, names: tuple[str, ...] = ()) -> bytes:
    """A complete file of `arrays`."""
    encoded = b"".join(struct.pack("<Q", len(n.encode())) + n.encode() for n in names)
    return struct.pack("<QQQ", 0x112, 0, len(arrays)) + b"".join(arrays) + struct.pack("<Q", len(names)) + encoded


def only(array: bytes) -> Any:
    """The array of a file that contains one."""
    return read_params(listed(array)).arrays[0]


def by_name(path: Path) -> dict[str, Any]:
    file = read_params(path)
    return dict(zip(file.names, file.arrays, strict=True))


def in_order(source: Source) -> list[Any]:
    return list(read_params(source).arrays)


# Versions, dtypes, storages.


@pytest.mark.parametrize("build", [v0, v1, v2, v3])
@pytest.mark.parametrize("flag", range(len(FLAGS)))
def test_every_version_reads_every_dtype(build: Callable[[np.ndarray, int], bytes], flag: int) -> None:
    expected = np.array([[0, 1, 2], [3, 4, 100]]).astype(FLAGS[flag])
    array = only(build(expected, flag))
    assert array.dtype == expected.dtype
    np.testing.assert_array_equal(array, expected)


def test_real_file_from_before_0_9() -> None:
    arrays = in_order(FIXTURES / "legacy_ndarray.v0")
    assert len(arrays) == 6
    for array in arrays:
        np.testing.assert_array_equal(array, np.arange(128, dtype=np.float32))


def test_real_file_of_a_list_without_names() -> None:
    path = FIXTURES / "arrays_list.params"
    assert read_params(path).names == []
    ones, zeros = in_order(path)
    np.testing.assert_array_equal(ones, np.ones((2, 2)))
    np.testing.assert_array_equal(zeros, np.zeros(3))


def test_real_file_of_every_dtype_and_storage() -> None:
    arrays = by_name(FIXTURES / "arrays_dict.params")
    for dtype in ("float16", "float32", "float64", "uint8", "int8", "int32", "int64"):
        assert arrays[dtype].dtype == dtype
        np.testing.assert_array_equal(arrays[dtype], np.arange(6).reshape(2, 3))
    csr, rows = arrays["csr"], arrays["row_sparse"]
    assert csr.shape == (2, 3) and csr.data.tolist() == [1, 2, 3]
    assert csr.indptr.tolist() == [0, 1, 3] and csr.indices.tolist() == [1, 0, 2]
    assert rows.shape == (3, 3) and rows.data.tolist() == [[1, 2, 3]] and rows.indices.tolist() == [1]


def test_real_sparse_files_with_other_dtypes_and_nothing_stored() -> None:
    arrays = by_name(ARTIFACTS / "sparse.params")
    assert arrays["csr_empty"].indptr.tolist() == [0, 0, 0] and arrays["csr_empty"].data.shape == (0,)
    assert arrays["row_sparse_empty"].data.shape == (0, 3)
    assert arrays["csr"].data.dtype == np.float64 and arrays["csr"].indptr.tolist() == [0, 1, 1, 3]
    assert arrays["row_sparse"].data.dtype == np.float16 and arrays["row_sparse"].data.shape == (2, 3, 2)


def test_bfloat16_keeps_its_bits() -> None:
    flags, numbers = in_order(ARTIFACTS / "bool_bfloat16.params")
    assert flags.tolist() == [True, False, True]
    assert isinstance(numbers, BFloat16Data) and numbers.shape == (2, 3) and numbers.bits.dtype == np.uint16
    assert numbers.to_float32()[0].tolist() == [1, 2.5, -3]


def test_bfloat16_rounds_to_nearest_even() -> None:
    values = np.array([1, 1 + 2**-8, 1 + 3 * 2**-8, 1 + 2**-8 + 2**-20, 3.4e38, -0.0, np.inf, np.nan], np.float32)
    back = BFloat16Data.from_float32(values).to_float32()
    expected = np.array([1, 1, 1 + 2**-6, 1 + 2**-7, np.inf, -0.0, np.inf, np.nan], np.float32)
    np.testing.assert_array_equal(back, expected)
    assert BFloat16Data.from_float32(np.array(2.5, np.float32)).to_float32() == 2.5


def test_numpy_shapes() -> None:
    scalar, zero_size, _ = in_order(ARTIFACTS / "numpy_shapes.params")
    assert scalar.shape == () and scalar == 3.5
    assert zero_size.shape == (0, 3)


@pytest.mark.parametrize(
    "none",
    [
        struct.pack("<I", 0),
        struct.pack("<I", V1) + shape(),
        struct.pack("<Ii", V2, 0) + shape(),
        struct.pack("<Ii", V3, 0) + shape(-1),
    ],
)
def test_arrays_that_were_never_allocated(none: bytes) -> None:
    one = np.ones(2, np.float32)
    first, second = in_order(listed(none, v2(one, 0)))
    assert first is None
    np.testing.assert_array_equal(second, one)


def test_names_in_unicode() -> None:
    assert read_params(ARTIFACTS / "unicode.params").names == ["é", "", "arg:名前"]


# Sources and memory.


def test_sources_agree() -> None:
    path = FIXTURES / "convnet-0000.params"
    content = path.read_bytes()
    with path.open("rb") as file:
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    expected = in_order(path)
    sources: list[Source] = [str(path), content, bytearray(content), memoryview(content), mapped]
    for source in sources:
        assert read_params(source).names == read_params(path).names
        for array, same in zip(in_order(source), expected, strict=True):
            np.testing.assert_array_equal(array, same)


def test_arrays_are_read_only_aligned_views(tmp_path: Path) -> None:
    float32 = np.arange(4, dtype=np.float32)
    path = tmp_path / "a.params"
    path.write_bytes(listed(v2(float32, 0), v2(np.ones(3, np.int8), 5), v2(float32, 0), v2(np.ones(2), 1)))
    arrays = in_order(path)
    assert all(a.flags.aligned and not a.flags.writeable for a in arrays)
    np.testing.assert_array_equal(arrays[2], float32)


def test_bytes_other_than_0_and_1_become_true() -> None:
    raw = np.array([0, 1, 2, 255], np.uint8)
    array = only(v2(raw, 7))
    assert array.dtype == np.bool_ and array.view(np.uint8).tolist() == [0, 1, 1, 1]


def test_a_large_file_is_not_copied(tmp_path: Path) -> None:
    path = tmp_path / "large.params"
    path.write_bytes(listed(v2(np.ones(2_000_000, np.float32), 0)))
    tracemalloc.start()
    read_params(path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1.1 * path.stat().st_size


# Damage.


def small_files() -> list[bytes]:
    values = np.arange(6, dtype=np.float32).reshape(2, 3)
    return [
        listed(v0(values, 0), v1(values, 0), v2(values, 0), names=("a", "b", "c")),
        listed(v3(np.array(1, np.float32), 0), v3(values, 0)),
        listed(csr((2, 3), [1, 2, 3], [0, 1, 3], [1, 0, 2]), row_sparse((4, 3), values, [0, 2]), names=("x", "y")),
        (ARTIFACTS / "bool_bfloat16.params").read_bytes(),
    ]


@pytest.mark.parametrize("number", range(4))
def test_truncation_at_every_byte(number: int) -> None:
    content = small_files()[number]
    read_params(content)
    for size in range(len(content)):
        with pytest.raises(ArtifactError, match=r"at byte \d+"):
            read_params(content[:size])


@pytest.mark.parametrize("number", range(4))
def test_random_damage_gives_an_error_or_arrays(number: int) -> None:
    content = small_files()[number]
    generator = random.Random(number)
    begin = time.monotonic()
    for _ in range(200):
        damaged = bytearray(content)
        for _ in range(generator.randint(1, 4)):
            damaged[generator.randrange(len(damaged))] = generator.choice(
                (0, 1, 0x7F, 0x80, 0xFF, generator.randrange(256))
            )
        try:
            file = read_params(bytes(damaged))
        except ArtifactError:
            continue
        assert sum(stored_bytes(a) for a in file.arrays) <= len(damaged)
    assert time.monotonic() - begin < 20


def stored_bytes(array: Any) -> int:
    parts = {CSRData: ("data", "indices", "indptr"), RowSparseData: ("data", "indices"), BFloat16Data: ("bits",)}
    return sum(stored_bytes(getattr(array, p)) for p in parts.get(type(array), ())) + getattr(array, "nbytes", 0)


HUGE = struct.pack("<Ii", V2, 0) + shape(2**40, 2**40) + CPU + struct.pack("<i", 0)
HUGE_EMPTY = struct.pack("<Ii", V2, 0) + shape(0, 2**62, 2**62) + CPU + struct.pack("<i", 0)
ONE = np.ones(1, np.float32)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "the header requires 16 bytes, but only 0 are left"),
        (b"PK\x03\x04" * 8, "this is not a .params file"),
        (struct.pack("<QQQ", 0x112, 0, 2**60), "the number of arrays is 1152921504606846976"),
        (struct.pack("<QQQQ", 0x112, 0, 0, 2**60), "the number of names is"),
        (listed(HUGE), "is larger than"),
        (listed(HUGE_EMPTY), "is larger than"),
        (listed(v2(ONE, 0), struct.pack("<I", 77)), "array 1, at byte 64: 77 dimensions"),
        (listed(struct.pack("<II", 2**31, 0)), "2147483648 dimensions"),
        (listed(struct.pack("<Iii", V2, 0, -1)), "-1 dimensions"),
        (listed(struct.pack("<Ii", V2, 0) + shape(-4) + CPU + bytes(4)), "negative dimension"),
        (listed(struct.pack("<Ii", V3, 0) + shape(-2) + CPU + bytes(4)), "negative dimension"),
        (listed(v2(ONE, 99)), "dtype flag 99 is unknown"),
        (listed(v2(ONE, -1)), "dtype flag -1 is unknown"),
        (listed(v2(ONE, 0, storage=7)), "storage type 7 is unknown"),
        (listed(v2(ONE, 0, magic=V3, storage=1)), "storage type 1 is unknown"),
        (listed(v2(ONE, 0), names=("a", "b")), "2 names for 1 arrays"),
        (listed(v2(ONE, 0), names=("a",))[:-1] + b"\xff", "not UTF-8"),
        (listed(csr((2, 3), [1], [0, 1], [0])), "csr indptr of shape"),
        (listed(csr((-1, 3), [], [], [])), "invalid for a sparse array"),
        (listed(csr((2, 3), [1], [0, 2, 1], [0])), "does not increase from 0"),
        (listed(csr((2, 3), [1], [0, 0, 0], [0])), "does not increase from 0"),
        (listed(csr((2, 3), [1], [0, 1, 1], [3])), "indices range from 3 to 3, outside 0 to 2"),
        (listed(csr((2, 3), [1], [0, 1, 1], [-1])), "indices range from -1"),
        (listed(csr((2,), [1], [0, 1], [0])), "a csr array has 2 dimensions"),
        (listed(row_sparse((4, 3), np.ones((1, 3)), [4])), "outside 0 to 3"),
        (listed(row_sparse((4, 3), np.ones((1, 2)), [0])), "sparse data of shape"),
    ],
)
def test_errors_describe_the_problem(content: bytes, message: str) -> None:
    with pytest.raises(ArtifactError, match=message.replace("[", r"\[")):
        read_params(content)


def test_errors_name_the_file(tmp_path: Path) -> None:
    path = tmp_path / "broken.params"
    path.write_bytes(listed(v2(ONE, 0))[:40])
    with pytest.raises(ArtifactError, match=r"broken\.params: array 0, at byte 36"):
        read_params(path)


def test_only_regular_files_are_read(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_params(tmp_path / "missing")
    with pytest.raises(ArtifactError, match="not a regular file"):
        read_params("/dev/zero" if os.path.exists("/dev/zero") else os.devnull)


def test_the_number_of_stored_rows_is_that_of_the_indices() -> None:
    """MXNet 1.9.1 writes the momentum of a row_sparse weight with the extent that it had before its first update."""
    whole = row_sparse((4, 2), np.arange(4.0).reshape(2, 2), [1, 3])
    outdated = whole.replace(shape(2, 2), shape(0, 2), 1)
    assert outdated != whole and np.array_equal(only(outdated).data, [[0, 1], [2, 3]])
    outdated = csr((2, 3), [1, 2], [0, 1, 2], [0, 2]).replace(shape(2), shape(7), 1)
    assert np.array_equal(only(outdated).data, [1, 2])
