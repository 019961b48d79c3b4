"""Lowers what upstream leaves of StableHLO to loops on tensors.

rules                                    which operation has which rule
builder, floats                          what rules are written with
sort, scatter, reductions                operations on elements and positions
factorizations, calls                    those of MXNet's linear algebra
products, convolutions                   the forms that the schedule knows
"""
