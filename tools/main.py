"""The `mxforge` command: parses the command line and runs one of the tools."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from .. import mxforge_version


def build_parser() -> argparse.ArgumentParser:
    """The command line's grammar."""
    parser = argparse.ArgumentParser(prog="mxforge", description="Tools for MXNet programs and models on mxforge.")
    parser.add_argument("--version", action="version", version=f"mxforge {mxforge_version}")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line (`sys.argv` by default) and gives the process's exit status."""
    parser = build_parser()
    parser.parse_args(arguments)
    parser.print_help()
    return 0
