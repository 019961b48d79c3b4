"""Images without OpenCV: Pillow suffices for all functions, and its results agree with OpenCV's."""

from __future__ import annotations

import io
import subprocess
import sys
from typing import Any

import cv2  # pyright: ignore[reportMissingImports]
import mxforge as mx
import numpy as np
import pytest
from mxforge.frontend.image_codec import codec, without_opencv
from PIL import Image

ROWS, COLUMNS = np.mgrid[:61, :83]
WAVES = (128 + 90 * np.sin(COLUMNS / 9), ROWS * 4 % 256, 128 + 60 * np.cos((COLUMNS + ROWS) / 7))
PHOTO = np.clip(np.stack(WAVES, -1) + np.random.default_rng(0).normal(0, 9, (61, 83, 3)), 0, 255).astype(np.uint8)
GREY = np.ascontiguousarray(PHOTO[:, :, 0])
FOUR = np.dstack([PHOTO, 255 - PHOTO[:, :, 1]])


def saved(image: Any, kind: str, **options: Any) -> bytes:
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def rotated() -> bytes:
    exif = Image.Exif()
    exif[0x0112] = 6  # a quarter turn
    return saved(Image.fromarray(PHOTO), "JPEG", exif=exif)


FILES = {
    "jpg": cv2.imencode(".jpg", PHOTO)[1].tobytes(),
    "coarse.jpg": cv2.imencode(".jpg", PHOTO, [cv2.IMWRITE_JPEG_QUALITY, 30])[1].tobytes(),
    "grey.jpg": cv2.imencode(".jpg", GREY)[1].tobytes(),
    "progressive.jpg": saved(Image.fromarray(PHOTO), "JPEG", progressive=True, subsampling=0),
    "rotated.jpg": rotated(),
    "png": cv2.imencode(".png", PHOTO)[1].tobytes(),
    "grey.png": cv2.imencode(".png", GREY)[1].tobytes(),
    "four.png": cv2.imencode(".png", FOUR)[1].tobytes(),
    "grey16.png": cv2.imencode(".png", GREY.astype(np.uint16) * 250)[1].tobytes(),
    "palette.png": saved(Image.fromarray(PHOTO).quantize(64), "PNG"),
    "bits.png": saved(Image.fromarray(GREY > 100), "PNG"),
    "bmp": cv2.imencode(".bmp", PHOTO)[1].tobytes(),
}


def distance(a: Any, b: Any) -> float:
    assert a.shape == b.shape and a.dtype == b.dtype
    return float(np.abs(a.astype(np.float64) - b).max())


@pytest.mark.parametrize("name", FILES)
def test_decoding(name: str) -> None:
    data = FILES[name]
    for upright in (True, False):
        for rgb in (True, False):
            how = (True, rgb, upright)
            assert distance(without_opencv.decode(data, *how), codec.decode(data, *how)) == 0
        how = (False, True, upright)
        assert distance(without_opencv.decode(data, *how), codec.decode(data, *how)) <= 1
    as_it_is = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_UNCHANGED)
    assert distance(without_opencv.decode_unchanged(data), as_it_is) == 0


@pytest.mark.parametrize("img_fmt", [".jpg", ".JPEG", ".png", ".bmp"])
@pytest.mark.parametrize("image", [PHOTO, GREY], ids=["colours", "grey"])
def test_encoding(img_fmt: str, image: np.ndarray) -> None:
    quality = 3 if img_fmt == ".png" else 80
    made, expected = without_opencv.encode(image, img_fmt, quality), codec.encode(image, img_fmt, quality)
    assert distance(*(cv2.imdecode(np.frombuffer(d, np.uint8), -1) for d in (made, expected))) == 0
    with pytest.raises(mx.MXNetError, match=r"does not support the image format '\.nothing'"):
        without_opencv.encode(image, ".nothing", 1)


@pytest.mark.parametrize(("img_fmt", "quality"), [(".jpg", 3), (".jpg", 95), (".png", 3)])
@pytest.mark.parametrize("name", ["four", "grey16", "grey32", "float"])
def test_encoding_of_other_images(name: str, img_fmt: str, quality: int) -> None:
    grey = GREY.astype(np.float32)
    images = {"four": FOUR, "grey16": (GREY * 250.0).astype(np.uint16), "grey32": GREY.astype(np.int32) - 50}
    image = images.get(name, np.dstack([grey * 2 - 100.4] * 3))
    made, expected = without_opencv.encode(image, img_fmt, quality), codec.encode(image, img_fmt, quality)
    assert distance(*(cv2.imdecode(np.frombuffer(d, np.uint8), -1) for d in (made, expected))) == 0


def test_colours_of_16_bits_need_opencv() -> None:
    with pytest.raises(mx.MXNetError, match="PNG files with 16-bit colours require OpenCV"):
        without_opencv.encode(PHOTO.astype(np.uint16), ".png", 3)


@pytest.mark.parametrize("channels", [1, 3, 4])
@pytest.mark.parametrize("dtype", ["uint8", "float32"])
def test_borders_and_sizes(channels: int, dtype: str) -> None:
    image = np.ascontiguousarray(FOUR[:, :, :channels].astype(dtype))
    for kind in range(5):
        made = without_opencv.add_border(image, (1, 2, 3, 4), kind, [7.6, 300, -2, 5])
        assert distance(made, codec.add_border(image, (1, 2, 3, 4), kind, [7.6, 300, -2, 5])) == 0
    for interp in range(5):
        for size in ((40, 30), (166, 122), (83, 61), (20, 100)):
            made = mx.nd.image.resize(mx.nd.array(image, dtype=dtype), size=size, interp=interp).asnumpy()
            expected = cv2.resize(image, size, interpolation=interp).reshape(made.shape)
            assert distance(made, expected) <= (1 if dtype == "uint8" else 1e-3)
    with pytest.raises(mx.MXNetError, match="type=9 is not one of"):
        without_opencv.add_border(image, (1, 1, 1, 1), 9, [0])


def test_data_that_are_not_an_image_are_refused() -> None:
    for decode in (lambda data: without_opencv.decode(data, True, True, True), without_opencv.decode_unchanged):
        with pytest.raises(mx.MXNetError, match="Decoding failed"):
            decode(FILES["jpg"][:200])


def test_all_functions_work_where_opencv_is_not_installed(tmp_path: Any) -> None:
    (tmp_path / "a.png").write_bytes(FILES["png"])
    program = f"""
import sys
sys.modules["cv2"] = None  # importing it fails
import mxforge as mx, numpy as np
name = {str(tmp_path / "a.png")!r}
photo = mx.image.imread(name)
assert photo.shape == (61, 83, 3) and mx.image.imdecode(open(name, "rb").read(), flag=0).shape == (61, 83, 1)
assert mx.nd.imdecode(open(name, "rb").read()).shape == (3, 61, 83) and mx.image.image.cv2 is None
sizes = [mx.image.imresize(photo, 40, 30), mx.image.resize_short(photo, 30)]
sizes.append(mx.image.fixed_crop(photo, 1, 2, 9, 9, (5, 5)))
crops = [mx.image.random_crop(photo, (20, 20))[0], mx.image.center_crop(photo, (99, 99))[0]]
crops.append(mx.image.random_size_crop(photo, (20, 20), 0.5, (0.75, 1.33))[0])
assert [x.shape for x in sizes + crops] == [(30, 40, 3), (30, 40, 3), (5, 5, 3), (20, 20, 3), (99, 99, 3), (20, 20, 3)]
assert mx.image.copyMakeBorder(photo, 1, 2, 3, 4, value=7).shape == (64, 90, 3)
record = mx.recordio.pack_img((0, 3, 1, 0), photo.asnumpy(), quality=3, img_fmt=".png")
assert all((mx.recordio.unpack_img(record, flag)[1] == photo.asnumpy()).all() for flag in (-1, 1))
assert mx.recordio.unpack_img(record, 0)[1].shape == (61, 83)
transforms = mx.gluon.data.vision.transforms
steps = [transforms.Resize(40), transforms.CenterCrop(32), transforms.RandomResizedCrop(16)]
steps += [transforms.RandomFlipLeftRight(), transforms.RandomColorJitter(0.1, 0.1, 0.1, 0.1)]
steps += [transforms.RandomLighting(0.1), transforms.ToTensor()]
assert transforms.Compose(steps)(photo).shape == (3, 16, 16)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_without_pillow_the_error_names_what_to_install() -> None:
    program = """
import sys
sys.modules["cv2"] = sys.modules["PIL"] = None
import mxforge as mx
try:
    mx.image.imdecode(b"anything")
except ImportError as error:
    assert "pip install pillow" in str(error)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
