"""Readers and writers of MXNet's file formats: `.params` array lists and `-symbol.json` graphs."""

from ...runtime.atomic import write_atomically
from .arrays import BFloat16Data, CSRData, ParamsArray, ParamsFile, RowSparseData
from .errors import ArtifactError
from .fused_nodes import expand_fused, is_quantized
from .params import dump_params, read_params, write_params
from .symbol_graph import GraphAttr, NodeEntry, SymbolFile, SymbolNode
from .symbol_json import read_symbol_json, write_symbol_json
from .symbol_upgrade import upgrade_symbol

__all__ = [
    "ArtifactError",
    "BFloat16Data",
    "CSRData",
    "GraphAttr",
    "NodeEntry",
    "ParamsArray",
    "ParamsFile",
    "RowSparseData",
    "SymbolFile",
    "SymbolNode",
    "dump_params",
    "expand_fused",
    "is_quantized",
    "read_params",
    "read_symbol_json",
    "upgrade_symbol",
    "write_atomically",
    "write_params",
    "write_symbol_json",
]
