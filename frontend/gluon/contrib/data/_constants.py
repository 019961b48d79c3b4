"""The token that ends a sentence."""

from __future__ import annotations

EOS_TOKEN = "<eos>"
