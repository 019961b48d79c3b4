"""Measures each layer of a model against this machine, and predicts its times on more threads."""
