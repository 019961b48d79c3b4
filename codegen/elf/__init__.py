"""Relocatable ELF objects without LLVM: `reader`, `writer`, `relocations`, and `kernels`, which takes functions out of
objects and puts functions into one.
"""
