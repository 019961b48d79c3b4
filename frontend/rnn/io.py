"""Batches of sentences, in buckets of similar length."""

from __future__ import annotations

import random
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ..io import DataBatch, DataDesc, DataIter
from ..ndarray import NDArray, array

__all__ = ["BucketSentenceIter", "encode_sentences"]


def encode_sentences(
    sentences: Iterable[Sequence[Any]],
    vocab: dict[Any, int] | None = None,
    invalid_label: int = -1,
    invalid_key: Any = "\n",
    start_label: int = 0,
    unknown_token: Any = None,
) -> tuple[list[list[int]], dict[Any, int]]:
    """Encode lists of words as lists of integers. Returns them and the vocabulary.

    A new vocabulary numbers words from `start_label`, except `invalid_label`. If `vocab` is passed, words that it does
    not contain become `unknown_token`; without `unknown_token` they raise AssertionError.
    """
    is_new = vocab is None
    codes = {invalid_key: invalid_label} if vocab is None else vocab
    number = start_label

    def code(word: Any) -> int:
        nonlocal number
        if word in codes:
            return codes[word]
        if not (is_new or unknown_token):
            raise AssertionError(f"Unknown token {word}")
        number += number == invalid_label
        word = unknown_token or word
        codes[word] = number
        number += 1
        return codes[word]

    return [[code(word) for word in sentence] for sentence in sentences], codes


class BucketSentenceIter(DataIter):
    """Batches of encoded sentences. Each sentence is padded with `invalid_label` to its bucket's length.

    Labels are the sentences shifted by one step. The default buckets are the lengths with at least `batch_size`
    sentences. Sentences longer than the largest bucket are dropped. `layout` is NT or TN.
    """

    def __init__(
        self,
        sentences: Sequence[Sequence[float]],
        batch_size: int,
        buckets: list[int] | None = None,
        invalid_label: float = -1,
        data_name: str = "data",
        label_name: str = "softmax_label",
        dtype: Any = "float32",
        layout: str = "NT",
    ) -> None:
        super().__init__()
        if not buckets:
            buckets = [i for i, n in enumerate(np.bincount([len(s) for s in sentences])) if n >= batch_size]
        buckets.sort()
        if not buckets:
            raise ValueError(f"no sentence length has {batch_size} sentences for a batch: pass buckets")
        self.major_axis = layout.find("N")
        if self.major_axis not in (0, 1):
            raise ValueError(f"Invalid layout {layout}: Must by NT (batch major) or TN (time major)")
        padded = _in_buckets(sentences, buckets, invalid_label, dtype)
        discarded = len(sentences) - sum(map(len, padded))
        print(f"WARNING: discarded {discarded} sentences longer than the largest bucket.")
        self.buckets = [length for length, rows in zip(buckets, padded, strict=True) if rows]
        self.data = [np.asarray(rows, dtype=dtype) for rows in padded if rows]
        self.batch_size, self.dtype, self.layout, self.invalid_label = batch_size, dtype, layout, invalid_label
        self.data_name, self.label_name = data_name, label_name
        self.default_bucket_key = max(self.buckets)
        shape = (batch_size, self.default_bucket_key)
        shape = shape if self.major_axis == 0 else shape[::-1]
        self.provide_data = [DataDesc(data_name, shape, layout=layout)]
        self.provide_label = [DataDesc(label_name, shape, layout=layout)]
        self.idx = [
            (i, j) for i, rows in enumerate(self.data) for j in range(0, len(rows) - batch_size + 1, batch_size)
        ]
        self.curr_idx = 0
        self.nddata: list[NDArray] = []
        self.ndlabel: list[NDArray] = []
        self.reset()

    def reset(self) -> None:
        """Restart in a new random order."""
        self.curr_idx = 0
        random.shuffle(self.idx)
        self.nddata, self.ndlabel = [], []
        for rows in self.data:
            np.random.shuffle(rows)
            labels = np.full_like(rows, self.invalid_label)
            labels[:, :-1] = rows[:, 1:]
            self.nddata.append(array(rows, dtype=self.dtype))
            self.ndlabel.append(array(labels, dtype=self.dtype))

    def next(self) -> DataBatch:
        """The next batch, with the length of its sentences as `bucket_key`."""
        if self.curr_idx == len(self.idx):
            raise StopIteration
        bucket, begin = self.idx[self.curr_idx]
        self.curr_idx += 1
        data, label = (a[bucket][begin : begin + self.batch_size] for a in (self.nddata, self.ndlabel))
        if self.major_axis == 1:
            data, label = data.T, label.T
        return DataBatch(
            [data],
            [label],
            pad=0,
            bucket_key=self.buckets[bucket],
            provide_data=[DataDesc(self.data_name, data.shape, layout=self.layout)],
            provide_label=[DataDesc(self.label_name, label.shape, layout=self.layout)],
        )


def _in_buckets(sentences: Sequence[Sequence[float]], buckets: list[int], fill: float, dtype: Any) -> list[list[Any]]:
    """The padded sentences of each bucket. A sentence is in the smallest bucket that is long enough."""
    rows_of_buckets: list[list[Any]] = [[] for _ in buckets]
    for sentence in sentences:
        number = bisect_left(buckets, len(sentence))
        if number == len(buckets):
            continue
        row = np.full((buckets[number],), fill, dtype=dtype)
        row[: len(sentence)] = sentence
        rows_of_buckets[number].append(row)
    return rows_of_buckets
