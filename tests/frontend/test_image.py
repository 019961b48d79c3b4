"""Images: decoding, resizing, cropping and borders keep pixels in their positions."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import cv2  # pyright: ignore[reportMissingImports]
import mxforge as mx
import numpy as np
import pytest
from mxforge import image

PIXELS = np.random.default_rng(0).integers(0, 255, (6, 8, 3), np.uint8)


def encoded() -> bytes:
    return cv2.imencode(".png", PIXELS[:, :, ::-1])[1].tobytes()


def photo() -> mx.nd.NDArray:
    return mx.nd.array(PIXELS, dtype="uint8")


def test_decoding(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(encoded())
    assert (image.imread(str(tmp_path / "a.png")).asnumpy() == PIXELS).all()
    assert (image.imdecode(encoded(), to_rgb=0).asnumpy() == PIXELS[:, :, ::-1]).all()
    assert image.imdecode(encoded(), flag=0).shape == (6, 8, 1)
    assert (image.imdecode(np.frombuffer(encoded(), np.uint8)).asnumpy() == PIXELS).all()


def test_data_that_are_not_an_image_are_refused(tmp_path: Path) -> None:
    with pytest.raises(mx.MXNetError, match="Decoding failed"):
        image.imdecode(b"nothing")
    with pytest.raises(mx.MXNetError, match="cannot read the image"):
        image.imread(str(tmp_path / "nothing.png"))
    with pytest.raises(ValueError, match="convert to bytes"):
        image.imdecode("text")


def test_sizes() -> None:
    assert image.resize_short(photo(), 3).shape == (3, 4, 3)
    assert image.imresize(photo(), 4, 5).shape == (5, 4, 3)
    assert (image.imresize(photo(), 16, 12, interp=0).asnumpy()[::2, ::2] == PIXELS).all()
    bordered = image.copyMakeBorder(photo(), 1, 2, 3, 4, value=7).asnumpy()
    assert bordered.shape == (9, 15, 3) and (bordered[1:7, 3:11] == PIXELS).all() and (bordered[0] == 7).all()


def test_crops() -> None:
    middle, place = image.center_crop(photo(), (4, 2))
    assert place == (2, 2, 4, 2) and (middle.asnumpy() == PIXELS[2:4, 2:6]).all()
    for crop in (
        image.random_crop(photo(), (3, 3)),
        image.random_size_crop(photo(), (3, 3), 0.5, (0.75, 1.33)),
        image.random_size_crop(photo(), (3, 3), (0.1, 0.2), (1, 1)),
    ):
        assert crop[0].shape == (3, 3, 3)
    assert image.fixed_crop(photo(), 1, 2, 3, 4, size=(6, 8)).shape == (8, 6, 3)


def test_packed_images_are_unpacked() -> None:
    record = mx.recordio.pack_img((0, 3, 1, 0), PIXELS, quality=3, img_fmt=".png")
    header, pixels = mx.recordio.unpack_img(record)
    assert header.label == 3 and (pixels == PIXELS).all()


def test_transforms_create_a_tensor() -> None:
    transforms = mx.gluon.data.vision.transforms
    steps = [transforms.CenterCrop(4), transforms.ToTensor(), transforms.Normalize((0.5, 0.5, 0.5), (2, 2, 2))]
    made = transforms.Compose(steps)(photo()).asnumpy()
    expected = (PIXELS[1:5, 2:6].astype(np.float32) / 255 - 0.5) / 2
    np.testing.assert_allclose(made, expected.transpose(2, 0, 1), rtol=1e-6)


REFUSED: dict[str, Callable[[], Any]] = {
    "nothing": lambda: image.imdecode(b""),
    "no image": lambda: image.imdecode(b"hello world"),
    "no file": lambda: image.imread("/nonexistent.png"),
    "width 0": lambda: image.imresize(photo(), 0, 3),
    "a negative width": lambda: image.imresize(photo(), -1, 3),
    "an unknown method": lambda: image.imresize(photo(), 3, 3, interp=99),
    "a width that is no number": lambda: image.imresize(photo(), "a", 3),  # type: ignore[arg-type]
    "two axes": lambda: image.imresize(mx.nd.ones((4, 5)), 3, 3),
    "a size of 0": lambda: image.resize_short(photo(), 0),
    "a place outside": lambda: image.fixed_crop(photo(), 10, 10, 3, 3, (2, 2)),
    "a negative border": lambda: image.copyMakeBorder(photo(), -1, 0, 0, 0),
    "an unknown border": lambda: image.copyMakeBorder(photo(), 1, 0, 0, 0, type=99),
    "a border of two axes": lambda: image.copyMakeBorder(mx.nd.ones((4, 5)), 1, 0, 0, 0),
}


@pytest.mark.parametrize("what", REFUSED)
def test_errors_have_mxnets_types(what: str) -> None:
    with pytest.raises(mx.MXNetError):
        REFUSED[what]()
