"""Programs that `mxforge launch` starts in several processes."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import pytest
from mxforge.tools import launch
from mxforge.tools.errors import ToolError


def require_mpi() -> None:
    """Skip the test unless processes can be started."""
    pytest.importorskip("mpi4py")
    try:
        launch._mpiexec(1, None, [])
    except ToolError as error:
        pytest.skip(str(error))


def started(*arguments: Any, **variables: str) -> subprocess.CompletedProcess[str]:
    """The end of `mxforge launch` with these arguments."""
    command = [sys.executable, "-m", "mxforge", "launch", *map(str, arguments)]
    environment = {**os.environ, "MXFORGE_NUM_THREADS": "1", **variables}
    return subprocess.run(command, check=False, capture_output=True, text=True, timeout=120, env=environment)
