"""SymbolBlock: a block whose graph is a symbol, for example an exported one."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from .. import ndarray, symbol
from ..base import mx_real_t
from ..context import accepts_device
from ..dtypes import is_half
from ..symbol import Symbol
from ..util import is_np_array
from .hybrid_block import HybridBlock
from .parameter_dict import ParameterDict
from .structure import flatten, regroup


class SymbolBlock(HybridBlock):
    """A block that computes `outputs` from the variables `inputs`. All other variables are its parameters.

    Example:
        >>> x = mx.sym.var("data")
        >>> net = mx.gluon.SymbolBlock(mx.sym.FullyConnected(x, num_hidden=2, name="fc"), x)
        >>> net.initialize()
        >>> net(mx.nd.ones((1, 3))).shape
        (1, 2)
    """

    _is_direct = True

    @staticmethod
    @accepts_device
    def imports(
        symbol_file: str | os.PathLike[str],
        input_names: str | Sequence[str],
        param_file: str | os.PathLike[str] | None = None,
        ctx: Any = None,
        allow_missing: bool = False,
        ignore_extra: bool = False,
    ) -> SymbolBlock:
        """Load a model from `-symbol.json` and `.params` files, exported by MXNet or mxforge."""
        out = symbol.load(symbol_file)
        names = [input_names] if isinstance(input_names, str) else input_names
        dtype = mx_real_t if param_file is None else None
        block = SymbolBlock(out, [symbol.var(name, dtype=dtype) for name in names])
        if param_file is not None:
            block.collect_params().load(
                param_file, ctx, allow_missing, ignore_extra, cast_dtype=True, dtype_source="saved"
            )
        return block

    def __init__(self, outputs: Any, inputs: Any, params: ParameterDict | None = None) -> None:
        super().__init__(prefix=None, params=None)
        self._prefix = ""
        self._params = ParameterDict("", params)
        if isinstance(inputs, Symbol) and len(inputs) == 1:
            inputs = [inputs]
        if isinstance(outputs, list | tuple) and len(outputs) == 1:
            outputs = outputs[0]
        variables, self._in_format = flatten(inputs, "input")
        listed, self._out_format = flatten(outputs, "output")
        for variable in variables:
            if len(variable.get_internals()) != 1:
                raise AssertionError(f"Input symbols must be variable, but {variable} is an output of operators")
        out = symbol.Group(listed) if len(listed) > 1 else listed[0]
        self._check_storage(out)
        if is_np_array():
            out, variables = out.as_np_ndarray(), [variable.as_np_ndarray() for variable in variables]
        self._make_params(out, variables)
        self._cached_graph = variables, out
        shared = len(common_prefix(list(self._params.keys())))
        self._reg_params = {name[shared:]: param for name, param in self._params.items()}

    def _check_storage(self, out: Symbol) -> None:
        for name, attrs in out.attr_dict().items():
            if attrs.get("__storage_type__", "0") != "0":
                raise AssertionError(
                    f"SymbolBlock doesn't support Parameter '{name}' because its storage type is sparse."
                )

    def _make_params(self, out: Symbol, variables: Sequence[Symbol]) -> None:
        """Create parameters for all variables that are not inputs. Dtypes are inferred if the inputs' are known."""
        inputs = {variable.name for variable in variables}
        kinds = _dtypes(out, variables)
        for name in out.list_arguments():
            if name not in inputs:
                self.params.get(name, allow_deferred_init=True, dtype=kinds.get(name, mx_real_t))
        for name in out.list_auxiliary_states():
            if name not in inputs:
                self.params.get(name, grad_req="null", allow_deferred_init=True, dtype=kinds.get(name, mx_real_t))

    def __repr__(self) -> str:
        variables, out = self._cached_graph
        return f"{type(self).__name__}(\n{out} : {len(variables)} -> {len(out)}\n)"

    def forward(self, x: Any, *args: Any) -> Any:
        """Run on arrays, or replace the input variables by symbols."""
        if isinstance(x, ndarray.NDArray):
            with x.context:
                return self._call_cached_op(x, *args)
        if not isinstance(x, Symbol):
            raise AssertionError(
                f"HybridBlock requires the first argument to forward be either Symbol or NDArray, but got {type(x)}"
            )
        flat, form = flatten([x, *args], "input")
        if form != self._in_format:
            raise AssertionError("Invalid input format")
        variables, out = self._cached_graph
        composed = out(**{v.name: s for v, s in zip(variables, flat, strict=True)})
        return regroup(list(composed), self._out_format)

    def _clear_cached_op(self) -> None:
        graph = self._cached_graph
        super()._clear_cached_op()
        self._cached_graph = graph

    def cast(self, dtype: Any) -> None:
        """Convert all parameters to another dtype. With 16-bit floats, those of batch normalisations become float32."""
        super().cast(dtype)
        if not is_half(dtype):
            return
        for name in list(self.params.keys()):
            for suffix, mean in (("running_var", "running_mean"), ("moving_var", "moving_mean")):
                layer = [name.removesuffix(suffix) + part for part in (suffix, mean, "gamma", "beta")]
                if name.endswith(suffix) and all(n in self.params for n in layer):
                    for member in layer:
                        self.params[member].cast("float32")

    def reset_ctx(self, ctx: Any) -> None:
        """Move all parameters to other contexts."""
        self.collect_params().reset_ctx(ctx)

    def hybrid_forward(self, F: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError("a SymbolBlock has no hybrid_forward: its graph is its symbol")


def common_prefix(names: Sequence[str]) -> str:
    """The longest common prefix of all names."""
    first, last = min(names, default=""), max(names, default="")
    shared = next((i for i, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), min(len(first), len(last)))
    return first[:shared]


def _dtypes(out: Symbol, variables: Sequence[Symbol]) -> dict[str, Any]:
    """The dtypes of all variables by name; empty if an input's dtype is not declared or another cannot be inferred."""
    known = {v.name: v.infer_type_partial()[0][0] for v in variables}
    if None in known.values():
        return {}
    arguments, _, states = out.infer_type_partial(**{n: d for n, d in known.items() if n in out.list_inputs()})
    dtypes = dict(zip(out.list_arguments(), arguments, strict=True))
    dtypes.update(zip(out.list_auxiliary_states(), states, strict=True))
    return {} if None in dtypes.values() else dtypes
