"""The host as a device: this machine, its memory and threads, and native code in memory.

device            the host as a `Device`, through which other modules reach it
machine           the processor, its caches and threads
requirements      what stored programs require of a machine
allocator         memory for tensors
executable        programs in memory, and their runs
loader            links object files in memory
records           the launches of a program, as the thread pool reads them
arena             memory of temporary values
threads           the thread pool; `direct_calls` calls programs without ctypes
native            the C sources of both; `native_objects` finds the objects that the package has of them
host_calls        Python functions that programs call
kernel_library    machine code of kernels that the package has
tuning            tables of tuned schedules
probes            measures the machine
stepped_run       runs a program launch by launch
"""
