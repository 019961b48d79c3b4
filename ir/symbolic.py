"""Symbolic numbers: run the compiler once for variable extents, and evaluate its results for other values.

A `SymInt` behaves as the integer that it holds. Arithmetic on it produces other symbolic numbers, and its `Trace`
records how each is computed. A decision that depends on its value is recorded as a guard: the outcome of a comparison,
or the value itself where Python needs a plain integer (`range`, `int`, text, NumPy). So a result computed with symbolic
extents is valid for all extents that satisfy the guards, and `Trace.evaluator` computes its numbers for them.

    trace = Trace()
    n = trace.unknown(10)
    blocks = -(-n // 8) if n > 4 else 1          # records the guard n > 4
    evaluate = trace.evaluator((blocks,))
    evaluate(33)                                  # (5,)
    evaluate(3)                                   # None: n > 4 does not hold

Sums and products of symbolic integers are polynomials in normal form, so equal ones are one symbol.
"""

from __future__ import annotations

import math
import operator
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, cast

from .polynomials import Polynomial, combined

_P = ParamSpec("_P")
_R = TypeVar("_R")
Evaluator = Callable[..., Any]
_PLAIN = frozenset((int, float, bool, str, type(None)))
"""Types of constants that are no symbols and hold none."""

TYPICAL = 32
"""An extent of which nothing is known, where an estimate must not depend on it."""

_OPERATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a / b,
    "//": lambda a, b: a // b,
    "%": lambda a, b: a % b,
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


class _Line:
    """An assignment, or a guard if the target is empty; `operands` are the names that the expression reads."""

    __slots__ = ("expression", "operands", "target")

    def __init__(self, target: str, expression: str, operands: frozenset[str]) -> None:
        self.target, self.expression, self.operands = target, expression, operands


class Trace:
    """A computation on unknown integers: assignments and guards, in order."""

    def __init__(self) -> None:
        self.unknowns: list[Symbol] = []
        self.fixed: dict[str, Any] = {}  # numbers that do not depend on the unknowns
        self.guards = 0
        self.lines: list[_Line] = []
        self.constants: dict[str, Any] = {}
        self._known: dict[str, Any] = {}  # results and outcomes of guards by their expression
        self._polynomials: dict[frozenset[tuple[tuple[str, ...], int]], Symbol] = {}
        self._count = 0
        self._equal: dict[str, Any] = {}  # a number that a guard requires a symbol to equal, by the symbol's name
        self._typical: dict[str, Any] = {}
        self._read = 0  # the lines of which `typical` knows the results

    def unknown(self, value: int) -> int:
        """An integer that has `value` during the trace and is a parameter of the evaluator."""
        symbol = SymInt(self, self._name(), value)
        self.unknowns.append(cast("Symbol", symbol))
        self._note(symbol)
        return symbol

    def constant(self, value: int) -> int:
        """An integer that is always `value` but is not written into code, so code is equal for other constants."""
        symbol = SymInt(self, self._name(), value)
        self.fixed[cast("Symbol", symbol).name] = value
        self._note(symbol)
        return symbol

    def named(self, name: str) -> int:
        """The integer with this name."""
        symbol: Any = self._polynomials[frozenset((((name,), 1),))]
        return symbol

    def broken_guards(self, *values: int) -> list[str]:
        """The guards that do not hold for these values of the unknowns, in order."""
        scope: dict[str, Any] = {**self.constants, **self.fixed}
        scope.update(zip([u.name for u in self.unknowns], values, strict=True))
        broken: list[str] = []
        for line in self.lines:
            value = eval(line.expression, scope)  # it holds names, numbers and operators of this file
            if line.target:
                scope[line.target] = value
            elif not value:
                broken.append(line.expression)
        return broken

    def least(self, number: Any) -> Any:
        """The first number that guards require a number to equal; the number itself without such guards."""
        while isinstance(number, Symbol) and number.name in self._equal:
            number = self._equal[number.name]
        return number

    def reduced(self, polynomial: Polynomial) -> Polynomial:
        """The polynomial with constants by their values, and numbers that guards require to be equal as one."""
        total: Polynomial = {}
        for factors, coefficient in polynomial.items():
            rest: list[str] = []
            for name in factors:
                equal = self.least(self.named(name))
                if isinstance(equal, Symbol) and equal.name not in self.fixed:
                    rest.append(equal.name)
                else:
                    coefficient *= _value(equal)
            monomial = tuple(sorted(rest))
            total[monomial] = total.get(monomial, 0) + coefficient
        return {monomial: factor for monomial, factor in total.items() if factor}

    def typical(self, number: Any) -> Any:
        """The value of a number if all unknowns that no guard fixes were `TYPICAL`."""
        scope = self._typical
        for symbol in self.unknowns if not scope else ():
            equal = self.least(symbol)
            is_fixed = not isinstance(equal, Symbol) or equal.name in self.fixed
            scope[symbol.name] = _value(equal) if is_fixed else TYPICAL
        new = [line for line in self.lines[self._read :] if line.target]
        constants = {**self.constants, **self.fixed} if new else {}
        for line in new:
            try:
                scope[line.target] = eval(line.expression, constants, scope)
            except ArithmeticError:
                scope[line.target] = 1
        self._read = len(self.lines)
        return scope.get(number.name, number.value)

    def definition(self, symbol: Symbol) -> tuple[str, tuple[int, ...]]:
        """The operation and the operands of a number; without operands, the text of the expression that computes it."""
        expression = next((line.expression for line in self.lines if line.target == symbol.name), symbol.name)
        a, _, rest = expression.partition(" ")
        operation, _, b = rest.partition(" ")
        if operation not in _OPERATIONS:
            return expression, ()
        return operation, tuple(self.named(n) if n.startswith("v") else int(n) for n in (a, b))

    def _note(self, symbol: Any) -> None:
        self._polynomials[frozenset(symbol.polynomial.items())] = symbol

    def apply(self, operation: str, a: Any, b: Any) -> Any:
        """The number `a operation b`."""
        expression = self._expression(operation, a, b)
        known = self._known.get(expression)
        if known is None:
            known = self._known[expression] = self._applied(operation, a, b, expression)
        return known

    def test(self, operation: str, a: Any, b: Any) -> bool:
        """The outcome of `a operation b`, recorded as a guard unless it is the same for all extents."""
        expression = self._expression(operation, a, b)
        outcome = self._known.get(expression)
        if outcome is None:
            outcome = self._known[expression] = self._tested(operation, a, b, expression)
        return outcome

    def call(self, function: Callable[..., Any], arguments: Sequence[Any]) -> Any:
        """The result of a pure function that the evaluator calls again: a number, or nested tuples of numbers."""
        names: set[str] = set()
        spelled = ", ".join([self._built(a, names) for a in arguments])
        expression = f"{self._constant(function)}({spelled})"
        known = self._known.get(expression)
        if known is None:
            result = function(*[concrete(a) for a in arguments])
            known = self._known[expression] = self._unpacked(expression, result, frozenset(names))
        return known

    def evaluator(self, result: Any) -> Evaluator:
        """A function of the unknowns, in order, that returns `result` with their values, or None if a guard fails.

        `result` consists of numbers, tuples and frozen dataclasses. Parts without symbolic numbers are returned as is.
        """
        needed: set[str] = set()
        return self._evaluator(self._built(result, needed), needed)

    def divided_evaluator(self, result: Any) -> tuple[Evaluator, Callable[..., Any]]:
        """`evaluator` in two parts: a function of the unknowns that returns the numbers of `result` which depend on
        them as a tuple, or None if a guard fails, and a function of these numbers that returns `result`."""
        needed: set[str] = set()
        returned = self._built(result, needed)
        numbers = sorted(needed, key=lambda name: int(name[1:]))
        listed = "".join([f"{name}, " for name in numbers])
        return self._evaluator(f"({listed})", needed), self._function(numbers, [], returned)

    def _evaluator(self, returned: str, needed: set[str]) -> Evaluator:
        """A function of the unknowns that checks all guards and returns an expression of the names `needed`."""
        lines: list[str] = []
        for line in reversed(self.lines):
            if not line.target:
                lines.append(f"    if not ({line.expression}): return None")
            elif line.target in needed:
                lines.append(f"    {line.target} = {line.expression}")
            else:
                continue
            needed |= line.operands
        return self._function([u.name for u in self.unknowns], lines[::-1], returned)

    def _function(self, parameters: Sequence[str], lines: Sequence[str], returned: str) -> Callable[..., Any]:
        scope = {**self.constants, **self.fixed}
        source = "\n".join([f"def evaluate({', '.join(parameters)}):", *lines, f"    return {returned}"])
        exec(source, scope)  # the source holds names, numbers and operators of this file
        return scope["evaluate"]

    def _built(self, thing: Any, needed: set[str]) -> str:
        """The source text that builds `thing`; adds the names that it reads to `needed`."""
        if isinstance(thing, Symbol):
            if thing.name in self.fixed:
                return repr(thing.value)
            needed.add(thing.name)
            return thing.name
        if isinstance(thing, int | str):
            return repr(thing)
        used: set[str] = set()
        maker, parts = _parts(thing)
        built = "".join([f"{name}{self._built(part, used)}, " for name, part in parts])
        if not used:
            return self._constant(concrete(thing))
        needed |= used
        return f"({built})" if maker is None else f"{self._constant(maker)}({built})"

    def _expression(self, operation: str, a: Any, b: Any) -> str:
        for number in (a, b):
            if isinstance(number, Symbol) and number.trace is not self:
                raise TypeError("symbolic numbers of two traces")
        return f"{_spelled(a)} {operation} {_spelled(b)}"

    def _name(self) -> str:
        self._count += 1
        return f"v{self._count}"

    # -- numbers

    def _applied(self, operation: str, a: Any, b: Any, expression: str) -> Any:
        if operation in ("+", "-", "*"):
            polynomial = combined(operation, _polynomial(a), _polynomial(b))
            if polynomial is not None:
                return self._of_polynomial(polynomial, expression, (a, b))
        whole = _divided(operation, _polynomial(a), b)
        if whole is not None:
            return self._of_polynomial(whole, expression, (a, b))
        value = _OPERATIONS[operation](_value(a), _value(b))
        return self._assigned(expression, value, _names((a, b)))

    def _of_polynomial(self, polynomial: Polynomial, expression: str, operands: Sequence[Any]) -> Any:
        if not polynomial.keys() - {()}:
            return polynomial.get((), 0)
        key = frozenset(polynomial.items())
        symbol = self._polynomials.get(key)
        if symbol is None:
            value = _OPERATIONS[expression.split(" ")[1]](*map(_value, operands))
            symbol = self._assigned(expression, value, _names(operands))
            symbol.polynomial = polynomial
            self._polynomials[key] = symbol
        return symbol

    def _tested(self, operation: str, a: Any, b: Any, expression: str) -> bool:
        outcome = bool(_OPERATIONS[operation](_value(a), _value(b)))
        difference = combined("-", _polynomial(a), _polynomial(b))
        if difference is not None and not difference.keys() - {()}:
            return outcome
        names = _names((a, b))
        if not names <= self.fixed.keys():
            self.lines.append(_Line("", expression if outcome else f"not {expression}", names))
            self.guards += 1
            if outcome and operation == "==":
                self._unite(self.least(a), self.least(b))
        return outcome

    def _unite(self, a: Any, b: Any) -> None:
        """Note that a guard requires two numbers to be equal."""
        if a is b:
            return
        if isinstance(a, Symbol) and (not isinstance(b, Symbol) or b.name in self.fixed or _age(b) < _age(a)):
            self._equal[a.name] = b
        elif isinstance(b, Symbol):
            self._equal[b.name] = a

    def _assigned(self, expression: str, value: Any, operands: frozenset[str]) -> Symbol:
        name = self._name()
        symbol: Any = SymFloat(self, name, value) if isinstance(value, float) else SymInt(self, name, value)
        self._note(symbol)
        self._add_line(name, expression, operands, value)
        return symbol

    def _add_line(self, name: str, expression: str, operands: frozenset[str], value: Any) -> None:
        if operands <= self.fixed.keys():
            self.fixed[name] = value
        else:
            self.lines.append(_Line(name, expression, operands))

    # -- calls

    def _unpacked(self, expression: str, result: Any, operands: frozenset[str]) -> Any:
        if not isinstance(result, tuple):
            return self._assigned(expression, result, operands)
        name = self._name()
        self._add_line(name, expression, operands, result)
        items = cast("tuple[Any, ...]", result)
        return tuple([self._unpacked(f"{name}[{i}]", item, frozenset((name,))) for i, item in enumerate(items)])

    def _constant(self, thing: Any) -> str:
        name = f"c{id(thing)}"  # stored below, so the id is not reused
        self.constants[name] = thing
        return name


_HASH = 0x53594D


class _Modes(threading.local):
    """How symbolic numbers behave in a thread: threads can compile at the same time."""

    by_name, guarded = False, True


_modes = _Modes()


@contextmanager
def named_symbols() -> Generator[None]:
    """Inside, the text of a symbolic number is its name, without a guard: for keys valid within the trace."""
    before, _modes.by_name = _modes.by_name, True
    try:
        yield
    finally:
        _modes.by_name = before


class without_guards:
    """Inside, symbolic numbers are equal only if they are equal for all extents, and no guard is recorded: for tables
    that can miss equal keys."""

    __slots__ = ("_before",)

    def __enter__(self) -> None:
        self._before, _modes.guarded = _modes.guarded, False

    def __exit__(self, *_: object) -> None:
        _modes.guarded = self._before


class Symbol:
    """A number of a trace: `value` during the trace, `name` in the evaluator's source."""

    __slots__ = ("name", "polynomial", "trace", "value")

    def __init__(self, trace: Trace, name: str, value: Any) -> None:
        self.trace, self.name, self.value = trace, name, value
        self.polynomial: Polynomial = {(name,): 1}

    def pinned(self) -> Any:
        """The value as a plain number. A guard restricts the trace's results to this value."""
        self.trace.test("==", self, self.value)
        return self.value

    def __hash__(self) -> int:
        return _HASH  # the same for all symbols: comparing keys records a guard

    def __repr__(self) -> str:
        return self.name if _modes.by_name else repr(self.pinned())

    def __format__(self, specification: str) -> str:
        return self.name if _modes.by_name else format(self.pinned(), specification)

    def __bool__(self) -> bool:
        return self.trace.test("!=", self, 0)

    def __int__(self) -> int:
        return int(self.pinned())

    def __float__(self) -> float:
        return float(self.pinned())

    def __neg__(self) -> Any:
        return self.trace.apply("-", 0, self)

    def __pos__(self) -> Any:
        return self

    def __abs__(self) -> Any:
        return -self if self.trace.test("<", self, 0) else self

    def __ceil__(self) -> Any:
        return self.trace.call(math.ceil, (self,))

    def __floor__(self) -> Any:
        return self.trace.call(math.floor, (self,))

    def __divmod__(self, other: Any) -> tuple[Any, Any]:
        return self.trace.apply("//", self, other), self.trace.apply("%", self, other)

    def __rdivmod__(self, other: Any) -> tuple[Any, Any]:
        return self.trace.apply("//", other, self), self.trace.apply("%", other, self)


def _arithmetic(operation: str, *, swapped: bool) -> Callable[[Symbol, Any], Any]:
    def method(self: Symbol, other: Any) -> Any:
        if not isinstance(other, int | float):
            return NotImplemented
        return self.trace.apply(operation, other, self) if swapped else self.trace.apply(operation, self, other)

    return method


def _comparison(operation: str) -> Callable[[Symbol, Any], Any]:
    def method(self: Symbol, other: Any) -> Any:
        if not _modes.guarded and operation in ("==", "!="):
            return _is_same(self, other) is (operation == "==")
        return self.trace.test(operation, self, other) if isinstance(other, int | float) else NotImplemented

    return method


for _operation, _name in {"+": "add", "-": "sub", "*": "mul", "/": "truediv", "//": "floordiv", "%": "mod"}.items():
    setattr(Symbol, f"__{_name}__", _arithmetic(_operation, swapped=False))
    setattr(Symbol, f"__r{_name}__", _arithmetic(_operation, swapped=True))
for _operation, _name in {"==": "eq", "!=": "ne", "<": "lt", "<=": "le", ">": "gt", ">=": "ge"}.items():
    setattr(Symbol, f"__{_name}__", _comparison(_operation))

if TYPE_CHECKING:

    class SymInt(int):
        """A symbolic integer; to a type checker it is an int."""

        def __new__(cls, trace: Trace, name: str, value: int) -> SymInt: ...

    class SymFloat(float):
        """A symbolic float; to a type checker it is a float."""

        def __new__(cls, trace: Trace, name: str, value: float) -> SymFloat: ...

else:

    class SymInt(Symbol):
        """A symbolic integer. `isinstance(x, int)` holds, but it is not an int in C: C code calls `__index__`."""

        __slots__ = ()
        __class__ = property(lambda self: int)

        def __index__(self) -> int:
            return self.pinned()

    class SymFloat(Symbol):
        """A symbolic float. `isinstance(x, float)` holds."""

        __slots__ = ()
        __class__ = property(lambda self: float)


def is_symbolic(number: object) -> bool:
    """True if a number can change when the result is used for other extents."""
    return isinstance(number, Symbol)


def known_equal(a: int, b: int) -> bool:
    """True if two numbers are equal for all extents that satisfy the guards so far. Records no guard."""
    if not isinstance(a, Symbol) and not isinstance(b, Symbol):
        return a == b
    if _is_same(a, b):
        return True
    own, other = _polynomial(a), _polynomial(b)
    trace = cast("Symbol", a if isinstance(a, Symbol) else b).trace
    return own is not None and other is not None and trace.reduced(own) == trace.reduced(other)


def known_same(a: Sequence[int], b: Sequence[int]) -> bool:
    """True if two shapes are equal for all extents that satisfy the guards so far. Records no guard."""
    return len(a) == len(b) and all(map(known_equal, a, b))


def typical(number: int) -> int:
    """The number itself; of a symbolic one the value for `TYPICAL` unknown extents. Records no guard: for estimates on
    which only speed depends, so that one decision serves all extents."""
    return number.trace.typical(number) if isinstance(number, Symbol) else number


def deferred(function: Callable[_P, _R], *arguments: _P.args, **named: _P.kwargs) -> _R:
    """`function(*arguments)` without guards: the evaluator calls the function again with its own numbers.

    The function is pure. Arguments are numbers, or tuples and frozen dataclasses of numbers; anything else is a
    constant. The result is a number or nested tuples of numbers.
    """
    symbol = next(symbols_of(arguments), None)
    return function(*arguments, **named) if symbol is None else symbol.trace.call(function, arguments)


def concrete(thing: Any) -> Any:
    """A number, tuple or dataclass with all symbolic numbers replaced by their values; records no guard."""
    if isinstance(thing, Symbol):
        return thing.value
    maker, parts = _parts(thing)
    news = [concrete(part) for _, part in parts]
    if all(new is part for new, (_, part) in zip(news, parts, strict=True)):
        return thing
    keywords = {name[:-1]: new for new, (name, _) in zip(news, parts, strict=True) if name}
    rest = [new for new, (name, _) in zip(news, parts, strict=True) if not name]
    return tuple(rest) if maker is None else maker(*rest, **keywords)


def symbols_of(things: Sequence[Any]) -> Iterator[Symbol]:
    """The symbolic numbers in numbers, tuples and frozen dataclasses."""
    for thing in things:
        if type(thing) in _PLAIN:
            continue
        if isinstance(thing, Symbol):
            yield thing
        elif type(thing) is tuple:
            yield from symbols_of(cast("tuple[Any, ...]", thing))
        else:
            yield from symbols_of([getattr(thing, field) for _, field in _initialised(cast("type[Any]", type(thing)))])


def _parts(thing: Any) -> tuple[type | None, list[tuple[str, Any]]]:
    """The type (None for a tuple) and the constructor arguments of a tuple or dataclass, with `name=` for keywords; no
    arguments for other objects."""
    if type(thing) is tuple:
        return None, [("", item) for item in cast("tuple[Any, ...]", thing)]
    cls = cast("type[Any]", type(thing))
    own = _initialised(cls)
    return (cls, [(name, getattr(thing, field)) for name, field in own]) if own else (None, [])


@cache
def _initialised(cls: type) -> tuple[tuple[str, str], ...]:
    """(`name=` for a keyword, name) of the fields that a dataclass is constructed with; none for other classes."""
    return (
        tuple((f"{f.name}=" if f.kw_only else "", f.name) for f in fields(cls) if f.init) if is_dataclass(cls) else ()
    )


def _names(things: Sequence[Any]) -> frozenset[str]:
    return frozenset([s.name for s in symbols_of(things)])


def _age(symbol: Symbol) -> int:
    return int(symbol.name[1:])


def _spelled(number: Any) -> str:
    if isinstance(number, Symbol):
        return number.name
    plain = float(number) if isinstance(number, float) else int(number)  # the text of NumPy's numbers needs NumPy
    return repr(plain) if math.isfinite(plain) else f"float('{plain}')"


def _value(number: Any) -> Any:
    return number.value if isinstance(number, Symbol) else number


def _polynomial(number: Any) -> Polynomial | None:
    """The normal form of an integer; None for a float."""
    if isinstance(number, Symbol):
        return None if isinstance(number.value, float) else number.polynomial
    return None if isinstance(number, float) else {(): int(number)} if number else {}


def _is_same(a: Any, b: Any) -> bool:
    """True if two numbers, of which one is symbolic, are one symbol or equal polynomials."""
    own = _polynomial(a)
    return a is b if own is None else own == _polynomial(b)


def _divided(operation: str, a: Polynomial | None, b: Any) -> Polynomial | None:
    """The quotient or the remainder of a division by a plain integer that divides every coefficient."""
    if a is None or operation not in ("//", "%") or isinstance(b, Symbol | float) or b < 1:
        return None
    if any(factor % b for factor in a.values()):
        return None
    return {monomial: factor // b for monomial, factor in a.items()} if operation == "//" else {}
