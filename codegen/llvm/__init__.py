"""The CPU target.

    target, cpu                    what code is compiled for, and the properties from which schedules are derived
    program_emitter, emit          the kernels of a program; one kernel
    schedule/                      how kernels are computed: numbers only
    contract/, loops/, routines/   LLVM IR of contractions, of loop nests, and of primitives without a kernel
    control, chain, halos          loops and branches; blocks of rows; zeroed halos
    dynamic_function               code for extents that are arguments
    compile, library               call LLVM
    pool                           the names and numbers of the thread pool
    probes                         native code that measures the machine

Modules are built as text by `emitter`, `instructions`, `arithmetic`, `types`, `scalars` and `vmath`. `kernel_module`,
`numbered`, `inner_kernels` and `shared` divide the code into pieces that programs share.

docs/design has the reasons: contractions.md, kernels.md and first-results.md.
"""
