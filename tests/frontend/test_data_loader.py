"""Data loaders with worker processes and threads: batches, errors, dead workers, seeds, and what is left behind."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import mxforge as mx
import numpy as np
import pytest

data = mx.gluon.data
IMAGES = np.arange(7 * 200 * 200, dtype=np.float32).reshape(7, 200, 200)  # a batch is large enough for shared memory
LABELS = np.arange(7, dtype=np.int32)


class Calls(data.Dataset):
    """Samples that a function computes from their numbers."""

    def __init__(self, function: Any, length: int = 8) -> None:
        self._function = function
        self._length = length

    def __getitem__(self, idx: Any) -> Any:
        return self._function(idx)

    def __len__(self) -> int:
        return self._length


@pytest.fixture(scope="module")
def images() -> Iterator[Any]:
    loader = data.DataLoader(
        data.ArrayDataset(mx.nd.array(IMAGES), LABELS).transform_first(lambda x: x + 1), 3, num_workers=2
    )
    yield loader


def test_batches_of_worker_processes(images: Any) -> None:
    for _ in range(2):
        batches = list(images)
        assert [label.asnumpy().tolist() for _, label in batches] == [[0, 1, 2], [3, 4, 5], [6]]
        assert (np.concatenate([image.asnumpy() for image, _ in batches]) == IMAGES + 1).all()
        assert {str(x.context) for batch in batches for x in batch} == {"cpu_shared(0)"}
        assert {str(np.dtype(label.dtype)) for _, label in batches} == {"int32"}
    assert len(images) == 3


def test_two_epochs_at_once(images: Any) -> None:
    for (image, label), (other, _) in zip(images, images, strict=True):
        assert (image.asnumpy() == IMAGES[label.asnumpy()] + 1).all() and (image.asnumpy() == other.asnumpy()).all()
        other[:] = 0  # the memory of one batch is not that of the other
        assert image.asnumpy().all()
