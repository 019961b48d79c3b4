"""The errors that the command line reports in one line."""

from __future__ import annotations


class ToolError(Exception):
    """The command failed for a reason that the user can fix: exit status 1."""


class UsageError(ToolError):
    """The command line is invalid: exit status 2."""
