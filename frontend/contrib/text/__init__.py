"""`mxforge.contrib.text`: vocabularies and token embeddings."""

from __future__ import annotations

from . import embedding, utils, vocab
