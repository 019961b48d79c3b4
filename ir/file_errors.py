"""Completes errors of files that do not name the file."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def names_file(path: str | os.PathLike[str]) -> Generator[None]:
    """Give an OSError of the body that names no file the name `path`: a write to a full disk raises such errors."""
    try:
        yield
    except OSError as error:
        if error.filename is None and error.errno is not None:
            error.filename = os.fspath(path)
        raise
