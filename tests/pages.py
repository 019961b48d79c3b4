"""Runs the code of a page of the documentation in the current folder, block after block, as a reader would.

```python   a session (`>>> `), whose results are compared as by doctest, or a program, which must not fail
```bash     commands, which must succeed; a block ```text directly after it is what they print (`...` is any text)

Other blocks (```console, ```text elsewhere) are not run.

    python tests/pages.py PAGE [MODULE]      with MODULE instead of mxforge, to compare with MXNet
"""

from __future__ import annotations

import doctest
import os
import re
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def run_page(page: str, text: str) -> list[str]:
    """Runs the blocks of a page; returns a description of each difference and failure."""
    scope: dict[str, Any] = {"__name__": "__main__"}
    problems: list[str] = []
    blocks = list(BLOCK.finditer(text))
    for i, block in enumerate(blocks):
        line = text.count("\n", 0, block.start()) + 1
        after = blocks[i + 1] if i + 1 < len(blocks) else None
        follows = after is not None and after[1] == "text" and not text[block.end() : after.start()].strip()
        if block[1] == "bash":
            problems += run_commands(f"{page}:{line}", block[2], after[2] if after and follows else None)
        elif block[1] == "python" and block[2].startswith(">>> "):
            problems += run_session(page, block[2], line, scope)
        elif block[1] == "python":
            exec(compile("\n" * line + block[2], page, "exec"), scope)
    return problems


def run_session(page: str, source: str, line: int, scope: dict[str, Any]) -> list[str]:
    """Runs a session in `scope`, which keeps its names."""
    session = doctest.DocTestParser().get_doctest(source, scope, page, page, line)
    session.globs = scope
    output: list[str] = []
    doctest.DocTestRunner(verbose=False, optionflags=FLAGS).run(session, out=output.append, clear_globs=False)
    return output


def run_commands(place: str, commands: str, expected: str | None) -> list[str]:
    """Runs commands of the shell, and compares what they print if it is known."""
    done = subprocess.run(["bash", "-euo", "pipefail", "-c", commands], check=False, capture_output=True, text=True)
    if done.returncode:
        return [f"{place}: exit status {done.returncode}\n{commands}{done.stdout}{done.stderr}"]
    if expected is None or doctest.OutputChecker().check_output(expected, done.stdout, FLAGS):
        return []
    return [f"{place}: expected\n{expected}but got\n{done.stdout}{done.stderr}"]


def command_folder(folder: Path) -> Path:
    """`folder` with the commands `mxforge` and `python`, which run this interpreter."""
    folder.mkdir()
    for name, arguments in (("mxforge", "-m mxforge"), ("python", "")):
        (folder / name).write_text(f'#!/bin/sh\nexec "{sys.executable}" {arguments} "$@"\n')
        (folder / name).chmod(0o755)
    return folder


if __name__ == "__main__":
    warnings.simplefilter("error")
    source = Path(sys.argv[1]).read_text()
    if len(sys.argv) > 2:
        source = source.replace("mxforge", sys.argv[2])
    found = run_page(os.path.basename(sys.argv[1]), source)
    print("\n".join(found))
    sys.exit(bool(found))
