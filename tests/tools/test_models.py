"""Finding a model's files and inputs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mxforge as mx
import numpy as np
import pytest
from mxforge.ir.types import DType, TensorType
from mxforge.tools.errors import ToolError, UsageError
from mxforge.tools.model_files import find_model
from mxforge.tools.models import data_types, load_model


def save(folder: Path, name: str, symbol: Any, epochs: tuple[int, ...] = (), **arrays: Any) -> Path:
    symbol.save(str(folder / f"{name}-symbol.json"))
    for epoch in epochs:
        mx.nd.save(str(folder / f"{name}-{epoch:04d}.params"), arrays)
    return folder / name


def dense(**attributes: Any) -> Any:
    return mx.sym.FullyConnected(mx.sym.var("data", **attributes), num_hidden=4, name="fc")


def weights() -> dict[str, Any]:
    return {"arg:fc_weight": mx.nd.ones((4, 3)), "arg:fc_bias": mx.nd.zeros((4,))}


def test_which_parameters(tmp_path: Path) -> None:
    prefix = str(save(tmp_path, "net", dense(), (3,), **weights()))
    found = find_model(prefix)
    assert found.params == tmp_path / "net-0003.params"
    assert find_model(prefix + "-symbol.json") == found
    save(tmp_path, "net", dense(), (5,), **weights())
    with pytest.raises(UsageError, match="several epochs"):
        find_model(prefix)
    assert find_model(prefix, epoch=5).params == tmp_path / "net-0005.params"
    with pytest.raises(ToolError, match=r"net-0004\.params"):
        find_model(prefix, epoch=4)
    save(tmp_path, "net", dense(), (0,), **weights())
    assert find_model(prefix).params == tmp_path / "net-0000.params"
    with pytest.raises(ToolError, match=r"absent\.params"):
        find_model(prefix, params=tmp_path / "absent.params")


def test_a_file_of_parameters_names_the_model(mxforge: Any, convnet: Path) -> None:
    params = convnet.with_name("convnet-0000.params")
    assert find_model(str(params)) == find_model(str(convnet))
    with pytest.raises(UsageError, match="omit --epoch and --params"):
        find_model(str(params), epoch=0)


@pytest.mark.parametrize("suffix", [".npz", ".safetensors"])
def test_parameters_of_other_formats(mxforge: Any, convnet: Path, tmp_path: Path, suffix: str) -> None:
    other = tmp_path / f"weights{suffix}"
    assert mxforge("convert", convnet.with_name("convnet-0000.params"), other).status == 0
    ours, theirs = (load_model(find_model(str(convnet), params=p)).parameters for p in (None, other))
    assert ours.keys() == theirs.keys()
    assert all((ours[name].asnumpy() == theirs[name].asnumpy()).all() for name in ours)


def test_similar_names_are_suggested(mxforge: Any, convnet: Path, tmp_path: Path) -> None:
    given = convnet.with_name("convnte"), "--input-shape", "data=2,3,32,32"
    assert mxforge("inspect", *given).err.endswith("there is no convnte-symbol.json. Did you mean 'convnet'?\n")
    assert "Did you mean 'data'?" in mxforge("inspect", convnet, "--input-shape", "dat=2,3,32,32").err
    graph = convnet.with_name("convnet-symbol.json").read_text().replace('"Pooling"', '"Poling"')
    (tmp_path / "net-symbol.json").write_text(graph)
    done = mxforge("inspect", tmp_path / "net")
    assert (
        done.status == 1 and "Poling: used by 'convnet_pool0_fwd'" in done.err and "Did you mean 'Pooling'?" in done.err
    )


def test_parameters_of_other_graphs_are_omitted(tmp_path: Path) -> None:
    prefix = save(tmp_path, "net", dense(), (0,), **weights(), **{"aux:other": mx.nd.zeros((1,))})
    model = load_model(find_model(str(prefix)))
    assert set(model.parameters) == {"fc_weight", "fc_bias"}
    assert model.data_names == ["data"]


def test_types_of_inputs(tmp_path: Path) -> None:
    model = load_model(find_model(str(save(tmp_path, "net", dense(shape=(0, 3)), (0,), **weights()))))
    assert data_types(model, {}, batch=7) == {"data": TensorType((7, 3), DType.F32)}
    assert data_types(model, {"data": ((2, 3), None)}) == {"data": TensorType((2, 3), DType.F32)}
    with pytest.raises(UsageError, match="no input 'image'"):
        data_types(model, {"image": ((2, 3), None)})
    open_model = load_model(find_model(str(save(tmp_path, "open", dense(), (0,), **weights()))))
    with pytest.raises(UsageError, match="--input-shape data="):
        data_types(open_model, {})


def test_the_dtype_follows_the_parameters(tmp_path: Path) -> None:
    doubles = {name: array.astype("float64") for name, array in weights().items()}
    model = load_model(find_model(str(save(tmp_path, "net", dense(), (0,), **doubles))))
    assert data_types(model, {"data": ((2, 3), None)}) == {"data": TensorType((2, 3), DType.F64)}


def test_parameters_that_cannot_be_compiled(tmp_path: Path) -> None:
    sparse = weights() | {"arg:fc_weight": mx.nd.ones((4, 3)).tostype("row_sparse")}
    with pytest.raises(ToolError, match="'fc_weight' is sparse"):
        load_model(find_model(str(save(tmp_path, "net", dense(), (0,), **sparse))))
    mx.nd.save(str(tmp_path / "net-0000.params"), [mx.nd.ones((4, 3))])
    with pytest.raises(mx.MXNetError, match="have no names"):
        load_model(find_model(str(tmp_path / "net")))


def test_a_model_without_parameters_says_so(mxforge: Any, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.zeros((2, 3), np.float32))
    done = mxforge("run", save(tmp_path, "net", dense()), "--input", f"data={tmp_path / 'x.npy'}")
    assert done.status == 1
    assert "net-0000.params does not exist; it should contain all of the 2 parameters of net" in done.err
    assert "without value: fc_weight, fc_bias" in done.err


COMMANDS = ("compile", "-o", "out"), ("convert", "out.onnx"), ("bench",)


@pytest.mark.parametrize("arguments", COMMANDS, ids=lambda a: a[0])
def test_parameters_of_another_model_are_refused(
    mxforge: Any, convnet: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]
) -> None:
    monkeypatch.chdir(tmp_path)
    command, *more = arguments
    foreign = convnet.with_name("mlp-0003.params")
    done = mxforge(command, convnet, *more, "--params", foreign, "--input-shape", "data=2,3,32,32")
    assert done.status == 1
    assert f"{foreign} contains 0 of the " in done.err and "parameters of convnet; without value: " in done.err
    assert "--allow-missing" in done.err and done.err.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_parameters_become_inputs_if_the_user_says_so(mxforge: Any, tmp_path: Path) -> None:
    prefix = save(tmp_path, "net", dense())
    folder = tmp_path / "compiled"
    done = mxforge("compile", prefix, "-o", folder, "--input-shape", "data=2,3", "--allow-missing")
    assert done.status == 0, done.err
    assert "fc_weight" in mxforge("inspect", folder).out
    named = mxforge(
        *("compile", prefix, "-o", tmp_path / "named", "--input-shape", "data=2,3"),
        *("--input-shape", "fc_weight=4,3", "--input-shape", "fc_bias=4"),
    )
    assert named.status == 0, named.err
