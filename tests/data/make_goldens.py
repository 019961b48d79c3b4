"""Records what MXNet's operators are and compute: operators/*.json, operators/*.npz and signatures.json here.

Run by real MXNet 1.9.1 and not by this project, in an environment with Python 3.9, `mxnet==1.9.1` and `numpy==1.23.5`:
`python make_goldens.py` for all, `python make_goldens.py layers arrays` for some files of cases. A file operators/X.py
has a function `cases()`; its records stand beside it in X.json and X.npz, and tests/goldens.py reads them. A file that
says `SWEPT = True` makes its cases by mechanism: what MXNet refuses is recorded as such, and names are left out.

Cases run in a worker process, so that an operator that kills or hangs it loses nothing; a case that fails runs again
without oneDNN, which refuses or breaks on some of what MXNet itself can do.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import os
import pickle
import re
import subprocess
import sys
import threading
import zlib
from importlib import import_module
from pathlib import Path
from typing import IO, Any, Iterator

import numpy as np
from golden_case import Case

HERE = Path(__file__).resolve().parent
HANG_SECONDS = 60
UNSURE = "the answers with and without oneDNN differ"
DIED = "the process died or hung"
PLAIN = {"MXNET_MKLDNN_ENABLED": "0"}
# MXNet's own plumbing, its newer NumPy interface, and what belongs to sparse storage, quantisation and GPUs.
NO_SIGNATURE = re.compile(
    r"^_(backward|broadcast_backward|np|sg_|Native|NDArray|CachedOp|CustomFunction|NoGradient|cv|FusedOp|"
    r"contrib_(quant|dgl|tvm|intgemm|dequantize|requantize|calibrate|edge_id|getnnz)|sparse"
    r"|split_v2_backward|TensorRT|RPC|CrossDeviceCopy|imdecode)|_backward$|^test_"
)
KEPT = {"_np_cumsum", "_sparse_adagrad_update", "_sparse_retain"}


def cases_of(group: str) -> list[Case]:
    """The cases of operators/`group`.py."""
    return import_module(f"operators.{group}").cases()


def is_swept(group: str) -> bool:
    return getattr(import_module(f"operators.{group}"), "SWEPT", False)


def seed_of(case: Case) -> int:
    """A seed that depends on the case and not on its neighbours: adding a case leaves the other records alone."""
    return zlib.crc32(
        repr((case.op, sorted(case.attributes.items()), case.train, [repr(x) for x in case.inputs])).encode()
    )


def operator_handle(name: str) -> int:
    from mxnet.base import _LIB, c_str, check_call

    handle = ctypes.c_void_p()
    check_call(_LIB.NNGetOpHandle(c_str(name), ctypes.byref(handle)))
    assert handle.value is not None
    return handle.value


def run_case(case: Case, arrays: list[np.ndarray]) -> tuple[list[np.ndarray], dict[int, np.ndarray]]:
    """The visible outputs of one call, and by position the inputs that it wrote to, as they are afterwards."""
    import mxnet as mx
    from mxnet._ctypes.ndarray import _imperative_invoke

    inputs = [mx.nd.array(x, dtype=x.dtype) for x in arrays]
    given = [mx.nd.zeros_like(inputs[i]) for i in case.out] or None
    with mx.autograd.pause(train_mode=case.train):
        out = _imperative_invoke(
            operator_handle(case.op), inputs, list(case.attributes), list(case.attributes.values()), given, False, True
        )
        outputs, after = ([as_numpy(y) for y in found] for found in (out, inputs))
    return outputs, {i: y for i, (x, y) in enumerate(zip(arrays, after)) if x.tobytes() != y.tobytes()}


def as_numpy(array: Any) -> np.ndarray:
    """The elements; those of bfloat16, of which NumPy knows the bits alone, as float32."""
    found = array.asnumpy()
    if found.dtype.kind != "V":
        return found
    return (found.view(np.uint16).astype(np.uint32) << 16).view(np.float32)


def symbol_names(case: Case) -> list[list[str]]:
    """The names of arguments, auxiliary states and outputs of a symbol called `op` that makes its own variables."""
    from mxnet._ctypes.symbol import _symbol_creator

    keys, values = list(case.attributes), list(case.attributes.values())
    try:
        symbol = _symbol_creator(operator_handle(case.op), [], {}, keys, values, "op", False)
    except Exception:  # it demands its inputs, or MXNet takes its parameters for another operator's
        return [[], [], []]
    return [symbol.list_arguments(), symbol.list_auxiliary_states(), symbol.list_outputs()]


def no_names(case: Case) -> None:
    return None


def no_digest(case: Case) -> str:
    return ""


def file_digest(case: Case) -> str:
    """A digest of the -symbol.json of a symbol called `n` whose inputs are called x0, x1, ...; "" where MXNet makes no
    such symbol."""
    import mxnet as mx
    from mxnet._ctypes.symbol import _symbol_creator

    keys, values = list(case.attributes), list(case.attributes.values())
    inputs = [mx.sym.var(f"x{i}") for i in range(len(case.inputs))]
    try:
        symbol = _symbol_creator(operator_handle(case.op), inputs, {}, keys, values, "n", False)
    except Exception:
        return ""
    return hashlib.sha256(symbol.tojson().encode()).hexdigest()[:8]


def work(group: str, first: int) -> None:
    """The worker: writes one pickled answer per case of a group, from number `first` on, to file descriptor 3."""
    names_of, digest_of = (no_names, no_digest) if is_swept(group) else (symbol_names, file_digest)
    with os.fdopen(3, "wb") as out:
        for case in cases_of(group)[first:]:
            arrays = case.draw(np.random.default_rng(seed_of(case)))
            try:
                answer: Any = (arrays, *run_case(case, arrays), names_of(case), digest_of(case))
            except Exception as error:
                answer = " ".join([type(error).__name__, *str(error).strip().splitlines()[-1:]])
            pickle.dump(answer, out)
            out.flush()


def answers_of_worker(group: str, first: int, environment: dict[str, str]) -> Iterator[Any]:
    """The answers of a fresh worker from case `first` until it ends or dies."""
    read, write = os.pipe()
    command = f"exec {sys.executable} {__file__} --work {group} {first} 3>&{write}"
    child = subprocess.Popen(
        ["bash", "-c", command], pass_fds=(write,), env={**os.environ, **environment}, stderr=subprocess.DEVNULL
    )
    os.close(write)
    with os.fdopen(read, "rb") as answers:
        try:
            while (answer := next_answer(answers, child)) is not None:
                yield answer
        finally:  # also when the caller wanted one answer only; MXNet may hang on its way out
            child.kill()
            child.wait()


def next_answer(answers: IO[bytes], child: subprocess.Popen[bytes]) -> Any:
    """The next answer, or None when the worker has ended; one that is silent for HANG_SECONDS is ended here."""
    alarm = threading.Timer(HANG_SECONDS, child.kill)
    alarm.start()
    try:
        return pickle.load(answers)
    except (EOFError, pickle.UnpicklingError):
        return None
    finally:
        alarm.cancel()


def run_all(group: str, count: int) -> list[Any]:
    """The answer of each of `count` cases, in order: arrays and outputs, or the message of an error. What fails is
    asked once more without oneDNN."""
    done = answers(group, count, {})
    if is_swept(group):
        return list(map(agreed, done, answers(group, count, PLAIN)))
    return [again(group, number, answer) if isinstance(answer, str) else answer for number, answer in enumerate(done)]


def answers(group: str, count: int, environment: dict[str, str]) -> list[Any]:
    """The answer of each case; a worker that dies is followed by another."""
    done: list[Any] = []
    while len(done) < count:
        done += answers_of_worker(group, len(done), environment)
        if len(done) < count:
            done.append(DIED)
    return done


def agreed(answer: Any, other: Any) -> Any:
    """Of the answers with and without oneDNN one that is no error; none where they differ, for then memory was read
    that nobody wrote."""
    if isinstance(answer, str) or isinstance(other, str):
        return other if isinstance(answer, str) else answer
    close = [np.allclose(x, y, 1e-2, 1e-3, equal_nan=True) for x, y in zip(answer[1], other[1])]
    return answer if all(close) else UNSURE


def again(group: str, number: int, first_error: str) -> Any:
    """The answer of a case that failed, asked once more without oneDNN."""
    return next(answers_of_worker(group, number, PLAIN), first_error)


class Pool:
    """Arrays of one type end to end; equal arrays share their place. A reference is [dtype, offset, *shape]."""

    def __init__(self) -> None:
        self.parts: dict[str, list[np.ndarray]] = {}
        self.sizes: dict[str, int] = {}
        self.known: dict[tuple[Any, ...], list[Any]] = {}

    def add(self, array: np.ndarray) -> list[Any]:
        dtype = array.dtype.name
        key = (dtype, array.shape, array.tobytes())
        if key not in self.known:
            offset = self.sizes.get(dtype, 0)
            self.known[key] = [dtype, offset, *array.shape]
            self.sizes[dtype] = offset + array.size
            self.parts.setdefault(dtype, []).append(array.ravel())
        return self.known[key]

    def save(self, path: Path) -> None:
        np.savez_compressed(path, **{dtype: np.concatenate(parts) for dtype, parts in self.parts.items()})


def write_lines(path: Path, records: list[Any]) -> None:
    """A JSON list with one record on each line, which version control can compare."""
    path.write_text("[\n" + ",\n".join(json.dumps(record, separators=(",", ":")) for record in records) + "\n]\n")


def record_cases(group: str) -> int:
    """Writes the .json and .npz of a group; gives the number of cases that failed without being allowed to."""
    cases, pool, records, failed = cases_of(group), Pool(), [], 0
    for case, answer in zip(cases, run_all(group, len(cases))):
        if not isinstance(answer, str):
            records.append(record_of(case, answer, pool))
        elif is_swept(group) and answer not in (DIED, UNSURE):
            records.append(refusal_of(case, answer))
        else:
            failed += not is_swept(group)
            print(f"FAILED {case.op} {case.attributes}: {answer}", file=sys.stderr)
    pool.save(HERE / "operators" / f"{group}.npz")
    write_lines(HERE / "operators" / f"{group}.json", records)
    print(f"{group}: {len(records)} cases of {len({r['op'] for r in records})} operators")
    return failed


def record_of(case: Case, answer: Any, pool: Pool) -> dict[str, Any]:
    """The record of a call that gave results; one of a sweep has no names."""
    inputs, outputs, states, names, file = answer
    return {
        "op": case.op,
        "attributes": case.attributes,
        "train": case.train,
        "inputs": [pool.add(x) for x in inputs],
        "outputs": [pool.add(x) for x in outputs],
        **({"names": names, "file": file} if names is not None else {}),
        **({"states": {i: pool.add(x) for i, x in states.items()}} if states else {}),
    }


def refusal_of(case: Case, answer: str) -> dict[str, Any]:
    """The record of a call that MXNet refused: the inputs' types and the class of the error."""
    inputs = [[str(x.dtype), *x.shape] for x in case.inputs]
    return {"op": case.op, "attributes": case.attributes, "types": inputs, "refused": answer.split(maxsplit=1)[0]}


def describe(name: str) -> tuple[str, str, list[tuple[str, str]]]:
    """The canonical name, the attribute that counts variadic inputs (or ""), and the arguments with their types."""
    import mxnet as mx
    from mxnet.base import _LIB, check_call, py_str

    texts = ctypes.POINTER(ctypes.c_char_p)
    canonical, text, count_key, returned = (ctypes.c_char_p() for _ in range(4))
    number, names, types, texts_of = mx.base.mx_uint(), texts(), texts(), texts()
    order = (canonical, text, number, names, types, texts_of, count_key, returned)
    check_call(_LIB.MXSymbolGetAtomicSymbolInfo(ctypes.c_void_p(operator_handle(name)), *map(ctypes.byref, order)))
    arguments = [(py_str(names[i]), py_str(types[i])) for i in range(number.value)]
    return py_str(canonical.value), py_str(count_key.value or b""), arguments


def parameter(text: str) -> dict[str, str]:
    """`int, optional, default='1'` as its type and default; one without a default is required."""
    kind, separator, default = text.partition(", optional, default=" if "}" not in text else ",optional, default=")
    if not separator:
        return {"type": kind.replace(", required", "").replace(",required", "")}
    return {"type": kind, "default": default[1:-1] if default[:1] == "'" else default}


def record_signatures() -> None:
    """Writes signatures.json: one record for each operator, aliases gathered under the canonical name."""
    import mxnet as mx

    records: dict[str, dict[str, Any]] = {}
    for name in sorted(mx.operator.get_all_registered_operators()):
        canonical, count_key, arguments = describe(name)
        if NO_SIGNATURE.search(canonical) and canonical not in KEPT:
            continue
        if canonical not in records:
            is_input = [kind.startswith(("NDArray", "Symbol")) for _, kind in arguments]
            records[canonical] = {
                "op": canonical,
                "aliases": [],
                "inputs": [argument for (argument, _), array in zip(arguments, is_input) if array],
                "variadic": count_key,
                "parameters": {
                    argument: parameter(kind) for (argument, kind), array in zip(arguments, is_input) if not array
                },
            }
        if name != canonical:
            records[canonical]["aliases"].append(name)
    write_lines(HERE / "signatures.json", list(records.values()))
    print(f"{len(records)} signatures")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--work"]:
        work(sys.argv[2], int(sys.argv[3]))
    else:
        groups = sys.argv[1:] or sorted(path.stem for path in (HERE / "operators").glob("*.py"))
        if not sys.argv[1:]:
            record_signatures()
        sys.exit(sum(map(record_cases, groups)) > 0)
