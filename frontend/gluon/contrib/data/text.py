"""Texts for language models: WikiText."""

from __future__ import annotations

import os
import sys
import zipfile
from collections import Counter
from functools import partial
from typing import Any

import numpy as np

from .....runtime.atomic import write_atomically
from .... import ndarray as nd
from ....base import data_dir
from ....downloads import _get_repo_file_url, check_sha1, download
from ...data.dataset import _DownloadedDataset
from . import _constants as C

__all__ = ["WikiText2", "WikiText103"]

_BLOCK = 1 << 20


class _LanguageModelDataset(_DownloadedDataset):
    """Texts as indices of a vocabulary, which is made of the text unless one is given."""

    def __init__(self, root: str, namespace: str, vocabulary: Any) -> None:
        self._vocab = vocabulary
        self._counter: Counter[str] | None = None
        self._namespace = namespace
        super().__init__(root, None)

    @property
    def vocabulary(self) -> Any:
        """The `Vocabulary` of the indices."""
        return self._vocab

    @property
    def frequencies(self) -> Counter[str] | None:
        """The number of occurrences of each token in the text."""
        return self._counter

    def _build_vocab(self, content: str) -> None:
        """Count the tokens, and make the vocabulary if there is none."""
        library: Any = sys.modules[__name__].text  # a borrowed name: `contrib.text` is in a higher layer
        if not self._counter:
            self._counter = library.utils.count_tokens_from_str(content)
        if not self._vocab:
            self._vocab = library.vocab.Vocabulary(counter=self._counter, reserved_tokens=[C.EOS_TOKEN])


class _WikiText(_LanguageModelDataset):
    """Pairs of vectors of `seq_len` tokens: a part of the text, and the same part one token later.

    Each line that is not empty ends with "<eos>". Parts do not overlap, and the rest of the text is dropped.
    """

    _archive_file: tuple[str, str]
    _data_file: dict[str, tuple[str, str]]
    _segment: str
    _seq_len: int

    def _read_batch(self, filename: str) -> tuple[np.ndarray, np.ndarray]:
        """The tokens of a file without the last one, and without the first one."""
        with open(filename, encoding="utf8") as file:
            content = file.read()
        self._build_vocab(content)
        lines = filter(None, (line.split() for line in content.splitlines()))
        tokens = [token for line in lines for token in (*line, C.EOS_TOKEN)]
        indices = np.array(self.vocabulary.to_indices(tokens), dtype=np.int32)
        return indices[:-1], indices[1:]

    def _get_data(self) -> None:
        name, sha1 = self._data_file[self._segment]
        path = os.path.join(self._root, name)
        if not os.path.exists(path) or not check_sha1(path, sha1):
            self._extract()
        self._data, self._label = (self._parts(tokens) for tokens in self._read_batch(path))

    def _extract(self) -> None:
        """Download the archive, and unpack its files into `root`."""
        name, sha1 = self._archive_file
        url = _get_repo_file_url(f"gluon/dataset/{self._namespace}", name)
        with zipfile.ZipFile(download(url, path=self._root, sha1_hash=sha1)) as archive:
            for member in archive.infolist():
                if not member.is_dir():
                    with archive.open(member) as file:
                        target = os.path.join(self._root, os.path.basename(member.filename))
                        write_atomically(target, iter(partial(file.read, _BLOCK), b""))

    def _parts(self, tokens: np.ndarray) -> nd.NDArray:
        count = len(tokens) // self._seq_len
        return nd.array(tokens[: count * self._seq_len].reshape(count, self._seq_len), dtype=np.int32)


class WikiText2(_WikiText):
    """WikiText-2. `segment` is "train", "validation" or "test"; `root` contains, or gets, the files wiki.*.tokens."""

    def __init__(
        self,
        root: str = os.path.join(data_dir(), "datasets", "wikitext-2"),
        segment: str = "train",
        vocab: Any = None,
        seq_len: int = 35,
    ) -> None:
        self._archive_file = ("wikitext-2-v1.zip", "3c914d17d80b1459be871a5039ac23e752a53cbe")
        self._data_file = {
            "train": ("wiki.train.tokens", "863f29c46ef9d167fff4940ec821195882fe29d1"),
            "validation": ("wiki.valid.tokens", "0418625c8b4da6e4b5c7a0b9e78d4ae8f7ee5422"),
            "test": ("wiki.test.tokens", "c7b8ce0aa086fb34dab808c5c49224211eb2b172"),
        }
        self._segment = segment
        self._seq_len = seq_len
        super().__init__(root, "wikitext-2", vocab)


class WikiText103(_WikiText):
    """WikiText-103, as WikiText-2."""

    def __init__(
        self,
        root: str = os.path.join(data_dir(), "datasets", "wikitext-103"),
        segment: str = "train",
        vocab: Any = None,
        seq_len: int = 35,
    ) -> None:
        self._archive_file = ("wikitext-103-v1.zip", "0aec09a7537b58d4bb65362fee27650eeaba625a")
        self._data_file = {
            "train": ("wiki.train.tokens", "b7497e2dfe77e72cfef5e3dbc61b7b53712ac211"),
            "validation": ("wiki.valid.tokens", "c326ac59dc587676d58c422eb8a03e119582f92b"),
            "test": ("wiki.test.tokens", "8a5befc548865cec54ed4273cf87dbbad60d1e47"),
        }
        self._segment = segment
        self._seq_len = seq_len
        super().__init__(root, "wikitext-103", vocab)
