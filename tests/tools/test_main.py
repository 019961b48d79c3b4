"""The command line: start-up time, help, errors and exit statuses."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from mxforge.tools import main as main_module
from mxforge.tools import progress
from mxforge.tools.grammar import build_parser

MOST_MODULES = 60
"""How many modules of mxforge `mxforge --help` loads at most."""
PROBE = """
import json, sys
from mxforge.tools.main import main
try:
    main(["--help"])
except SystemExit:
    pass
print(json.dumps(sorted(sys.modules)), file=sys.stderr)
"""


def test_help_imports_little() -> None:
    done = subprocess.run([sys.executable, "-c", PROBE], capture_output=True, check=True)
    packages = [module.partition(".")[0] for module in json.loads(done.stderr)]
    assert packages.count("mxforge") <= MOST_MODULES
    assert not {"numpy", "llvmlite"} & set(packages)


@pytest.mark.parametrize("command", ["run", "inspect", "compile", "bench"])
def test_every_command_has_help_with_examples(mxforge: Any, command: str) -> None:
    done = mxforge(command, "--help")
    assert done.status == 0
    assert "examples:" in done.out and f"mxforge {command} " in done.out


def test_no_command_shows_the_help(mxforge: Any) -> None:
    done = mxforge()
    assert done.status == 2
    assert "COMMAND" in done.out


def test_version_names_both(mxforge: Any) -> None:
    done = mxforge("--version")
    assert done.status == 0
    assert "API of MXNet 1.9.1" in done.out


@pytest.mark.parametrize(
    "arguments",
    [
        ["frobnicate"],
        ["run"],
        ["run", "model", "--threads", "0"],
        ["inspect", "model", "--input-shape", "data"],
        ["inspect", "model", "--input-shape", "data=1,x"],
        ["bench", "model", "--against", "caffe"],
        ["bench", "model", "--python", "mxnet"],
        ["bench"],
        ["bench", "model", "--suite", "softmax"],
        ["run", "model", "--input", "x.jpg", "--mean", "a"],
    ],
    ids=" ".join,
)
def test_usage_errors_print_one_line_and_exit_with_2(mxforge: Any, arguments: list[str]) -> None:
    done = mxforge(*arguments)
    assert done.status == 2
    assert done.err.startswith("mxforge: error: ")
    assert done.err.count("\n") == 1


def test_misspelled_commands_and_choices_are_suggested(mxforge: Any) -> None:
    assert "Did you mean 'profile'?" in mxforge("profil", "model").err
    assert "Did you mean 'insightface'?" in mxforge("run", "model", "--preset", "insightfase").err


def test_failures_print_one_line_and_exit_with_1(mxforge: Any, tmp_path: Path) -> None:
    done = mxforge("run", tmp_path / "nothing")
    assert done.status == 1
    assert done.err.startswith("mxforge: error: ") and done.err.count("\n") == 1
    (tmp_path / "bad-symbol.json").write_text("{")
    done = mxforge("run", tmp_path / "bad")
    assert done.status == 1
    assert "bad-symbol.json: " in done.err and done.err.count("\n") == 1


def test_a_traceback_on_demand(mxforge: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Exception, match="not a model"):
        mxforge("run", tmp_path / "nothing", "--traceback")
    monkeypatch.setenv("MXFORGE_DEBUG", "1")
    with pytest.raises(Exception, match="not a model"):
        mxforge("run", tmp_path / "nothing")


@pytest.mark.parametrize(
    ("error", "status", "text"),
    [
        (KeyboardInterrupt(), 130, "mxforge: interrupted\n"),
        (
            FileNotFoundError(2, "No such file or directory", "x.npy"),
            1,
            "mxforge: error: x.npy: No such file or directory\n",
        ),
        (ValueError("first\n  second"), 1, "mxforge: error: first second\n"),
        (ImportError("install it"), 1, "mxforge: error: install it\n"),
        (KeyError("k"), 1, "mxforge: error: KeyError: 'k' (unexpected error; --traceback shows its place)\n"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else None,
)
def test_statuses(mxforge: Any, monkeypatch: pytest.MonkeyPatch, error: BaseException, status: int, text: str) -> None:
    def fail(_: object) -> int:
        raise error

    monkeypatch.setattr(main_module, "_run", fail)
    done = mxforge("run", "model")
    assert (done.status, done.err) == (status, text)


def test_interrupt_of_the_process() -> None:
    code = """
import sys, time
from mxforge.tools import main as module
module._run = lambda options: (print("on", flush=True), time.sleep(60))
sys.exit(module.main(["run", "model"]))
"""
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert err == b"mxforge: interrupted\n"


def test_a_closed_pipe_is_not_an_error(convnet: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    arguments = ["-m", "mxforge", "inspect", str(convnet), "--input-shape", "data=2,3,32,32"]
    done = subprocess.run([sys.executable, *arguments], stdout=writing, stderr=subprocess.PIPE, check=False)
    os.close(writing)
    assert done.returncode == 141
    assert done.stderr == b""


def test_progress_is_shown_only_in_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr(progress, "PATIENCE", 0.01)
    for stream, speaks in ((Terminal(), True), (io.StringIO(), False)):
        monkeypatch.setattr(sys, "stderr", stream)
        with progress.Progress("thinking") as shown:
            shown.step("thinking hard")
            time.sleep(0.05)
        assert ("thinking hard" in stream.getvalue()) is speaks
        assert stream.getvalue().endswith("\r\x1b[K") is speaks


def test_options_of_the_documentation_exist() -> None:
    text = (Path(__file__).resolve().parents[2] / "docs" / "command-line.md").read_text()
    known = {o for command in _subparsers() for action in command._actions for o in action.option_strings}
    words = {word.strip("`,.()[]") for word in text.replace("=", " ").split()}
    assert {word for word in words if word.startswith("--")} <= known | {"--version"}


def _subparsers() -> list[Any]:
    parser = build_parser()
    choices: Any = next(action.choices for action in parser._actions if action.choices)
    return list(choices.values())
