"""`mxforge help`: the list of pages, one page, and the pages that errors name."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import mxforge as mx
import pytest
from mxforge.tools.help_page import DOCS, groups

from .conftest import Command

ROOT = Path(mx.__file__).resolve().parent
PAGES = [path for paths in groups().values() for path in paths]


def test_help_lists_every_page_with_a_line(mxforge: Command) -> None:
    done = mxforge("help")
    listed = dict(re.findall(r"^  (\S+) +(\S.*)$", done.out, re.MULTILINE))
    assert done.status == 0 and list(listed) == [page.stem for page in PAGES]
    assert (
        listed["migration"] == "From an MXNet installation that no longer works to a running program, in five minutes"
    )
    assert not [line for line in listed.values() if line.startswith(("#", "`", "|")) or len(line) > 160]


def test_every_page_is_listed_once() -> None:
    written = [p for pattern in ("*.md", "design/*.md", "tutorials/*.md") for p in DOCS.glob(pattern)]
    assert sorted([DOCS / "index.md", *PAGES]) == sorted(written)
    assert len({page.stem for page in PAGES}) == len(PAGES)


def test_every_page_is_part_of_the_package() -> None:
    data = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]["mxforge"]
    assert {DOCS / "index.md", *PAGES} == {path for pattern in data for path in ROOT.glob(pattern)}


def test_a_page_is_printed(mxforge: Command) -> None:
    done = mxforge("help", "ndarray")
    assert done.status == 0 and done.out.strip() == (DOCS / "tutorials" / "ndarray.md").read_text().strip()
    assert mxforge("help", "tutorials/ndarray.md").out == done.out


def test_an_unknown_page_is_an_error_with_a_suggestion(mxforge: Command) -> None:
    done = mxforge("help", "migrate")
    assert done.status == 2 and "no page 'migrate'. Did you mean 'migration'?" in done.err


def test_pages_for_users_name_no_path_that_users_lack() -> None:
    for_users = [path for group, paths in groups().items() if "contributing" not in group for path in paths]
    naming = [path for path in for_users if re.search(r"(?<!\w)tests/\w", path.read_text())]
    assert [
        path.name for path in naming if "in the repository of mxforge" not in " ".join(path.read_text().split())
    ] == []


def test_errors_name_pages_that_exist() -> None:
    sources = [file for folder in ("ir", "runtime", "frontend", "tools") for file in (ROOT / folder).rglob("*.py")]
    cited = {page for file in sources for page in re.findall(r"\bsee\(['\"]([\w-]+)['\"]\)", file.read_text())}
    assert cited >= {"compatibility", "deployment", "debugging"}
    assert cited <= {page.stem for page in PAGES}


def test_an_error_names_a_page() -> None:
    with pytest.raises(mx.MXNetError, match=r"Use cpu\(\)\. \(see: mxforge help compatibility\)$"):
        mx.nd.ones((1,), ctx=mx.gpu(99))
