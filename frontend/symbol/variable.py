"""Creates variables and groups of symbols."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ...ir.dialects.mx.parameters import attribute_text
from ..type_flags import DTYPE_FLAGS, STORAGE_FLAGS
from .compose import dtype_text, hidden_attrs, resolved_attrs
from .node import Entry, SymNode
from .symbol import Symbol, load_json  # noqa: F401 (pickles of older versions refer to it here)


def var(
    name: str,
    attr: Mapping[str, str] | None = None,
    shape: tuple[int, ...] | None = None,
    lr_mult: float | None = None,
    wd_mult: float | None = None,
    dtype: Any = None,
    init: Any = None,
    stype: str | None = None,
    **kwargs: Any,
) -> Symbol:
    """Creates a variable.

    Args:
        name: The name.
        attr: Attributes by name, as strings.
        shape: The shape; 0 is an unknown extent.
        lr_mult: Factor of the learning rate.
        wd_mult: Factor of the weight decay.
        dtype: The dtype.
        init: An initializer, or its JSON text.
        stype: The storage type: "default", "csr" or "row_sparse".
        **kwargs: Further attributes, with names such as `__like_this__`.

    Example:
        >>> x = mx.sym.var("x", shape=(2, 3))
        >>> (x + 1).infer_shape()[1]
        [(2, 3)]
    """
    if not isinstance(name, str):
        raise TypeError("Expect a string for variable `name`")
    attrs: dict[str, Any] = {**resolved_attrs(attr)}
    known = {"__shape__": shape, "__lr_mult__": lr_mult, "__wd_mult__": wd_mult}
    attrs.update({key: attribute_text(value) for key, value in known.items() if value is not None})
    if dtype is not None:
        attrs["__dtype__"] = str(DTYPE_FLAGS[dtype_text(dtype)])
    if init is not None:
        attrs["__init__"] = init if isinstance(init, str) else init.dumps()
    if stype is not None:
        attrs["__storage_type__"] = str(STORAGE_FLAGS[stype])
    for key, value in kwargs.items():
        if not (key.startswith("__") and key.endswith("__")):
            raise ValueError(
                f"Attribute name={key} is not supported. Additional attributes must start and end with double "
                "underscores, e.g, __yourattr__"
            )
        attrs[key] = attribute_text(value)
    return Symbol([Entry(SymNode("null", name, hidden_attrs(attrs, "Variable")))])


Variable = var


def Group(symbols: Sequence[Symbol], create_fn: Callable[..., Symbol] = Symbol) -> Symbol:
    """A symbol with the outputs of all `symbols`.

    Example:
        >>> x = mx.sym.var("x")
        >>> both = mx.sym.Group([mx.sym.exp(x, name="e"), mx.sym.log(x, name="l")])
        >>> both.list_outputs()
        ['e_output', 'l_output']
    """
    if not symbols or not all(isinstance(s, Symbol) for s in symbols):
        raise TypeError("Expected a list of symbols as input")
    return create_fn([entry for symbol in symbols for entry in symbol._entries])
