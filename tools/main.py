"""The `mxforge` command: parses the command line, runs one of the tools, and reports errors in one line."""

from __future__ import annotations

import argparse
import os
import sys
import warnings
from collections.abc import Sequence
from importlib import import_module

from .errors import ToolError, UsageError
from .grammar import build_parser, split_program

_SETTINGS = (
    ("threads", "MXFORGE_NUM_THREADS"),
    ("target", "MXFORGE_TARGET"),
    ("cpu", "MXFORGE_CPU"),
    ("tuning", "MXFORGE_TUNING"),
)
OK, FAILED, USAGE, INTERRUPTED, PIPE_CLOSED = 0, 1, 2, 130, 141


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line (`sys.argv` by default) and return the exit status."""
    parser = build_parser()
    own, program = split_program(sys.argv[1:] if arguments is None else arguments)
    options = parser.parse_args(own)
    if program:
        options.program = program
    if options.command is None:
        parser.print_help()
        return USAGE
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _show_warning
            return _run(options)
    except KeyboardInterrupt:
        print("mxforge: interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for the flush at exit
        return PIPE_CLOSED
    except Exception as error:
        if _shows_traceback(options):
            raise
        print(f"mxforge: error: {_one_line(error)}", file=sys.stderr)
        return USAGE if isinstance(error, UsageError) else FAILED


def _run(options: argparse.Namespace) -> int:
    """Run a command. Its module is imported here, so that `--help` does not import NumPy."""
    _apply_settings(options)
    status: int = import_module(f"{__package__}.{options.module}").run(options)
    sys.stdout.flush()
    return status


def _apply_settings(options: argparse.Namespace) -> None:
    """Store options that are settings of the library in the environment, which the library reads once."""
    for option, variable in _SETTINGS:
        value = getattr(options, option, None)
        if value is not None:
            os.environ[variable] = str(value)
    settings = sys.modules.get(__name__.replace("tools.main", "ir.settings"))
    if settings is not None:
        settings.settings.cache_clear()


def _show_warning(message: Warning | str, *_: object) -> None:
    """Print a warning in one line, without its place in the program."""
    print(f"mxforge: warning: {' '.join(str(message).split())}", file=sys.stderr)


def _shows_traceback(options: argparse.Namespace) -> bool:
    return getattr(options, "traceback", False) or os.environ.get("MXFORGE_DEBUG", "") not in ("", "0")


def _one_line(error: Exception) -> str:
    """The error as one line: the message, and for unexpected errors the type."""
    from ..ir.graph import GraphError

    text = " ".join(line.strip() for line in str(error).splitlines() if line.strip())
    if isinstance(error, OSError) and error.strerror and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    if isinstance(error, ToolError | GraphError | OSError | ValueError | RuntimeError | ImportError) and text:
        return text
    return f"{type(error).__name__}: {text} (unexpected error; --traceback shows its place)"
