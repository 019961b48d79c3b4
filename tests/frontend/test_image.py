"""mx.image: what recorded programs of MXNet cannot show. See tests/data/programs/images.py for the rest."""

from __future__ import annotations

import io
import logging
import random
import struct
import sys
import zlib
from pathlib import Path
from typing import Any

import cv2  # pyright: ignore[reportMissingImports]
import mxforge as mx
import numpy as np
import pytest
from mxforge.frontend.image_codec import codec, headers
from mxforge.frontend.ndarray import operator_function
from PIL import Image

IMAGES = Path(__file__).resolve().parents[1] / "data" / "images"
JPEG = (IMAGES / "0.jpg").read_bytes()
PHOTO = codec.decode(JPEG, color=True, rgb=True, upright=False)
ROOT: dict[str, Any] = {"path_root": str(IMAGES)}


def photo(dtype: str = "uint8") -> Any:
    return mx.nd.array(PHOTO, dtype=dtype)


def encoded(kind: str, width: int, height: int) -> bytes:
    return cv2.imencode(f".{kind}", np.zeros((height, width, 3), np.uint8))[1].tobytes()


# Sizes by header.


@pytest.mark.parametrize("kind", ["jpg", "png", "bmp", "webp", "gif"])
def test_the_size_by_the_header(kind: str) -> None:
    data = encoded(kind, 37, 21)
    assert headers.size_of(data) == (37, 21)
    assert all(headers.size_of(data[:n]) in (None, (37, 21)) for n in range(len(data)))


def test_the_size_of_a_jpeg_with_padding_and_other_segments() -> None:
    start = JPEG.index(b"\xff\xdb")
    data = JPEG[:start] + b"\xff\xfe\x00\x06none" + b"\xff\xff\xff\x01" + JPEG[start:]
    assert headers.size_of(data) == (56, 40) and headers.size_of(b"\xff\xd8\x00") is None


def png_that_claims(width: int, height: int) -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(bytes(999))) + chunk(b"IEND", b"")


def jpeg_that_claims(width: int, height: int) -> bytes:
    at = JPEG.index(b"\xff\xc0") + 5
    return JPEG[:at] + struct.pack(">HH", height, width) + JPEG[at + 4 :]


@pytest.mark.parametrize("bomb", [png_that_claims, jpeg_that_claims])
@pytest.mark.parametrize("with_opencv", [True, False])
def test_an_image_that_claims_too_many_pixels_is_refused(
    bomb: Any, with_opencv: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not with_opencv:
        monkeypatch.setattr(codec, "opencv", lambda: None)
    with pytest.raises(mx.MXNetError, match="claims 50000 x 50000 pixels, more than the limit of 268435456"):
        mx.image.imdecode(bomb(50000, 50000))
    monkeypatch.setenv("OPENCV_IO_MAX_IMAGE_PIXELS", "2239")
    with pytest.raises(mx.MXNetError, match="claims 56 x 40 pixels, more than the limit of 2239"):
        mx.image.imdecode(JPEG)
    monkeypatch.setenv("OPENCV_IO_MAX_IMAGE_PIXELS", "2240")
    assert mx.image.imdecode(JPEG).shape == (40, 56, 3)


@pytest.mark.parametrize("with_opencv", [True, False])
def test_the_missing_part_of_a_jpeg_is_grey(with_opencv: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not with_opencv:
        monkeypatch.setattr(codec, "opencv", lambda: None)
    found = mx.image.imdecode(JPEG[:900]).asnumpy()
    assert (found[:8] == PHOTO[:8]).all() and np.ptp(found[-1]) == 0
    assert (mx.image.imdecode(JPEG[:-1]).asnumpy() == PHOTO).all()
    with pytest.raises(mx.MXNetError, match="Decoding failed"):
        mx.image.imdecode(JPEG[:150])


# EXIF orientation.


def rotated_image(kind: str) -> bytes:
    """An image of 24 x 32, red above and green below, whose EXIF orientation demands a half turn."""
    pixels, file, exif = np.full((24, 32, 3), [200, 30, 30], np.uint8), io.BytesIO(), Image.Exif()
    pixels[12:] = [30, 200, 30]
    exif[0x0112] = 3
    Image.fromarray(pixels).save(file, kind, exif=exif)
    return file.getvalue()


def corners(data: bytes, folder: Path, with_boxes: bool) -> dict[str, Any]:
    """The first pixel of an image, for each function that reads images."""
    vision, (name, records) = (
        mx.gluon.data.vision,
        (folder / "images" / "class" / "photo.jpg", str(folder / "photo.rec")),
    )
    name.parent.mkdir(parents=True, exist_ok=True)
    name.write_bytes(data)
    label = [2, 5, 0, 0.1, 0.1, 0.9, 0.9] if with_boxes else 1.0
    writer = mx.recordio.MXIndexedRecordIO(str(folder / "photo.idx"), records, "w")
    writer.write_idx(0, mx.recordio.pack(mx.recordio.IRHeader(0, label, 0, 0), data))
    writer.close()
    shape: dict[str, Any] = {"batch_size": 1, "data_shape": (3, 24, 32), "path_imgrec": records}
    if with_boxes:
        batches = {
            "ImageDetIter": mx.image.ImageDetIter(**shape).next(),
            "ImageDetRecordIter": mx.io.ImageDetRecordIter(label_pad_width=10, **shape).next(),
        }
        return {kind: batch.data[0].asnumpy()[0, :, 0, 0] for kind, batch in batches.items()}
    images = {
        "imdecode": mx.image.imdecode(data),
        "imread": mx.image.imread(str(name)),
        "ImageFolderDataset": vision.ImageFolderDataset(str(folder / "images"))[0][0],
        "ImageRecordDataset": vision.ImageRecordDataset(records)[0][0],
        "ImageIter": mx.image.ImageIter(**shape).next().data[0][0].transpose((1, 2, 0)),
        "ImageRecordIter": mx.io.ImageRecordIter(**shape).next().data[0][0].transpose((1, 2, 0)),
        "ImageRecordUInt8Iter": mx.io.ImageRecordUInt8Iter(**shape).next().data[0][0].transpose((1, 2, 0)),
    }
    return {kind: image.asnumpy()[0, 0] for kind, image in images.items()}


@pytest.mark.parametrize("with_opencv", [True, False])
def test_only_the_record_iterators_apply_the_orientation_and_only_of_jpegs(
    with_opencv: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not with_opencv:
        monkeypatch.setattr(codec, "opencv", lambda: None)
    for kind, rotating in (("JPEG", ["ImageRecordIter", "ImageRecordUInt8Iter", "ImageDetRecordIter"]), ("PNG", [])):
        data = rotated_image(kind)
        found = {**corners(data, tmp_path, False), **corners(data, tmp_path, True)}
        green = [reader for reader, color in found.items() if color[1] > color[0]]
        assert len(found) == 9 and green == rotating  # recorded from MXNet 1.9.1


def test_a_negative_flag_is_refused() -> None:
    with pytest.raises(mx.MXNetError, match="value -1 for Parameter flag should be greater equal to 0"):
        mx.image.imdecode(JPEG, flag=-1)


# Augmenters.


def colour_augmenters() -> list[Any]:
    jitter: dict[str, Any] = {
        "brightness": 0.2,
        "contrast": 0.2,
        "saturation": 0.2,
        "hue": 0.2,
        "pca_noise": 0.2,
        "rand_gray": 0.5,
    }
    return mx.image.CreateAugmenter((3, 20, 24), rand_mirror=True, mean=True, std=True, **jitter)


def augmented(augmenters: list[Any], count: int = 6) -> np.ndarray:
    random.seed(3)
    np.random.seed(3)
    made = []
    for _ in range(count):
        image = photo()
        for augmenter in augmenters:
            image = augmenter(image)
        made.append(image.asnumpy())
    return np.stack(made)


def test_augmenters_without_opencv(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = augmented(colour_augmenters())
    monkeypatch.setattr(codec, "opencv", lambda: None)
    np.testing.assert_allclose(augmented(colour_augmenters()), expected, rtol=0, atol=2e-5)


def test_new_sizes_of_images_compile_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    augmenters = [mx.image.RandomSizedCropAug((30, 20), 0.2, (0.5, 2)), *colour_augmenters()[1:]]
    augmented(augmenters, 1)
    monkeypatch.setattr(operator_function.OperatorSpecialization, "__init__", None)
    for width in (21, 33, 50):
        image = mx.nd.array(np.resize(PHOTO, (31, width, 3)), dtype="uint8")
        for augmenter in [mx.image.ResizeAug(width + 3), mx.image.CastAug(), *colour_augmenters()[3:]]:
            image = augmenter(image)
        for augmenter in (mx.image.DetHorizontalFlipAug(1), mx.image.DetRandomPadAug(), mx.image.DetRandomCropAug()):
            image, _ = augmenter(image, np.array([[0, 0.1, 0.1, 0.9, 0.9]], np.float32))


@pytest.mark.parametrize("interp", range(5))
def test_resized_bytes_equal_those_of_the_operator(interp: int) -> None:
    """OpenCV's cubic interpolation may round a few in ten thousand numbers otherwise than the operator, by 1."""
    rng = np.random.default_rng(0)
    noise = rng.integers(0, 256, (96, 128, 3), np.uint8)
    for width, height in ((100, 81), (57, 40), (64, 48), (150, 130)):
        x = mx.nd.array(noise, dtype="uint8")
        found = mx.image.imresize(x, width, height, interp).asnumpy()
        expected = mx.nd.image.resize(x, size=(width, height), interp=interp).asnumpy()
        difference = np.abs(found.astype(int) - expected)
        assert difference.max() <= int(interp == 2) and (difference > 0).mean() < 3e-4


def test_opencv_keeps_its_settings() -> None:
    cv2.ipp.setUseIPP(True)
    used = cv2.ipp.useIPP()
    mx.image.imresize(photo(), 9, 9, 2)
    assert cv2.ipp.useIPP() == used


def test_a_recorded_image_takes_operators() -> None:
    x = photo("float32")
    x.attach_grad()
    with mx.autograd.record():
        y = mx.image.HorizontalFlipAug(1)(mx.image.RandomGrayAug(1)(x))
        y[0, 0].sum().backward()
    assert x.grad.asnumpy()[0, -1].tolist() == pytest.approx([0.63, 2.16, 0.21]) and not x.grad.asnumpy()[1:].any()


def test_augmenters_whose_range_is_empty_warn_and_do_nothing() -> None:
    label = np.array([[0, 0.1, 0.1, 0.9, 0.9]], np.float32)
    makers: Any = ((mx.image.DetRandomCropAug, "Crop"), (mx.image.DetRandomPadAug, "Pad"))
    for make, name in makers:
        for what, value in (("area_range", (3, 2)), ("aspect_ratio_range", (0, 1))):
            with pytest.warns(UserWarning, match=f"Skip DetRandom{name}Aug due to invalid {what}"):
                augmenter: Any = make(**{what: value})
            assert augmenter(photo(), label)[1] is label


def test_a_class_of_a_user() -> None:
    class Add(mx.image.Augmenter):
        def __init__(self, value: float) -> None:
            super().__init__(value=value, table=np.eye(2))
            self.value = value

        def __call__(self, src: Any) -> Any:
            return src + self.value

    assert Add(2).dumps() == '["add", {"value": 2, "table": [[1.0, 0.0], [0.0, 1.0]]}]'
    made = mx.image.SequentialAug([mx.image.CastAug(), Add(2)])(photo())
    assert (made.asnumpy() == PHOTO + np.float32(2)).all()
    with pytest.raises(NotImplementedError):
        mx.image.Augmenter()(photo())
    with pytest.raises(NotImplementedError):
        mx.image.DetAugmenter()(photo(), np.zeros((1, 5)))


# Iterators.


def iterator(**arguments: Any) -> Any:
    return mx.image.ImageIter(2, (3, 20, 24), **arguments)


def records(name: str) -> dict[str, Any]:
    return {"path_imgrec": str(IMAGES / f"{name}.rec"), "path_imgidx": str(IMAGES / f"{name}.idx")}


@pytest.mark.parametrize(
    ("make", "kind", "text"),
    [
        (lambda: iterator(**records("broken"), label_width=2).next(), RuntimeError, "Broken image index: 3, Decod"),
        (
            lambda: iterator(path_imgrec=str(IMAGES / "broken.rec"), label_width=2).next(),
            RuntimeError,
            "Broken image index: 1, Decod",
        ),
        (
            lambda: iterator(imglist=[[1, "broken.jpg"]], **ROOT).next(),
            RuntimeError,
            "Broken image filename: broken.jpg, Decod",
        ),
        (
            lambda: iterator(imglist=[[1, 2, 3, "0.jpg"]], **ROOT, label_width=2).next(),
            ValueError,
            r"filename: 0.jpg: a label of shape \(3,\) does not fit a row of labels of shape \(2,\)",
        ),
        (lambda: iterator(imglist=[["0.jpg"]], **ROOT), TypeError, "not only a path"),
        (lambda: mx.image.ImageIter(0, (3, 4, 4), imglist=[]), mx.MXNetError, "batch_size=0 must be positive"),
        (lambda: mx.image.ImageDetIter(2, (3, 4, 4), imglist=[]), mx.MXNetError, "there is no image"),
        (
            lambda: mx.image.ImageDetIter(2, (3, 4, 4), imglist=[[[2, 0, 1, 1, 1, 1, 1], "0.jpg"]], **ROOT),
            RuntimeError,
            "filename: 0.jpg: .*annotation width 0",
        ),
        (
            lambda: mx.image.ImageDetIter(2, (3, 4, 4), imglist=[[[1, 2], "0.jpg"]], **ROOT),
            RuntimeError,
            r"filename: 0.jpg: Label shape is invalid: \(2,\)",
        ),
    ],
)
def test_errors_name_the_image(make: Any, kind: Any, text: str) -> None:
    with pytest.raises(kind, match=text):
        make()


def test_errors_name_the_line_of_a_list(tmp_path: Path) -> None:
    (tmp_path / "a.lst").write_text("1\t2\ta.jpg\n2\tb\tc.jpg\n")
    with pytest.raises(ValueError, match=r"invalid image list .*a.lst, line 2: could not convert"):
        iterator(path_imglist=str(tmp_path / "a.lst"))


def test_images_that_are_not_valid_are_skipped(caplog: pytest.LogCaptureFixture) -> None:
    class Landscapes(mx.image.ImageIter):
        def check_valid_image(self, data: Any) -> None:
            if data.shape[0] > data.shape[1]:
                raise RuntimeError("it is a portrait")

    batches: Any = Landscapes(2, (3, 20, 24), **records("images"), label_width=2)
    with caplog.at_level(logging.DEBUG):
        labels = [label for batch in batches for label in batch.label[0].asnumpy()[:, 0]]
    assert labels == [0, 1, 3, 6]
    assert caplog.text.count("Invalid image, skipping:  it is a portrait") == 3


def test_a_step_that_is_replaced_on_the_object() -> None:
    batches = iterator(**records("images"), label_width=2)
    plain = batches.next().data[0].asnumpy()
    batches.reset()
    batches.postprocess_data = lambda datum: datum.transpose((2, 0, 1)) + 1
    assert (batches.next().data[0].asnumpy() == plain + 1).all()


def test_keys_that_occur_twice_are_read_twice(tmp_path: Path) -> None:
    (tmp_path / "a.lst").write_text("1\t5\t0.jpg\n1\t6\t1.jpg\n")
    (batch,) = iterator(path_imglist=str(tmp_path / "a.lst"), **ROOT)
    assert batch.label[0].asnumpy().tolist() == [6, 6]


def test_rows_without_an_image_are_zero() -> None:
    batch: Any
    batches = mx.image.ImageIter(5, (3, 20, 24), imglist=[[1, "0.jpg"], [2, "1.jpg"]], **ROOT)
    (batch,) = batches
    assert batch.pad == 3 and not batch.data[0].asnumpy()[4:].any() and batch.data[0].asnumpy()[3].any()
    assert batch.label[0].asnumpy().tolist() == [1, 2, 1, 2, 0]
    (batch,) = mx.image.ImageDetIter(3, (3, 20, 24), imglist=[[[2, 5, 1, 0, 0, 1, 1], "0.jpg"]], **ROOT)
    assert batch.label[0].asnumpy()[:, 0].tolist() == [[1, 0, 0, 1, 1]] * 2 + [[-1] * 5]


def test_boxes_are_drawn() -> None:
    batches = mx.image.ImageDetIter(1, (3, 60, 80), **records("objects"), mean=True, std=True)
    plain = list(batches.draw_next(mean=True, std=True, color=(255, 0, 0), thickness=1))
    assert len(plain) == 5 and all(image.shape == (60, 80, 3) and image.dtype == np.uint8 for image in plain)
    assert plain[0][12, 8].tolist() == [0, 0, 255] == plain[0][36, 40].tolist()
    batches.reset()
    np.random.seed(1)
    named = list(batches.draw_next(mean=True, std=True, id2labels={0: "cat"}))
    assert (named[0] == 255).all(2).sum() > 20 and not (named[2] == 255).all(2).any()


def test_drawing_requires_opencv(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cv2", None)
    batches = mx.image.ImageDetIter(1, (3, 60, 80), **records("objects"))
    with pytest.raises(ImportError):
        next(batches.draw_next())
