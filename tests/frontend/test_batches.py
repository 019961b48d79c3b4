"""NDArrayIter beyond the recorded programs: files, shuffled data, invalid input."""

from __future__ import annotations

import mxforge as mx
import numpy as np
import pytest
from mxforge.frontend.io.sources import take_examples

MATRIX = np.array([[1, 0, 2], [0, 0, 0], [0, 3, 0], [4, 5, 6], [7, 0, 0]], np.float32)


class DataSet:
    """Behaves like a data set of an HDF5 file, which accepts only increasing indices without duplicates."""

    __module__ = "h5py.fake"

    def __init__(self, values: np.ndarray) -> None:
        self._values, self.shape, self.dtype = values, values.shape, values.dtype

    def __getitem__(self, key: tuple[slice | np.ndarray, ...]) -> np.ndarray:
        indices = key[-1]
        assert isinstance(indices, np.ndarray) and (np.diff(indices) > 0).all()
        return self._values[key]


@pytest.mark.parametrize("positions", [[0, 1, 2], [3, 0, 4], [1, 1, 3], [1]])
def test_rows_of_all_kinds_of_arrays(positions: list[int]) -> None:
    expected, order = MATRIX[positions], np.array(positions)
    sparse = take_examples(mx.nd.array(MATRIX).tostype("csr"), order, 0)
    assert sparse.stype == "csr"
    for found in (sparse, take_examples(mx.nd.array(MATRIX), order, 0), take_examples(DataSet(MATRIX), order, 0)):
        np.testing.assert_array_equal(found.asnumpy(), expected)


def test_the_axis_of_examples() -> None:
    found = take_examples(DataSet(MATRIX), np.array([2, 0]), 1)
    np.testing.assert_array_equal(found.asnumpy(), MATRIX[:, [2, 0]])
    np.testing.assert_array_equal(take_examples(mx.nd.array(MATRIX), np.array([2, 0]), 1).asnumpy(), found.asnumpy())


def test_files_keep_their_data_and_pad_from_the_beginning() -> None:
    batches = mx.io.NDArrayIter(DataSet(MATRIX.astype("float64")), np.arange(5), 3)
    assert batches.provide_data[0].dtype is np.float32
    found = [(batch.data[0].asnumpy().tolist(), batch.pad) for batch in batches]
    assert found == [(MATRIX[:3].tolist(), 0), (MATRIX[[3, 4, 0]].tolist(), 1)]


def test_shuffled_sparse_rows_keep_their_labels() -> None:
    source = mx.nd.array(MATRIX).tostype("csr")
    batches = mx.io.NDArrayIter(source, MATRIX[:, 0], 2, shuffle=True, last_batch_handle="discard")
    for batch in batches:
        assert batch.label is not None
        np.testing.assert_array_equal(batch.data[0].asnumpy()[:, 0], batch.label[0].asnumpy())


def test_samples_beyond_the_first_data_are_not_used() -> None:
    """As in MXNet, where programs pass a part of the data with all labels."""
    batches = list(mx.io.NDArrayIter(MATRIX[:3], {"label": MATRIX[:, 0], "weight": np.arange(5)}, 2))
    found = [[array.asnumpy().tolist() for array in batch.label or ()] for batch in batches]
    first = MATRIX[[0, 1, 2, 0], 0].tolist()
    assert found == [[first[:2], [0, 1]], [first[2:], [2, 0]]]


@pytest.mark.parametrize("source", [3, "text", [object()], {"data": "text"}])
def test_values_that_are_not_arrays_are_refused(source: object) -> None:
    with pytest.raises(TypeError, match=r"NDArrayIter requires arrays|should be NDArray"):
        mx.io.NDArrayIter(source)


class Breaking(mx.io.NDArrayIter):
    """An iterator that raises at its second batch."""

    def getdata(self) -> list[mx.nd.NDArray]:
        if self.cursor:
            raise OSError("the file is gone")
        return super().getdata()


def test_errors_of_a_prefetched_iterator_are_raised() -> None:
    batches = mx.io.PrefetchingIter(Breaking(MATRIX, None, 2))
    assert next(batches).data[0].shape == (2, 3)
    with pytest.raises(OSError, match="the file is gone"):
        next(batches)
    batches.reset()
    assert next(batches).data[0].shape == (2, 3)


def test_prefetched_iterators_must_have_equal_lengths() -> None:
    batches = mx.io.PrefetchingIter([mx.io.NDArrayIter(MATRIX[:n], None, 1) for n in (1, 2)])
    next(batches)
    with pytest.raises(AssertionError, match="mismatches"):
        next(batches)
