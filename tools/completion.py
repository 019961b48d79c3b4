"""`mxforge completion`: prints a script with which a shell completes commands, options and files."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from .errors import ToolError
from .grammar import build_parser

_FILES = ("FILE", "MODEL", "SOURCE", "PROGRAM")
_FOLDERS = ("DIR", "FOLDER")


def run(options: argparse.Namespace) -> int:
    """Print the script; returns status 0. ToolError if the package shtab is missing."""
    try:
        import shtab
    except ImportError:
        raise ToolError("completion needs the package shtab: pip install shtab") from None
    parser = build_parser()
    for action in _actions(parser):
        completer = _kind(action)
        if completer is not None:
            action.complete = completer  # type: ignore[attr-defined]
    print(shtab.complete(parser, options.shell))
    return 0


def _actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """The options and arguments of the parser and of its commands."""
    for action in parser._actions:
        yield action
        if isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                yield from _actions(command)


def _kind(action: argparse.Action) -> object:
    """What completes the value of an action: shtab's files or directories, by the name of the value in the help."""
    from shtab import DIR, FILE

    metavar = action.metavar if isinstance(action.metavar, str) else ""
    if any(name in metavar for name in _FILES):
        return FILE
    return DIR if any(name in metavar for name in _FOLDERS) else None
