"""`mxforge.contrib.text`: vocabularies and vectors of tokens."""

from __future__ import annotations

from . import embedding, utils, vocab
