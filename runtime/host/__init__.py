"""The host as a device: this machine, its memory and threads, and native code in memory.

machine           the processor, its caches, threads and memory
device            the host as a `Device`
executable        programs in memory, and their runs
loader            links object files in memory
records           the launches of a program, as the thread pool reads them
arena             memory of temporary values
threads           the thread pool; `support_object` finds its code, `direct_calls` calls programs without ctypes
host_calls        Python functions that programs call
kernel_store      machine code of kernels; `kernel_library` reads the libraries in the package
tuning            tables of tuned schedules
probes            measures the machine
stepped_run       runs a program launch by launch
"""
