"""Vocabularies: an index for each of the most frequent tokens."""

from __future__ import annotations

from collections import Counter
from typing import Any

from . import _constants as C

__all__ = ["Vocabulary"]


class Vocabulary:
    """Maps tokens to indices: 0 is the unknown token, then `reserved_tokens`, then `counter` by decreasing frequency.

    `most_freq_count` is the maximum number of tokens from `counter`, `min_freq` their minimum frequency.
    """

    def __init__(
        self,
        counter: Counter[str] | None = None,
        most_freq_count: int | None = None,
        min_freq: int = 1,
        unknown_token: str = "<unk>",
        reserved_tokens: list[str] | None = None,
    ) -> None:
        if min_freq <= 0:
            raise AssertionError("`min_freq` must be set to a positive value.")
        if reserved_tokens is not None:
            if unknown_token in reserved_tokens:
                raise AssertionError("`reserved_token` cannot contain `unknown_token`.")
            if len(set(reserved_tokens)) != len(reserved_tokens):
                raise AssertionError("`reserved_tokens` cannot contain duplicate reserved tokens.")
        self._unknown_token = unknown_token
        self._reserved_tokens = None if reserved_tokens is None else list(reserved_tokens)
        self._idx_to_token: list[str] = [unknown_token, *(reserved_tokens or [])]
        self._token_to_idx: dict[str, int] = {token: i for i, token in enumerate(self._idx_to_token)}
        if counter is not None:
            self._index_counter(counter, most_freq_count, min_freq)

    def _index_counter(self, counter: Counter[str], most: int | None, least: int) -> None:
        if not isinstance(counter, Counter):
            raise AssertionError("`counter` must be an instance of collections.Counter.")
        limit = len(self._idx_to_token) + (len(counter) if most is None else most)
        for token, frequency in sorted(counter.items(), key=lambda pair: (-pair[1], pair[0])):
            if frequency < least or len(self._idx_to_token) == limit:
                break
            if token not in self._token_to_idx:
                self._append(token)

    def _append(self, token: str) -> None:
        self._token_to_idx[token] = len(self._idx_to_token)
        self._idx_to_token.append(token)

    def __len__(self) -> int:
        return len(self.idx_to_token)

    @property
    def token_to_idx(self) -> dict[str, int]:
        """The index of each token."""
        return self._token_to_idx

    @property
    def idx_to_token(self) -> list[str]:
        """The tokens in the order of their indices."""
        return self._idx_to_token

    @property
    def unknown_token(self) -> str:
        return self._unknown_token

    @property
    def reserved_tokens(self) -> list[str] | None:
        return self._reserved_tokens

    def to_indices(self, tokens: Any) -> Any:
        """The index of a token, or the indices of a list. The index of an unknown token is 0."""
        if not isinstance(tokens, list):
            return self.token_to_idx.get(tokens, C.UNKNOWN_IDX)
        return [self.token_to_idx.get(token, C.UNKNOWN_IDX) for token in tokens]

    def to_tokens(self, indices: Any) -> Any:
        """The token of an index, or the tokens of a list. Raises ValueError for an invalid index."""
        names: list[str] = []
        for number in indices if isinstance(indices, list) else [indices]:
            if not isinstance(number, int) or number > len(self.idx_to_token) - 1:
                raise ValueError(f"Token index {number} in the provided `indices` is invalid.")
            names.append(self.idx_to_token[number])
        return names if isinstance(indices, list) else names[0]
