"""What errors suggest: a known name for one that is not known, and a page of the documentation."""

from __future__ import annotations

from collections.abc import Iterable


def suggestion(name: str, known: Iterable[str]) -> str:
    """` Did you mean 'NAME'?` with the known name that is most similar, or an empty string."""
    from difflib import get_close_matches

    near = get_close_matches(name, known, 1)
    return f" Did you mean {near[0]!r}?" if near else ""


def see(page: str) -> str:
    """` (see: mxforge help PAGE)`, which prints this page of docs/."""
    return f" (see: mxforge help {page})"
