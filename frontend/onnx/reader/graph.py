"""Reads the nodes of an ONNX graph in order, and builds a graph of core.

What is known when the graph is read (constants, shapes, and what nodes compute from them) is kept as NumPy arrays, so
operands that determine shapes can be computed in the model, as exporters write them. An operator without a rule is
replaced by its definition as a function: one of the model, or one of the ONNX standard.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ....ir.dialects.core.builder import CoreBuilder
from ....ir.dialects.core.interpret import interpret
from ....ir.graph import Graph, GraphError, Value
from ....ir.types import DType, TensorType
from ..writer import onnx_library, onnx_type
from . import rules
from .known import FOLDED, SHAPED
from .node import Defined, Known, OnnxNode, TensorSequence, TooLarge, Unsupported, listed
from .tensors import array_of, attributes_of, constant

OLDEST, NEWEST = 7, 28
"""The operator sets that can be read."""

_INVALID = GraphError, ValueError, TypeError, KeyError, IndexError, AttributeError, ArithmeticError, MemoryError
"""Errors of rules for attributes and operands of wrong kinds and sizes."""

_FOLDED_ELEMENTS = 1 << 16
"""Nodes with more known elements than this are not evaluated when the graph is read."""

_STANDARD = ("", "ai.onnx")
_DEPTH = 32  # of functions in functions
_LARGEST_GRAPH = 1 << 16
"""The number of nodes that are read, those in functions and repeated loops for each time. A small file can have
functions that call each other twice, or loops in loops, so that their number grows exponentially."""


class GraphReader:
    """Builds with `b`; `values` and `known` are tensors by name. A nested graph has a reader with `outer`."""

    def __init__(
        self,
        b: CoreBuilder,
        opset: int,
        functions: Mapping[tuple[str, str], Any],
        depth: int = 0,
        left: list[int] | None = None,
    ) -> None:
        self.b, self.opset, self.functions, self.depth = b, opset, functions, depth
        self.left = [_LARGEST_GRAPH] if left is None else left
        self.values: dict[str, Value] = {}
        self.known: dict[str, Known] = {}
        self.sequences: dict[str, TensorSequence] = {}
        self.failed: dict[str, None] = {}
        self.problems: dict[str, None] = {}

    def value(self, name: str) -> Value:
        """A tensor as a value of the graph."""
        if name not in self.values:
            if name in self.sequences:
                raise Unsupported(f"{name!r} is a sequence of tensors, not a tensor")
            if name not in self.known:
                raise Unsupported(f"tensor {name!r} is not defined before it is read")
            self.values[name] = constant(self.b, self.known[name])
        return self.values[name]

    def defined(self, name: str) -> Defined:
        """What a name is."""
        if name in self.sequences:
            return self.sequences[name]
        return self.known[name] if name in self.known else self.value(name)

    def define(self, name: str, result: Defined) -> None:
        """The tensor `name` is this value."""
        self.values.pop(name, None)
        self.known.pop(name, None)
        self.sequences.pop(name, None)
        self.failed.pop(name, None)
        if isinstance(result, TensorSequence):
            self.sequences[name] = result
        elif isinstance(result, Value):
            self.values[name] = result
        else:
            self.known[name] = np.asarray(result)

    def initializers(self, tensors: Sequence[Any]) -> None:
        """Define the constants of a graph."""
        for tensor in tensors:
            self.known[tensor.name] = array_of(tensor)

    def nodes(self, protos: Sequence[Any]) -> None:
        """Read nodes; what cannot be read is noted in `problems`, and so are no nodes that depend on it."""
        for proto in protos:
            if any(name in self.failed for name in proto.input):
                self.failed.update(dict.fromkeys(proto.output))
                continue
            try:
                self._node(proto)
            except TooLarge:
                raise
            except Unsupported as error:
                self._note(proto, str(error))
            except _INVALID as error:
                reason = error.reason if isinstance(error, GraphError) else error
                self._note(proto, f"the node is invalid: {reason}")

    def _note(self, proto: Any, reason: str) -> None:
        title = f"{proto.op_type} ({proto.name or next(iter(proto.output), '') or 'without a name'!r})"
        self.problems[f"{title}: {reason}"] = None
        self.failed.update(dict.fromkeys(proto.output))

    def raise_problems(self) -> None:
        """Unsupported with all problems, if there are any."""
        if self.problems:
            raise Unsupported("; ".join(self.problems))

    # -- one node

    def _node(self, proto: Any) -> None:
        self.left[0] -= 1
        if self.left[0] < 0:
            raise TooLarge(f"the model has more than {_LARGEST_GRAPH} nodes, with those in functions and loops")
        node = OnnxNode(self, proto, attributes_of(proto))
        function = self.functions.get((proto.domain, proto.op_type))
        if function is not None:
            return self._call(proto, node, function, function.opset_import)
        if proto.domain not in _STANDARD:
            raise Unsupported(f"operators of the domain {proto.domain!r} are not supported")
        one = rules.RULES.get(proto.op_type)
        if one is None:
            return self._call(proto, node, *self._definition(proto, node))
        results: Any = self._folded(proto, node) if one not in rules.NOT_FOLDED else None
        if results is None:
            results = one(node)
        several = listed(results)
        for name, result in zip(proto.output, several, strict=False):
            if name:
                self.define(name, result)
        missing = [name for name in proto.output[len(several) :] if name]
        if missing:
            raise Unsupported(f"the result {missing[0]!r} is not supported")

    def _folded(self, proto: Any, node: OnnxNode) -> list[Defined] | None:
        """The results of a node whose operands are known; None if they are not, or too large."""
        if not node.names or not all(name in self.known for name in node.names if name):
            return None
        arrays = [self.known[name] for name in node.names if name]
        if any(a.dtype == object for a in arrays):
            computed, shape = FOLDED.get(proto.op_type), SHAPED.get(proto.op_type)
            if computed is None or (shape is not None and node.known(shape).dtype == object):
                return None
            return [computed(node)]
        if sum(a.size for a in arrays) > _FOLDED_ELEMENTS or any(a.dtype.name == "bfloat16" for a in arrays):
            return None
        inner = GraphReader(CoreBuilder("known"), self.opset, self.functions, self.depth, self.left)
        inner.known = {name: self.known[name] for name in node.names if name}
        results = listed(rules.RULES[proto.op_type](OnnxNode(inner, proto, node.attributes)))
        values = [r for r in results if isinstance(r, Value)]
        types = [v.type for n in inner.b.nodes for v in n.outputs]
        if any(t.size > _FOLDED_ELEMENTS or t.dtype is DType.BF16 for t in types):
            return None
        computed = iter(interpret(inner.b.build(values), ())) if values else iter(())
        return [next(computed) if isinstance(r, Value) else r for r in results]

    # -- functions

    def _definition(self, proto: Any, node: OnnxNode) -> tuple[Any, Any]:
        """The function by which the standard defines an operator, and its operator sets."""
        library = onnx_library()
        try:
            schema = library.defs.get_schema(proto.op_type, self.opset, "")
        except library.defs.SchemaError:
            raise Unsupported("ONNX has no such operator in the model's operator set") from None
        function = None
        if schema.has_function:
            function = schema.function_body
        elif schema.has_context_dependent_function:
            versions = [v for v in schema.context_dependent_function_opset_versions if v <= self.opset]
            version = max(versions, default=schema.since_version)
            types = [self._type_proto(name) for name in proto.input]
            text = schema.get_context_dependent_function_with_opset_version(version, proto.SerializeToString(), types)
            function = library.FunctionProto.FromString(text) if text else None
        if function is None or not function.node:
            raise Unsupported("the operator is not supported")
        for name, attribute in schema.attributes.items():
            if name not in node.attributes and attribute.default_value.type:
                node.attributes[name] = library.helper.get_attribute_value(attribute.default_value)
        return function, function.opset_import

    def _type_proto(self, name: str) -> bytes:
        if not name:
            return b""
        t = self.value(name).type
        return onnx_library().helper.make_tensor_type_proto(onnx_type(t.dtype), list(t.shape)).SerializeToString()

    def _call(self, proto: Any, node: OnnxNode, function: Any, sets: Any) -> None:
        """Read the nodes of a function with the node's operands."""
        if self.depth >= _DEPTH:
            raise Unsupported("functions are nested too deeply")
        opset = max((o.version for o in sets if o.domain in _STANDARD), default=self.opset)
        inner = GraphReader(self.b, opset, self.functions, self.depth + 1, self.left)
        for formal, actual in zip(function.input, proto.input, strict=False):
            if actual in self.known:
                inner.known[formal] = self.known[actual]
            if actual in self.values:
                inner.values[formal] = self.values[actual]
            if actual in self.sequences:
                inner.sequences[formal] = self.sequences[actual]
        arguments = dict(node.attributes)
        for default in function.attribute_proto:
            arguments.setdefault(default.name, onnx_library().helper.get_attribute_value(default))
        inner.nodes([bound(one, arguments, set(function.input[len(proto.input) :])) for one in function.node])
        if inner.problems:
            raise Unsupported("; ".join(inner.problems))
        for formal, actual in zip(function.output, proto.output, strict=False):
            if actual:
                self.define(actual, inner.defined(formal))

    # -- nested graphs

    def nested(self, b: CoreBuilder) -> GraphReader:
        """A reader for a graph inside this one, in which this one's known tensors are known."""
        inner = GraphReader(b, self.opset, self.functions, self.depth + 1, self.left)
        inner.known = dict(self.known)
        return inner


def bound(proto: Any, arguments: Mapping[str, Any], omitted: set[str]) -> Any:
    """A node of a function whose references to the function's attributes are replaced by their values; operands that
    the call omits are omitted."""
    library = onnx_library()
    copy = type(proto)()
    copy.CopyFrom(proto)
    for i, name in enumerate(copy.input):
        if name in omitted:
            copy.input[i] = ""
    kept = []
    for attribute in proto.attribute:
        if attribute.HasField("g"):
            changed = type(attribute)()
            changed.CopyFrom(attribute)
            del changed.g.node[:]
            changed.g.node.extend([bound(one, arguments, omitted) for one in attribute.g.node])
            kept.append(changed)
        elif not attribute.ref_attr_name:
            kept.append(attribute)
        elif attribute.ref_attr_name in arguments:
            value = arguments[attribute.ref_attr_name]
            kept.append(library.helper.make_attribute(attribute.name, value, attr_type=attribute.type))
    del copy.attribute[:]
    copy.attribute.extend(kept)
    return copy


def opset_of(model: Any) -> int:
    """The version of the standard operators of a model; Unsupported if it cannot be read."""
    opset = max((o.version for o in model.opset_import if o.domain in _STANDARD), default=1)
    if not OLDEST <= opset <= NEWEST:
        raise Unsupported(f"the model has operators of set {opset}; sets {OLDEST} to {NEWEST} can be read")
    return opset


def functions_of(model: Any) -> dict[tuple[str, str], Any]:
    """The functions of a model by domain and name."""
    return {(f.domain, f.name): f for f in model.functions}


def read_graph(b: CoreBuilder, model: Any, operands: Mapping[str, Value], known: Mapping[str, Known]) -> list[Value]:
    """The results of a model's graph on `operands`; initializers and inputs in `known` are constants. Unsupported
    names every node that cannot be read."""
    reader = GraphReader(b, opset_of(model), functions_of(model))
    reader.known.update(known)
    reader.initializers([t for t in model.graph.initializer if t.name not in operands])
    reader.values.update(operands)
    reader.nodes(model.graph.node)
    reader.raise_problems()
    return [reader.value(output.name) for output in model.graph.output]


def core_graph(model: Any, types: Mapping[str, TensorType], known: Mapping[str, Known] | None = None) -> Graph:
    """The graph of a model whose inputs have these types, in this order."""
    b = CoreBuilder(model.graph.name or "model")
    operands = {name: b.input(t, name) for name, t in types.items()}
    return b.build(read_graph(b, model, operands, known or {}))
