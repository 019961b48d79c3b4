"""Symbol files of older versions of MXNet are upgraded as MXNet 1.9.1 upgrades them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from mxforge.frontend.artifacts import (
    NodeEntry,
    SymbolFile,
    SymbolNode,
    read_symbol_json,
    upgrade_symbol,
    write_symbol_json,
)

DATA = Path(__file__).parents[2] / "data"
UPGRADED = sorted(DATA.glob("artifacts/*.upgraded.json"))

BATCH_NORM = ["data", "gamma", "beta", "moving_mean", "moving_var"]
INPUTS = {
    "Convolution": ["data", "weight", "bias"],
    "BatchNorm": BATCH_NORM,
    "BatchNorm_v1": BATCH_NORM,
    "IdentityAttachKLSparseReg": ["data", "moving_avg"],
    "SoftmaxOutput": ["data", "label"],
}
OUTPUTS = {"BatchNorm": 3, "BatchNorm_v1": 3}


def input_names(op: str, attrs: Mapping[str, str]) -> list[str]:
    match op:
        case "FullyConnected":
            return ["data", "weight"] + ["bias"] * (attrs.get("no_bias") != "True")
        case "LeakyReLU":
            return ["data"] + ["gamma"] * (attrs.get("act_type") == "prelu")
        case "Concat":
            return [f"arg{i}" for i in range(int(attrs["num_args"]))]
    return INPUTS.get(op, [])


def source_of(upgraded: Path) -> Path:
    name = upgraded.name.replace(".upgraded", "")
    hand_made = DATA / "artifacts/old" / name
    return hand_made if hand_made.exists() else DATA / "fixtures" / name


@pytest.mark.parametrize("path", UPGRADED, ids=lambda path: path.name.split(".")[0])
def test_upgrades_agree_with_mxnet(path: Path) -> None:
    file = upgrade_symbol(read_symbol_json(source_of(path).read_text()), input_names)
    assert write_symbol_json(file, lambda op, attrs: OUTPUTS.get(op, 1)) == path.read_text()


def test_a_current_file_is_unchanged() -> None:
    file = read_symbol_json((DATA / "fixtures/tagger-symbol.json").read_text())
    assert upgrade_symbol(file, input_names) == file


def test_keys_for_missing_inputs_remain() -> None:
    """MXNet reads past the end of the inputs in this case."""
    attrs = {"moving_mean_lr_mult": "3", "nosuch_lr_mult": "5", "xlr_mult": "1", "_wd_mult": "2", "ctx_group_x": "0"}
    nodes = (SymbolNode("null", "data", {}), SymbolNode("BatchNorm", "bn", attrs, (NodeEntry(0),)))
    file = upgrade_symbol(SymbolFile(nodes, (NodeEntry(1),), {}), input_names)
    upgraded = file.nodes[file.heads[0].node_id]
    assert upgraded.attrs == attrs
    assert [file.nodes[e.node_id].name for e in upgraded.inputs] == ["data", *(f"bn_{n}" for n in BATCH_NORM[1:])]


def test_the_input_is_not_changed() -> None:
    file = read_symbol_json((DATA / "fixtures/save_000800.json").read_text())
    before = write_symbol_json(file, lambda op, attrs: 1)
    upgrade_symbol(file, input_names)
    assert write_symbol_json(file, lambda op, attrs: 1) == before
