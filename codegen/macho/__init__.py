"""Reads and writes Mach-O object files for macOS on AArch64, without LLVM and without a linker."""
