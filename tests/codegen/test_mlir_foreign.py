"""StableHLO from elsewhere: what JAX exported computes what JAX computed, operations agree with the interpreter, and
what cannot be compiled is refused by name."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from mutations import mutate_bytes
from mxforge.codegen.mlir.foreign import ModuleFile
from mxforge.codegen.mlir.target import MlirTarget
from mxforge.codegen.stablehlo import upstream as upstream_module
from mxforge.codegen.stablehlo.upstream import UpstreamError
from mxforge.frontend.compiled import CompiledModel
from mxforge.ir.program import Program
from mxforge.passes.manager import Context
from mxforge.runtime.compiled_folder import Argument
from mxforge.runtime.devices import HOST
from mxforge.runtime.stablehlo import StablehloError, read_stablehlo

pytest.importorskip("torch_mlir.ir", reason="the torch-mlir wheel, which holds upstream MLIR, is not installed")
from stablehlo_judge import evaluated

MODULES = Path(__file__).resolve().parents[1] / "data" / "jax_modules"
TARGET = MlirTarget.of(HOST.target_for())
Array = np.ndarray[Any, Any]


def compiled(text: str | bytes, shapes: dict[str, tuple[int, ...]] | None = None) -> CompiledModel:
    data = text.encode() if isinstance(text, str) else text
    program, inputs, outputs = ModuleFile(data).compile(shapes or {}, TARGET, Context(TARGET))
    given, results = ([Argument(*named) for named in listed] for listed in (inputs, outputs))
    return CompiledModel("module", HOST.load(program), given, results, {})


def program_of(data: bytes, shapes: dict[str, tuple[int, ...]]) -> Program:
    return ModuleFile(data).compile(shapes, TARGET, Context(TARGET)).program


@pytest.mark.parametrize("path", sorted(MODULES.glob("*.mlir*")), ids=lambda path: path.name)
def test_what_jax_exported(path: Path) -> None:
    known = dict(np.load(path.with_suffix(".npz")))
    expected = [known.pop(f"result{i}") for i in range(len(known)) if f"result{i}" in known]
    shapes = {name: array.shape for name, array in known.items()}
    results = compiled(path.read_bytes(), shapes)(**known)
    for ours, theirs in zip(results, expected, strict=True):
        assert ours.dtype == theirs.dtype
        np.testing.assert_allclose(ours, theirs, 1e-4, 1e-5)


def test_weights_are_constants_of_the_program() -> None:
    """They are not in the machine code, and a number everywhere is not stored."""
    path = MODULES / "convolutional.mlirbc"
    shapes = {"argument0": (2, 8, 8, 3)}
    program = program_of(path.read_bytes(), shapes)
    assert len(program.constants) == 4 * 128 * 10
    wide = "%c = stablehlo.constant dense<1.0> : tensor<100000xf32> %y = stablehlo.add %x, %c : tensor<100000xf32>"
    text = f"func.func @main(%x: tensor<100000xf32>) -> tensor<100000xf32> {{ {wide} return %y : tensor<100000xf32> }}"
    program = program_of(text.encode(), {})
    assert not program.constants and sum(map(len, program.code)) < 100000
    listed = ", ".join(f"{n}.5" for n in range(600))
    text = (
        f"func.func @main() -> tensor<600xbf16> {{ %c = stablehlo.constant dense<[{listed}]> : tensor<600xbf16>"
        " return %c : tensor<600xbf16> }"
    )
    assert len(program_of(text.encode(), {}).constants) == 1200
    np.testing.assert_array_equal(compiled(text)()[0][:3], [0.5, 1.5, 2.5])


def function(body: str, arguments: Sequence[str], results: Sequence[str]) -> str:
    declared = ", ".join(f"%a{i}: tensor<{t}>" for i, t in enumerate(arguments))
    types = ", ".join(f"tensor<{t}>" for t in results)
    return f"func.func @main({declared}) -> ({types}) {{\n{body}\n}}"


ADD = (
    "^bb0(%p: tensor<f32>, %q: tensor<f32>): %s = stablehlo.add %p, %q : tensor<f32> stablehlo.return %s : tensor<f32>"
)
GREATER = (
    "^bb0(%p: tensor<f32>, %q: tensor<f32>): %s = stablehlo.compare GE, %p, %q"
    " : (tensor<f32>, tensor<f32>) -> tensor<i1> stablehlo.return %s : tensor<i1>"
)
OPERATIONS = {
    "scatter of windows": (
        '%r = "stablehlo.scatter"(%a0, %a1, %a2) ({' + ADD + "}) {scatter_dimension_numbers = #stablehlo.scatter<"
        "update_window_dims = [0, 2], inserted_window_dims = [1], scatter_dims_to_operand_dims = [2, 0],"
        " index_vector_dim = 0>} : (tensor<4x3x5xf32>, tensor<2x6xi32>, tensor<2x6x3xf32>) -> tensor<4x3x5xf32>"
        " return %r : tensor<4x3x5xf32>",
        ("4x3x5xf32", "2x6xi32", "2x6x3xf32"),
        ("4x3x5xf32",),
    ),
    "scatter in batches": (
        '%r = "stablehlo.scatter"(%a0, %a1, %a2) ({' + ADD + "}) {scatter_dimension_numbers = #stablehlo.scatter<"
        "update_window_dims = [1], inserted_window_dims = [1], input_batching_dims = [0],"
        " scatter_indices_batching_dims = [1], scatter_dims_to_operand_dims = [1], index_vector_dim = 2>}"
        " : (tensor<3x5x4xf32>, tensor<2x3xi32>, tensor<2x4x3xf32>) -> tensor<3x5x4xf32> return %r : tensor<3x5x4xf32>",
        ("3x5x4xf32", "2x3xi32", "2x4x3xf32"),
        ("3x5x4xf32",),
    ),
    "scatter of two operands": (
        '%r:2 = "stablehlo.scatter"(%a0, %a0, %a1, %a2, %a2) ({^bb0(%p: tensor<f32>, %q: tensor<f32>, %u: tensor<f32>,'
        " %v: tensor<f32>): %s = stablehlo.add %p, %v : tensor<f32> %t = stablehlo.multiply %q, %u : tensor<f32>"
        " stablehlo.return %s, %t : tensor<f32>, tensor<f32> }) {scatter_dimension_numbers = #stablehlo.scatter<"
        "inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}"
        " : (tensor<6xf32>, tensor<6xf32>, tensor<4xi32>, tensor<4xf32>, tensor<4xf32>)"
        " -> (tensor<6xf32>, tensor<6xf32>) return %r#0, %r#1 : tensor<6xf32>, tensor<6xf32>",
        ("6xf32", "4xi32", "4xf32"),
        ("6xf32", "6xf32"),
    ),
    "select and scatter": (
        '%z = stablehlo.constant dense<0.0> : tensor<f32> %r = "stablehlo.select_and_scatter"(%a0, %a1, %z) ({'
        + GREATER
        + "}, {"
        + ADD
        + "}) {window_dimensions = array<i64: 3, 2>, window_strides = array<i64: 2, 1>,"
        " padding = dense<[[1, 1], [0, 1]]> : tensor<2x2xi64>} : (tensor<6x4xf32>, tensor<3x4xf32>, tensor<f32>)"
        " -> tensor<6x4xf32> return %r : tensor<6x4xf32>",
        ("6x4xf32", "3x4xf32"),
        ("6x4xf32",),
    ),
    "sort by two keys": (
        '%r:2 = "stablehlo.sort"(%a0, %a1) ({^bb0(%p: tensor<i32>, %q: tensor<i32>, %u: tensor<f32>, %v: tensor<f32>):'
        " %l = stablehlo.compare GT, %p, %q : (tensor<i32>, tensor<i32>) -> tensor<i1>"
        " %e = stablehlo.compare EQ, %p, %q : (tensor<i32>, tensor<i32>) -> tensor<i1>"
        " %f = stablehlo.compare LT, %u, %v, TOTALORDER : (tensor<f32>, tensor<f32>) -> tensor<i1>"
        " %g = stablehlo.and %e, %f : tensor<i1> %o = stablehlo.or %l, %g : tensor<i1>"
        " stablehlo.return %o : tensor<i1> }) {dimension = 0 : i64} : (tensor<9x2xi32>, tensor<9x2xf32>)"
        " -> (tensor<9x2xi32>, tensor<9x2xf32>) return %r#0, %r#1 : tensor<9x2xi32>, tensor<9x2xf32>",
        ("9x2xi32", "9x2xf32"),
        ("9x2xi32", "9x2xf32"),
    ),
    "a case of each index": (
        "".join(
            f"%i{n} = stablehlo.constant dense<{n}> : tensor<i32>"
            f' %r{n}, %n{n} = "stablehlo.case"(%i{n}) ({{ %y = stablehlo.negate %a0 : tensor<3xf32>'
            " %z = stablehlo.constant dense<1> : tensor<i32> stablehlo.return %y, %z : tensor<3xf32>, tensor<i32> }, {"
            " %z = stablehlo.constant dense<2> : tensor<i32> stablehlo.return %a0, %z : tensor<3xf32>, tensor<i32> })"
            " : (tensor<i32>) -> (tensor<3xf32>, tensor<i32>) "
            for n in range(3)
        )
        + "return %r0, %n0, %r1, %n1, %r2, %n2 : tensor<3xf32>, tensor<i32>, tensor<3xf32>, tensor<i32>, tensor<3xf32>,"
        " tensor<i32>",
        ("3xf32",),
        ("3xf32", "i32") * 3,
    ),
    "a value of a case that is written later": (
        "%o = stablehlo.constant dense<0> : tensor<i32> %s = stablehlo.constant dense<7.0> : tensor<1xf32>"
        ' %e = stablehlo.negate %a0 : tensor<6xf32> %r = "stablehlo.case"(%a1) ({'
        " stablehlo.return %e : tensor<6xf32> }, { %c = stablehlo.add %a0, %a0 : tensor<6xf32>"
        " stablehlo.return %c : tensor<6xf32> }, { %c = stablehlo.multiply %a0, %a0 : tensor<6xf32>"
        " stablehlo.return %c : tensor<6xf32> }) : (tensor<i32>) -> tensor<6xf32>"
        " %w = stablehlo.dynamic_update_slice %e, %s, %o : (tensor<6xf32>, tensor<1xf32>, tensor<i32>) -> tensor<6xf32>"
        " return %r, %w : tensor<6xf32>, tensor<6xf32>",
        ("6xf32", "i32"),
        ("6xf32", "6xf32"),
    ),
    "windows of two operands": (
        "%z = stablehlo.constant dense<0.0> : tensor<f32>"
        ' %r:2 = "stablehlo.reduce_window"(%a0, %a1, %z, %z) ({^bb0(%p: tensor<f32>, %q: tensor<f32>, %u: tensor<f32>,'
        " %v: tensor<f32>): %s = stablehlo.add %p, %u : tensor<f32> %t = stablehlo.maximum %q, %v : tensor<f32>"
        " stablehlo.return %s, %t : tensor<f32>, tensor<f32> }) {window_dimensions = array<i64: 1, 5>,"
        " padding = dense<[[0, 0], [4, 0]]> : tensor<2x2xi64>} : (tensor<3x5xf32>, tensor<3x5xf32>, tensor<f32>,"
        " tensor<f32>) -> (tensor<3x5xf32>, tensor<3x5xf32>) return %r#0, %r#1 : tensor<3x5xf32>, tensor<3x5xf32>",
        ("3x5xf32", "3x5xf32"),
        ("3x5xf32", "3x5xf32"),
    ),
    "products of any form": (
        "%p = stablehlo.dot_general %a0, %a1, contracting_dims = [0] x [1] :"
        " (tensor<5x2x3xf32>, tensor<4x5xf32>) -> tensor<2x3x4xf32>"
        " %q = stablehlo.dot_general %a0, %a2, batching_dims = [2, 0] x [0, 3], contracting_dims = [1] x [2] :"
        " (tensor<5x2x3xf32>, tensor<3x4x2x5xf32>) -> tensor<3x5x4xf32>"
        " %r = stablehlo.dot_general %a0, %a0, contracting_dims = [2, 0, 1] x [2, 0, 1] :"
        " (tensor<5x2x3xf32>, tensor<5x2x3xf32>) -> tensor<f32>"
        " %s = stablehlo.dot_general %r, %a1, contracting_dims = [] x [] :"
        " (tensor<f32>, tensor<4x5xf32>) -> tensor<4x5xf32>"
        " return %p, %q, %r, %s : tensor<2x3x4xf32>, tensor<3x5x4xf32>, tensor<f32>, tensor<4x5xf32>",
        ("5x2x3xf32", "4x5xf32", "3x4x2x5xf32"),
        ("2x3x4xf32", "3x5x4xf32", "f32", "4x5xf32"),
    ),
    "a convolution with channels second": (
        "%p = stablehlo.convolution(%a0, %a1) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1],"
        " window = {stride = [2, 1], pad = [[1, 2], [0, 1]], rhs_dilate = [1, 2]}"
        " {batch_group_count = 1 : i64, feature_group_count = 2 : i64} :"
        " (tensor<2x4x9x8xf32>, tensor<6x2x3x2xf32>) -> tensor<2x6x5x7xf32> return %p : tensor<2x6x5x7xf32>",
        ("2x4x9x8xf32", "6x2x3x2xf32"),
        ("2x6x5x7xf32",),
    ),
    "a sum along no axis": (
        "%z = stablehlo.constant dense<0.0> : tensor<f32> %r = stablehlo.reduce(%a0 init: %z) applies stablehlo.add"
        " across dimensions = [] : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32> return %r : tensor<4xf32>",
        ("4xf32",),
        ("4xf32",),
    ),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_operations_agree_with_the_interpreter(name: str) -> None:
    text = function(*OPERATIONS[name])
    model = compiled(text)
    rng = np.random.default_rng(0)
    for _ in range(3):  # some indices are out of range
        arrays = [
            rng.integers(-2, 7, a.type.shape).astype(np.int32)
            if a.type.dtype.is_integer
            else np.abs(rng.standard_normal(a.type.shape)).round(1).astype(np.float32)
            for a in model.inputs
        ]
        for ours, theirs in zip(model(*arrays), evaluated(text, *arrays), strict=True):
            np.testing.assert_allclose(ours, theirs, 1e-5, 1e-5)


def test_batch_norm() -> None:
    """The interpreter does not run it."""
    model = compiled(
        function(
            '%r = "stablehlo.batch_norm_inference"(%a0, %a1, %a2, %a3, %a4) {epsilon = 0.25 : f32, feature_index = 1 :'
            " i64} : (tensor<2x3x4xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) ->"
            " tensor<2x3x4xf32> %b = stablehlo.optimization_barrier %r : tensor<2x3x4xf32>"
            " return %b : tensor<2x3x4xf32>",
            ("2x3x4xf32", *("3xf32",) * 4),
            ("2x3x4xf32",),
        )
    )
    rng = np.random.default_rng(0)
    x, scale, offset, mean, variance = arrays = [
        np.abs(rng.standard_normal(a.shape)).astype("f4") for a in model.inputs
    ]
    wide = [v[:, None] for v in (scale, offset, mean, variance)]
    np.testing.assert_allclose(
        model(*arrays)[0], (x - wide[2]) / np.sqrt(wide[3] + 0.25) * wide[0] + wide[1], 1e-5, 1e-5
    )


def test_functions_and_composites_are_inlined() -> None:
    text = (
        "func.func private @twice(%x: tensor<2xf32>) -> tensor<2xf32> {"
        " %y = stablehlo.add %x, %x : tensor<2xf32> return %y : tensor<2xf32> }\n"
        'func.func @forward(%x: tensor<2xf32> loc("data")) -> tensor<2xf32> {'
        ' %y = stablehlo.composite "some.operation" %x {decomposition = @twice} : (tensor<2xf32>) -> tensor<2xf32>'
        " %z = call @twice(%y) : (tensor<2xf32>) -> tensor<2xf32> %w = chlo.erf_inv %z : tensor<2xf32> -> tensor<2xf32>"
        " return %w : tensor<2xf32> }"
    )
    model = compiled(text)
    assert model.input_names == ("data",) and model.output_names == ("result0",)
    np.testing.assert_allclose(model(np.array([0.125, 0], np.float32))[0], [0.476936, 0], 1e-5)


IDENTITY = "func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {\n"
END = "\nreturn %y : tensor<2xf32> }"
UNKNOWN = 'func.func @main(%x: tensor<?x2xf32> loc("x")) -> tensor<?x2xf32> { return %x : tensor<?x2xf32> }'
REFUSED = {
    "%%": "invalid SSA name at line 1",
    IDENTITY + "return %y : tensor<2xf32> }": "undeclared SSA value name at line 2",
    IDENTITY + "%y = stablehlo.add %x, %x : tensor<3xf32>" + END: "different type than prior uses.* at line 2",
    IDENTITY + "%y = stablehlo.custom_call @system(%x) : (tensor<2xf32>) -> tensor<2xf32>" + END: (
        "custom_call at line 2 cannot run: functions are not called by name, as 'system'"
    ),
    "func.func private @system(tensor<2xf32>) -> tensor<2xf32>\n" + IDENTITY + "%y = call @system(%x) :"
    " (tensor<2xf32>) -> tensor<2xf32>" + END: "the function system has no body at line 1",
    IDENTITY + "%y = call @main(%x) : (tensor<2xf32>) -> tensor<2xf32>" + END: (
        "call at line 2 cannot run: a function calls itself"
    ),
    IDENTITY + "%y = math.exp %x : tensor<2xf32>" + END: "math.exp is not an operation of StableHLO at line 2",
    IDENTITY + '%t = stablehlo.create_token : !stablehlo.token %y, %u = "stablehlo.infeed"(%t) : (!stablehlo.token) ->'
    " (tensor<2xf32>, !stablehlo.token)" + END: "create_token at line 2 cannot run: tokens",
    IDENTITY + '%y = "stablehlo.all_reduce"(%x) ({' + ADD + "}) {replica_groups = dense<0> : tensor<1x1xi64>} :"
    " (tensor<2xf32>) -> tensor<2xf32>" + END: "all_reduce at line 2 cannot run: several devices",
    IDENTITY + "%t = stablehlo.tuple %x : tuple<tensor<2xf32>> %y = stablehlo.get_tuple_element %t[0] :"
    " (tuple<tensor<2xf32>>) -> tensor<2xf32>" + END: "stablehlo.tuple at line 2 cannot run: tuples",
    IDENTITY + "%q = stablehlo.uniform_quantize %x : (tensor<2xf32>) -> tensor<2x!quant.uniform<i8:f32, 0.5>>"
    " %y = stablehlo.uniform_dequantize %q : (tensor<2x!quant.uniform<i8:f32, 0.5>>) -> tensor<2xf32>"
    + END: "uniform_quantize at line 2 cannot run: .* elements of a type that is not supported",
    IDENTITY + "%c = stablehlo.complex %x, %x : tensor<2xcomplex<f32>> %y = stablehlo.real %c :"
    " (tensor<2xcomplex<f32>>) -> tensor<2xf32>" + END: "stablehlo.complex at line 2 cannot run",
    IDENTITY + "%y, %m, %v = \"stablehlo.batch_norm_training\"(%x, %x, %x) {epsilon = 0.1 : f32,"
    " feature_index = 0 : i64} : (tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>,"
    " tensor<2xf32>)" + END: "batch_norm_training at line 2 cannot be compiled",
    UNKNOWN: r"argument 'x' has the type tensor<\?x2xf32>: pass its shape, x=D,2",
    "func.func @main(%x: tensor<*xf32>) { return }": "main has no results",
    "func.func @main(%x: tensor<*xf32>) -> tensor<*xf32> { return %x : tensor<*xf32> }": "must be a tensor with a rank",
    "func.func @a() { return } func.func @b() { return }": "no function main; it has a, b",
    'module attributes {mxforge.stage = "llvm"} { }': "a later stage",
    "": "no function main; it has no function",
}  # fmt: skip


@pytest.mark.parametrize("text", REFUSED)
def test_what_cannot_run_is_refused(text: str) -> None:
    with pytest.raises(UpstreamError, match=REFUSED[text]):
        compiled(text)


def test_factorizations_that_exported_modules_call() -> None:
    call = "%r, %p = stablehlo.custom_call @mxforge.lu(%a0) {api_version = 4 : i32} : (tensor<TYPE>) -> (RESULTS)"
    found = "tensor<3x3xf32>, tensor<3xi32>"
    body = f"{call.replace('TYPE', '3x3xf32').replace('RESULTS', found)} return %r, %p : {found}"
    model = compiled(function(body, ("3x3xf32",), ("3x3xf32", "3xi32")))
    x = np.array([[0, 2, 1], [4, 2, 2], [2, 1, 3]], np.float32)
    packed, order = model(x)
    np.testing.assert_array_equal(order, [1, 0, 2])
    np.testing.assert_allclose((np.tril(packed, -1) + np.eye(3)) @ np.triu(packed), x[order], 1e-6)
    for type, results, message in (
        (
            "3x3xf32",
            "tensor<1x1xf32>, tensor<1xi32>",
            "has results tensor<1x1xf32>, tensor<1xi32>, not tensor<3x3xf32>",
        ),
        ("3x2xf32", "tensor<3x2xf32>, tensor<3xi32>", "must be square"),
        ("3x3xi32", "tensor<3x3xi32>, tensor<3xi32>", "must be of float32 or float64"),
    ):
        body = f"{call.replace('TYPE', type).replace('RESULTS', results)} return %r, %p : {results}"
        listed = results.replace("tensor<", "").replace(">", "").split(", ")
        with pytest.raises(UpstreamError, match=f"call of mxforge.lu at line 2.*{message}"):
            compiled(function(body, (type,), listed))


def test_shapes_of_arguments() -> None:
    assert compiled(UNKNOWN, {"x": (3, 2)}).outputs[0].shape == (3, 2)
    for shapes, message in (
        ({"x": (3, 3)}, r"\(3, 3\) does not fit the argument 'x'"),
        ({"x": (3,)}, "does not fit"),
        ({"data": (3, 2)}, "no argument 'data'; it has x"),
    ):
        with pytest.raises(UpstreamError, match=message):
            compiled(UNKNOWN, shapes)
    data = function(
        "%y = stablehlo.dynamic_reshape %a0, %a1 : (tensor<4xf32>, tensor<1xi32>) -> tensor<?xf32> return %y :"
        " tensor<?xf32>",
        ("4xf32", "1xi32"),
        ("?xf32",),
    )
    with pytest.raises(UpstreamError, match="does not follow from those of the arguments"):
        compiled(data)


def test_damaged_artifacts(tmp_path: Path) -> None:
    """They are compiled in another process, because upstream MLIR ends the process on some of them: number 209."""
    whole = (MODULES / "convolutional.mlirbc").read_bytes()
    shapes = {"argument0": (1, 8, 8, 3)}
    newer = whole.replace(b"StableHLO_v1", b"StableHLO_v9", 1)
    numbered = [mutate_bytes(whole, Random(n)) for n in (181, 209)]
    path = tmp_path / "a.mlirbc"
    for data in (whole[:4], whole[: len(whole) // 2], b"ML\xefR" + bytes(40), b"\x00\xff" * 9, *numbered):
        path.write_bytes(data)
        with pytest.raises(StablehloError, match=r"a\.mlirbc: [^\n]*$"):
            read_stablehlo(path, shapes)
    path.write_bytes(newer[:-200])
    with pytest.raises(StablehloError, match=r"StableHLO 9\.\d+\.\d+ is damaged, or newer than 1\."):
        read_stablehlo(path, shapes)


def test_a_process_that_a_signal_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program, path = tmp_path / "python", tmp_path / "a.mlir"
    program.write_text("#!/bin/sh\nkill -SEGV $$\n")
    program.chmod(0o755)
    path.write_text(IDENTITY + "return %x : tensor<2xf32> } // of this test alone")
    monkeypatch.setattr(sys, "executable", str(program))
    with pytest.raises(StablehloError, match="ended with SIGSEGV; MXFORGE_DUMP"):
        read_stablehlo(path, {})


def test_the_version_of_the_wheel(monkeypatch: pytest.MonkeyPatch) -> None:
    project = Path(__file__).resolve().parents[2] / "pyproject.toml"
    assert f'mlir = ["torch-mlir=={upstream_module.TESTED}"]' in project.read_text()
    monkeypatch.setattr(upstream_module, "version", lambda name: "20200101")
    with pytest.raises(
        UpstreamError, match=r"torch-mlir 20200101, but mxforge is tested with \d+: pip install torch-mlir=="
    ):
        upstream_module.Upstream()
