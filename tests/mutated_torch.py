"""Samples of PyTorch's files for `mutated_files.py`, and functions that damage what is in the archive."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

from mutations import Random, mutate_bytes
from random_pickles import mutate_pickle

_FOLDER = Path(__file__).parent / "data" / "torch_files"
SAMPLES = tuple(_FOLDER / name for name in ("tensors.pt", "network.pth", "checkpoint.pt"))


def _mutate_operations(data: bytes, rng: Random) -> bytes:
    return _with_member(data, rng, "data.pkl")


def _mutate_member(data: bytes, rng: Random) -> bytes:
    return _with_member(data, rng, "")


def _with_member(data: bytes, rng: Random, name: str) -> bytes:
    """The archive with a damaged pickle, or, without a name, with the damaged bytes of any member."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = {m.filename: archive.read(m) for m in archive.infolist()}
    chosen = next((m for m in members if m.endswith(f"/{name}")), "") if name else rng.choice(sorted(members))
    members[chosen] = mutate_pickle(members[chosen], rng) if name else mutate_bytes(members[chosen], rng)
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for member, content in members.items():
            archive.writestr(member, content)
    return buffer.getvalue()


MUTATIONS = (mutate_bytes, _mutate_member, _mutate_operations, _mutate_operations)
