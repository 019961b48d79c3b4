"""Schedules of CPU kernels. They are numbers, derived by formulas from a kernel and the properties of a CPU.

kinds                                          the classes of schedules
describe, product, strides                     what a kernel computes, and how its operands are stored
contract, weight_gradient, winograd_blocks     schedules of contractions
registers                                      register tiles
loops, steps                                   schedules of loop nests
space, spaces, gradient_spaces, loop_space     which schedules are right for a kernel, for tuning
tuned                                          tables of schedules that a measurement found to be faster
"""
