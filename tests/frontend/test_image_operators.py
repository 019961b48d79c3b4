"""Operators on images: changing parameters compile nothing, and random parameters are within their bounds."""

from __future__ import annotations

from typing import Any

import mxforge as mx
import numpy as np
import pytest
from goldens import Golden, operator_goldens
from mxforge.frontend.image_codec import codec
from mxforge.frontend.ndarray import operator_function

image = mx.nd.image
PHOTO = np.arange(6 * 7 * 3, dtype=np.uint8).reshape(6, 7, 3)


def photo() -> Any:
    return mx.nd.array(PHOTO, dtype="uint8")


def test_crops_at_different_positions_share_a_program(monkeypatch: pytest.MonkeyPatch) -> None:
    x = photo()
    image.crop(x, 0, 0, 3, 2)
    monkeypatch.setattr(operator_function.OperatorSpecialization, "__init__", None)
    for left, top in ((1, 0), (4, 4), (0, 3)):
        found = image.crop(x, x=left, y=top, width=3, height=2).asnumpy()
        assert (found == PHOTO[top : top + 2, left : left + 3]).all()


@pytest.mark.parametrize("place", [(5, 0, 3, 2), (0, 5, 3, 2), (-1, 0, 3, 2), (0, 0, 0, 2), (0, 0, 8, 2)])
def test_a_crop_stays_inside(place: tuple[int, int, int, int]) -> None:
    image.crop(photo(), 0, 0, 3, 2)
    with pytest.raises(mx.base.MXNetError, match="is out of range for an image of 7 x 6"):
        image.crop(photo(), *place)


def test_flips_are_drawn() -> None:
    mx.random.seed(1)
    x = photo()
    for flip, plain in ((image.random_flip_left_right, PHOTO[:, ::-1]), (image.random_flip_top_bottom, PHOTO[::-1])):
        flipped = [bool((flip(x).asnumpy() == plain).all()) for _ in range(40)]
        assert 5 < sum(flipped) < 35
    assert (image.flip_left_right(x).asnumpy() == PHOTO[:, ::-1]).all()


def test_factors_are_drawn_between_their_bounds() -> None:
    mx.random.seed(4)
    x = mx.nd.full((2, 2, 3), 100.0)
    found = [image.random_brightness(x, 0.5, 1.5).asnumpy()[0, 0, 0] / 100 for _ in range(50)]
    assert 0.5 <= min(found) < 0.7 and 1.3 < max(found) <= 1.5
    with pytest.raises(mx.base.MXNetError, match="min_factor"):
        image.random_brightness(x, 1.5, 0.5)


def test_a_jitter_of_one_kind_equals_its_adjustment() -> None:
    mx.random.seed(6)
    x = mx.nd.full((2, 2, 3), 100.0)
    found = [image.random_color_jitter(x, 0.2, 0, 0, 0).asnumpy() for _ in range(20)]
    assert all(np.ptp(f) == 0 and 80 <= f[0, 0, 0] <= 120 for f in found)
    assert len({float(f[0, 0, 0]) for f in found}) == 20
    assert (image.random_color_jitter(photo(), 0, 0, 0, 0).asnumpy() == PHOTO).all()


def test_a_jitter_of_all_kinds_preserves_gray() -> None:
    mx.random.seed(7)
    x = mx.nd.full((4, 4, 3), 100.0)
    for _ in range(6):
        found = image.random_color_jitter(x, 0.2, 0.2, 0, 0.5).asnumpy()
        assert np.ptp(found) < 1e-3
        assert 70 < found.mean() < 130


def test_lighting_has_the_requested_deviation() -> None:
    mx.random.seed(8)
    x = mx.nd.zeros((1, 1, 3))
    found = np.array([image.random_lighting(x, alpha_std=0.1).asnumpy().ravel() for _ in range(300)])
    reference = 0.1 * np.hypot(np.hypot(55.46 * 0.5675, 4.794 * 0.7192), 1.148 * 0.4009)
    assert found[:, 0].std() == pytest.approx(reference, rel=0.2)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: image.to_tensor(mx.nd.ones((2, 2))),
        lambda: image.normalize(mx.nd.ones((2, 4, 4)), mean=(0,), std=(1,)),
        lambda: image.normalize(mx.nd.ones((3, 4, 4)), mean=(0, 1), std=(1,)),
        lambda: image.resize(photo(), size=(0, 3)),
        lambda: image.resize(photo(), size=4, interp=7),
        lambda: image.adjust_lighting(photo(), alpha=(1, 2)),
    ],
)
def test_invalid_arguments_are_refused(wrong: Any) -> None:
    with pytest.raises(mx.base.MXNetError, match="_image_"):
        wrong()


class Prepare(mx.gluon.HybridBlock):
    """The preprocessing of a model for photographs."""

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        small = F.image.resize(F.image.crop(x, 1, 1, 5, 4), size=(8, 6))
        return F.image.normalize(F.image.to_tensor(F.image.flip_left_right(small)), mean=(0.5,), std=(0.25,))


def test_a_hybridized_block_of_image_operators() -> None:
    net = Prepare()
    eager_result = net(photo()).asnumpy()
    net.hybridize()
    assert eager_result.shape == (3, 6, 8)
    np.testing.assert_allclose(net(photo()).asnumpy(), eager_result, rtol=1e-6)
    assert mx.sym.image.to_tensor(mx.sym.var("x")).infer_shape(x=(6, 7, 3))[1] == [(3, 6, 7)]


RESIZED = [g for g in operator_goldens() if g.op == "_image_resize" and g.inputs[0].ndim == 3]


@pytest.mark.parametrize("with_opencv", [True, False])
@pytest.mark.parametrize("golden", RESIZED, ids=str)
def test_imresize_and_resize_agree(golden: Golden, with_opencv: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The result equals MXNet's bytes, or agrees with its floats within 1e-6 of their range."""
    if not with_opencv:
        monkeypatch.setattr(codec, "opencv", lambda: None)
    (pixels,), (expected,) = golden.inputs, golden.outputs
    interp = int(golden.attributes.get("interp", 1))
    x = mx.nd.array(pixels, dtype=pixels.dtype)
    one = image.resize(x, size=expected.shape[1::-1], interp=interp).asnumpy()
    other = mx.image.imresize(x, expected.shape[1], expected.shape[0], interp).asnumpy()
    assert one.dtype == other.dtype == expected.dtype
    limit = 1e-6 * np.abs(pixels).max() if pixels.dtype == np.float32 else 0
    np.testing.assert_allclose(one, other, 0, limit)
    np.testing.assert_allclose(other, expected, 0, limit)


def _of_two_taps(x: np.ndarray, rows: int, columns: int) -> np.ndarray:
    """Bytes interpolated as OpenCV does: weights are multiples of 2 ^ -11, sums of columns have 16 bits."""

    def taps(old: int, new: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        at = ((np.arange(new) + 0.5) * (1 / (new / old)) - 0.5).astype(np.float32)
        first = np.floor(at).astype(np.int64)
        weights = [np.rint(part * np.float32(2048)).astype(np.int64) for part in (1 - (at - first), at - first)]
        return np.clip([first, first + 1], 0, old - 1), weights[0], weights[1]

    places, a, b = taps(x.shape[1], columns)
    left, right = places
    wide = x.astype(np.int64)
    across = wide[:, left] * a[:, None] + wide[:, right] * b[:, None] >> 4
    places, a, b = taps(x.shape[0], rows)
    above, below = places
    upper, lower = (across[k] * w[:, None, None] >> 16 for k, w in ((above, a), (below, b)))
    return (upper + lower + 2 >> 2).astype(np.uint8)


@pytest.mark.parametrize("size", [(12, 15), (24, 30), (48, 60), (13, 60), (31, 17)])
def test_bytes_are_resized_in_integers(size: tuple[int, int]) -> None:
    """Halves have a form of their own: averages of four bytes."""
    x = np.random.default_rng(0).choice(np.array([0, 1, 254, 255, 77], np.uint8), (24, 30, 3))
    resized = image.resize(mx.nd.array(x, dtype="uint8"), size[::-1], interp=1).asnumpy()
    np.testing.assert_array_equal(resized, _of_two_taps(x, *size))
