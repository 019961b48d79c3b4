"""The error that every reader and writer of artifacts raises."""

from __future__ import annotations


class ArtifactError(ValueError):
    """A file is damaged, truncated or of an unknown kind, or a value cannot be represented in the file's format.

    The message contains the file, the position in it, and the problem.
    """
