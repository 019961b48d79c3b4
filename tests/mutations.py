"""Damages files at random, reproducibly by seed: bits, bytes, numbers, lengths, and the structure of JSON."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from copy import deepcopy
from typing import Any

Random = random.Random

_EXTREMES = (0, 1, 2, 3, *(2**n + d for n in (7, 8, 15, 16, 31, 32, 62, 63, 64) for d in (-1, 0)))
_HEADS = (b"PK\x01\x02", b"PK\x03\x04", b"PK\x05\x06", b"\x93NUMPY", b"\x0a\x23\xd7\xce", b"\xc9\xfa\x93\xf9")
_MARKS = (*_HEADS, b"{", b":", b"(")
_TEXTS = (*("", "(3,", "()", "(0,0)", "[-1]", "nan", "inf", "-1", "0", "1", "None", "True", "é"), "9" * 40, "(" * 99)
_VALUES = (None, True, -1, 0, 1, 2**31, 2**63, 10**400, 0.5, "", "x", [], {}, [[]], [[[0, 0, 0]]], {"": []}, "\ud800")


def flip_bits(data: bytes, rng: Random) -> bytes:
    made = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 8))):
        made[rng.randrange(len(made))] ^= 1 << rng.randrange(8)
    return bytes(made)


def truncate(data: bytes, rng: Random) -> bytes:
    return data[: rng.randrange(len(data))]


def insert(data: bytes, rng: Random) -> bytes:
    at = rng.randrange(len(data) + 1)
    return data[:at] + rng.randbytes(rng.choice((1, 1, 2, 4, 8, 40))) + data[at:]


def delete(data: bytes, rng: Random) -> bytes:
    at = rng.randrange(len(data))
    return data[:at] + data[at + rng.choice((1, 1, 2, 4, 8, 40)) :]


def copy_piece(data: bytes, rng: Random) -> bytes:
    """Copy a piece of the data to another position."""
    begin, at = rng.randrange(len(data)), rng.randrange(len(data) + 1)
    return data[:at] + data[begin : begin + rng.randrange(1, 65)] + data[at:]


def set_number(data: bytes, rng: Random) -> bytes:
    """Write an extreme number of 1 to 8 bytes at the start of the file or near a possible header."""
    size = rng.choice((1, 2, 4, 4, 8, 8))
    marks = [at for mark in _MARKS if (at := data.rfind(mark) if rng.random() < 0.5 else data.find(mark)) >= 0]
    begin = rng.choice((0, rng.randrange(len(data)), *marks)) + rng.choice((0, 1, 2, 4, 6, 8)) * rng.randrange(9)
    number = rng.choice((*_EXTREMES, len(data), len(data) + 1)) % 256**size
    return data[:begin] + number.to_bytes(size, rng.choice(("little", "little", "big"))) + data[begin + size :]


BYTES: tuple[Callable[[bytes, Random], bytes], ...] = (flip_bits, truncate, insert, delete, copy_piece, set_number)


def mutate_bytes(data: bytes, rng: Random) -> bytes:
    """The data with one to three mutations."""
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        data = rng.choice(BYTES)(data or b"\0", rng)
    return data


def mutate_text_of_json(data: bytes, rng: Random) -> bytes:
    """JSON with a damaged structure: parts are removed, repeated, exchanged, or changed in type or size."""
    tree = json.loads(data, strict=False)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        places = list(_places(tree))
        if places:
            container, key = rng.choice(places)
            rng.choice((_remove, _repeat, _replace, _replace, _exchange))(container, key, rng)
    return json.dumps(tree, allow_nan=True).encode()


def _places(tree: Any) -> Any:
    """All pairs (container, key) of a tree."""
    items = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, value in list(items):
        yield tree, key
        yield from _places(value)


def _remove(container: Any, key: Any, rng: Random) -> None:
    del container[key]


def _repeat(container: Any, key: Any, rng: Random) -> None:
    if isinstance(container, list):
        container.insert(rng.randrange(len(container) + 1), deepcopy(container[key]))
    else:
        container[f"{key}_"] = deepcopy(container[key])


def _replace(container: Any, key: Any, rng: Random) -> None:
    old = container[key]
    if isinstance(old, int) and rng.random() < 0.7:
        container[key] = rng.choice((old + 1, old - 1, -old, *_EXTREMES))
    elif isinstance(old, str) and rng.random() < 0.7:
        container[key] = rng.choice((*_TEXTS, old + "x", old[:-1], "(" + old + ",)"))
    else:
        container[key] = deepcopy(rng.choice(_VALUES))


def _exchange(container: Any, key: Any, rng: Random) -> None:
    other = rng.choice(list(container) if isinstance(container, dict) else range(len(container)))
    container[key], container[other] = container[other], container[key]
