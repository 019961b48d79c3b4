"""The target `mlir` (MXFORGE_TARGET=mlir): graphs through upstream MLIR to code for this CPU.

target                                  the target: its passes (`passes`), its identity
channels_last, products, outline        passes on core: explicit layouts, plain products, the calls that become modules
emitter                                 the emitter of programs: one launch for each call
modules, constants                      programs of modules of a user; large constants become memory of the program
foreign                                 StableHLO files of other tools: what they must be, and what is refused
pipeline                                the stages of a module: StableHLO, linalg, buffers, loops, the LLVM dialect
legalize                                what upstream does not lower to linalg
digits, windows                         exact lowering: small numbers, bfloat16, elements that no window reads
operations, schedule, fills, barriers   tiles, vectors and parallel pieces, by scripts of the transform dialect
destinations, memory                    where bufferization stores tensors, and buffers in the workspace of a launch
link, math, numbers, objects            LLVM IR: parallel loops on the thread pool, mathematical functions, objects

The wheel `torch-mlir` (the extra `mlir`) has upstream MLIR; only modules that compile import it.
"""
