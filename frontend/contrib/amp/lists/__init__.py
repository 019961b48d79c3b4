"""The operators that automatic mixed precision changes, for each 16-bit dtype."""

from __future__ import annotations

from . import symbol_bf16, symbol_fp16
