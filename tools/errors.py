"""The errors that the command line reports in one line."""

from __future__ import annotations


class ToolError(Exception):
    """The work failed for a reason that the user can act on: exit status 1."""


class UsageError(ToolError):
    """The command line asks for something that makes no sense: exit status 2."""
