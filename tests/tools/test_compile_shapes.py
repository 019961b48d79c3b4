"""`mxforge compile` for ranges of shapes and variants: folders of several shapes."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import mxforge as mx
import numpy as np
import pytest
from mxforge.frontend.base import MXNetError
from mxforge.frontend.compiled import CompiledShapes
from mxforge.runtime import compiled_folder
from mxforge.runtime.compiled_folder import CompiledFolderError
from mxforge.tools.main import main

from .conftest import FIXTURES


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Batches of 1 to 6, with a specialised program for 4."""
    made = tmp_path_factory.mktemp("models") / "net"
    shape = ("--input-shape", "data=1..4..6,3,32,32")
    assert main(["compile", str(FIXTURES / "convnet"), "-o", str(made), *shape]) == 0
    return made


@pytest.fixture(scope="module")
def variants(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("models") / "net"
    shapes = ("--variant", "small", "data=1,3,32,32", "--variant", "large", "data=3,3,40,40")
    assert main(["compile", str(FIXTURES / "convnet"), "-o", str(made), *shapes]) == 0
    return made


def expected(x: np.ndarray) -> np.ndarray:
    block = mx.gluon.SymbolBlock.imports(
        str(FIXTURES / "convnet-symbol.json"), ["data"], str(FIXTURES / "convnet-0000.params")
    )
    return block(mx.nd.array(x)).asnumpy()


def image(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def test_a_range_of_batches(folder: Path) -> None:
    model = mx.load_compiled(folder)
    assert isinstance(model, CompiledShapes)
    assert repr(model) == "<CompiledShapes convnet: data [1..4..6, 3, 32, 32]>"
    assert len(model.shapes) == 6
    for batch in range(1, 7):
        x = image(batch, 3, 32, 32)
        (y,) = model(x)
        np.testing.assert_allclose(y, expected(x), rtol=1e-4, atol=1e-5)
        np.testing.assert_array_equal(y, model(data=x)[0])
        assert isinstance(model(mx.nd.array(x))[0], mx.nd.NDArray)
    assert model.inputs[0].shape == (4, 3, 32, 32) and model.outputs[0].shape == (4, 10)
    assert model.at((2, 3, 32, 32)) is model.at([2, 3, 32, 32])


def test_results_of_the_best_shape_are_those_of_its_own_folder(folder: Path, tmp_path: Path) -> None:
    arguments = ["compile", str(FIXTURES / "convnet"), "-o", str(tmp_path / "one"), "--input-shape", "data=4,3,32,32"]
    assert main(arguments) == 0
    x = image(4, 3, 32, 32)
    np.testing.assert_array_equal(mx.load_compiled(folder)(x)[0], mx.load_compiled(tmp_path / "one")(x)[0])


@pytest.mark.parametrize(
    ("shape", "text"),
    [
        ((7, 3, 32, 32), "axis 0 must be from 1 to 6"),
        ((0, 3, 32, 32), "axis 0 must be from 1 to 6"),
        ((2, 3, 32, 33), "axis 3 must be 32"),
        ((3, 32, 32), r"must have 4 axes, \[1..4..6, 3, 32, 32\]"),
    ],
)
def test_shapes_outside_a_range(folder: Path, shape: tuple[int, ...], text: str) -> None:
    with pytest.raises(MXNetError, match=text):
        mx.load_compiled(folder)(np.zeros(shape, np.float32))


def test_threads_that_meet_new_shapes_together(folder: Path) -> None:
    model = mx.load_compiled(folder)
    batches = (1, 2, 3, 5) * 4
    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(lambda batch: model(image(batch, 3, 32, 32))[0], batches))
    for batch, result in zip(batches, results, strict=True):
        np.testing.assert_array_equal(result, model(image(batch, 3, 32, 32))[0])


def test_variants_share_their_weights(variants: Path, tmp_path: Path) -> None:
    model = mx.load_compiled(variants)
    for shape in ((1, 3, 32, 32), (3, 3, 40, 40)):
        np.testing.assert_allclose(model(image(*shape))[0], expected(image(*shape)), rtol=1e-4, atol=1e-5)
    with pytest.raises(
        MXNetError, match=r"no variant takes data \(2, 3, 32, 32\).*small: data \[1, 3, 32, 32\]; large"
    ):
        model(image(2, 3, 32, 32))
    arguments = ["compile", str(FIXTURES / "convnet"), "-o", str(tmp_path / "one"), "--input-shape", "data=3,3,40,40"]
    assert main(arguments) == 0
    sizes = [(f / compiled_folder.MEMORY).stat().st_size for f in (variants, tmp_path / "one")]
    assert sizes[0] < 1.5 * sizes[1]


def test_unpacked_parameters_are_stored_once(mxforge: Any, folder: Path, tmp_path: Path) -> None:
    """A process packs them; results are those of packed ones."""
    unpacked = tmp_path / "unpacked"
    arguments = ("--input-shape", "data=1..4..6,3,32,32", "--unpacked")
    assert mxforge("compile", FIXTURES / "convnet", "-o", unpacked, *arguments).status == 0
    assert (unpacked / "memory.bin").stat().st_size < (folder / "memory.bin").stat().st_size
    models = [mx.load_compiled(f) for f in (folder, unpacked)]
    for batch in (1, 2, 4, 5):
        packed, other = (model(image(batch, 3, 32, 32))[0] for model in models)
        np.testing.assert_array_equal(packed, other)
    assert mxforge("inspect", unpacked).status == 0
    manifest = json.loads((unpacked / "manifest.json").read_text())
    for bound in ([[0, 0]], [[1, 1 << 40]], [[1, -1]], "none"):
        (unpacked / "manifest.json").write_text(json.dumps(compiled_folder.sealed({**manifest, "bound": bound})))
        with pytest.raises(CompiledFolderError):
            mx.load_compiled(unpacked)(image(1, 3, 32, 32))


def test_commands_choose_the_shape(mxforge: Any, variants: Path, tmp_path: Path) -> None:
    done = mxforge("inspect", variants)
    assert "compiled for 2 shapes" in done.out and "large  input   data  (3, 3, 40, 40)" in done.out
    assert "input   data  float32 (1, 3, 32, 32)" in done.out
    report = json.loads(mxforge("inspect", variants, "--input-shape", "data=3,3,40,40", "--json").out)
    assert report["inputs"][0]["shape"] == [3, 3, 40, 40] and report["variants"][1]["name"] == "large"
    np.save(tmp_path / "x.npy", image(3, 3, 40, 40))
    assert "(3, 10)" in mxforge("run", variants, "--input", tmp_path / "x.npy").out
    assert "3 at a time" in mxforge("run", variants, "--input-shape", "data=3,3,40,40", "--repeat", "2").out
    done = mxforge("run", variants, "--input-shape", "data=5,3,40,40")
    assert done.status == 1 and "no variant takes" in done.err
    done = mxforge("run", variants, "--input-shape", "dat=5,3,40,40")
    assert done.status == 2 and "Did you mean 'data'" in done.err


def two_inputs(folder: Path) -> Path:
    total: Any = mx.sym.elemwise_add(mx.sym.var("a"), mx.sym.var("b"))
    total.save(str(folder / "sum-symbol.json"))
    mx.nd.save(str(folder / "sum-0000.params"), {"arg:unused": mx.nd.zeros((1,))})
    return folder / "sum"


def test_extents_that_have_to_agree(mxforge: Any, tmp_path: Path) -> None:
    """The batches are one extent, because the model does not take others; the length is independent."""
    folder = tmp_path / "folder"
    done = mxforge(
        "compile", two_inputs(tmp_path), "-o", folder, "--input-shape", "a=1..4,2..3", "b=1..4,2..3", "--json"
    )
    assert done.status == 0, done.err
    assert json.loads(done.out)["shapes"] == 8
    model = mx.load_compiled(folder)
    x = image(3, 2)
    np.testing.assert_array_equal(model(x, x)[0], x + x)
    with pytest.raises(MXNetError, match="axis 0 of 'a' is 3 and axis 0 of 'b' is 2: they must be equal"):
        model(x, x[:2])
    assert "equal   a[0], b[0]" in mxforge("inspect", folder).out


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("--input-shape", "data=0..4,3,32,32"), "its least extent is at least 1"),
        (("--input-shape", "data=4..1,3,32,32"), "is not a range"),
        (("--input-shape", "data=1..2..3..4,3,32,32"), "is not NAME=D,D"),
        (("--input-shape", "data=1..100,3,1..100,32"), "10,000 shapes; a folder has at most 4,096"),
        (("--input-shape", "data=1..4,2..3,32,32"), "data=1,2,32,32"),
        (("--variant", "a", "data=1,3,32,32", "--variant", "a", "data=2,3,32,32"), "two variants 'a'"),
        (("--variant", "data=1,3,32,32"), "pass a name and shapes"),
        (("--variant", "a", "data=1..3,3,32,32", "--input", "x.npy"), "omit it with ranges and variants"),
        (("--input-shape", "data=1,3,32,32", "--unpacked"), "for folders of several shapes"),
        (("--variant", "a", "dat=1..3,3,32,32"), "Did you mean 'data'"),
    ],
)
def test_invalid_ranges(mxforge: Any, convnet: Path, tmp_path: Path, arguments: tuple[str, ...], text: str) -> None:
    done = mxforge("compile", convnet, "-o", tmp_path / "folder", *arguments)
    assert done.status == 2 and text in done.err, done.err
    assert not (tmp_path / "folder").exists()


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda m: m.update(variants=[]), "no program"),
        (lambda m: m["variants"][0].update(inputs=[]), "damaged"),
        (lambda m: m["variants"][0]["inputs"][0].__setitem__(0, [3, 2]), "damaged"),
        (lambda m: m["variants"][0].update(equal=[[[0, 9], [0, 0]]]), "damaged"),
        (lambda m: m.update(inputs=3), "damaged"),
        (lambda m: m["inputs"].append(["more", "f32"]), "damaged"),
        (lambda m: m["files"].pop("program.bin"), "damaged"),
    ],
)
def test_damaged_manifests(folder: Path, tmp_path: Path, change: Any, text: str) -> None:
    copy = copied(folder, tmp_path)
    manifest = json.loads((copy / "manifest.json").read_text())
    change(manifest)
    (copy / "manifest.json").write_text(json.dumps(compiled_folder.sealed(manifest)))
    with pytest.raises(CompiledFolderError, match=text):
        mx.load_compiled(copy)


@pytest.mark.parametrize("file", ["program.bin", "memory.bin"])
def test_damaged_files(folder: Path, tmp_path: Path, file: str) -> None:
    copy = copied(folder, tmp_path)
    data = bytearray((copy / file).read_bytes())
    data[len(data) // 2] ^= 64
    (copy / file).write_bytes(data)
    with pytest.raises(CompiledFolderError, match="checksum does not match"):
        mx.load_compiled(copy)
    (copy / file).unlink()
    with pytest.raises(CompiledFolderError, match="missing"):
        mx.load_compiled(copy)


def test_memory_that_is_too_short_for_a_program(folder: Path, tmp_path: Path) -> None:
    """All checksums agree."""
    copy = copied(folder, tmp_path)
    data = (copy / "memory.bin").read_bytes()[:-64]
    (copy / "memory.bin").write_bytes(data)
    manifest = json.loads((copy / "manifest.json").read_text())
    manifest["files"]["memory.bin"] = {"bytes": len(data), "crc32": compiled_folder.zlib.crc32(data)}
    (copy / "manifest.json").write_text(json.dumps(compiled_folder.sealed(manifest)))
    model = mx.load_compiled(copy)
    with pytest.raises(CompiledFolderError, match="do not agree"):
        for batch in range(1, 7):
            model(image(batch, 3, 32, 32))


def copied(folder: Path, to: Path) -> Path:
    made = to / "copy"
    made.mkdir()
    for file in folder.iterdir():
        (made / file.name).write_bytes(file.read_bytes())
    return made
