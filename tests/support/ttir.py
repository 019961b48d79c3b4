"""Executes Triton's MLIR (TTIR) text with NumPy, one program after another, and checks every access against its buffer.

`run_ttir(text, programs, arguments)` computes the results of a GPU, apart from the order of sums. A pointer is a buffer
and element offsets, so an access outside of the buffer, which a GPU would not detect, raises OutOfBounds. Unsupported
operations raise NotImplementedError. Results that TTIR leaves undefined, as of a division by zero, are UNDEFINED.
float32 divisions and square roots that need not round as in IEEE 754 have an error in the last place. Conversions to
integers saturate, as on GPUs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np
from mxforge.ir.dialects.core import numerics

DTYPES: dict[str, np.dtype] = {
    **{f"f{n}": np.dtype(f"float{n}") for n in (16, 32, 64)},
    **{f"i{n}": np.dtype(f"int{n}") for n in (8, 16, 32, 64)},
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "i1": np.dtype(np.bool_),
}
UNDEFINED = 0x55
"""Undefined integers."""


class OutOfBounds(Exception):
    """An access outside of a buffer."""


@dataclass
class Pointer:
    """Elements `offset` of a flat array."""

    buffer: np.ndarray
    offset: np.ndarray

    def check(self, mask: np.ndarray | None, what: str) -> None:
        outside = (self.offset < 0) | (self.offset >= self.buffer.size)
        if mask is not None:
            outside = outside & mask
        if np.any(outside):
            first = np.asarray(self.offset)[np.asarray(outside)].ravel()[:4]
            raise OutOfBounds(f"{what} of elements {first} of a buffer of {self.buffer.size}")


@dataclass(frozen=True)
class Argument:
    """An argument of the function. Its value or address must be a multiple of `divisibility`; "" is no condition."""

    name: str
    type: str
    divisibility: str

    @property
    def is_pointer(self) -> bool:
        return self.type.startswith("!tt.ptr")


@dataclass(frozen=True)
class Type:
    shape: tuple[int, ...]
    element: str

    @property
    def dtype(self) -> np.dtype:
        return DTYPES[self.element]


@dataclass
class Op:
    """`operands` and `results` are SSA names; `text` is the source between the name and the types."""

    name: str
    results: list[str]
    operands: list[str]
    text: str
    source: Type
    type: Type
    bodies: list[list[Op]] = field(default_factory=list)
    line: str = ""


# -- parsing

_NAME = re.compile(r"%[\w.$-]+(?:#\d+)?")
_OP = re.compile(r"(?:(%[\w.$-]+)(?::(\d+))? = )?\"?([\w.]+)\"?(.*)$")
_LOCATION = re.compile(r" loc\((?:[^()]|\([^()]*\))*\)")
_REGIONS = ("scf.for", "scf.if", "tt.reduce", "tt.scan")  # their types follow their blocks, or are unused
_ARGUMENT = re.compile(r"(%[\w.$]+): (!tt\.ptr<[^>]+>|\w+)(?: \{tt\.divisibility = (\d+))?")
_FOR = re.compile(r"\s*(%[\w.$-]+) = (%[\w.$#-]+) to (%[\w.$#-]+) step (%[\w.$#-]+)(?: iter_args\((.*?)\))?")


def _type(text: str) -> Type:
    """Parses `tensor<4x8xf32>`, `i32`, `tensor<4x!tt.ptr<f32>>`. A pointer has the element type of its target."""
    text = text.strip()
    dims = re.match(r"tensor<((?:\d+x)*)", text)
    element = re.findall(r"(?:f|bf|i)\d+|index", re.sub(r"\d+x", " ", text))
    return Type(tuple(int(n) for n in dims.group(1).split("x")[:-1]) if dims else (), element[-1] if element else "")


class _Parser:
    def __init__(self, text: str) -> None:
        lines = [_LOCATION.sub("", line).strip() for line in text.splitlines() if not line.lstrip().startswith("#")]
        self.lines = [line for line in lines if line]
        self.at = next(i for i, line in enumerate(self.lines) if line.startswith("tt.func"))
        head = self.lines[self.at]
        self.arguments = [Argument(*found) for found in _ARGUMENT.findall(head)]
        self.at += 1

    def block(self) -> list[Op]:
        """The operations up to the closing brace, which is the line before `at`."""
        ops: list[Op] = []
        while not self.lines[self.at].startswith("}"):
            line = self.lines[self.at]
            self.at += 1
            if not line.startswith("^bb"):
                ops.append(self.op(line))
        self.at += 1
        return ops

    def op(self, line: str) -> Op:
        match = _OP.match(line)
        assert match is not None, line
        result, count, name, rest = match.groups()
        results = [] if result is None else [f"{result}#{k}" for k in range(int(count))] if count else [result]
        body, _, types = (rest, "", "") if name in _REGIONS else rest.rpartition(" : ")
        body = body or types
        source, _, target = types.partition("->") if "->" in types else types.partition(" to ")
        op = Op(
            name,
            results,
            _NAME.findall(body),
            body,
            _type(source.split(", ")[0]),
            _type(target or source.split(", ")[-1]),
            line=line,
        )
        if name in _REGIONS:
            self.bodies(op)
        return op

    def bodies(self, op: Op) -> None:
        op.bodies.append(self.block())
        while "else" in self.lines[self.at - 1]:
            op.bodies.append(self.block())


# -- semantics of operations: (op, operands) -> value

Rule = Callable[[Op, list[Any]], Any]


def _unsigned(x: Any) -> Any:
    x = np.asarray(x)
    return x if x.dtype == np.bool_ else x.view(f"u{x.dtype.itemsize}")


def _signed_like(x: Any, like: Any) -> Any:
    return np.asarray(x).view(np.asarray(like).dtype)


def _constant(op: Op, args: list[Any]) -> Any:
    text = re.sub(r"\s*\{[^}]*\}", "", op.text).strip()
    text = text.removeprefix("dense<").removesuffix(">")
    dtype = DTYPES[op.type.element or "i1"]  # `true` and `false` have no type
    if text.startswith("0x") and dtype.kind != "i":
        value = np.array(int(text, 16), f"u{dtype.itemsize}").view(dtype)
    else:
        value = np.array(float(text) if "." in text else int({"true": "1", "false": "0"}.get(text, text)))
    return np.full(op.type.shape, value.astype(dtype))


def _reshaped(change: Callable[[Op, np.ndarray], np.ndarray]) -> Rule:
    """An operation on shapes, for values and for pointers."""

    def rule(op: Op, args: list[Any]) -> Any:
        x = args[0]
        return Pointer(x.buffer, change(op, x.offset)) if isinstance(x, Pointer) else change(op, x)

    return rule


def _integer(op: Op, name: str) -> int:
    found = re.search(rf"{name} = (\d+)", op.text)
    assert found is not None, op.line
    return int(found.group(1))


def _selected(op: Op, args: list[Any]) -> Any:
    condition, chosen, other = args
    if isinstance(chosen, Pointer):  # one condition chooses a buffer
        assert np.ndim(condition) == 0, op.line
        return chosen if condition else other
    return np.where(condition, chosen, other)


def _load(op: Op, args: list[Any]) -> Any:
    pointer, mask, other = [*args, None, None][:3]
    pointer.check(mask, "load")
    if mask is None:
        return pointer.buffer[pointer.offset]
    memory = pointer.buffer if pointer.buffer.size else np.zeros(1, pointer.buffer.dtype)  # a mask of nothing
    found = memory[np.where(mask, pointer.offset, 0)]
    return np.where(mask, found, np.zeros((), found.dtype) if other is None else other).astype(found.dtype)


def _store(op: Op, args: list[Any]) -> None:
    pointer, value, mask = [*args, None][:3]
    pointer.check(mask, "store")
    where = np.broadcast_to(True if mask is None else mask, pointer.offset.shape)
    pointer.buffer[pointer.offset[where]] = np.broadcast_to(value, where.shape)[where]


def _atomic(op: Op, args: list[Any]) -> Any:
    """An addition of integers to memory; the value before. Programs run one after another, so the order of barriers and
    of other accesses needs no rule."""
    pointer, value, mask = args
    assert "add" in op.text and pointer.buffer.dtype.kind == "i" and mask.all(), op.line
    pointer.check(None, "atomic addition")
    before = pointer.buffer[pointer.offset]
    pointer.buffer[pointer.offset] += value
    return before


def _pointer_cast(op: Op, args: list[Any]) -> Any:
    x = args[0]
    if isinstance(x, Pointer):
        return Pointer(x.buffer.view(op.type.dtype), x.offset)
    return np.asarray(x, order="C").view(op.type.dtype)


def _dot(op: Op, args: list[Any]) -> Any:
    a, b, c = args
    assert a.dtype == b.dtype, op.line
    return a.astype(c.dtype) @ b.astype(c.dtype) + c


def _convert(op: Op, args: list[Any]) -> Any:
    return np.asarray(args[0]).astype(op.type.dtype)


def _from_unsigned(op: Op, args: list[Any]) -> Any:
    return _unsigned(args[0]).astype(op.type.dtype)


def _extend_signed(op: Op, args: list[Any]) -> Any:
    x = np.asarray(args[0]).astype(op.type.dtype)
    return -x if np.asarray(args[0]).dtype == np.bool_ else x


def _truncate(op: Op, args: list[Any]) -> Any:
    return (np.asarray(args[0]) & 1).astype(np.bool_) if op.type.element == "i1" else _convert(op, args)


def _divided(function: Callable[[Any, Any], Any]) -> Rule:
    """Of integers. Undefined for the divisor 0, and for -1 if the dividend is the lowest number."""

    def rule(op: Op, args: list[Any]) -> Any:
        a, b = np.broadcast_arrays(*args)
        overflows = (b == -1) & (a == np.iinfo(a.dtype).min) if a.dtype.kind == "i" else np.False_
        undefined = (b == 0) | overflows
        return np.where(undefined, UNDEFINED, function(a, np.where(undefined, 1, b))).astype(a.dtype)

    return rule


_quotient = _divided(lambda a, b: (a - np.fmod(a, b)) // b)  # rounded towards zero
_remainder = _divided(np.fmod)


def _shifted(shift: Callable[[Any, Any], Any]) -> Rule:
    """Undefined for shifts by the width or more."""

    def rule(op: Op, args: list[Any]) -> Any:
        x, bits = args
        inside = (bits >= 0) & (bits < np.asarray(x).dtype.itemsize * 8)
        return np.where(inside, shift(x, np.where(inside, bits, 0)), UNDEFINED).astype(np.asarray(x).dtype)

    return rule


def _inexact(function: Callable[..., Any]) -> Rule:
    """A function whose float32 results differ from the correctly rounded ones in the last place."""

    def rule(op: Op, args: list[Any]) -> Any:
        exact = np.asarray(function(*args))
        if exact.dtype != np.float32:
            return exact
        usual = np.isfinite(exact) & (exact != 0)
        return np.where(usual, np.nextafter(exact, np.float32(np.inf)), exact)

    return rule


def _saturated(unsigned: bool) -> Rule:
    """The conversion of floats to integers: towards zero and into the range. NaN gives 0."""

    def rule(op: Op, args: list[Any]) -> Any:
        dtype = np.dtype(f"{'u' if unsigned else 'i'}{op.type.dtype.itemsize}")
        wide, limits = np.nan_to_num(np.asarray(args[0], np.float64), posinf=np.inf, neginf=-np.inf), np.iinfo(dtype)
        low, high = wide <= float(limits.min), wide >= float(limits.max)
        inside = np.where(low | high, 0, wide).astype(dtype)
        return np.where(low, limits.min, np.where(high, limits.max, inside)).astype(dtype).view(op.type.dtype)

    return rule


def _on_unsigned(rule: Rule) -> Rule:
    return lambda op, args: _signed_like(rule(op, [_unsigned(x) for x in args]), args[0])


_COMPARE = {
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "eq": np.equal,
    "ne": np.not_equal,
}


def _compare(op: Op, args: list[Any]) -> Any:
    predicate = op.text.split(",")[0].strip()
    if predicate in _COMPARE:
        return _COMPARE[predicate](*args)
    if predicate[0] == "u" and op.name == "arith.cmpi":
        return _COMPARE[predicate[1:]](*map(_unsigned, args))
    unordered = np.isnan(args[0]) | np.isnan(args[1]) if op.name == "arith.cmpf" else np.False_
    found = _COMPARE[predicate[1:]](*args)
    return found | unordered if predicate[0] == "u" else found & ~unordered


def _fused(op: Op, args: list[Any]) -> Any:
    a, b, c = (np.asarray(x, np.float64) for x in args)
    return (a * b + c).astype(op.type.dtype)


def _combining(op: Op, x: Any) -> tuple[Any, Any]:
    """The function of a reduction or a scan, whose body is one operation on two values and the return, and its
    operand."""
    body = op.bodies[0]
    if len(body) != 2 or body[0].name not in (_UFUNCS | _UNSIGNED_UFUNCS):
        raise NotImplementedError(f"{op.name} by {[b.name for b in body]}")
    name = body[0].name
    return (_UNSIGNED_UFUNCS[name], _unsigned(x)) if name in _UNSIGNED_UFUNCS else (_UFUNCS[name], x)


def _reduce(op: Op, args: list[Any]) -> Any:
    function, x = _combining(op, args[0])
    return _signed_like(function.reduce(x, axis=_integer(op, "axis"), dtype=x.dtype), args[0])


def _scan(op: Op, args: list[Any]) -> Any:
    function, x = _combining(op, args[0])
    if "reverse = false" not in op.text:
        raise NotImplementedError("a scan from the end")
    return _signed_like(function.accumulate(x, axis=_integer(op, "axis"), dtype=x.dtype), args[0])


def _numpy(function: Callable[..., Any]) -> Rule:
    return lambda op, args: np.asarray(function(*args)).astype(op.type.dtype)


_LIBDEVICE: dict[str, Rule] = {
    **{n: _numpy(getattr(np, n)) for n in "expm1 log1p log10 cbrt tan sinh cosh tanh hypot fmod rint trunc".split()},
    **{n: _numpy(getattr(np, n.replace("a", "arc", 1))) for n in "asin acos atan asinh acosh atanh".split()},
    "atan2": _numpy(np.arctan2),
    "pow": _numpy(np.power),
    "tgamma": _numpy(numerics.gamma),
    "lgamma": _numpy(numerics.lgamma),
    "erfinv": _numpy(numerics.erfinv),
    "round": _numpy(lambda x: np.copysign(np.floor(np.abs(np.float64(x)) + 0.5), x)),
}


def _external(op: Op, args: list[Any]) -> Any:
    symbol = re.search(r'symbol = "__nv_(\w+)"', op.text)
    name = symbol.group(1) if symbol else ""
    rule = _LIBDEVICE.get(name.removesuffix("f")) or _LIBDEVICE.get(name)
    if rule is None:
        raise NotImplementedError(f"libdevice function {name}")
    return rule(op, args)


_UNSIGNED_UFUNCS: dict[str, Any] = {"arith.maxui": np.maximum, "arith.minui": np.minimum}

_UFUNCS: dict[str, Any] = {
    **{f"arith.add{k}": np.add for k in "if"},
    **{f"arith.sub{k}": np.subtract for k in "if"},
    **{f"arith.mul{k}": np.multiply for k in "if"},
    "arith.remf": np.fmod,
    "arith.maxnumf": np.fmax,
    "arith.minnumf": np.fmin,
    "arith.maximumf": np.maximum,
    "arith.minimumf": np.minimum,
    "arith.maxsi": np.maximum,
    "arith.minsi": np.minimum,
    "arith.andi": np.bitwise_and,
    "arith.ori": np.bitwise_or,
    "arith.xori": np.bitwise_xor,
    "arith.negf": np.negative,
    **{f"math.{n}": getattr(np, n) for n in ("exp", "exp2", "log", "log2", "sin", "cos", "floor", "ceil")},
    "math.absf": np.abs,
    "math.absi": np.abs,
}


def _ufunc(function: Any) -> Rule:
    return lambda op, args: function(*args)


RULES: dict[str, Rule] = {
    **{name: _ufunc(function) for name, function in _UFUNCS.items()},
    "arith.constant": _constant,
    "tt.make_range": lambda op, args: np.arange(_integer(op, "start"), _integer(op, "end"), dtype=np.int32),
    "tt.splat": _reshaped(lambda op, x: np.broadcast_to(x, op.type.shape)),
    "tt.broadcast": _reshaped(lambda op, x: np.broadcast_to(x, op.type.shape)),
    "tt.expand_dims": _reshaped(lambda op, x: np.expand_dims(x, _integer(op, "axis"))),
    "tt.reshape": _reshaped(lambda op, x: x.reshape(op.type.shape)),
    "tt.trans": _reshaped(lambda op, x: x.T),
    "tt.addptr": lambda op, args: Pointer(args[0].buffer, args[0].offset + np.asarray(args[1], np.int64)),
    "tt.load": _load,
    "tt.store": _store,
    "tt.atomic_rmw": _atomic,
    "gpu.barrier": lambda op, args: None,
    "ttg.barrier": lambda op, args: None,
    "tt.bitcast": _pointer_cast,
    "arith.bitcast": _pointer_cast,
    "tt.dot": _dot,
    "tt.reduce": _reduce,
    "tt.scan": _scan,
    "tt.extern_elementwise": _external,
    "arith.cmpi": _compare,
    "arith.cmpf": _compare,
    "arith.select": _selected,
    "arith.divf": _inexact(np.divide),
    "tt.precise_divf": _ufunc(np.divide),
    "math.sqrt": _inexact(np.sqrt),
    "arith.shli": _shifted(np.left_shift),
    "arith.shrsi": _shifted(np.right_shift),
    "arith.divsi": _quotient,
    "arith.remsi": _remainder,
    "arith.divui": _on_unsigned(_quotient),
    "arith.remui": _on_unsigned(_remainder),
    "arith.shrui": _on_unsigned(_shifted(np.right_shift)),
    "arith.maxui": _on_unsigned(lambda op, args: np.maximum(*args)),
    "arith.minui": _on_unsigned(lambda op, args: np.minimum(*args)),
    **{f"arith.{n}": _convert for n in ("extf", "truncf", "sitofp")},
    "arith.fptosi": _saturated(unsigned=False),
    "arith.fptoui": _saturated(unsigned=True),
    "tt.fp_to_fp": _convert,
    "arith.extsi": _extend_signed,
    "arith.trunci": _truncate,
    "arith.extui": _from_unsigned,
    "arith.uitofp": _from_unsigned,
    "math.erf": _numpy(numerics.erf),
    "math.rsqrt": lambda op, args: (1 / np.sqrt(args[0])).astype(op.type.dtype),
    "math.fma": _fused,
    "tt.precise_sqrt": lambda op, args: np.sqrt(args[0]),
}


# -- running


class _Program:
    """One program of a grid. `run` executes a block and returns the values that it yields."""

    def __init__(self, values: dict[str, Any], number: int, count: int) -> None:
        self.values, self.number, self.count = values, number, count

    def run(self, block: list[Op]) -> list[Any]:
        for op in block:
            if op.name in ("scf.yield", "tt.return"):
                return [self.values[n] for n in op.operands]
            self.step(op)
        return []

    def step(self, op: Op) -> None:
        if op.name == "scf.for":
            found = self.loop(op)
        elif op.name == "scf.if":
            chosen = op.bodies[0] if self.values[op.operands[0]] else op.bodies[1] if len(op.bodies) > 1 else []
            found = self.run(chosen)
        elif op.name in ("tt.get_program_id", "tt.get_num_programs"):
            found = [np.int32(self.place(op))]
        elif op.name in RULES:
            found = [RULES[op.name](op, [self.values[n] for n in op.operands])]
        else:
            raise NotImplementedError(f"TTIR operation {op.line}")
        self.values.update(zip(op.results, found, strict=False))

    def place(self, op: Op) -> int:
        """The program's number or the number of programs; grids have one dimension."""
        along_x = (self.number, self.count) if op.text.strip() == "x" else (0, 1)
        return along_x[op.name.endswith("programs")]

    def loop(self, op: Op) -> list[Any]:
        match = _FOR.match(op.line.partition("scf.for")[2])
        assert match is not None, op.line
        index, low, high, step, carried = match.groups()
        pairs = re.findall(r"(%[\w.$-]+) = (%[\w.$#-]+)", carried or "")
        state = [self.values[start] for _, start in pairs]
        first = self.values[low]
        for i in range(int(first), int(self.values[high]), int(self.values[step])):
            self.values[index] = np.asarray(first).dtype.type(i)
            self.values.update(zip((name for name, _ in pairs), state, strict=True))
            state = self.run(op.bodies[0])
        return state


class TtirFunction:
    """The only function of a TTIR text."""

    def __init__(self, text: str) -> None:
        parser = _Parser(text)
        self.body, self.arguments = parser.block(), parser.arguments

    def run(self, programs: int, arguments: Sequence[Pointer | int | float]) -> None:
        """Run a grid of `programs` programs; stores modify the buffers of pointers."""
        values: dict[str, Any] = {}
        for argument, value in zip(self.arguments, arguments, strict=True):
            kind = _type(argument.type).dtype
            values[argument.name] = value if argument.is_pointer else kind.type(value)
        with np.errstate(all="ignore"):
            for number in range(programs):
                _Program(dict(values), number, programs).run(self.body)

    def pointer(self, position: int, memory: np.ndarray, offset: int = 0) -> Pointer:
        """Argument `position` as a pointer to byte `offset` of a flat, contiguous array; its buffer reaches to the
        array's end."""
        dtype = _type(self.arguments[position].type).dtype
        elements = memory.view(np.uint8)[: memory.nbytes // dtype.itemsize * dtype.itemsize].view(dtype)
        assert offset % dtype.itemsize == 0, "a pointer between elements"
        return Pointer(elements, np.asarray(offset // dtype.itemsize, np.int64))


def run_ttir(text: str, programs: int, arguments: Sequence[np.ndarray | int | float]) -> None:
    """Run the only function of `text`. Contiguous arrays are buffers; stores modify them in place."""
    function = TtirFunction(text)
    given = [
        function.pointer(i, value.reshape(-1)) if isinstance(value, np.ndarray) else value
        for i, value in enumerate(arguments)
    ]
    function.run(programs, given)
