"""`mxforge help [PAGE]`: lists the pages of the documentation, or prints one. docs/index.md is their order."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

from ..ir.suggestions import suggestion
from .errors import UsageError

DOCS = Path(__file__).resolve().parents[1] / "docs"
_GROUP = re.compile(r"^```\{toctree\}\n:caption: ([^\n]+)\n\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_WAYS = "`mxforge help` lists all, `mxforge COMMAND --help` describes a command"
_API = "reference/"  # pages that only the site has: `help()` of Python prints the same texts


def run(options: argparse.Namespace) -> int:
    """Print the page, or the list of pages."""
    if options.page is None:
        print(contents())
        return 0
    known = {path.stem: path for paths in groups().values() for path in paths}
    name = options.page.removesuffix(".md").rpartition("/")[2]
    if name not in known:
        raise UsageError(f"there is no page {options.page!r}.{suggestion(name, known)} {_WAYS}")
    print(known[name].read_text().rstrip())
    return 0


def groups() -> dict[str, list[Path]]:
    """The pages by the captions of the table of contents, in its order."""
    captioned = _GROUP.findall((DOCS / "index.md").read_text())
    return {
        caption: [DOCS / f"{entry}.md" for entry in entries.split() if not entry.startswith(_API)]
        for caption, entries in captioned
        if not entries.startswith(_API)
    }


def contents() -> str:
    """The names of all pages with a line each, by group."""
    lines = ["usage: mxforge help PAGE"]
    for caption, paths in groups().items():
        lines += ["", f"{caption}:", *(f"  {path.stem:<20} {summary(path.read_text())}" for path in paths)]
    return "\n".join(lines)


def summary(page: str) -> str:
    """The first sentence of a page after its heading."""
    first = " ".join(page.split("\n\n")[1].split())
    return re.split(r"(?<=[.]) ", first)[0].rstrip(".").replace("`", "")
