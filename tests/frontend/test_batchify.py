"""Functions that make batches of samples, and lists of images, which MXNet has since its second version."""

from __future__ import annotations

from pathlib import Path

import mxforge as mx
import numpy as np
import pytest

data = mx.gluon.data
batchify = data.batchify
IMAGES = Path(__file__).resolve().parents[1] / "data" / "images"


def test_samples_of_one_shape_are_stacked() -> None:
    batch = batchify.Stack()([np.array([1, 2], np.int32), np.array([3, 4], np.int32)])
    assert batch.dtype == np.int32 and batch.asnumpy().tolist() == [[1, 2], [3, 4]]
    words, labels = batchify.Stack(use_shared_mem=True)([(np.ones(2), 1), (np.zeros(2), 0)])
    assert words.shape == (2, 2) and labels.asnumpy().tolist() == [1, 0] and words.context.device_type == "cpu_shared"
    with pytest.raises(mx.MXNetError, match="Pad makes their extents equal"):
        batchify.Stack()([np.zeros(2), np.zeros(3)])


def test_samples_are_padded() -> None:
    batch = batchify.Pad(val=-1)([[1, 2, 3], [4], mx.nd.array([5, 6])])
    assert batch.asnumpy().tolist() == [[1, 2, 3], [4, -1, -1], [5, 6, -1]]
    matrices = batchify.Pad(dtype="float16", round_to=4)([np.ones((2, 3)), np.ones((3, 1))])
    assert matrices.shape == (2, 4, 4) and matrices.dtype == np.float16
    assert matrices.asnumpy().sum(axis=(1, 2)).tolist() == [6, 3]
    with pytest.raises(mx.MXNetError, match="Group applies a function"):
        batchify.Pad()([([1, 2], 3), ([4], 5)])
    for wrong in ([np.zeros(2), np.zeros((2, 2))], [1.0, 2.0]):
        with pytest.raises(mx.MXNetError, match="the same number of axes"):
            batchify.Pad()(wrong)


def test_elements_of_samples_are_batched_apart() -> None:
    function = batchify.Group(batchify.Pad(val=0), batchify.Stack(), batchify.AsList(), batchify.Append())
    samples = [([1, 2], 0.5, "a", np.ones(2)), ([3], 1.5, "b", np.ones(3))]
    words, scores, names, vectors = function(samples)
    assert words.asnumpy().tolist() == [[1, 2], [3, 0]] and scores.asnumpy().tolist() == [0.5, 1.5]
    assert names == ["a", "b"] and [v.shape for v in vectors] == [(1, 2), (1, 3)]
    (single,) = batchify.Append(expand=False)([np.ones(2, np.int64)])
    assert single.shape == (2,) and single.dtype == np.float32
    with pytest.raises(mx.MXNetError, match=r"Group has 4 functions; the samples have \[2\] elements"):
        function([(1, 2)])


def test_a_loader_pads_batches() -> None:
    loader = data.DataLoader(data.SimpleDataset([[1], [2, 3], [4, 5, 6]]), 2, batchify_fn=batchify.Pad(), num_workers=1)
    assert [batch.asnumpy().tolist() for batch in loader] == [[[1, 0], [2, 3]], [[4, 5, 6]]]


def test_images_of_a_list() -> None:
    listed = data.vision.ImageListDataset(str(IMAGES), "images.lst")
    picture, label = listed[1]
    assert len(listed) == 7 and label.asnumpy().tolist() == [1.0, 0.25]
    np.testing.assert_array_equal(picture.asnumpy(), mx.image.imread(str(IMAGES / "1.jpg")).asnumpy())
    own = data.vision.ImageListDataset(str(IMAGES), [[3, "0.jpg"], [1, 2, "1.jpg"]], flag=0)
    assert own[0][1] == 3.0 and own[0][0].shape[2] == 1 and own[1][1].asnumpy().tolist() == [1, 2]
    with pytest.raises(ValueError, match="imglist must be the name of a file or a list"):
        data.vision.ImageListDataset(str(IMAGES))
