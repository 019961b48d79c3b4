"""Runs the node tests of the installed package onnx through the importer, and counts the results.

    python tests/run_onnx_nodes.py                      # all, by the reference interpreter
    python tests/run_onnx_nodes.py --names resize gru   # those whose names contain a text
    python tests/run_onnx_nodes.py --compiled           # by compiled programs
    python tests/run_onnx_nodes.py --folder DATA/node   # the cases in a folder, such as onnx/backend/test/data/node of
                                                        # another version of the package

The package generates the cases. Integers, and other inputs that determine shapes, are constants. A case passes if the
results have the expected shapes, dtypes and values: in floats of 16 bits, whose sums ONNX rounds at each step, up to
two units in the last place. It is refused if an error names what is not supported, and wrong otherwise. The exit
status is 1 if a case is wrong.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from mxforge.frontend.onnx.reader.graph import core_graph
from mxforge.frontend.onnx.reader.node import Unsupported
from mxforge.ir.dialects.core.interpret import interpret
from mxforge.ir.types import DType, TensorType

_TOLERANCES = {DType.F16: 2.0**-9, DType.BF16: 2.0**-6}

PASS, REFUSED, WRONG, OTHER = "pass", "refused", "wrong", "not tensors"

CORRECTED = "test_averagepool_3d_dilations_large_count_include_pad_is_1_ceil_mode_is_True"
"""A case whose expected results onnx 1.15 has wrong; later versions have corrected them."""


def cases(op_types: Sequence[str] | None = None) -> Iterator[Any]:
    """The generated cases, all or those of operators."""
    from onnx.backend.test.case.node import collect_testcases

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for op_type in op_types or [None]:
            yield from collect_testcases(op_type)


class Stored:
    """A case in a folder: `model.onnx`, and the inputs and outputs in `test_data_set_0`."""

    rtol, atol = 1e-3, 1e-7

    def __init__(self, folder: Path) -> None:
        self.name, self.model = folder.name, onnx.load(folder / "model.onnx")
        data, graph = folder / "test_data_set_0", self.model.graph
        self.data_sets = [
            tuple(
                [_stored_value(data / f"{kind}_{i}.pb", info) for i, info in enumerate(infos)]
                for kind, infos in (("input", graph.input), ("output", graph.output))
            )
        ]


def stored_cases(folder: Path) -> Iterator[Any]:
    """The cases in the folders of a folder."""
    return (Stored(path.parent) for path in sorted(folder.glob("*/model.onnx")) if path.parent.name != CORRECTED)


def _stored_value(path: Path, info: Any) -> Any:
    """A tensor; a list, which is no tensor, for a sequence or an optional value."""
    if not info.type.HasField("tensor_type"):
        return []
    tensor = onnx.TensorProto.FromString(path.read_bytes()) if path.is_file() else None
    declared = info.type.tensor_type.elem_type
    if tensor is not None and (tensor.data_type, declared) == (onnx.TensorProto.UINT16, onnx.TensorProto.BFLOAT16):
        tensor.data_type = declared  # old files have the bits of bfloat16 as integers
    return tensor


def judged(case: Any, compiled: bool = False) -> tuple[str, str]:
    """The result of a case, and its reason."""
    inputs, expected = case.data_sets[0]
    names = [i.name for i in case.model.graph.input]
    inputs, expected = ([_array(x) for x in listed] for listed in (inputs, expected))
    if any(x is None for x in (*inputs, *expected)):
        return OTHER, ""
    arrays = dict(zip(names, map(np.asarray, inputs), strict=False))
    static = _static_inputs(case.model)
    try:
        types = {n: _type(a) for n, a in arrays.items() if n not in static}
        graph = core_graph(case.model, types, {n: a for n, a in arrays.items() if n in static})
    except Unsupported as error:
        return REFUSED, str(error)
    except TypeError as error:
        return REFUSED, f"TypeError: {error}"
    operands = [_stored(arrays[n]) for n in types]
    found = _run(graph, operands) if compiled else interpret(graph, operands)
    return _compared(case, graph.output_types(), found, [np.asarray(e) for e in expected])


def _static_inputs(model: Any) -> set[str]:
    """Inputs that some node needs when the graph is read: those that the refusal without them names."""
    positions = {
        "Reshape": (1,), "Slice": (1, 2, 3, 4), "Unsqueeze": (1,), "Squeeze": (1,), "Expand": (1,), "Tile": (1,),
        "Pad": (1, 3), "TopK": (1,), "Split": (1,), "ConstantOfShape": (0,), "OneHot": (1,), "CumSum": (1,),
        "CumProd": (1,), "Range": (0, 1, 2), "Trilu": (1,), "CenterCropPad": (1,), "MaxUnpool": (2,),
        "Resize": (1, 2, 3), "Upsample": (1,), "Dropout": (1, 2), "Col2Im": (1, 2), "DFT": (1, 2), "STFT": (1, 3),
        "AffineGrid": (1,), "Loop": (0, 1), "BlackmanWindow": (0,), "HannWindow": (0,), "HammingWindow": (0,),
        "MelWeightMatrix": (0, 1, 2, 3, 4), "NonZero": (0,), "Compress": (1,), "If": (0,),
    }  # fmt: skip
    names = {
        node.input[i]
        for node in model.graph.node
        for i in positions.get(node.op_type, (1,) if node.op_type.startswith("Reduce") else ())
        if i < len(node.input)
    }
    if model.graph.name.endswith("_expanded"):  # a function's nodes compute shapes from them
        operands = {i.name: i.type.tensor_type.elem_type for i in model.graph.input}
        whole = onnx.TensorProto.INT64, onnx.TensorProto.INT32, onnx.TensorProto.BOOL
        small = {i.name for i in model.graph.input if len(i.type.tensor_type.shape.dim) <= 1}
        names |= {n for n, kind in operands.items() if kind in whole and n in small}
    return names


def _array(x: Any) -> np.ndarray | None:
    """The elements of a tensor; None for a sequence, an optional value and strings."""
    if isinstance(x, onnx.TensorProto):
        x = None if x.data_type == onnx.TensorProto.STRING else onnx.numpy_helper.to_array(x)
    array = np.asarray(x) if isinstance(x, np.ndarray | np.generic) else None
    return None if array is None or array.dtype == object else array


def _type(array: np.ndarray) -> TensorType:
    return TensorType(array.shape, DType.BF16 if array.dtype.name == "bfloat16" else DType.from_numpy(array.dtype))


def _stored(array: np.ndarray) -> np.ndarray:
    return array.astype(np.float32) if array.dtype.name == "bfloat16" else array


def _run(graph: Any, operands: Sequence[np.ndarray]) -> list[np.ndarray]:
    from mxforge.passes.manager import Options
    from mxforge.runtime.compile import compile_program
    from mxforge.runtime.devices import HOST

    program = compile_program(graph, Options(), HOST)
    results = [np.zeros(t.shape, t.dtype.memory) for t in graph.output_types()]
    arrays = [_memory(a, t.dtype) for a, t in zip(operands, graph.input_types(), strict=True)]
    HOST.load(program).run([a.ctypes.data for a in arrays], [r.ctypes.data for r in results])
    return [_widened(r) if t.dtype is DType.BF16 else r for r, t in zip(results, graph.output_types(), strict=True)]


def _memory(array: np.ndarray, dtype: DType) -> np.ndarray:
    """The elements as programs read them: bfloat16 as the upper halves of float32."""
    if dtype is DType.BF16:
        return (np.ascontiguousarray(array, np.float32).view(np.uint32) >> 16).astype(np.uint16)
    return np.ascontiguousarray(array)


def _widened(bits: np.ndarray) -> np.ndarray:
    """The numbers of bfloat16's bits."""
    return (bits.astype(np.uint32) << 16).view(np.float32)


def _compared(case: Any, types: Sequence[TensorType], found: Sequence[Any], expected: Sequence[Any]) -> tuple[str, str]:
    for i, (t, one, other) in enumerate(zip(types, found, expected, strict=True)):
        if t != _type(other):
            return WRONG, f"result {i} is {t}, expected {_type(other)}"
        rounding = _TOLERANCES.get(t.dtype, 1e-3)
        one, other = (np.asarray(a, np.float64) for a in (one, other))
        if not np.allclose(one, other, rtol=max(case.rtol, rounding), atol=max(case.atol, 1e-5), equal_nan=True):
            return WRONG, f"result {i} differs by {np.nanmax(np.abs(one - other))}"
    return PASS, ""


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--names", nargs="*", default=[""])
    parser.add_argument("--compiled", action="store_true")
    parser.add_argument("--reasons", type=int, default=40)
    parser.add_argument("--folder", type=Path)
    options = parser.parse_args(arguments)
    counts, reasons = Counter[str](), Counter[str]()
    for case in stored_cases(options.folder) if options.folder else cases():
        if not any(text in case.name for text in options.names):
            continue
        try:
            result, reason = judged(case, options.compiled)
        except Exception as error:
            result, reason = WRONG, f"{type(error).__name__}: {error}"
        counts[result] += 1
        if result == WRONG:
            print(f"wrong: {case.name}: {reason[:300]}", flush=True)
        elif result == REFUSED:
            reasons[reason[:150]] += 1
            if options.names != [""]:
                print(f"refused: {case.name}: {reason[:400]}")
    for reason, count in reasons.most_common(options.reasons):
        print(f"{count:5} {reason}")
    print(f"{sum(counts.values())} cases: " + ", ".join(f"{n} {name}" for name, n in counts.items()))
    return int(counts[WRONG] > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
