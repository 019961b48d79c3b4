"""Downloads: atomic, with checksums and retries; and the store of trained weights."""

from __future__ import annotations

import bz2
import hashlib
import io
import zipfile
from pathlib import Path
from typing import Any

import mxforge as mx
import pytest
import requests
from mxforge.frontend.gluon.model_zoo import model_store
from mxforge.frontend.gluon.utils import check_sha1, download

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


def test_a_wrong_hash_is_reported(source: str, tmp_path: Path) -> None:
    with pytest.raises(UserWarning, match="does not match"):
        download(source, path=str(tmp_path / "file.bin"), sha1_hash="0" * 40)


def test_a_failure_raises_the_last_error_and_leaves_no_file(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="nothing"):
        download((tmp_path / "nothing").as_uri(), path=str(tmp_path / "file.bin"), retries=1)
    assert not (tmp_path / "file.bin").exists()


class Answer(requests.Response):
    def __init__(self, status: int, content: bytes = b"") -> None:
        super().__init__()
        self.status_code, self.raw = status, io.BytesIO(content)


class Web:
    """Replaces `requests.get`: returns or raises a sequence of values, and repeats the last one."""

    def __init__(self, *answers: Any) -> None:
        self.answers = answers
        self.calls: list[tuple[Any, Any]] = []

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        found = self.answers[min(len(self.calls), len(self.answers) - 1)]
        self.calls.append((args, kwargs))
        if isinstance(found, type):
            raise found("no route")
        return Answer(*found)


URL = "https://nowhere.invalid/file.bin"


def test_requests_fetches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    web = Web((200, DATA))
    monkeypatch.setattr("requests.get", web)
    target = download(URL, path=str(tmp_path), sha1_hash=SHA1)
    assert Path(target).read_bytes() == DATA and [p.name for p in tmp_path.iterdir()] == ["file.bin"]
    ((args, kwargs),) = web.calls
    assert args == (URL,) and kwargs["stream"] and kwargs["verify"] and kwargs["timeout"]
    with pytest.warns(UserWarning, match="Unverified HTTPS"):
        download(URL, path=str(tmp_path), overwrite=True, verify_ssl=False)
    assert web.calls[1][1]["verify"] is False
    assert mx.gluon.utils.requests is mx.test_utils.requests is requests  # type: ignore[attr-defined]


@pytest.mark.parametrize("retries, attempts", [(0, 1), (1, 1), (2, 2), (5, 5)])
@pytest.mark.parametrize("answer", [(500,), requests.ConnectionError, (200, b"other")])
def test_attempts_and_the_last_error(
    retries: int, attempts: int, answer: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    web = Web(answer)
    monkeypatch.setattr("requests.get", web)
    with pytest.raises((RuntimeError, requests.ConnectionError, UserWarning)) as caught:
        download(URL, path=str(tmp_path), retries=retries, sha1_hash=SHA1)
    assert len(web.calls) == attempts
    kinds = {(500,): RuntimeError, (200, b"other"): UserWarning}
    assert type(caught.value) is (kinds[answer] if isinstance(answer, tuple) else answer)
    file = f"the file, whose SHA-1 is {SHA1}, at {tmp_path}/file.bin"
    assert caught.value.__notes__ == [f"{URL} could not be downloaded: put {file} yourself"]


def test_a_second_attempt_can_succeed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    web = Web((500,), requests.ConnectionError, (200, DATA))
    monkeypatch.setattr("requests.get", web)
    assert Path(download(URL, path=str(tmp_path), retries=3)).read_bytes() == DATA and len(web.calls) == 3


def test_an_interrupted_download_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Cut(io.BytesIO):
        def read(self, *_: Any) -> bytes:
            raise OSError("connection reset")

    answer = Answer(200)
    answer.raw = Cut()
    monkeypatch.setattr("requests.get", lambda *_, **__: answer)
    (tmp_path / "file.bin").write_bytes(b"old")
    with pytest.raises(OSError, match="connection reset"):
        download(URL, path=str(tmp_path), overwrite=True, retries=0)
    assert [(p.name, p.read_bytes()) for p in tmp_path.iterdir()] == [("file.bin", b"old")]


def archive_in(folder: Path, name: str, data: bytes) -> None:
    """Create a store with the archive of one file of weights."""
    (folder / "gluon" / "models").mkdir(parents=True)
    with zipfile.ZipFile(folder / "gluon" / "models" / f"{name}.zip", "w") as archive:
        archive.writestr(f"{name}.params", data)


def test_weights_come_from_the_store_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(model_store._model_sha1, "alexnet", SHA1)
    monkeypatch.setenv("MXNET_GLUON_REPO", (tmp_path / "store").as_uri())
    archive_in(tmp_path / "store", f"alexnet-{SHA1[:8]}", DATA)
    path = model_store.get_model_file("alexnet", root=str(tmp_path / "models"))
    assert Path(path).read_bytes() == DATA
    monkeypatch.setenv("MXNET_GLUON_REPO", (tmp_path / "nowhere").as_uri())
    assert model_store.get_model_file("alexnet", root=str(tmp_path / "models")) == path
    assert list((tmp_path / "models").iterdir()) == [Path(path)]
    model_store.purge(str(tmp_path / "models"))
    assert not Path(path).exists()


def test_without_the_store_the_error_explains_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MXNET_GLUON_REPO", (tmp_path / "nowhere").as_uri())
    with pytest.raises(mx.MXNetError, match=r"resnet18_v1-a0666292.params are not in .*as root="):
        mx.gluon.model_zoo.vision.resnet18_v1(pretrained=True, root=str(tmp_path))
    with pytest.raises(ValueError, match="not available"):
        model_store.get_model_file("nothing")


def test_damaged_weights_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MXNET_GLUON_REPO", (tmp_path / "store").as_uri())
    archive_in(tmp_path / "store", f"alexnet-{model_store.short_hash('alexnet')}", DATA)
    with pytest.raises(ValueError, match="different hash"):
        model_store.get_model_file("alexnet", root=str(tmp_path / "models"))


def test_files_are_unpacked_atomically(tmp_path: Path) -> None:
    packed = bz2.compress(DATA)
    for name, content in (("whole.bz2", packed), ("cut.bz2", packed[:-20])):
        (tmp_path / name).write_bytes(content)
    (tmp_path / "data").mkdir()
    folder = str(tmp_path / "data")
    mx.test_utils.get_bz2_data(folder, "rows", (tmp_path / "whole.bz2").as_uri(), "whole.bz2")
    assert [p.name for p in (tmp_path / "data").iterdir()] == ["rows"]
    assert (tmp_path / "data" / "rows").read_bytes() == DATA
    with pytest.raises(EOFError, match="ended before"):
        mx.test_utils.get_bz2_data(folder, "others", (tmp_path / "cut.bz2").as_uri(), "cut.bz2")
    assert not (tmp_path / "data" / "others").exists()
