"""Code generation: a fused graph becomes kernels, launches and a program.

driver      compiles a graph to a program: passes, kernels, assembly
compiler    runs over the regions of a graph and asks the target's emitter for code
lower*      region to kernel
chains      products that run together in blocks of rows
assemble    memory and launches of the program
target      the interface of a target; llvm/ and triton/ implement it
elf/        reads and writes object files
"""
