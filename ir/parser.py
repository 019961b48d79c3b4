"""Parses the MLIR assembly that `printer` writes into a graph; a syntax error has a line and a column.

One regular expression reads the structure of an operation, `parse_attributes` reads attributes, and `registry` creates
ops through their dialect. Types are not checked: `verify_graph` compares them with the inferred ones.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import NoReturn, cast

from .graph import Attribute, Check, Graph, Node, Op, RandomKey, Value
from .lazy_dataclass import dataclass
from .parse_attributes import STRING, TENSOR, AttributeSyntaxError, parse_dictionary, tensor_type, unquote
from .registry import build_op
from .types import TensorType

MAX_DEPTH = 64
"""The maximum nesting depth of regions."""

_SPACE = r"(?:\s++|//[^\n]*+)*+"
_DICTIONARY = rf'\{{(?:[^"{{}}]++|{STRING}|\{{[^{{}}"]*+\}})*+\}}'
_TYPES = rf"\((?:{TENSOR}|, )*+\)"
_HEAD = re.compile(rf'{_SPACE}(?:(%[\w$.-]+)(?::(\d{{1,4}}))?\s*=\s*)?"([^"\n]+)"\(([^()"]*)\)[ \t]*')
_TAIL = re.compile(
    rf"\s*(?:({_DICTIONARY})\s*)?:\s*({_TYPES}\s*->\s*(?:{_TYPES}|{TENSOR}))"
    rf"(?:\s*loc\(({STRING})(?::(\d+):\d+|\(({STRING})(?::(\d+):\d+)?\))?\))?"
)
_OPEN = re.compile(rf"{_SPACE}\(\{{")
_LABEL = re.compile(rf"{_SPACE}\^[\w$.-]+")
_ARGUMENT = re.compile(rf"\s*(%[\w$.-]+)\s*:\s*({TENSOR})(?:\s*loc\(({STRING})\))?\s*([,)])")
_COLON = re.compile(r"\s*:")
_CLOSE = re.compile(rf"{_SPACE}\}}\s*(,\s*\{{|\))")
_MODULE = re.compile(rf'{_SPACE}"builtin\.module"\(\)\s*\(\{{{_SPACE}"func\.func"\(\)\s*(?=\(\{{)')
_FUNCTION_TAIL = re.compile(rf"\s*(\{{sym_name = ({STRING}), function_type = {_TYPES} -> (?:{_TYPES}|{TENSOR}))")
_STATE = re.compile(r"(?:, (core\.\w+) = array<i64(?:: ([\d, ]*))?>)")
_CHECKS = re.compile(rf", core\.checks = ({STRING})")
_FUNCTION_END = re.compile(rf"\}}\s*:\s*\(\)\s*->\s*\(\){_SPACE}\}}\)\s*:\s*\(\)\s*->\s*\(\){_SPACE}")
_TENSOR = re.compile(TENSOR)

Signature = tuple[tuple[TensorType, ...], tuple[TensorType, ...]]


class ParseError(Exception):
    """The text is not a printed graph; `line` and `column` count from 1."""

    def __init__(self, message: str, line: int, column: int) -> None:
        super().__init__(f"line {line}, column {column}: {message}")
        self.line = line
        self.column = column


def parse_graph(text: str) -> Graph:
    """The graph whose text `print_graph` writes; ParseError has the position of an error."""
    return _Parser(text).module()


@dataclass
class _Block:
    """A region's content: a graph without its name and state, which the terminator carries."""

    inputs: tuple[Value, ...]
    nodes: tuple[Node, ...]
    outputs: tuple[Value, ...]
    attributes: str  # of the terminator


class _Parser:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at: int = 0
        self.ops: dict[tuple[str, str], Op] = {}
        self.signatures: dict[str, Signature] = {}
        self.types: dict[str, TensorType] = {}

    def fail(self, message: str, at: int | None = None) -> NoReturn:
        at = self.at if at is None else at
        before = self.text[:at]
        raise ParseError(message, before.count("\n") + 1, at - before.rfind("\n"))

    def expect(self, pattern: re.Pattern[str], what: str) -> re.Match[str]:
        match = pattern.match(self.text, self.at)
        if match is None:
            space = re.compile(_SPACE).match(self.text, self.at)
            self.fail(f"expected {what}", space.end() if space else self.at)
        self.at = match.end()
        return match

    # --- structure --------------------------------------------------------------------------------------------------

    def module(self) -> Graph:
        self.expect(_MODULE, '"builtin.module"() ({ "func.func"() ({')
        (body,) = self.regions(1, "func.return") or (None,)
        if body is None:
            self.fail("expected the function's body")
        name = unquote(self.expect(_FUNCTION_TAIL, "{sym_name = ..., function_type = ...")[2])
        state: dict[str, tuple[int, ...]] = {}
        while match := _STATE.match(self.text, self.at):
            self.at = match.end()
            state[match[1]] = tuple(int(n) for n in match[2].split(",")) if match[2] else ()
        checks = self.checks()
        self.expect(_FUNCTION_END, "'} : () -> ()' and the end of the module")
        if self.at != len(self.text):
            self.fail("expected the end of the text")
        return replace(self.graph(body, name, state, self.at), checks=checks)

    def checks(self) -> tuple[Check, ...]:
        match = _CHECKS.match(self.text, self.at)
        if match is None:
            return ()
        try:
            checks = tuple(Check(str(message), bool(is_index)) for message, is_index in json.loads(unquote(match[1])))
        except (ValueError, TypeError) as error:
            self.fail(f"core.checks is not a list of messages and kinds: {error}")
        self.at = match.end()
        return checks

    def regions(self, depth: int, terminator: str) -> list[_Block]:
        """The regions `({...}, {...})` at the current position; empty if there are none."""
        opened = _OPEN.match(self.text, self.at)
        if opened is None:
            return []
        if depth > MAX_DEPTH:
            self.fail(f"regions nest deeper than {MAX_DEPTH}")
        self.at = opened.end()
        blocks = [self.block(depth, terminator)]
        while self.expect(_CLOSE, "'}' after the end of the block")[1] != ")":
            blocks.append(self.block(depth, terminator))
        return blocks

    def block(self, depth: int, terminator: str) -> _Block:
        scope: dict[str, Value] = {}
        inputs = self.arguments(scope)
        nodes: list[Node] = []
        while True:
            start = self.at
            head = self.expect(_HEAD, "an operation")
            if head[3] == terminator:
                return self.finish_block(head, scope, inputs, nodes)
            nodes.append(self.node(head, scope, depth, start))

    def arguments(self, scope: dict[str, Value]) -> tuple[Value, ...]:
        label = _LABEL.match(self.text, self.at)
        if label is None:
            return ()
        self.at = label.end()
        values: list[Value] = []
        separator = self.text[self.at : self.at + 1]
        if separator == "(":
            self.at += 1
            while separator != ")":
                match = self.expect(_ARGUMENT, "'%name: type' of an argument")
                value = Value(self.type(match[2]), None, len(values), unquote(match[3]) if match[3] else "")
                self.bind(scope, match[1], value)
                values.append(value)
                separator = match[4]
        self.expect(_COLON, "':' after the block's arguments")
        return tuple(values)

    def finish_block(
        self, head: re.Match[str], scope: dict[str, Value], inputs: tuple[Value, ...], nodes: list[Node]
    ) -> _Block:
        outputs = self.operands(head, scope)
        start = self.at
        tail = self.expect(_TAIL, "the terminator's types")
        self.check_operands(outputs, self.signature(tail[2], start)[0], start)
        return _Block(inputs, tuple(nodes), outputs, tail[1] or "{}")

    # --- one operation ----------------------------------------------------------------------------------------------

    def node(self, head: re.Match[str], scope: dict[str, Value], depth: int, start: int) -> Node:
        operands = self.operands(head, scope)
        bodies = self.regions(depth + 1, "vector.yield") if self.text.startswith("({", self.at) else []
        start = self.at
        tail = _TAIL.match(self.text, start)
        if tail is None:
            self.fail("expected '{attributes} : (types) -> types' with an optional loc(...)")
        self.at = tail.end()
        types, results = self.signature(tail[2], tail.start(2))
        if tuple([v.type for v in operands]) != types:
            self.check_operands(operands, types, tail.start(2))
        op = self.op(head, tail, bodies)
        where = self.location(tail) if tail[3] is not None else ("", "")
        node = Node(op, operands, results, *where)
        self.define(head, node, scope)
        return node

    def operands(self, head: re.Match[str], scope: dict[str, Value]) -> tuple[Value, ...]:
        listed = head[4]
        if not listed:
            return ()
        try:
            return tuple([scope[name] for name in listed.split(", ")])
        except KeyError as error:
            name = cast("str", error.args[0])
            self.fail(f"value {name} is not defined here", head.start(4) + max(listed.find(name), 0))

    def define(self, head: re.Match[str], node: Node, scope: dict[str, Value]) -> None:
        name, count, outputs = head[1], head[2], node.outputs
        if (name is None and outputs) or len(outputs) != (0 if name is None else int(count or 1)):
            self.fail(f"the operation has {len(outputs)} results, but the text defines another number", head.start(3))
        if count is not None:
            for i, value in enumerate(outputs):
                self.bind(scope, f"{name}#{i}", value)
        elif name is not None:
            self.bind(scope, name, outputs[0])

    def bind(self, scope: dict[str, Value], name: str, value: Value) -> None:
        if name in scope:
            self.fail(f"value {name} is defined twice")
        scope[name] = value

    def op(self, head: re.Match[str], tail: re.Match[str], bodies: list[_Block]) -> Op:
        """The op; ops without regions are created once per distinct text."""
        key = (head[3], tail[1] or "{}")
        known = None if bodies else self.ops.get(key)
        if known is not None:
            return known
        attributes = self.attributes(key[1], tail.start(1))
        regions = tuple(self.nested(body, tail.start()) for body in bodies)
        try:
            op = build_op(key[0], attributes, regions)
        except (KeyError, TypeError, ValueError) as error:
            self.fail(str(error.args[0] if error.args else error), head.start(3) - 1)
        if not bodies:
            self.ops[key] = op
        return op

    def nested(self, body: _Block, at: int) -> Graph:
        match self.attributes(body.attributes, at):
            case {"core.graph": str(name), **state}:
                return self.graph(body, name, {key: _integers(value) for key, value in state.items()}, at)
            case _:
                self.fail("the region's terminator must name its graph: {core.graph = ...}", at)

    def graph(self, body: _Block, name: str, state: Mapping[str, tuple[int, ...]], at: int) -> Graph:
        """The graph of a block with its state: parameters, updates, private outputs and random key."""
        parameters, updates = state.get("core.parameters", ()), state.get("core.updates", ())
        random = state.get("core.random", ())
        if len(random) not in (0, 2):
            self.fail("core.random holds the position of an input and a number of draws", at)
        key = RandomKey(*random) if random else None
        late, private = (frozenset(state.get(f"core.{field}", ())) for field in ("late_updates", "private"))
        return Graph(name, body.inputs, body.nodes, body.outputs, frozenset(parameters), updates, key, late, private)

    def attributes(self, text: str, at: int) -> dict[str, Attribute]:
        try:
            return parse_dictionary(text)
        except AttributeSyntaxError as error:
            self.fail(str(error), at + error.position)

    def location(self, tail: re.Match[str]) -> tuple[str, str]:
        """A node's name and the user's line."""
        first, line, inner, inner_line = tail.groups()[2:]
        if line is not None:
            return "", f"{unquote(first)}:{line}"
        if inner is None:
            return unquote(first), ""
        return unquote(first), f"{unquote(inner)}:{inner_line}" if inner_line else unquote(inner)

    # --- types ------------------------------------------------------------------------------------------------------

    def signature(self, text: str, at: int) -> Signature:
        known = self.signatures.get(text)
        if known is None:
            operands, _, results = text.partition("->")
            known = self.signatures[text] = self.type_list(operands, at), self.type_list(results, at)
        return known

    def type_list(self, text: str, at: int) -> tuple[TensorType, ...]:
        return tuple(self.type(tensor, at) for tensor in _TENSOR.findall(text))

    def type(self, text: str, at: int | None = None) -> TensorType:
        known = self.types.get(text)
        if known is None:
            try:
                known = self.types[text] = tensor_type(text)
            except ValueError as error:
                self.fail(str(error), at)
        return known

    def check_operands(self, operands: tuple[Value, ...], types: tuple[TensorType, ...], at: int) -> None:
        if len(operands) != len(types):
            self.fail(f"{len(operands)} operands have {len(types)} types", at)
        for i, (value, written) in enumerate(zip(operands, types, strict=True)):
            if value.type != written:
                self.fail(f"operand {i} has type {value.type}, but the text declares {written}", at)


def _integers(value: Attribute) -> tuple[int, ...]:
    return cast("tuple[int, ...]", value) if isinstance(value, tuple) else ()
