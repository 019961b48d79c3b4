"""Arithmetic, comparisons and conversions as methods: each appends one line of LLVM text and returns a typed value.

Any operand can be a Python number: it becomes a constant of the other operand's type. A vector and a scalar cannot be
mixed: use `splat`. A value has a reference to its builder, so `a * b + 1.0` emits instructions too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .types import I64, Number, Type, constant

if TYPE_CHECKING:
    from .emitter import ModuleBuilder


class Value:
    """An SSA value: its text, its type, and the builder that operators on it emit into.

    Comparisons are methods of the builder (`f.cmp`), so that values stay hashable. `/` is fdiv or sdiv, depending on
    the type; `>>` of integers is arithmetic (`lshr` is a method of the builder).
    """

    __slots__ = ("builder", "text", "type")

    def __init__(self, text: str, type: Type, builder: Arithmetic) -> None:
        self.text, self.type, self.builder = text, type, builder

    def __repr__(self) -> str:
        return f"{self.type.text} {self.text}"

    def __bool__(self) -> bool:
        raise TypeError(f"{self!r} is known only at run time: use select, when or branch, not Python's if")

    def __add__(self, other: Operand) -> Value:
        return self.builder.add(self, other)

    def __radd__(self, other: Number) -> Value:
        return self.builder.add(other, self)

    def __sub__(self, other: Operand) -> Value:
        return self.builder.sub(self, other)

    def __rsub__(self, other: Number) -> Value:
        return self.builder.sub(other, self)

    def __mul__(self, other: Operand) -> Value:
        return self.builder.mul(self, other)

    def __rmul__(self, other: Number) -> Value:
        return self.builder.mul(other, self)

    def __truediv__(self, other: Operand) -> Value:
        return self.builder.div(self, other)

    def __rtruediv__(self, other: Number) -> Value:
        return self.builder.div(other, self)

    def __and__(self, other: Operand) -> Value:
        return self.builder.and_(self, other)

    def __or__(self, other: Operand) -> Value:
        return self.builder.or_(self, other)

    def __xor__(self, other: Operand) -> Value:
        return self.builder.xor(self, other)

    def __lshift__(self, other: Operand) -> Value:
        return self.builder.shl(self, other)

    def __rshift__(self, other: Operand) -> Value:
        return self.builder.ashr(self, other)

    def __neg__(self) -> Value:
        return self.builder.neg(self)

    def __invert__(self) -> Value:
        return self.builder.xor(self, -1 if self.type.element != "i1" else 1)


Operand = Value | int | float

_FLOAT_PREDICATES = {"eq": "oeq", "ne": "une", "lt": "olt", "le": "ole", "gt": "ogt", "ge": "oge"}
_INT_PREDICATES = {"lt": "slt", "le": "sle", "gt": "sgt", "ge": "sge"}


class Arithmetic:
    """Appends instructions to a function's text. `contract` lets LLVM fuse a multiply and an add; no other fast-math
    flag is set."""

    __slots__ = ("_count", "_flags", "lines", "module")

    def __init__(self, module: ModuleBuilder, contract: bool = False) -> None:
        self.module, self.lines = module, list[str]()
        self._count, self._flags = 0, " contract" if contract else ""

    def op(self, text: str, type: Type) -> Value:
        """Append `%new = text`, an instruction in LLVM assembly with a result of `type`."""
        self._count = n = self._count + 1
        self.lines.append(f"  %v{n} = {text}")
        return Value(f"%v{n}", type, self)

    def const(self, type: Type, number: Number) -> Value:
        """A constant, equal in all lanes."""
        return Value(constant(type, number), type, self)

    def fixed(self, number: int) -> Value:
        """An i64 constant that is part of the code, also in a function that shares its code with others
        (`numbered.py`): for numbers that do not differ between them, and whose value makes the code faster."""
        return Value(str(number), I64, self)

    def _pair(self, a: Operand, b: Operand) -> tuple[Type, str, str]:
        if isinstance(a, Value):
            type = a.type
            if not isinstance(b, Value):
                return type, a.text, constant(type, b)
            if b.type is not type:
                raise TypeError(f"operands differ in type: {a!r} and {b!r}")
            return type, a.text, b.text
        if isinstance(b, Value):
            return b.type, constant(b.type, a), b.text
        raise TypeError(f"two Python numbers ({a!r}, {b!r}) need no instruction: one operand must be a Value")

    def _text(self, a: Operand, type: Type) -> str:
        if not isinstance(a, Value):
            return constant(type, a)
        if a.type is not type:
            raise TypeError(f"operand {a!r} is not of type {type.text}")
        return a.text

    # Arithmetic

    def _arithmetic(self, float_op: str, int_op: str, a: Operand, b: Operand) -> Value:
        type, x, y = self._pair(a, b)
        op = float_op + self._flags if type.is_float else int_op
        return self.op(f"{op} {type.text} {x}, {y}", type)

    def _integer(self, op: str, a: Operand, b: Operand) -> Value:
        type, x, y = self._pair(a, b)
        if type.is_float:
            raise TypeError(f"{op} of {type.text}: bitcast to an integer first")
        return self.op(f"{op} {type.text} {x}, {y}", type)

    def add(self, a: Operand, b: Operand) -> Value:
        return self._arithmetic("fadd", "add", a, b)

    def sub(self, a: Operand, b: Operand) -> Value:
        return self._arithmetic("fsub", "sub", a, b)

    def mul(self, a: Operand, b: Operand) -> Value:
        return self._arithmetic("fmul", "mul", a, b)

    def div(self, a: Operand, b: Operand) -> Value:
        """Float division, or signed integer division towards zero (undefined for a zero divisor: guard it)."""
        return self._arithmetic("fdiv", "sdiv", a, b)

    def rem(self, a: Operand, b: Operand) -> Value:
        """Signed integer remainder with the dividend's sign. For floats a call of libm's fmod: prefer vmath's mod."""
        return self._arithmetic("frem", "srem", a, b)

    def udiv(self, a: Operand, b: Operand) -> Value:
        return self._integer("udiv", a, b)

    def urem(self, a: Operand, b: Operand) -> Value:
        return self._integer("urem", a, b)

    def and_(self, a: Operand, b: Operand) -> Value:
        return self._integer("and", a, b)

    def or_(self, a: Operand, b: Operand) -> Value:
        return self._integer("or", a, b)

    def xor(self, a: Operand, b: Operand) -> Value:
        return self._integer("xor", a, b)

    def not_(self, a: Value) -> Value:
        """Bitwise negation; for an i1, logical negation."""
        return ~a

    def shl(self, a: Operand, b: Operand) -> Value:
        return self._integer("shl", a, b)

    def lshr(self, a: Operand, b: Operand) -> Value:
        return self._integer("lshr", a, b)

    def ashr(self, a: Operand, b: Operand) -> Value:
        return self._integer("ashr", a, b)

    def neg(self, a: Value) -> Value:
        return self.op(f"fneg {a.type.text} {a.text}", a.type) if a.type.is_float else self.sub(0, a)

    def intrinsic(self, name: str, type: Type, *operands: Operand) -> Value:
        """`llvm.NAME.<type>(operands)` for the overloaded intrinsics whose operands and result all have `type`."""
        t = type.text
        callee = self.module.uniform_intrinsic(name, type, len(operands))
        return self.op(f"{callee}({', '.join([f'{t} {self._text(x, type)}' for x in operands])})", type)

    def fma(self, a: Operand, b: Operand, c: Operand) -> Value:
        """a * b + c: floats with one rounding, integers modulo their width."""
        type = a.type if isinstance(a, Value) else b.type if isinstance(b, Value) else self._pair(b, c)[0]
        if not type.is_float:
            return self.add(self.mul(a, b), c)
        t, text = type.text, self._text  # the most frequent instruction: written out for emission speed
        callee = self.module.uniform_intrinsic("fma", type, 3)
        return self.op(f"{callee}({t} {text(a, type)}, {t} {text(b, type)}, {t} {text(c, type)})", type)

    def abs(self, a: Value) -> Value:
        """Absolute value; the most negative integer is unchanged."""
        return self.intrinsic("fabs", a.type, a) if a.type.is_float else self.smax(a, self.neg(a))

    def sqrt(self, a: Value) -> Value:
        return self.intrinsic("sqrt", a.type, a)

    def copysign(self, magnitude: Operand, sign: Value) -> Value:
        return self.intrinsic("copysign", sign.type, magnitude, sign)

    def smin(self, a: Operand, b: Operand) -> Value:
        return self.intrinsic("smin", self._pair(a, b)[0], a, b)

    def smax(self, a: Operand, b: Operand) -> Value:
        return self.intrinsic("smax", self._pair(a, b)[0], a, b)

    def umin(self, a: Operand, b: Operand) -> Value:
        return self.intrinsic("umin", self._pair(a, b)[0], a, b)

    def umax(self, a: Operand, b: Operand) -> Value:
        return self.intrinsic("umax", self._pair(a, b)[0], a, b)

    # Comparison and selection

    def cmp(self, predicate: str, a: Operand, b: Operand) -> Value:
        """An i1 per lane.

        `eq ne lt le gt ge` are signed for integers; for floats with a NaN they are false, except `ne`, as in C. Any
        other predicate (`ult`, `uno`, `ord`, ...) is LLVM's: `u` means unsigned for integers, "or NaN" for floats.
        """
        type, x, y = self._pair(a, b)
        table = _FLOAT_PREDICATES if type.is_float else _INT_PREDICATES
        op = "fcmp" if type.is_float else "icmp"
        return self.op(f"{op} {table.get(predicate, predicate)} {type.text} {x}, {y}", type.with_element("i1"))

    def is_nan(self, a: Value) -> Value:
        return self.cmp("uno", a, a)

    def select(self, condition: Value, a: Operand, b: Operand) -> Value:
        """a where `condition`, else b, per lane; a scalar condition chooses whole vectors."""
        type, x, y = self._pair(a, b)
        return self.op(f"select {condition.type.text} {condition.text}, {type.text} {x}, {type.text} {y}", type)

    def min(self, a: Operand, b: Operand) -> Value:
        """The smaller, NaN if either is NaN (MXNet's minimum); of two zeros the second. Integers compare signed."""
        return self._extreme("lt", "smin", a, b)

    def max(self, a: Operand, b: Operand) -> Value:
        """The larger, NaN if either is NaN (MXNet's maximum); of two zeros the second. Integers compare signed."""
        return self._extreme("gt", "smax", a, b)

    def _extreme(self, predicate: str, integer: str, a: Operand, b: Operand) -> Value:
        type = self._pair(a, b)[0]
        if not type.is_float:
            return self.intrinsic(integer, type, a, b)
        chosen = self.select(self.cmp(predicate, a, b), a, b)  # b if either is NaN: only a NaN in a must be restored
        return self.select(self.is_nan(a), a, chosen) if isinstance(a, Value) else chosen

    def min_or_second(self, a: Operand, b: Operand) -> Value:
        """a < b ? a : b, one x86 instruction. It is b if either is NaN: `min_or_second(limit, x)` returns a NaN x."""
        return self.select(self.cmp("lt", a, b), a, b)

    def max_or_second(self, a: Operand, b: Operand) -> Value:
        """a > b ? a : b, one x86 instruction. It is b if either is NaN: `max_or_second(limit, x)` returns a NaN x."""
        return self.select(self.cmp("gt", a, b), a, b)

    # Conversion

    def bitcast(self, a: Value, element: str | Type) -> Value:
        """The same bits as another element type, lane by lane, or as another Type of the same total width."""
        type = element if isinstance(element, Type) else a.type.with_element(element)
        if type.text == a.type.text:
            return Value(a.text, type, self)
        return self.op(f"bitcast {a.type.text} {a.text} to {type.text}", type)

    def cast(self, how: str, a: Value, element: str) -> Value:
        """LLVM's conversion instruction `how` (zext, trunc, sitofp, ...) to `element`."""
        type = a.type.with_element(element)
        return self.op(f"{how} {a.type.text} {a.text} to {type.text}", type)

    def convert(self, a: Value, element: str, signed: bool = True) -> Value:
        """`a` converted to `element` as in C: to floats rounded to nearest, to integers towards zero.

        `signed` is the signedness of the INTEGER side (of the source if it is an integer, else of the result). To i1:
        `a != 0`; from i1: 0 or 1. Floats are converted to 8 and 16 bits through i32 and to unsigned 32 bits through
        i64, so that small negative values wrap as in C.
        """
        source = a.type
        if source.element == element:
            return a
        if element == "i1":
            return self.cmp("ne", self._widen(a) if source.element == "bfloat" else a, 0)
        if source.is_float:
            return (
                self._float_to_float(a, element)
                if Type.of(element).is_float
                else self._float_to_int(a, element, signed)
            )
        if Type.of(element).is_float:
            return self._int_to_float(a, element, signed and source.element != "i1")
        if Type.of(element).bits < source.bits:
            return self.cast("trunc", a, element)
        return self.cast("sext" if signed and source.element != "i1" else "zext", a, element)

    def _float_to_float(self, a: Value, element: str) -> Value:
        source = a.type
        if source.bits == 16:
            wide = self._widen(a)
            return wide if element == "float" else self._float_to_float(wide, element)
        if Type.of(element).bits == 16 and source.element == "double":  # as in mshadow, and without a library call
            return self._float_to_float(self.cast("fptrunc", a, "float"), element)
        if element == "bfloat":
            return self._round_to_bfloat(a)
        return self.cast("fpext" if Type.of(element).bits > source.bits else "fptrunc", a, element)

    def _widen(self, a: Value) -> Value:
        """A half or a bfloat as float, exactly."""
        if a.type.element == "half":
            return self.cast("fpext", a, "float")
        return self.bitcast(self.shl(self.cast("zext", a, "i32"), 16), "float")

    def _round_to_bfloat(self, a: Value) -> Value:
        """Float to bfloat, ties to even, with integer instructions (`types.py` explains why)."""
        bits = self.bitcast(a, "i32")
        rounded = bits + (self.lshr(bits, 16) & 1) + 0x7FFF
        word = self.select(self.is_nan(a), bits | 0x400000, rounded)
        return self.bitcast(self.cast("trunc", self.lshr(word, 16), "i16"), "bfloat")

    def _float_to_int(self, a: Value, element: str, signed: bool) -> Value:
        """Convert towards zero, as `numerics.to_integers`. What is outside of a range is undefined in LLVM."""
        if a.type.bits == 16:
            a = self._widen(a)
        wide = "i32" if element in ("i8", "i16") or (element == "i32" and signed) else "i64"
        bound = 2 ** (Type.of(wide).bits - 1)
        inside = self.and_(self.cmp("ge", a, float(-bound)), self.cmp("lt", a, float(bound)))
        whole = self.cast("fptosi", self.select(inside, a, 0.0), wide)
        whole = self.select(inside, whole, -bound)
        return whole if element == wide else self.cast("trunc", whole, element)

    def _int_to_float(self, a: Value, element: str, signed: bool) -> Value:
        if Type.of(element).bits == 16:
            return self._float_to_float(self._int_to_float(a, "float", signed), element)
        return self.cast("sitofp" if signed else "uitofp", a, element)
