"""Inserts casts into a symbol, so that its operators compute in the precision that rules give them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ....ir.dialects.mx.monitored_names import NAMED_OUTPUTS
from ....ir.types import DType
from ...base import MXNetError
from ...symbol.network import Network
from ...symbol.node import Entry, SymNode, depth_first
from ...tracebacks import cause_of
from ...type_flags import DTYPE_FLAGS
from .rules import Precision, Rules


def reduce_precision(
    entries: Sequence[Entry], rules: Rules, excluded: Iterable[str], data: Sequence[str], cast_parameters: bool
) -> list[Entry]:
    """A copy of a float32 network with casts, whose outputs are float32.

    Args:
        entries: The outputs of the network.
        rules: The precision of operators.
        excluded: Nodes that compute in float32, by name.
        data: Variables that are float32. The dtypes of others, the parameters, are inferred and set in `__dtype__`.
            Without parameters, the dtypes that variables have already are updated.
        cast_parameters: True to give parameters the 16-bit dtype where they would be cast to it.
    Raises:
        MXNetError: for operands of different dtypes.
    """
    casting = _Casting(rules, frozenset(excluded), frozenset(data), cast_parameters)
    reduced = casting.run(entries)
    _set_dtypes(reduced, rules.target, data, cast_parameters)
    return reduced


class _Casting:
    """The copy of each node, and tables by entries of the original network.

    `dtypes` has the dtypes of outputs of copies that are known, `low` and `full` entries of the copy in the 16-bit
    dtype and in float32: such outputs, and casts.
    """

    def __init__(self, rules: Rules, excluded: frozenset[str], data: frozenset[str], cast_parameters: bool) -> None:
        self.rules, self.excluded, self.data, self.cast_parameters = rules, excluded, data, cast_parameters
        self.copies: dict[SymNode, SymNode] = {}
        self.dtypes: dict[Entry, DType] = {}
        self.low: dict[Entry, Entry] = {}
        self.full: dict[Entry, Entry] = {}

    def run(self, entries: Sequence[Entry]) -> list[Entry]:
        for node in depth_first(entries):
            copy = node.copy()
            copy.inputs = self._inputs(node, copy)
            self.copies[node] = copy
        return [self._cast(entry, "float32", self.full) for entry in entries]

    def _inputs(self, node: SymNode, copy: SymNode) -> list[Entry]:
        """The inputs of the copy of a node; its outputs of known dtype are added to the tables."""
        if node.name in self.excluded:
            return self._in_full(node, copy, variables=False)
        if node.is_variable:
            return []
        operator = type(node.operator)
        precision = self.rules.precision(operator, node.attrs)
        if precision is Precision.LOW:
            return self._in_low(node, copy)
        if precision is Precision.WIDEST:
            return self._in_widest(node, copy)
        if precision is Precision.FULL:
            return self._in_full(node, copy, variables=not self.rules.is_listed(operator))
        if node.inputs and node.inputs[0] in self.dtypes:
            self._note(node, copy, _dtypes(node, self.dtypes[node.inputs[0]])[1])
        return [self._moved(entry) for entry in node.inputs]

    def _in_full(self, node: SymNode, copy: SymNode, variables: bool) -> list[Entry]:
        """Inputs in float32. Variables are cast too if `variables`, otherwise they are float32 already."""
        self._note(node, copy, [DType.F32] * node.num_outputs)
        states = node.operator.auxiliary.values() if node.inputs else ()
        inputs: list[Entry] = []
        for i, entry in enumerate(node.inputs):
            kept = i in states if variables else entry.node.is_variable
            inputs.append(
                self._moved(entry) if kept and entry not in self.full else self._cast(entry, "float32", self.full)
            )
        return inputs

    def _in_low(self, node: SymNode, copy: SymNode) -> list[Entry]:
        """Inputs in the 16-bit dtype, except states and those that the operator needs in another dtype."""
        dtypes, results = _dtypes(node, self.rules.target)
        self._note(node, copy, results)
        names, own = node.input_names(), type(node.operator).own_dtypes
        inputs: list[Entry] = []
        for i, entry in enumerate(node.inputs):
            parameter = self.cast_parameters and entry.node.is_variable and entry.node.name not in self.data
            other = names[i] in own or dtypes[i] not in (None, self.rules.target)
            if entry not in self.low and (parameter or other or i in node.operator.auxiliary.values()):
                inputs.append(self._moved(entry))
                if self.cast_parameters and entry.node.is_variable:
                    self.low[entry] = inputs[-1]
            else:
                inputs.append(self._cast(entry, self.rules.name, self.low))
        return inputs

    def _in_widest(self, node: SymNode, copy: SymNode) -> list[Entry]:
        """Inputs in float32 if one is, in the 16-bit dtype if all are, and in their widest dtype if some is unknown."""
        if not node.inputs:
            raise MXNetError(f"node {node.name!r} ({node.op}) has no inputs")
        if not all(entry in self.full or entry in self.low for entry in node.inputs):
            return self._multicast(node)
        wide = any(entry in self.full for entry in node.inputs)
        self._note(node, copy, [DType.F32 if wide else self.rules.target] * node.num_outputs)
        return [
            self._cast(entry, "float32" if wide else self.rules.name, self.full if wide else self.low)
            for entry in node.inputs
        ]

    def _multicast(self, node: SymNode) -> list[Entry]:
        count = len(node.inputs)
        multicast = SymNode("amp_multicast", f"{_label(node.inputs[0])}_amp_multicast", {"num_outputs": str(count)})
        multicast.inputs = [self._moved(entry) for entry in node.inputs]
        return [Entry(multicast, i, entry.version) for i, entry in enumerate(node.inputs)]

    def _cast(self, entry: Entry, dtype: str, table: dict[Entry, Entry]) -> Entry:
        """The copy of an entry in a dtype, from its table or as a cast that is added to it."""
        if entry not in table:
            cast = SymNode("amp_cast", f"{_label(entry)}_amp_cast_{dtype}", {"dtype": dtype}, [self._moved(entry)])
            table[entry] = Entry(cast, 0, entry.version)
        return table[entry]

    def _moved(self, entry: Entry) -> Entry:
        return entry._replace(node=self.copies[entry.node])

    def _note(self, node: SymNode, copy: SymNode, dtypes: Sequence[DType | None]) -> None:
        """Add the outputs of these dtypes to the tables."""
        for i, dtype in enumerate(dtypes):
            if dtype is not None and dtype in (DType.F32, self.rules.target):
                table = self.full if dtype is DType.F32 else self.low
                table[Entry(node, i)] = Entry(copy, i)
                self.dtypes[Entry(node, i)] = dtype


def _dtypes(node: SymNode, first: DType) -> tuple[list[DType | None], list[DType | None]]:
    """The dtypes of inputs and outputs that follow from that of the first input."""
    from ....ir.dialects.mx.infer_types import InferenceError, Use, infer_types

    inputs, outputs = range(len(node.inputs)), range(len(node.inputs), len(node.inputs) + node.num_outputs)
    try:
        inferred = infer_types([Use(node.operator, tuple(inputs), tuple(outputs), node.name)], {}, {0: first})
    except InferenceError:
        return [first, *[None] * (len(inputs) - 1)], [None] * len(outputs)
    return [inferred.dtypes.get(i) for i in inputs], [inferred.dtypes.get(i) for i in outputs]


def _label(entry: Entry) -> str:
    """The beginning of the name of an entry's casts."""
    if entry.node.is_variable:
        return entry.node.name
    named = entry.node.op in NAMED_OUTPUTS
    return f"{entry.node.name}_{entry.node.operator.output_names()[entry.index] if named else entry.index}"


def _set_dtypes(entries: Sequence[Entry], target: DType, data: Sequence[str], cast_parameters: bool) -> None:
    """Set `__dtype__` of the variables; see `reduce_precision`."""
    network = Network(entries)
    network.check_names(data, "InferType")
    inferred = _inferred(network, dict.fromkeys(data, DType.F32))
    if cast_parameters:
        inferred = {**_wanted(network, target, inferred), **inferred}
    parameters = {node.name for node in network.variables} - set(data)
    for node in network.variables:
        if node.name in parameters if parameters else "__dtype__" in node.attrs:
            node.attrs["__dtype__"] = str(DTYPE_FLAGS[inferred.get(node, DType.F32).full_name])


def _inferred(network: Network, dtypes: Mapping[str, DType]) -> dict[SymNode, DType]:
    """The dtypes of variables that follow from those of some, without their attributes."""
    from ....ir.dialects.mx.infer_types import InferenceError, infer_types

    first = network.first
    known = {first[node]: dtypes[node.name] for node in network.variables if node.name in dtypes}
    try:
        inferred = infer_types(network.uses(), {}, known).dtypes
    except InferenceError as error:
        raise MXNetError(f"Error in operator {error}") from cause_of(error)
    return {node: dtype for node in network.variables if (dtype := inferred.get(first[node])) is not None}


def _wanted(network: Network, target: DType, known: Mapping[SymNode, DType]) -> dict[SymNode, DType]:
    """The dtypes to which variables of unknown dtype are cast, where all casts of a variable agree. A multicast of
    variables alone asks for the 16-bit dtype."""
    wanted: dict[SymNode, set[DType]] = {}
    for node in network.nodes:
        if node.op == "amp_cast":
            dtype = DType.from_numpy(node.attrs["dtype"])
        elif node.op == "amp_multicast" and all(entry.node.is_variable for entry in node.inputs):
            dtype = target
        else:
            continue
        for entry in node.inputs:
            if entry.node.is_variable and entry.node not in known:
                wanted.setdefault(entry.node, set()).add(dtype)
    return {variable: dtypes.pop() for variable, dtypes in wanted.items() if len(dtypes) == 1}
