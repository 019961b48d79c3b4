"""Upgrades a symbol file of an older MXNet, as MXNet 1.9.1 does when it loads one.

Source: src/nnvm/legacy_json_util.cc. `UPGRADES` lists the steps and the versions below which they apply.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from .errors import ArtifactError
from .symbol_graph import CURRENT_VERSION, GraphAttr, NodeEntry, SymbolFile, SymbolNode, arrange

InputNames = Callable[[str, Mapping[str, str]], Sequence[str]]

# Attributes for the executor and the optimizer. Older versions wrote them without underscores.
HIDDEN_KEYS = ("ctx_group", "lr_mult", "wd_mult", "force_mirroring", "mirror_stage")

_STATISTICS = {3: '["zero", {}]', 4: '["one", {}]'}
_SLOPE = {1: '["Constant", {"value": 0.25}]'}
# The default initializers of an operator's inputs, by position (FSetInputVarAttrOnCompose).
INPUT_INITIALIZERS: dict[str, dict[int, str]] = {
    "BatchNorm": _STATISTICS,
    "BatchNorm_v1": _STATISTICS,
    "_contrib_BatchNormWithReLU": _STATISTICS,
    "_contrib_SyncBatchNorm": _STATISTICS,
    "_npx_batch_norm": _STATISTICS,
    "IdentityAttachKLSparseReg": {1: '["zero", {}]'},
    "UpSampling": {1: '["bilinear", {}]'},
    "LeakyReLU": _SLOPE,
    "_npx_leaky_relu": _SLOPE,
}


def upgrade_symbol(file: SymbolFile, input_names: InputNames) -> SymbolFile:
    """Upgrade a file to version 1.9.1, with the result that MXNet 1.9.1 has after loading it.

    `input_names(op, attrs)` returns the names of all inputs of an operator with these attributes, auxiliary ones last,
    or an empty sequence if its inputs have no names. Subgraphs are not changed, as in MXNet.
    """
    draft = _Draft(file, input_names)
    for below, upgrade in UPGRADES:
        if file.version < below:
            upgrade(draft)
    return draft.finish(file)


class _Draft:
    """A graph with mutable attributes and inputs. New variables are appended."""

    def __init__(self, file: SymbolFile, input_names: InputNames) -> None:
        self.nodes = list(file.nodes)
        self.attrs = [dict(node.attrs) for node in file.nodes]
        self.inputs = [list(node.inputs) for node in file.nodes]
        self.input_names = input_names

    def names_of_inputs(self, number: int) -> Sequence[str]:
        node = self.nodes[number]
        try:
            return self.input_names(node.op, self.attrs[number])
        except ValueError as error:
            raise ArtifactError(f"node {node.name!r}: {error}") from None

    def add_variable(self, name: str, attrs: Mapping[str, str]) -> NodeEntry:
        self.nodes.append(SymbolNode("null", name, {}, num_outputs=1))
        self.attrs.append(dict(attrs))
        self.inputs.append([])
        return NodeEntry(len(self.nodes) - 1)

    def operators(self) -> list[int]:
        return [i for i, node in enumerate(self.nodes) if not node.is_variable]

    def finish(self, file: SymbolFile) -> SymbolFile:
        changed = [
            replace(node, attrs=attrs, inputs=tuple(inputs))
            for node, attrs, inputs in zip(self.nodes, self.attrs, self.inputs, strict=True)
        ]
        nodes, heads = arrange(changed, file.heads)
        version = GraphAttr("int", CURRENT_VERSION)
        return SymbolFile(tuple(nodes), tuple(heads), {**file.attrs, "mxnet_version": version})


def hide_keys(draft: _Draft) -> None:
    """`lr_mult` becomes `__lr_mult__`; `weight_lr_mult` of an operator becomes `__lr_mult__` of its weight."""
    for number, node in enumerate(draft.nodes):
        attrs = draft.attrs[number]
        hidden = {key: attrs.pop(key) for key in list(attrs) if key.endswith(HIDDEN_KEYS)}
        for key, value in hidden.items():
            suffix = next(hidden_key for hidden_key in HIDDEN_KEYS if key.endswith(hidden_key))
            owner = number if key == suffix else None
            if owner is None and not node.is_variable:
                owner = _variable_input(draft, number, key[: -len(suffix) - 1])
            if owner is None:
                attrs[key] = value
            else:
                draft.attrs[owner][f"__{suffix}__"] = value


def _variable_input(draft: _Draft, number: int, name: str) -> int | None:
    """The node number of an operator's input `name`, if it is a variable; otherwise None."""
    named = zip(draft.names_of_inputs(number), draft.inputs[number], strict=False)
    position = next((entry.node_id for input_name, entry in named if name and input_name == name), None)
    return position if position is not None and draft.nodes[position].is_variable else None


def add_missing_inputs(draft: _Draft) -> None:
    """Add variables for missing inputs. Files before 0.9 do not contain auxiliary inputs. Their variables get all
    attributes of the operator."""
    for number in draft.operators():
        names, inputs = draft.names_of_inputs(number), draft.inputs[number]
        prefix = f"{draft.nodes[number].name}_" if draft.nodes[number].name else ""
        for name in names[len(inputs) :]:
            inputs.append(draft.add_variable(prefix + name, draft.attrs[number]))


def set_initializers(draft: _Draft) -> None:
    """Set the default initializers of input variables that have none. Files before 0.9.4 do not contain them."""
    for number in draft.operators():
        initializers = INPUT_INITIALIZERS.get(draft.nodes[number].op, {})
        for position, entry in enumerate(draft.inputs[number]):
            if position in initializers and draft.nodes[entry.node_id].is_variable:
                draft.attrs[entry.node_id].setdefault("__init__", initializers[position])


def drop_negative_axis(draft: _Draft) -> None:
    """Remove `axis=-1` of argmin and argmax: before 0.9.5 it meant all axes, which is now the default."""
    for number in draft.operators():
        if draft.nodes[number].op in ("argmin", "argmax") and draft.attrs[number].get("axis") == "-1":
            del draft.attrs[number]["axis"]


# (version below which the step applies, step), in MXNet's order.
UPGRADES: tuple[tuple[int, Callable[[_Draft], None]], ...] = (
    (CURRENT_VERSION, hide_keys),
    (900, add_missing_inputs),
    (904, set_initializers),
    (905, drop_negative_axis),
)
