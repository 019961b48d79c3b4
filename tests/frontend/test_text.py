"""mx.contrib.text with local files instead of downloads, and mx.contrib.tensorboard."""

from __future__ import annotations

import hashlib
import sys
import zipfile
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import mxforge as mx
import pytest

text = mx.contrib.text
LINES = "a 1 2\nb 3 4\n"


@pytest.fixture
def glove(monkeypatch: pytest.MonkeyPatch) -> None:
    digest = hashlib.sha1(LINES.encode()).hexdigest()
    monkeypatch.setitem(text.embedding.GloVe.pretrained_file_name_sha1, "glove.6B.50d.txt", digest)


def test_an_existing_file_is_read(glove: None, tmp_path: Path) -> None:
    (tmp_path / "glove").mkdir()
    (tmp_path / "glove" / "glove.6B.50d.txt").write_text(LINES)
    made = text.embedding.create("glove", pretrained_file_name="glove.6B.50d.txt", embedding_root=str(tmp_path))
    assert made.get_vecs_by_tokens(["b", "a", "x"]).asnumpy().tolist() == [[3, 4], [1, 2], [0, 0]]


def test_an_archive_is_unpacked(glove: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with zipfile.ZipFile(tmp_path / "glove.6B.zip", "w") as packed:
        packed.writestr("glove.6B.50d.txt", LINES)

    def fetch(url: str, path: str, sha1_hash: str) -> str:
        assert url.endswith("gluon/embeddings/glove/glove.6B.zip")
        assert sha1_hash == text.embedding.GloVe.pretrained_archive_name_sha1["glove.6B.zip"]
        return str(tmp_path / "glove.6B.zip")

    monkeypatch.setattr(text.embedding, "download", fetch)
    made = text.embedding.GloVe("glove.6B.50d.txt", embedding_root=str(tmp_path))
    assert made.idx_to_token == ["<unk>", "a", "b"]


def test_without_a_network_the_place_of_the_file_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: str, **kwargs: str) -> str:
        raise OSError("no route")

    monkeypatch.setattr(text.embedding, "download", fail)
    with pytest.raises(
        mx.MXNetError, match=r"simple.zip cannot be downloaded \(no route\): copy wiki.simple.vec to .*"
    ):
        text.embedding.FastText(embedding_root=str(tmp_path))


def test_reserved_tokens_have_vectors(tmp_path: Path) -> None:
    (tmp_path / "v").write_text(LINES)
    made = text.embedding.CustomEmbedding(str(tmp_path / "v"), reserved_tokens=["<pad>"])
    assert made.idx_to_vec.asnumpy().tolist() == [[0, 0], [0, 0], [1, 2], [3, 4]]
    assert made.get_vecs_by_tokens("a").asnumpy().tolist() == [1, 2]


def test_metrics_reach_mxboard(monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[Any] = []
    board: Any = ModuleType("mxboard")
    writer = SimpleNamespace(add_scalar=lambda name, value, global_step: written.append((name, value, global_step)))
    board.SummaryWriter = lambda folder: writer
    monkeypatch.setitem(sys.modules, "mxboard", board)
    metric = mx.metric.Loss()
    metric.update(None, [mx.nd.array([1, 3])])
    callback = mx.contrib.tensorboard.LogMetricsCallback("logs", prefix="train")
    callback(mx.model.BatchEndParam(2, 0, metric, None))
    callback(mx.model.BatchEndParam(3, 0, None, None))
    assert written == [("train-loss", 2.0, 2)]


def test_operators_by_their_old_path() -> None:
    assert mx.contrib.nd.box_iou is mx.nd.contrib.box_iou
    assert mx.contrib.symbol.box_iou is mx.sym.contrib.box_iou
