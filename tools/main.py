"""The `mxforge` command: parses the command line, runs one of the tools, and reports errors in one line."""

from __future__ import annotations

import argparse
import os
import sys
import warnings
from collections.abc import Sequence
from importlib import import_module

from ..ir.file_errors import names_file
from .errors import ToolError, UsageError
from .grammar import build_parser, parse

_SETTINGS = (
    ("threads", "MXFORGE_NUM_THREADS"),
    ("target", "MXFORGE_TARGET"),
    ("cpu", "MXFORGE_CPU"),
    ("tuning", "MXFORGE_TUNING"),
)
_STDOUT = "standard output"  # the name of the stream in errors
OK, FAILED, USAGE, INTERRUPTED, PIPE_CLOSED = 0, 1, 2, 130, 141


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line (`sys.argv` by default) and return the exit status."""
    _open_closed_streams()
    options = parse(sys.argv[1:] if arguments is None else arguments)
    if options.command is None:
        build_parser().print_help()
        return USAGE
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _show_warning
            return _run(options)
    except KeyboardInterrupt:
        print("mxforge: interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        _discard_output()
        return PIPE_CLOSED
    except Exception as error:
        if _shows_traceback(options):
            raise
        print(f"mxforge: error: {_one_line(error)}", file=sys.stderr)
        if isinstance(error, OSError) and error.filename == _STDOUT:
            _discard_output()
        return USAGE if isinstance(error, UsageError) else FAILED


def _discard_output() -> None:
    """Discard what stdout holds, because the flush at exit would fail again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _open_closed_streams() -> None:
    """Discard what is printed to streams that the caller closed (`>&-`). Their numbers are those of the next files
    that this process opens."""
    for number, name in ((1, "stdout"), (2, "stderr")):
        if getattr(sys, name) is None:
            descriptor = os.open(os.devnull, os.O_WRONLY)
            if descriptor != number:
                os.dup2(descriptor, number)
                os.close(descriptor)
            setattr(sys, name, open(number, "w", encoding="utf-8", closefd=False))  # noqa: SIM115


def _run(options: argparse.Namespace) -> int:
    """Run a command. Its module is imported here, so that `--help` does not import NumPy."""
    _apply_settings(options)
    status: int = import_module(f"{__package__}.{options.module}").run(options)
    with names_file(_STDOUT):
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
