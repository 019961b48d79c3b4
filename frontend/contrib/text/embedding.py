"""Token embeddings from files: GloVe, fastText, custom files, and concatenations of several."""

from __future__ import annotations

import logging
import os
import tarfile
import warnings
import zipfile
from array import array
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from ... import ndarray as nd
from ... import registry
from ...base import MXNetError, data_dir
from ...downloads import check_sha1, download
from ...ndarray import NDArray
from ...tracebacks import cause_of
from . import _constants as C
from .vocab import Vocabulary

__all__ = ["CompositeEmbedding", "CustomEmbedding", "FastText", "GloVe", "create", "get_pretrained_file_names",
           "register"]  # fmt: skip

_ROOT = os.path.join(data_dir(), "embeddings")
Maker = Callable[..., NDArray]


def register(embedding_cls: type) -> type:
    """Register a class of embeddings under its lower-case name."""
    return registry.get_register_func(_TokenEmbedding, "token embedding")(embedding_cls)


def create(embedding_name: str, **kwargs: Any) -> _TokenEmbedding:
    """Create embeddings by name: 'glove' or 'fasttext', with the arguments of the class."""
    return registry.get_create_func(_TokenEmbedding, "token embedding")(embedding_name, **kwargs)


def get_pretrained_file_names(embedding_name: str | None = None) -> Any:
    """The names of the pretrained files of a kind of embedding, as a list. None returns a dictionary for all kinds."""
    known: dict[str, Any] = registry.get_registry(_TokenEmbedding)
    if embedding_name is None:
        return {name: list(cls.pretrained_file_name_sha1) for name, cls in known.items()}
    if embedding_name not in known:
        raise KeyError(f"Cannot find `embedding_name` {embedding_name}. Known are {', '.join(known)}")
    return list(known[embedding_name].pretrained_file_name_sha1)


class _TokenEmbedding(Vocabulary):
    """A vocabulary with a vector for each token. The vector of the unknown token is first."""

    pretrained_file_name_sha1: ClassVar[dict[str, str]] = {}

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._vec_len = 0
        self._idx_to_vec: Any = None

    # --- files ------------------------------------------------------------------------------------------------------

    @classmethod
    def _get_download_file_name(cls, pretrained_file_name: str) -> str:
        return pretrained_file_name

    @classmethod
    def _get_pretrained_file_url(cls, pretrained_file_name: str) -> str:
        repository = os.environ.get("MXNET_GLUON_REPO", C.APACHE_REPO_URL)
        return (
            f"{repository}gluon/embeddings/{cls.__name__.lower()}/{cls._get_download_file_name(pretrained_file_name)}"
        )

    @classmethod
    def _get_pretrained_file(cls, embedding_root: str, pretrained_file_name: str) -> str:
        """The path of an embedding file. It is downloaded and unpacked if it is missing or has a wrong hash."""
        folder = os.path.join(os.path.expanduser(embedding_root), cls.__name__.lower())
        path = os.path.join(folder, pretrained_file_name)
        expected = cls.pretrained_file_name_sha1[pretrained_file_name]
        if os.path.exists(path) and check_sha1(path, expected):
            return path
        url = cls._get_pretrained_file_url(pretrained_file_name)
        archive = os.path.basename(url)
        hashes: dict[str, str] = getattr(cls, "pretrained_archive_name_sha1", {archive: expected})
        try:
            downloaded = download(url, os.path.join(folder, archive), sha1_hash=hashes[archive])
        except OSError as error:
            raise MXNetError(
                f"{url} cannot be downloaded ({error}): copy {pretrained_file_name} to {folder}"
            ) from cause_of(error)
        if archive.endswith(".zip"):
            with zipfile.ZipFile(downloaded) as packed:
                packed.extractall(folder)
        elif archive.endswith(".gz"):
            with tarfile.open(downloaded, "r:gz") as packed:
                packed.extractall(path=folder, filter="data")
        return path

    @classmethod
    def _check_pretrained_file_names(cls, pretrained_file_name: str) -> None:
        if pretrained_file_name not in cls.pretrained_file_name_sha1:
            raise KeyError(
                f"Cannot find pretrained file {pretrained_file_name} for token embedding {cls.__name__.lower()}. Valid "
                f"are: {', '.join(cls.pretrained_file_name_sha1)}"
            )

    def _load_embedding(
        self, pretrained_file_path: str, elem_delim: str, init_unknown_vec: Maker, encoding: str = "utf8"
    ) -> None:
        """Read a file whose lines contain a token and its vector.

        If no line contains the unknown token, its vector is `init_unknown_vec(shape=vec_len)`.
        """
        path = os.path.expanduser(pretrained_file_path)
        if not os.path.isfile(path):
            raise ValueError("`pretrained_file_path` must be a valid path to the pre-trained token embedding file.")
        logging.getLogger().info("Loading pre-trained token embedding vectors from %s", path)
        values = array("f")
        tokens: dict[str, int] = {}
        unknown: list[float] | None = None
        length = 0
        with open(path, encoding=encoding) as file:
            for number, line in enumerate(file, 1):
                token, vector = _parse_line(line, elem_delim, number, path)
                if token == self.unknown_token and unknown is None:
                    unknown = vector
                    tokens[token] = number
                elif token in tokens or len(vector) == 1:
                    reason = f"is a duplicate of line {tokens[token]}" if token in tokens else "is likely a header"
                    warnings.warn(f"At line {number} of {path}: {token} {reason}, it is skipped", stacklevel=4)
                else:
                    if length not in (0, len(vector)):
                        raise AssertionError(
                            f"At line {number} of {path}: the vector of token {token} has {len(vector)} elements, "
                            f"previous vectors have {length}"
                        )
                    length = len(vector)
                    values.extend(vector)
                    self._append(token)
                    tokens[token] = number
        if not length:
            raise ValueError(f"{path} contains no vectors")
        self._vec_len = length
        rows = np.frombuffer(values, np.float32).reshape(-1, length)
        special = len(self) - len(rows)  # the unknown token, and reserved tokens, whose vectors are zeros
        self._idx_to_vec = nd.array(np.concatenate([np.zeros((special, length), np.float32), rows]))
        first = init_unknown_vec(shape=length) if unknown is None else nd.array(unknown)
        self._idx_to_vec[C.UNKNOWN_IDX] = first

    # --- vocabularies -----------------------------------------------------------------------------------------------

    def _index_tokens_from_vocabulary(self, vocabulary: Vocabulary) -> None:
        self._token_to_idx = dict(vocabulary.token_to_idx)
        self._idx_to_token = list(vocabulary.idx_to_token)
        self._unknown_token = vocabulary.unknown_token
        self._reserved_tokens = None if vocabulary.reserved_tokens is None else list(vocabulary.reserved_tokens)

    def _set_idx_to_vec_by_embeddings(
        self, token_embeddings: list[_TokenEmbedding], vocab_len: int, vocab_idx_to_token: list[str]
    ) -> None:
        """Set the vector of each token to the concatenation of its vectors in several embeddings."""
        parts = [
            nd.concat(e.idx_to_vec[0:1], e.get_vecs_by_tokens(vocab_idx_to_token[1:]), dim=0)  # type: ignore[attr-defined]
            if vocab_len > 1
            else e.idx_to_vec[0:1]
            for e in token_embeddings
        ]
        self._idx_to_vec = nd.concat(*parts, dim=1)  # type: ignore[attr-defined]
        self._vec_len = sum(e.vec_len for e in token_embeddings)

    def _build_embedding_for_vocabulary(self, vocabulary: Vocabulary | None) -> None:
        """Restrict the embedding to the tokens of a vocabulary, unless it is None."""
        if vocabulary is None:
            return
        if not isinstance(vocabulary, Vocabulary):
            raise AssertionError(
                "The argument `vocabulary` must be an instance of mxnet.contrib.text.vocab.Vocabulary."
            )
        self._set_idx_to_vec_by_embeddings([self], len(vocabulary), vocabulary.idx_to_token)
        self._index_tokens_from_vocabulary(vocabulary)

    # --- vectors ----------------------------------------------------------------------------------------------------

    @property
    def vec_len(self) -> int:
        """The length of the vectors."""
        return self._vec_len

    @property
    def idx_to_vec(self) -> Any:
        """All vectors (tokens, vec_len), in the order of the token indices."""
        return self._idx_to_vec

    def get_vecs_by_tokens(self, tokens: Any, lower_case_backup: bool = False) -> NDArray:
        """The vector of a token (vec_len,), or of a list of tokens (n, vec_len).

        With `lower_case_backup`, an unknown token is also looked up in lower case.
        """
        indices = self.token_to_idx
        listed = tokens if isinstance(tokens, list) else [tokens]
        numbers = [
            indices.get(token, indices.get(token.lower(), C.UNKNOWN_IDX) if lower_case_backup else C.UNKNOWN_IDX)
            for token in listed
        ]
        vectors = self.idx_to_vec.take(nd.array(numbers, dtype="int32"))
        return vectors if isinstance(tokens, list) else vectors[0]

    def update_token_vectors(self, tokens: Any, new_vectors: NDArray) -> None:
        """Set the vectors of tokens: (n, vec_len), or (vec_len,) for one. Raises ValueError for an unknown token."""
        if self.idx_to_vec is None:
            raise AssertionError("The property `idx_to_vec` has not been properly set.")
        listed = tokens if isinstance(tokens, list) else [tokens]
        if not isinstance(new_vectors, NDArray) or len(new_vectors.shape) not in ((1, 2) if len(listed) == 1 else (2,)):
            raise AssertionError("`new_vectors` must be an NDArray with a row for each token")
        rows = new_vectors.reshape((1, -1)) if len(new_vectors.shape) == 1 else new_vectors
        if rows.shape != (len(listed), self.vec_len):
            raise AssertionError(f"`new_vectors` has shape {rows.shape}, but {(len(listed), self.vec_len)} is required")
        unknown = [token for token in listed if token not in self.token_to_idx]
        if unknown:
            raise ValueError(
                f"Token {unknown[0]} is unknown. To update the embedding vector for an unknown token, please specify "
                f"it explicitly as the `unknown_token` {self.idx_to_token[C.UNKNOWN_IDX]} in `tokens`."
            )
        self._idx_to_vec[nd.array([self.token_to_idx[token] for token in listed], dtype="int32")] = rows


def _parse_line(line: str, delimiter: str, number: int, path: str) -> tuple[str, list[float]]:
    """A line's token and vector. Raises AssertionError or ValueError, with the line number, if it is invalid."""
    token, *elements = line.rstrip().split(delimiter)
    if not elements:
        raise AssertionError(f"At line {number} of {path}: the data format is unexpected.")
    try:
        return token, [float(element) for element in elements]
    except ValueError as error:
        raise ValueError(f"At line {number} of {path}: {error}") from None


@register
class GloVe(_TokenEmbedding):
    """GloVe embeddings (Pennington et al. 2014), of all tokens in a file or of the tokens of a vocabulary."""

    pretrained_archive_name_sha1 = C.GLOVE_PRETRAINED_FILE_SHA1
    pretrained_file_name_sha1 = C.GLOVE_PRETRAINED_ARCHIVE_SHA1

    @classmethod
    def _get_download_file_name(cls, pretrained_file_name: str) -> str:
        size = pretrained_file_name.split(".")[1]
        return next(archive for archive in cls.pretrained_archive_name_sha1 if archive.split(".")[1] == size)

    def __init__(
        self,
        pretrained_file_name: str = "glove.840B.300d.txt",
        embedding_root: str = _ROOT,
        init_unknown_vec: Maker = nd.zeros,
        vocabulary: Vocabulary | None = None,
        **kwargs: Any,
    ) -> None:
        self._check_pretrained_file_names(pretrained_file_name)
        super().__init__(**kwargs)
        path = self._get_pretrained_file(embedding_root, pretrained_file_name)
        self._load_embedding(path, " ", init_unknown_vec)
        self._build_embedding_for_vocabulary(vocabulary)


@register
class FastText(_TokenEmbedding):
    """fastText embeddings (Bojanowski et al. 2017), of all tokens in a file or of the tokens of a vocabulary."""

    pretrained_archive_name_sha1 = C.FAST_TEXT_ARCHIVE_SHA1
    pretrained_file_name_sha1 = C.FAST_TEXT_FILE_SHA1

    @classmethod
    def _get_download_file_name(cls, pretrained_file_name: str) -> str:
        return pretrained_file_name.rpartition(".")[0] + ".zip"

    def __init__(
        self,
        pretrained_file_name: str = "wiki.simple.vec",
        embedding_root: str = _ROOT,
        init_unknown_vec: Maker = nd.zeros,
        vocabulary: Vocabulary | None = None,
        **kwargs: Any,
    ) -> None:
        self._check_pretrained_file_names(pretrained_file_name)
        super().__init__(**kwargs)
        path = self._get_pretrained_file(embedding_root, pretrained_file_name)
        self._load_embedding(path, " ", init_unknown_vec)
        self._build_embedding_for_vocabulary(vocabulary)


class CustomEmbedding(_TokenEmbedding):
    """Embeddings of a custom file. A line contains a token and numbers, separated by `elem_delim`."""

    def __init__(
        self,
        pretrained_file_path: str,
        elem_delim: str = " ",
        encoding: str = "utf8",
        init_unknown_vec: Maker = nd.zeros,
        vocabulary: Vocabulary | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self._load_embedding(pretrained_file_path, elem_delim, init_unknown_vec, encoding)
        self._build_embedding_for_vocabulary(vocabulary)


class CompositeEmbedding(_TokenEmbedding):
    """Concatenates the vectors of several embeddings, for each token of a vocabulary."""

    def __init__(self, vocabulary: Vocabulary, token_embeddings: Any) -> None:
        if not isinstance(vocabulary, Vocabulary):
            raise AssertionError(
                "The argument `vocabulary` must be an instance of mxnet.contrib.text.vocab.Vocabulary."
            )
        embeddings = token_embeddings if isinstance(token_embeddings, list) else [token_embeddings]
        if not all(isinstance(e, _TokenEmbedding) for e in embeddings):
            raise AssertionError("`token_embeddings` must be an embedding or a list of embeddings")
        super().__init__()
        self._index_tokens_from_vocabulary(vocabulary)
        self._set_idx_to_vec_by_embeddings(embeddings, len(self), self.idx_to_token)
