"""Converts float32 models to mixed precision."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Any

from ...context import Context, gpu
from ...symbol import Symbol
from ...type_flags import _DTYPE_MX_TO_NP
from .reduce_precision import reduce_precision
from .rules import Defaults, Rules, target_of

if TYPE_CHECKING:
    from ...ndarray import NDArray

Lists = list[str] | None
Conditions = list[tuple[str, str, list[str]]] | None
Arrays = dict[str, "NDArray"]

_TARGETS = "Only target_dtype float16 and bfloat16 are supported currently"


def convert_symbol(
    sym: Symbol,
    target_dtype: Any = "float16",
    target_dtype_ops: Lists = None,
    fp32_ops: Lists = None,
    conditional_fp32_ops: Conditions = None,
    excluded_sym_names: Lists = None,
    data_names: Lists = None,
    cast_optional_params: bool = False,
) -> Symbol:
    """A copy of a float32 network with casts, so that its operators compute in mixed precision.

    Args:
        sym: The network. Outputs of the copy are float32.
        target_dtype: "float16" or "bfloat16".
        target_dtype_ops: Operators to compute in the target dtype; by default `list_lp16_ops`.
        fp32_ops: Operators to compute in float32; by default `list_fp32_ops`.
        conditional_fp32_ops: Operators to compute in float32 if a parameter has one of the values: a list of (operator,
            parameter, values).
        excluded_sym_names: Nodes to compute in float32, by name.
        data_names: The inputs of the network, which are float32; by default the variables without a dtype.
        cast_optional_params: True to declare parameters in the target dtype that would only be cast to it.
    Raises:
        AssertionError: for an operator in two lists, or that cannot be chosen.
        MXNetError: for operators whose inputs have several dtypes.
    """
    assert isinstance(sym, Symbol), "First argument to convert_symbol should be Symbol"
    target = target_of(target_dtype, _TARGETS)
    for name, names in (
        ("target_dtype_ops", target_dtype_ops),
        ("fp32_ops", fp32_ops),
        ("conditional_fp32_ops", conditional_fp32_ops),
        ("excluded_sym_names", excluded_sym_names),
    ):
        assert names is None or isinstance(names, list), f"{name} should be a list, not {type(names).__name__}"
    defaults = Defaults(target)
    conditional = defaults.conditional if conditional_fp32_ops is None else conditional_fp32_ops
    for condition in conditional:
        assert [type(part) for part in condition] == [str, str, list], (
            "conditional_fp32_ops should be a list of (str, str, list of str)"
        )
    low = defaults.low if target_dtype_ops is None else target_dtype_ops
    full = defaults.full if fp32_ops is None else fp32_ops
    _require_lists(defaults, low, full, [condition[0] for condition in conditional])
    if data_names is None:
        attributes = sym.attr_dict()
        data_names = [name for name in sym.list_inputs() if "__dtype__" not in attributes.get(name, {})]
    rules = Rules(target, low, full, conditional)
    return Symbol(reduce_precision(sym._entries, rules, excluded_sym_names or [], data_names, cast_optional_params))


def _require_lists(
    defaults: Defaults, low: Collection[str], full: Collection[str], conditional: Collection[str]
) -> None:
    """AssertionError for operators in two lists, and for those that always compute in the widest dtype."""
    lists = {"target_dtype_ops": low, "fp32_ops": full, "conditional_fp32_ops": conditional}
    for one, other in (
        ("target_dtype_ops", "fp32_ops"),
        ("target_dtype_ops", "conditional_fp32_ops"),
        ("fp32_ops", "conditional_fp32_ops"),
    ):
        common = {*lists[one]} & {*lists[other]}
        assert not common, f"Ops cannot be in two or more lists. Common ops in {one} and {other} {common}"
    allowed = {*defaults.low, *defaults.full, *defaults.own, *(condition[0] for condition in defaults.conditional)}
    illegal = {*low, *full, *conditional} - allowed
    assert not illegal, (
        "Can only choose ops from amp.list_lp16_ops, amp.list_fp32_ops, amp.list_lp16_fp32_ops and "
        f"amp.list_conditional_fp32_ops of the target dtype. Op {illegal} not in any of them"
    )


def convert_model(
    sym: Symbol,
    arg_params: Arrays,
    aux_params: Arrays,
    target_dtype: Any = "float16",
    target_dtype_ops: Lists = None,
    fp32_ops: Lists = None,
    conditional_fp32_ops: Conditions = None,
    excluded_sym_names: Lists = None,
    cast_optional_params: bool = False,
) -> tuple[Symbol, Arrays, Arrays]:
    """A network in mixed precision and its parameters; see `convert_symbol`.

    Parameters that the network declares in another dtype are cast to it, in new dictionaries.
    """
    assert isinstance(sym, Symbol), "First argument to convert_model should be Symbol"
    assert isinstance(arg_params, dict), "Second argument to convert_model should be a dict of name to ndarray"
    assert isinstance(aux_params, dict), "Third argument to convert_model should be a dict of name to ndarray"
    data_names = [name for name in sym.list_inputs() if name not in arg_params and name not in aux_params]
    lists = target_dtype_ops, fp32_ops, conditional_fp32_ops, excluded_sym_names
    converted = convert_symbol(sym, target_dtype, *lists, data_names, cast_optional_params)
    return converted, _declared(converted, arg_params), _declared(converted, aux_params)


def _declared(sym: Symbol, arrays: Arrays) -> Arrays:
    """Arrays in the dtypes that the variables of `sym` declare."""
    numbers = {name: attributes.get("__dtype__", "-1") for name, attributes in sym.attr_dict().items()}
    return {
        name: array.astype(_DTYPE_MX_TO_NP[int(numbers[name])], copy=False)
        if numbers.get(name, "-1") != "-1"
        else array
        for name, array in arrays.items()
    }


def convert_hybrid_block(
    block: Any,
    target_dtype: Any = "float16",
    target_dtype_ops: Lists = None,
    fp32_ops: Lists = None,
    conditional_fp32_ops: Conditions = None,
    excluded_sym_names: Lists = None,
    ctx: Context | Iterable[Context] = gpu(0),  # noqa: B008 (MXNet's default)
    cast_optional_params: bool = False,
) -> Any:
    """A SymbolBlock in mixed precision, on `ctx`, from a hybridized block that was called; see `convert_symbol`."""
    from ...gluon import HybridBlock, SymbolBlock

    assert isinstance(block, HybridBlock), "block input should be a HybridBlock"
    if not block._cached_graph:
        raise RuntimeError(
            "Please first call block.hybridize() and then run forward with this block at least once before calling "
            "export."
        )
    inputs, sym = block._cached_graph
    lists = target_dtype_ops, fp32_ops, conditional_fp32_ops, excluded_sym_names
    converted = convert_symbol(sym, target_dtype, *lists, [i.name for i in inputs], cast_optional_params)
    used = frozenset(converted.list_inputs())
    values = {name: param._reduce() for name, param in block.collect_params().items() if name in used}
    values = _declared(converted, values)
    block_of_symbol = SymbolBlock(converted, inputs)
    for name, param in block_of_symbol.collect_params().items():
        if name in values and param.dtype != values[name].dtype:
            param.cast(values[name].dtype)
    block_of_symbol.collect_params().load_dict(values, ctx=ctx)
    return block_of_symbol


def convert_bucketing_module(
    bucketing_mod: Any,
    target_dtype: Any = "float16",
    target_dtype_ops: Lists = None,
    fp32_ops: Lists = None,
    conditional_fp32_ops: Conditions = None,
    excluded_sym_names: Lists = None,
    cast_optional_params: bool = False,
) -> Any:
    """A BucketingModule in mixed precision; see `convert_symbol`. Its parameters must be initialized."""
    from ...module import BucketingModule

    assert isinstance(bucketing_mod, BucketingModule), "module should be instance of bucketing module"
    assert bucketing_mod._buckets, "Bucketing Module should not be empty"
    assert bucketing_mod.params_initialized, "bucketing_mod params should be initialized for mixed precision conversion"
    current: Any = bucketing_mod._curr_module
    lists = target_dtype_ops, fp32_ops, conditional_fp32_ops, excluded_sym_names
    symbols: dict[Any, Symbol] = {}
    args, aux = current._arg_params, current._aux_params
    for key, module in bucketing_mod._buckets.items():
        options = current._arg_params, current._aux_params, target_dtype, *lists, cast_optional_params
        symbols[key], args, aux = convert_model(module._symbol, *options)
    return BucketingModule.load_dict(
        symbols,
        sym_gen=bucketing_mod._sym_gen,
        default_bucket_key=bucketing_mod._default_bucket_key,
        arg_params=args,
        aux_params=aux,
        **bucketing_mod._options,
    )
