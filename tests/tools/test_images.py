"""The conversion of images to arrays: proportions, presets, ranges and layouts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mxforge.tools.errors import ToolError, UsageError
from mxforge.tools.grammar import PRESETS as NAMES
from mxforge.tools.grammar import build_parser
from mxforge.tools.images import PRESETS, ImageOptions, image_options, read_image

Image = pytest.importorskip("PIL.Image")


@pytest.fixture
def halves(tmp_path: Path) -> Path:
    """An image of 20 x 40 whose left half is red, and whose right half is blue."""
    pixels = np.zeros((20, 40, 3), np.uint8)
    pixels[:, :20, 0] = pixels[:, 20:, 2] = 255
    Image.fromarray(pixels).save(tmp_path / "halves.png")
    return tmp_path / "halves.png"


def test_proportions_are_kept(halves: Path) -> None:
    assert read_image(halves, ImageOptions()).shape == (1, 3, 20, 40)
    centre = read_image(halves, ImageOptions(size=(10, 10)))[0]
    assert centre.shape == (3, 10, 10)
    assert centre[0, :, :4].min() == centre[2, :, 6:].min() == 1.0 and centre[1].max() == 0.0
    assert read_image(halves, ImageOptions(resize=10)).shape == (1, 3, 10, 20)
    assert read_image(halves, ImageOptions(resize=10, size=(8, 16))).shape == (1, 3, 8, 16)
    with pytest.raises(UsageError, match="smaller than --size"):
        read_image(halves, ImageOptions(resize=10, size=(12, 12)))


def test_squashing_shows_the_whole_image(halves: Path) -> None:
    squashed = read_image(halves, ImageOptions(size=(4, 4), squash=True))[0]
    assert squashed.shape == (3, 4, 4)
    assert squashed[0, :, 0].tolist() == squashed[2, :, 3].tolist() == [1.0] * 4


def test_ranges_and_orders(halves: Path) -> None:
    found = read_image(halves, ImageOptions(range=255, mean=(5, 0, 0), std=(2,), bgr=True, nhwc=True))
    assert found.shape == (1, 20, 40, 3) and found.dtype == np.float32 and found.flags.c_contiguous
    np.testing.assert_allclose(found[0, 0, 0], [0, 0, 125], rtol=1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_presets(halves: Path, name: str) -> None:
    assert set(NAMES) == set(PRESETS)
    assert read_image(halves, PRESETS[name]).shape == (1, 3, *(PRESETS[name].size or ()))


def test_options_replace_those_of_the_preset(halves: Path) -> None:
    def options(*arguments: str) -> Any:
        return image_options(build_parser().parse_args(["run", "model", *arguments]), [halves])

    assert options("--preset", "imagenet", "--size", "64") == ImageOptions(
        size=(64, 64), resize=256, mean=PRESETS["imagenet"].mean, std=PRESETS["imagenet"].std
    )
    assert options("--preset", "ssd", "--resize", "600").resize == 600
    assert not options("--preset", "ssd", "--resize", "600").squash
    assert options("--preset", "imagenet", "--squash").resize is None
    assert options("--bgr", "--range", "255") == ImageOptions(bgr=True, range=255)
    for wrong in (["--squash"], ["--squash", "--size", "4", "--resize", "8"]):
        with pytest.raises(UsageError, match="--squash stretches"):
            options(*wrong)


def test_a_folder_is_a_batch(mxforge: Any, convnet: Path, halves: Path, tmp_path: Path) -> None:
    Image.new("L", (64, 48)).save(tmp_path / "grey.gif")
    (tmp_path / "notes.txt").touch()
    done = mxforge("run", convnet, "--input", tmp_path, "--size", "32")
    assert done.status == 0, done.err
    assert "float32 (2, 10)" in done.out
    (tmp_path / "empty").mkdir()
    empty = mxforge("run", convnet, "--input", tmp_path / "empty")
    assert empty.status == 1 and "the folder contains no image" in empty.err


def test_damaged_images(tmp_path: Path) -> None:
    (tmp_path / "x.png").write_bytes(b"not a picture")
    with pytest.raises(ToolError, match=r"x\.png: is not an image that Pillow can read"):
        read_image(tmp_path / "x.png", ImageOptions())
