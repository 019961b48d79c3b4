"""Transforms of images: one launch for a chain, one program for images of many sizes, and random ones."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import mxforge as mx
import numpy as np
import pytest
from mxforge.codegen.statistics import statistics

made = mx.gluon.data.vision.transforms
SIZES = [(9, 14), (11, 10), (30, 41), (17, 25), (64, 33), (28, 28)]


def picture(*shape: int) -> mx.nd.NDArray:
    return mx.nd.array(np.random.RandomState(0).randint(0, 256, (*shape, 3)), dtype="uint8")


def launches(block: Any, image: Any, path: Path) -> list[str]:
    """The names of the launches of a call that is compiled already."""
    block(image)
    mx.profiler.set_config(profile_all=True, filename=str(path))
    mx.profiler.set_state("run")
    block(image)
    mx.profiler.set_state("stop")
    mx.profiler.dump()
    events = json.loads(path.read_text())["traceEvents"]
    return [event["name"] for event in events if event["ph"] == "X" and event["cat"] == "operator"]


@pytest.mark.parametrize("shape", [(40, 50), (4, 40, 50)])
def test_a_chain_is_one_launch_per_image_or_batch(shape: tuple[int, ...], tmp_path: Path) -> None:
    chain = made.Compose([made.ToTensor(), made.Normalize((0.1, 0.2, 0.3), (2, 3, 4))])
    image = picture(*shape)
    expected = (image.asnumpy() / 255 - np.array([0.1, 0.2, 0.3])) / np.array([2, 3, 4])
    np.testing.assert_allclose(chain(image).asnumpy(), np.moveaxis(expected, -1, -3), rtol=1e-5, atol=1e-6)
    assert len(launches(chain, image, tmp_path / "trace.json")) == 1


def test_a_random_flip_is_part_of_the_launch(tmp_path: Path) -> None:
    chain = made.Compose([made.RandomFlipLeftRight(), made.ToTensor(), made.Normalize(0.5, 0.25)])
    names = launches(chain, picture(40, 50), tmp_path / "trace.json")
    assert len(names) == 2 and "+" not in names[0]  # the first draws a number
    assert [name in names[1] for name in ("flip", "to_tensor", "normalize")] == [True] * 3


def test_one_program_serves_images_of_many_sizes() -> None:
    chain = made.Compose([made.Resize(8, keep_ratio=True), made.RandomFlipLeftRight(), made.ToTensor()])
    alone, flip = made.ToTensor(), made.RandomFlipTopBottom()
    for height, width in SIZES[:4]:
        for block in (chain, alone, flip):
            block(picture(height, width))
    before = statistics.modules
    for height, width in SIZES[4:]:
        image = picture(height, width)
        assert min(chain(image).shape[1:]) == 8
        np.testing.assert_allclose(alone(image).asnumpy(), image.asnumpy().transpose(2, 0, 1) / 255, rtol=1e-6)
        flipped, rows = flip(image).asnumpy(), image.asnumpy()
        assert (flipped == rows).all() or (flipped == rows[::-1]).all()
    assert statistics.modules == before


def test_a_derived_transform_gets_arrays() -> None:
    class Double(made.Normalize):
        def hybrid_forward(self, F: Any, x: Any) -> Any:
            return mx.nd.array(x.asnumpy() * 2.0)

    double = Double()
    for height, width in SIZES:
        assert (double(picture(height, width)) == 2 * picture(height, width).astype("float32")).asnumpy().all()


def test_random_transforms() -> None:
    image = picture(20, 30)
    crop, values = made.RandomResizedCrop((8, 6), scale=(0.2, 0.5)), image.asnumpy().astype(int)
    assert crop(image).shape == (6, 8, 3) and crop(image).dtype == np.uint8
    made.RandomApply(made.Cast("float32"), p=0.5)(image)
    mx.random.seed(3)
    flips = [made.RandomFlipLeftRight()(image).asnumpy() for _ in range(20)]
    kinds = {(flip == values).all() + 2 * (flip == values[:, ::-1]).all() for flip in flips}
    assert kinds == {1, 2}
    for jitter in (
        made.RandomBrightness(0.5),
        made.RandomContrast(0.5),
        made.RandomSaturation(0.5),
        made.RandomHue(0.2),
    ):
        changed = jitter(image)
        assert changed.shape == image.shape and changed.dtype == np.uint8
        assert (changed.asnumpy() != values).any()


def test_transforms_can_be_pickled_after_calls() -> None:
    """Spawned workers get the dataset with its transforms as a pickle."""
    chain = made.Compose([made.CenterCrop(8), made.ToTensor(), made.Normalize(0.5, 0.25)])
    image = picture(20, 30)
    expected = chain(image).asnumpy()
    assert (pickle.loads(pickle.dumps(chain))(image).asnumpy() == expected).all()


def test_rotations_are_those_of_mx_image() -> None:
    tensor = made.ToTensor()(picture(11, 11))
    expected = mx.image.imrotate(tensor, 90)
    assert (made.Rotate(90)(tensor) == expected).asnumpy().all()
    np.random.seed(1)
    drawn = made.RandomRotation((-30, 30), zoom_out=True)(tensor)
    np.random.seed(1)
    np.random.random()  # whether to rotate
    assert (drawn == mx.image.random_rotate(tensor, (-30, 30), zoom_out=True)).asnumpy().all()
    assert made.RandomRotation((1, 2), rotate_with_proba=0)(tensor) is tensor
