"""Loops and conditions as symbols: `foreach`, `while_loop` and `cond` trace Python functions into subgraphs.

Nodes that a function creates have the attribute `__subgraph_name__`; values of other nodes that they read become
inputs of the subgraph. Names, order and attributes are those of MXNet, so saved graphs are byte-identical.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ...ir.dialects.mx.parameters import attribute_text
from ...ir.lazy_dataclass import dataclass
from ..attribute import AttrScope, current_scope
from . import op
from .compose import resolved_attrs, resolved_name, user_location
from .files import to_file
from .node import Entry, SymNode, depth_first, update_versions
from .symbol import Symbol
from .variable import var

_MARK = "__subgraph_name__"


def flatten(nested: Any, what: str) -> tuple[list[Symbol], Any]:
    """The symbols of a nested list, and its structure: for a symbol its number of outputs (0 for one), for a list a
    list of structures."""
    if isinstance(nested, Symbol):
        count = len(nested.list_outputs())
        return [nested], count if count > 1 else 0
    if not isinstance(nested, list | tuple):
        cls = type(nested)
        raise AssertionError(f"{what} must be (nested) list of Symbol, but got {nested} of type {cls}")
    parts = [flatten(item, what) for item in nested]
    return [symbol for symbols, _ in parts for symbol in symbols], [form for _, form in parts]


def regroup(symbols: Sequence[Symbol], form: Any) -> Any:
    """The symbols in a nested list of this structure; see `flatten`."""
    return _taken(symbols, form)[0]


def _taken(symbols: Sequence[Symbol], form: Any) -> tuple[Any, Sequence[Symbol]]:
    if isinstance(form, int):
        return (symbols[:form], symbols[form:]) if form else (symbols[0], symbols[1:])
    items: list[Any] = []
    for part in form:
        item, symbols = _taken(symbols, part)
        items.append(item)
    return items, symbols


def _unique_name(symbol: Symbol) -> str:
    return f"{symbol.name}-{symbol.attr('_value_index')}"


def _subgraph_name(name: str) -> str:
    """A unique name: the names of the enclosing subgraphs, `name` and a number."""
    outer = current_scope()._attr.get(_MARK, "")
    full = f"{outer}${name}" if outer else name
    number = AttrScope._subgraph_names[full]
    AttrScope._subgraph_names[full] += 1
    return f"{full}{number}"


@dataclass
class _Cut:
    """A subgraph of copied nodes, and the outer symbol for each of its inputs.

    `captured` are values of outer nodes, `computed` are variables that the function created.
    """

    entries: list[Entry]
    captured: dict[str, Symbol]
    computed: dict[str, Symbol]

    @property
    def names(self) -> list[str]:
        return [node.name for node in depth_first(self.entries) if node.is_variable]

    def source(self, name: str) -> Symbol:
        """The outer symbol of an input that is not a loop variable; a variable that the function created is copied."""
        return self.captured[name] if name in self.captured else self.computed[name].__copy__()


def _cut(symbols: Sequence[Symbol], mark: str) -> _Cut:
    """The part of a graph with this mark. AssertionError if two of its inputs have the same name."""
    heads = [entry for symbol in symbols for entry in symbol._entries]
    own: dict[SymNode, SymNode] = {}
    outside: dict[tuple[SymNode, int], SymNode] = {}
    cut = _Cut([], {}, {})

    def moved(entry: Entry) -> Entry:
        if entry.node in own:
            return entry._replace(node=own[entry.node])
        key = entry.node, entry.index
        if key not in outside:
            name = entry.node.output_name(entry.index)
            outside[key] = SymNode("null", name, {})
            cut.captured[name] = Symbol([entry])
        return Entry(outside[key])

    for node in depth_first(heads):
        if node.attrs.get(_MARK) == mark:
            copied = own[node] = node.copy()
            copied.inputs = [moved(e) for e in node.inputs]
            if node.is_variable:
                cut.computed[node.name] = Symbol([Entry(node, 0, node.version)])
    cut.entries = [moved(e) for e in heads]
    names = cut.names
    if len(set(names)) != len(names):
        raise AssertionError(f"The inputs of the subgraph don't have unique names: {names}")
    return cut


def _distinct(symbols: Sequence[Symbol], mark: str, taken: Sequence[str]) -> list[Symbol]:
    """The results of a subgraph, where inputs (`taken`) and outer symbols are replaced by copies in the subgraph."""
    return [s if s.name not in taken and s.list_attr().get(_MARK, "") == mark else op.identity(s) for s in symbols]


def _node(op: str, subgraphs: Sequence[_Cut], inputs: Sequence[Symbol], attrs: Mapping[str, Any]) -> list[Symbol]:
    """The results of a new operator with subgraphs."""
    texts = {key: attribute_text(value) for key, value in attrs.items()}
    texts["num_args"] = str(len(inputs) + len(subgraphs))
    name = resolved_name(None, op)
    node = SymNode(op, name, {**resolved_attrs(None), **texts}, [s._entries[0] for s in inputs], user_location())
    node.subgraphs = tuple(replace(to_file(g.entries), attrs={}) for g in subgraphs)
    update_versions(node)
    return [Symbol([Entry(node, i)]) for i in range(node.num_outputs)]


def foreach(body: Callable[..., Any], data: Any, init_states: Any, name: str = "foreach") -> tuple[Any, Any]:
    """Runs `outputs, states = body(slice, states)` for each slice of `data` along axis 0.

    Args:
        body: The function of one step. It can use other symbols. AssertionError unless it uses all data and states.
        data: A symbol, or a nested list of symbols.
        init_states: The first states: a symbol, or a nested list of symbols.
        name: The name of the subgraph.
    Returns:
        The outputs of all steps, stacked along a new axis 0, and the last states.
    """
    items, item_form = flatten(data, "foreach input")
    begun, state_form = flatten(init_states, "foreach states")
    item_names, state_names = [[_unique_name(s) for s in symbols] for symbols in (items, begun)]
    mark = _subgraph_name(name)
    with AttrScope(**{_MARK: mark}):
        item = regroup([var(n) for n in item_names], item_form)
        states = regroup([var(n) for n in state_names], state_form)
        outs_of_body, after = body(item, states)
        outs, out_form = flatten(outs_of_body, "foreach output")
        new, new_form = flatten(after, "foreach loop_vars")
        if new_form != state_form:
            raise AssertionError("The input and output loop_vars have different format")
        inputs = [n.name for s in (*outs, *new) for n in depth_first(s._entries) if n.is_variable]
        twice = {s.name for s in outs if s.name is not None}
        results = [*_distinct(outs, mark, inputs), *_distinct(new, mark, [*inputs, *twice])]
    graph = _cut(results, mark)
    names = graph.names
    for kind, expected in (("data", item_names), ("state", state_names)):
        if not set(expected) <= set(names):
            raise AssertionError(f"the {kind} arrays have to be used in the loop body")
    rest = [n for n in names if n not in item_names and n not in state_names]
    attrs = {
        "num_outputs": len(results),
        "num_out_data": len(outs),
        "in_state_locs": [names.index(n) for n in state_names],
        "in_data_locs": [names.index(n) for n in item_names],
        "remain_locs": [names.index(n) for n in rest],
    }
    stacked = _node("_foreach", [graph], [*items, *begun, *(graph.source(n) for n in rest)], attrs)
    return regroup(stacked[: len(outs)], out_form), regroup(stacked[len(outs) :], state_form)


def while_loop(
    cond: Callable[..., Any],
    func: Callable[..., Any],
    loop_vars: Any,
    max_iterations: Any = None,
    name: str = "while_loop",
) -> tuple[Any, Any]:
    """Runs `outputs, loop_vars = func(*loop_vars)` while `cond(*loop_vars)` is not 0.

    Args:
        cond: The condition: a function of the variables that returns one symbol.
        func: The function of one step. Its outputs are a symbol, or a nested list of symbols.
        loop_vars: The first variables: a symbol, or a list of symbols.
        max_iterations: The largest number of steps.
        name: The name of the subgraphs.
    Returns:
        The outputs, stacked along a new axis 0 of extent `max_iterations` (zeros for steps that did not run), and the
        last variables.
    """
    begun, form = flatten(loop_vars, "while loop_vars")
    if max_iterations is None:
        raise ValueError("max_iterations should be specified")
    steps = _whole(max_iterations, "max_iteration")
    if not len(loop_vars):
        raise ValueError("loop_vars should contain at least one element")
    names = [_unique_name(s) for s in begun]
    condition, _, _ = _looped(begun, form, names, f"{name}_cond", lambda state: ([], [_condition(cond, state)], []))
    body, count, out_form = _looped(begun, form, names, f"{name}_func", lambda state: _stepped(func, state))
    inputs, (condition_locs, body_locs) = _union([condition, body], dict(zip(names, begun, strict=True)))
    where = body.names
    unused = next((i for i, n in enumerate(names, 1) if n not in where), None)
    if unused is not None:
        raise ValueError(f"The {unused}-th loop_var doesn't involve into the computation")
    attrs = {
        "max_iterations": steps,
        "cond_input_locs": condition_locs,
        "func_input_locs": body_locs,
        "func_var_locs": [where.index(n) for n in names],
        "num_out_data": count,
        "num_outputs": count + len(begun),
    }
    results = _node("_while_loop", [condition, body], inputs, attrs)
    return regroup(results[:count], out_form), regroup(results[count:], form)


def _whole(value: Any, what: str) -> int:
    try:
        return int(value.asscalar() if hasattr(value, "asscalar") else value)
    except (TypeError, ValueError):
        raise ValueError(f"Cannot convert {what} to python int") from None


def _condition(cond: Callable[..., Any], state: Any) -> Symbol:
    result = cond(*state)
    if not isinstance(result, Symbol):
        raise ValueError("Return of cond must be a Symbol")
    return result


def _stepped(func: Callable[..., Any], state: Any) -> tuple[list[Symbol], list[Symbol], Any]:
    outs_of_step, after = func(*state)
    outs, out_form = flatten([] if outs_of_step is None else outs_of_step, "while output")
    new, _ = flatten([] if after is None else after, "while loop_vars")
    if len(new) != len(state):
        raise ValueError("The number of loop_vars should be consistent during the loop")
    return outs, new, out_form


def _looped(
    begun: Sequence[Symbol],
    form: Any,
    names: Sequence[str],
    name: str,
    function: Callable[[Any], tuple[list[Symbol], list[Symbol], Any]],
) -> tuple[_Cut, int, Any]:
    """A subgraph on the loop's variables, the number of its outputs and their structure."""
    mark = _subgraph_name(name)
    with AttrScope(**{_MARK: mark}):
        outs, new, out_form = function(regroup([var(n) for n in names], form))
        inputs = [n.name for s in (*outs, *new) for n in depth_first(s._entries) if n.is_variable]
        results = _distinct([*outs, *new], mark, inputs)
    return _cut(results, mark), len(outs), out_form


def cond(pred: Any, then_func: Callable[[], Any], else_func: Callable[[], Any], name: str = "cond") -> Any:
    """`then_func()` if the only element of `pred` is not 0, else `else_func()`.

    Args:
        pred: A symbol with one output.
        then_func, else_func: Functions without arguments that return a symbol or a nested list of symbols. ValueError
            if they return different numbers of symbols.
        name: The name of the subgraphs.
    """
    parts = (
        _branch(lambda: pred, f"{name}_pred"),
        _branch(then_func, f"{name}_then"),
        _branch(else_func, f"{name}_else"),
    )
    if parts[0][1] != 1:
        raise ValueError("pred should always be a single output")
    (_, count, form), (_, other, _) = parts[1:]
    if count != other:
        raise ValueError("Number of outputs differs between then-branch and else-branch")
    graphs = [graph for graph, _, _ in parts]
    inputs, locs = _union(graphs, None)
    attrs = dict(zip(("cond_input_locs", "then_input_locs", "else_input_locs"), locs, strict=True))
    return regroup(_node("_cond", graphs, inputs, {**attrs, "num_outputs": count}), form)


def _branch(function: Callable[[], Any], name: str) -> tuple[_Cut, int, Any]:
    mark = _subgraph_name(name)
    with AttrScope(**{_MARK: mark}):
        outs, form = flatten(function(), "cond outputs")
        inputs = [n.name for s in outs for n in depth_first(s._entries) if n.is_variable]
        results = _distinct(outs, mark, inputs)
    return _cut(results, mark), len(outs), form


def _union(graphs: Sequence[_Cut], variables: Mapping[str, Symbol] | None) -> tuple[list[Symbol], list[list[int]]]:
    """The inputs of all graphs without duplicates, and for each graph the positions of its inputs in them.

    As in MXNet, loops share only their variables, and branches share all inputs of the same name.
    """
    inputs: list[Symbol] = []
    places: list[list[int]] = []
    for graph in graphs:
        known = {s.name: s for s in inputs} if variables is None else variables
        where: list[int] = []
        for name in graph.names:
            symbol = known[name] if name in known else graph.source(name)
            position = next((i for i, s in enumerate(inputs) if s is symbol), None)
            where.append(len(inputs) if position is None else position)
            if position is None:
                inputs.append(symbol)
        places.append(where)
    return inputs, places
