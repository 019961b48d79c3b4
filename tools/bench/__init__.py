"""Measures mxforge and its peers in alternation, each in a separate process."""
