"""The target `mlir` (MXFORGE_TARGET=mlir): graphs through upstream MLIR to code for this CPU.

target        the target: its passes, its identity
outline       the pass that joins primitives into large calls, which become one function each
emitter       the emitter of programs: one launch for each call
modules       programs of modules that a user's passes made, or of modules from elsewhere
foreign       StableHLO files of other tools: what they must be, and what is refused
constants     large constants of a module become memory of its program
pipeline      the stages of a module: StableHLO, linalg on tensors, buffers, loops, the LLVM dialect
legalize      what upstream does not lower to linalg: loops on tensors, written with `builder`
destinations  where bufferization stores tensors
digits        log(1 + x) and exp(x) - 1 without loss of digits
memory        places buffers in the workspace of a launch
link          LLVM IR around the translated module: its entry, parallel loops on the thread pool, mathematical functions

The wheel `torch-mlir` (the extra `mlir`) has upstream MLIR; only modules that compile import it.
"""
