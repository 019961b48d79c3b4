"""The error that every reader and writer of artifacts raises."""

from __future__ import annotations


class ArtifactError(ValueError):
    """A file is damaged, truncated or of an unknown kind, or a value cannot be said in the file's format.

    The message names the file, the place in it, and what is wrong there.
    """
