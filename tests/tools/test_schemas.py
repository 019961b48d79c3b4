"""What commands print as JSON is valid for the schemas that `mxforge schema` prints, and these have versions."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import mxforge as mx
import pytest
from jsonschema import Draft202012Validator
from mxforge.tools.schemas.catalogue import SCHEMAS
from mxforge.tools.schemas.machine import CacheReport
from mxforge.tools.schemas.print_json import as_json
from mxforge.tools.schemas.record import real
from schemas import current, meaning, recorded

SHAPE = ("--input-shape", "data=2,3,32,32")
QUICK = ("--repeat", "2")
FAULT = """
import mxnet as mx

net = mx.gluon.nn.Dense(3)
net.initialize()
net.hybridize()
net(mx.nd.ones((2, 4))).wait_to_read()
"""


def schema(mxforge: Any, name: str) -> Any:
    done = mxforge("schema", name)
    assert done.status == 0, done.err
    return json.loads(done.out)


def check(mxforge: Any, name: str, text: str) -> Any:
    """Validate JSON; returns its content. NaN and Infinity are no JSON."""

    def refuse(word: str) -> None:
        raise AssertionError(f"{word} is no JSON")

    content = json.loads(text, parse_constant=refuse)
    found = schema(mxforge, name)
    Draft202012Validator.check_schema(found)
    Draft202012Validator(found).validate(content)
    return content


COMMANDS: dict[str, tuple[str, tuple[str, ...]]] = {
    "run": ("run", ("run", "MODEL", *SHAPE, "--repeat", "2", "--softmax")),
    "run once": ("run", ("run", "MODEL", "--input", "MODEL.npz")),
    "inspect": ("inspect", ("inspect", "MODEL", *SHAPE, "--profile")),
    "inspect without shapes": ("inspect", ("inspect", "MODEL")),
    "inspect a folder": ("inspect", ("inspect", "FOLDER", "--profile")),
    "profile": ("profile", ("profile", "MODEL", *SHAPE, *QUICK)),
    "profile a folder": ("profile", ("profile", "FOLDER", *QUICK)),
    "simulate": ("simulation", ("profile", "MODEL", *SHAPE, *QUICK, "--simulate-threads", "1,8")),
    "bisect": ("bisect", ("bisect", "MODEL", *SHAPE)),
    "tune": ("tune", ("tune", "MODEL", *SHAPE, "--time-limit", "1", "-o", "own-tuning.json")),
    "compile": ("compile", ("compile", "MODEL", *SHAPE, "-o", "new", "--weights", "bf16")),
    "cache": ("cache", ("cache",)),
    "doctor": ("doctor", ("doctor",)),
    "bench": ("bench", ("bench", "MODEL", *SHAPE, "--repeat", "1", "--threads", "1")),
    "bench twice": ("bench", ("bench", "--suite", "softmax", "--against", "numpy,mxnet", "--repeat", "1")),
}


@pytest.mark.usefixtures("own_cache")
@pytest.mark.parametrize("case", COMMANDS)
def test_output_is_valid(
    mxforge: Any, convnet: Path, compiled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    monkeypatch.chdir(tmp_path)
    name, words = COMMANDS[case]
    arguments = [w.replace("MODEL", str(convnet)).replace("FOLDER", str(compiled)) for w in words]
    done = mxforge(*arguments, "--json")
    content = check(mxforge, name, done.out)
    if isinstance(content, dict):
        assert content["schema"].startswith(f"{name}/")
    if case == "tune":
        check(mxforge, "tuning", (tmp_path / "own-tuning.json").read_text())


def test_output_of_a_script_is_valid(mxforge: Any, tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(FAULT)
    command = [sys.executable, "-m", "mxforge", "bisect", "--json", "net.py"]
    done = subprocess.run(command, capture_output=True, check=True, text=True, cwd=tmp_path)
    assert check(mxforge, "bisect", done.stdout)["compared_runs"] > 0


def test_numbers_that_json_lacks_are_words(mxforge: Any, tmp_path: Path) -> None:
    x: Any = mx.sym.var("data")
    mx.sym.concat(x / 0, x * 0 / 0, -x / 0, x, x + 1, dim=1, name="y").save(str(tmp_path / "net-symbol.json"))
    done = mxforge("run", tmp_path / "net", "--input-shape", "data=1,2", "--json", "--top-k", "10")
    assert check(mxforge, "run", done.out)["outputs"][0]["not_finite"] == 6
    mx.sym.concat(x / 0, x, x + 1, dim=1, name="y").save(str(tmp_path / "net-symbol.json"))
    done = mxforge("run", tmp_path / "net", "--input-shape", "data=1,2", "--json", "--top-k", "10")
    values = [c["value"] for c in check(mxforge, "run", done.out)["outputs"][0]["rows"][0]["classes"]]
    assert {"Infinity"} & set(map(str, values)) or {"-Infinity"} & set(map(str, values))
    assert [real(v) for v in (1.5, float("inf"), -float("inf"), float("nan"))] == [1.5, "Infinity", "-Infinity", "NaN"]


def test_names_are_printed_in_ascii(mxforge: Any, tmp_path: Path) -> None:
    (tmp_path / "net-symbol.json").write_text(
        json.dumps(
            {
                "nodes": [
                    {"op": "null", "name": "data", "inputs": []},
                    {"op": "relu", "name": "\u5377\u79ef", "inputs": [[0, 0, 0]]},
                ],
                "arg_nodes": [0],
                "heads": [[1, 0, 0]],
            }
        )
    )
    done = mxforge("inspect", tmp_path / "net", "--input-shape", "data=1,2", "--json")
    assert done.status == 0, done.err
    assert check(mxforge, "inspect", done.out)["layers"][0]["name"] == "\u5377\u79ef"
    assert done.out.isascii()


REPORT = CacheReport(folder="f", entries=1, bytes=2, limit_bytes=3)


@pytest.mark.parametrize(
    ("report", "message"),
    [
        (replace(REPORT, entries="1"), "valid integer"),  # type: ignore[arg-type]
        (replace(REPORT, entries=-1), "greater than or equal to 0"),
        (replace(REPORT, folder=None), "valid string"),  # type: ignore[arg-type]
    ],
)
def test_a_report_that_is_not_valid_is_not_printed(report: CacheReport, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        as_json("cache", report)


def test_a_schema_changes_with_its_version() -> None:
    known = recorded()
    for version, found in current().items():
        advice = f"give {version} a new number, then run python tests/schemas.py"
        assert version in known, f"{version} is not recorded: run python tests/schemas.py"
        assert meaning(found) == known[version], advice


def test_every_schema_describes_its_fields() -> None:
    for version, found in current().items():
        for part in (found, *found.get("$defs", {}).values()):
            assert part.get("description") or "anyOf" in part, version


def test_names_are_listed(mxforge: Any) -> None:
    lines = mxforge("schema").out.splitlines()
    assert [line.split()[0] for line in lines] == list(SCHEMAS)
    done = mxforge("schema", "profiel")
    assert done.status == 2 and "Did you mean 'profile'?" in done.err and done.err.count("\n") == 1


PROBE = """
import sys
import mxforge as mx
import numpy as np

heavy = {"networkx", "pydantic"}

def check(what):
    assert not heavy & set(sys.modules), what

check("import")
assert (mx.nd.ones((2, 3)) + 1).asnumpy().sum() == 12
check("an eager result")
net = mx.gluon.nn.Dense(3)
net.initialize()
net.hybridize()
with mx.autograd.record():
    y = net(mx.nd.ones((2, 4)))
y.backward()
y.wait_to_read()
check("a hybridized call")
[z] = mx.load_compiled(sys.argv[1])(np.zeros((2, 3, 32, 32), "float32"))
assert z.shape == (2, 10)
check("a compiled folder")
from mxforge.tools.main import main
assert main(["run", sys.argv[2], "--input-shape", "data=2,3,32,32"]) == 0
check("mxforge run")
assert main(["inspect", sys.argv[2], "--input-shape", "data=2,3,32,32"]) == 0
check("mxforge inspect")
"""


@pytest.mark.parametrize("cache", ["0", "1"])
def test_nothing_else_waits_for_networkx_and_pydantic(
    convnet: Path, compiled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cache: str
) -> None:
    monkeypatch.setenv("MXFORGE_CACHE", cache)
    monkeypatch.setenv("MXFORGE_CACHE_DIR", str(tmp_path))
    command: Sequence[str] = [sys.executable, "-c", PROBE, str(compiled), str(convnet)]
    done = subprocess.run(command, capture_output=True, check=False, text=True)
    assert done.returncode == 0, done.stderr
