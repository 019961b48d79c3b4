"""Downloads: whole or not at all, checked, repeated; and the store of trained weights."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from mxforge.gluon.utils import check_sha1, download

DATA = b"mxforge" * 1000
SHA1 = hashlib.sha1(DATA).hexdigest()


@pytest.fixture
def source(tmp_path: Path) -> str:
    """The URL of a file."""
    path = tmp_path / "source" / "file.bin"
    path.parent.mkdir()
    path.write_bytes(DATA)
    return path.as_uri()


def test_a_file_is_fetched_into_a_folder_that_may_not_exist(source: str, tmp_path: Path) -> None:
    target = download(source, path=str(tmp_path / "new" / "name.bin"), sha1_hash=SHA1)
    assert Path(target).read_bytes() == DATA and check_sha1(target, SHA1)
    assert download(source, path=str(tmp_path / "new")) == str(tmp_path / "new" / "file.bin")


def test_a_good_file_is_kept_and_a_bad_one_replaced(source: str, tmp_path: Path) -> None:
    target = tmp_path / "file.bin"
    target.write_bytes(b"mine")
    download(source, path=str(target))
    assert target.read_bytes() == b"mine"
    download(source, path=str(target), sha1_hash=SHA1)
    assert target.read_bytes() == DATA


def test_another_hash_is_said(source: str, tmp_path: Path) -> None:
    with pytest.raises(UserWarning, match="does not match"):
        download(source, path=str(tmp_path / "file.bin"), sha1_hash="0" * 40)


def test_a_failure_is_the_last_error_and_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="nothing"):
        download((tmp_path / "nothing").as_uri(), path=str(tmp_path / "file.bin"), retries=1)
    assert not (tmp_path / "file.bin").exists()
