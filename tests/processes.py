"""Runs code of tests in a separate Python process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def run_apart(code: str, cache: Path, warnings: str = "error") -> None:
    """Run `code` with an empty environment and the compile cache `cache`; `warnings` is Python's option -W.
    AssertionError with its stderr if it fails."""
    done = subprocess.run(
        [sys.executable, "-W", warnings, "-c", code],
        env={"PATH": "/usr/bin", "MXFORGE_CACHE_DIR": str(cache)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
