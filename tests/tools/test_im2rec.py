"""`mxforge im2rec` and `mxforge rec2idx`: lists, records and indices as those of MXNet's tools."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mxforge.frontend import recordio
from mxforge.frontend.image_codec import codec

CLASSES = ("a", "b/c")
ORDER = [2, 5, 0, 4, 3, 1]
"""How MXNet's tool shuffles six images."""


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with classes of three images of 8 x 12, 9 x 12 and 10 x 12 pixels."""
    root = tmp_path_factory.mktemp("photos")
    for label, folder in enumerate(CLASSES):
        (root / folder).mkdir(parents=True)
        for i in range(3):
            image = np.full((8 + i, 12, 3), 40 * i + 100 * label, np.uint8)
            (root / folder / f"{i}.PNG").write_bytes(codec.encode(image, ".png", 3))
    (root / "notes.txt").write_text("no image")
    return root


def records(path: Path) -> list[tuple[Any, np.ndarray | None]]:
    reader = recordio.MXIndexedRecordIO(str(path.with_suffix(".idx")), str(path.with_suffix(".rec")), "r")
    return [recordio.unpack_img(reader.read_idx(key) or b"") for key in reader.keys]


def test_lists_have_the_order_of_mxnet(mxforge: Any, photos: Path, tmp_path: Path) -> None:
    done = mxforge("im2rec", "--list", "--recursive", str(tmp_path / "x"), str(photos))
    assert done.status == 0 and done.out.splitlines()[:2] == ["a 0", "b/c 1"]
    lines = [line.split("\t") for line in (tmp_path / "x.lst").read_text().splitlines()]
    assert [int(line[0]) for line in lines] == ORDER
    assert sorted(lines)[3] == ["3", "1.000000", "b/c/0.PNG"]


def test_lists_are_divided(mxforge: Any, photos: Path, tmp_path: Path) -> None:
    options = ("--recursive", "--no-shuffle", "--chunks", "2", "--train-ratio", "0.4", "--test-ratio", "0.34")
    assert mxforge("im2rec", "--list", *options, str(tmp_path / "x"), str(photos)).status == 0
    found = {path.name: path.read_text().split("\t")[0::2] for path in sorted(tmp_path.iterdir())}
    counts = {name: len((tmp_path / name).read_text().splitlines()) for name in found}
    assert counts == {
        f"x_{chunk}_{part}.lst": count for chunk in (0, 1) for part, count in (("test", 1), ("train", 1), ("val", 1))
    }


@pytest.mark.parametrize("processes", ["1", "2"])
def test_records_of_a_list(mxforge: Any, photos: Path, tmp_path: Path, processes: str) -> None:
    lines = ("7\t1.5\t2\ta/2.PNG", "broken", "8\t0\tmissing.png", "9\t3\tb/c/0.PNG")
    (tmp_path / "x.lst").write_text("\n".join(lines))
    options = ("--center-crop", "--resize", "4", "--pack-label", "--encoding", ".png", "--quality", "3")
    done = mxforge("im2rec", *options, "--num-thread", processes, str(tmp_path / "x"), str(photos))
    assert done.status == 1 and done.out.endswith("x.rec: 2 images\n")
    assert done.err.endswith("error: 2 lines of the lists have no record\n")
    assert "x.lst, line 2: 1 fields, not at least 3" in done.err and "missing.png: No such file" in done.err
    (first, image), (second, other) = records(tmp_path / "x")
    assert first.id == 7 and first.label.tolist() == [1.5, 2] and second.label == 3
    assert image is not None and other is not None and image.shape == (4, 4, 3)
    assert (image == 80).all() and (other == 100).all()


def test_only_the_first_reasons_are_shown(mxforge: Any, photos: Path, tmp_path: Path) -> None:
    (tmp_path / "x.lst").write_text("".join(f"{i}\t0\tmissing{i}.png\n" for i in range(30)))
    done = mxforge("im2rec", str(tmp_path / "x"), str(photos))
    assert done.status == 1 and done.out.endswith("x.rec: 0 images\n")
    assert "missing0.png" in done.err and "missing9.png" in done.err and "missing10.png" not in done.err
    assert done.err.endswith("error: 30 lines of the lists have no record; the first 10 are above\n")


@pytest.fixture(params=["opencv", "pillow"])
def library(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "pillow":
        monkeypatch.setitem(codec._loaded, "cv2", None)
    elif codec.opencv() is None:
        pytest.skip("OpenCV is not installed")
    return request.param


@pytest.fixture
def odd_photos(tmp_path: Path) -> Path:
    """A folder with an image with alpha, and one of 16 bits."""
    root = tmp_path / "odd"
    root.mkdir()
    colours = np.arange(6 * 8 * 4, dtype=np.uint8).reshape(6, 8, 4)
    colours[:, :, 3] |= 128
    (root / "0.png").write_bytes(codec.encode(colours, ".png", 3))
    grey = np.repeat(np.arange(6, dtype=np.uint16)[:, None] * 10000 + 100, 8, axis=1)
    (root / "1.png").write_bytes(codec.encode(grey, ".png", 3))
    return root


@pytest.mark.usefixtures("library")
@pytest.mark.parametrize("encoding", [".png", ".jpg"])
@pytest.mark.parametrize("resize", ["0", "4"])
def test_unchanged_images(mxforge: Any, odd_photos: Path, tmp_path: Path, encoding: str, resize: str) -> None:
    prefix = tmp_path / "x"
    assert mxforge("im2rec", "--list", "--no-shuffle", str(prefix), str(odd_photos)).status == 0
    options = ("--color", "-1", "--encoding", encoding, "--resize", resize)
    done = mxforge("im2rec", *options, str(prefix), str(odd_photos))
    assert done.status == 0 and done.out == f"{prefix}.rec: 2 images\n", done.err
    (_, colours), (_, grey) = records(prefix)
    assert colours is not None and grey is not None
    size = (4, 5) if resize == "4" else (6, 8)
    assert colours.shape == (*size, 4 if encoding == ".png" else 3) and grey.shape == size
    if encoding == ".jpg":
        assert grey.dtype == np.uint8 and (grey[1:] >= 250).all()  # as in OpenCV: larger numbers become 255
        return
    expected = np.array([100, 10100, 20100, 30100, 40100, 50100] if resize == "0" else [2600, 17600, 32600, 47600])
    assert grey.dtype == np.uint16 and (grey == expected[:, None]).all()
    assert (colours[:, :, 3] >= 128).all()


@pytest.mark.usefixtures("library")
def test_the_default_quality_suits_png(mxforge: Any, photos: Path, tmp_path: Path) -> None:
    (tmp_path / "x.lst").write_text("0\t0\ta/0.PNG\n1\t1\tb/c/0.PNG\n")
    done = mxforge("im2rec", "--encoding", ".png", str(tmp_path / "x"), str(photos))
    assert done.status == 0 and done.err == ""
    images = [image for _, image in records(tmp_path / "x")]
    assert [int(image.max()) for image in images if image is not None] == [0, 100]


def test_files_pass_through_and_are_indexed(mxforge: Any, photos: Path, tmp_path: Path) -> None:
    (tmp_path / "x.lst").write_text("5\t1\ta/0.PNG\n3\t2\ta/1.PNG\n")
    assert mxforge("im2rec", "--pass-through", str(tmp_path / "x"), str(photos)).status == 0
    reader = recordio.MXIndexedRecordIO(str(tmp_path / "x.idx"), str(tmp_path / "x.rec"), "r")
    assert recordio.unpack(reader.read_idx(3) or b"")[1] == (photos / "a" / "1.PNG").read_bytes()
    assert mxforge("rec2idx", str(tmp_path / "x.rec"), str(tmp_path / "y.idx")).status == 0
    positions = [reader.idx[key] for key in (5, 3)]
    assert (tmp_path / "y.idx").read_text() == f"0\t{positions[0]}\n1\t{positions[1]}\n"


def test_problems_are_named(mxforge: Any, photos: Path, tmp_path: Path) -> None:
    for options, text in (
        (("x", "no/such/folder"), "no/such/folder is not a folder"),
        ((str(tmp_path / "x"), str(photos)), "make one with --list"),
        (("--list", str(tmp_path / "x"), str(tmp_path)), "has no images"),
        (("--list", "--train-ratio", "0.8", "--test-ratio", "0.3", "x", str(photos)), "more than 1"),
    ):
        done = mxforge("im2rec", *options)
        assert done.status != 0 and text in done.err
    (tmp_path / "bad.rec").write_bytes(b"nonsense")
    done = mxforge("rec2idx", str(tmp_path / "bad.rec"), str(tmp_path / "bad.idx"))
    assert done.status == 1 and "bad.rec, at byte 0: no record starts here" in done.err
