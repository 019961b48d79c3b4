"""The part of the support module that Python calls as a built-in function: it writes addresses into the records of a
short program and runs them. `x + y` on 10 x 10 takes 39 ns so; a call through ctypes takes 0.1 us longer, and writing
the addresses in Python another 0.2 us.

A call is described by a block of 8-byte words:

    { records, number of records, number of operands, version, number of patches } and then the patches, each
    { position of the operand, address of the word, offset in bytes }

The arguments of the function are the addresses of the operands as Python ints and then, if the version is not 0, any
object. The function raises the exception class in `mxf_refusal`, and runs nothing, if an address is not an int, if the
object is not the one whose address is the version, or while `mxf_observed` is not 0. All of this happens while holding
Python's lock, so two calls of one program never overlap.
"""

from __future__ import annotations

CALL = "mxf_call"
"""The built-in function: `PyObject *(PyObject *self, PyObject *const *arguments, Py_ssize_t)`. `self` is the address
of the description as a Python int."""

REFUSAL, OBSERVED, NONE = "mxf_refusal", "mxf_observed", "mxf_none"
"""Settings: the exception class and None, as addresses of Python objects, and whether calls are refused (i32)."""

_TEXT = "an operand is in the memory of another device, parameters have changed, or launches are observed"

_GLOBALS = f"""
@mxf_refusal = dso_local global ptr null
@mxf_none = dso_local global ptr null
@mxf_observed = dso_local global i32 0
@refusal_text = internal constant [{len(_TEXT) + 1} x i8] c"{_TEXT}\\00"
"""

CALLS = (
    _GLOBALS
    + """
%call = type { ptr, i64, i64, ptr, i64 }
%patch = type { i64, ptr, i64 }

declare ptr @PyLong_AsVoidPtr(ptr)
declare ptr @PyErr_Occurred()
declare void @PyErr_SetString(ptr, ptr)
declare i32 @PyErr_BadArgument()
declare void @Py_IncRef(ptr)

define ptr @mxf_call(ptr %self, ptr %arguments, i64 %given) {
entry:
  %call = call ptr @PyLong_AsVoidPtr(ptr %self)
  %records = load ptr, ptr %call
  %n_p = getelementptr %call, ptr %call, i32 0, i32 1
  %n = load i64, ptr %n_p
  %operands_p = getelementptr %call, ptr %call, i32 0, i32 2
  %operands = load i64, ptr %operands_p
  %version_p = getelementptr %call, ptr %call, i32 0, i32 3
  %version = load ptr, ptr %version_p
  %patches_p = getelementptr %call, ptr %call, i32 0, i32 4
  %patches = load i64, ptr %patches_p
  %patch0 = getelementptr %call, ptr %call, i32 1
  %end = getelementptr %patch, ptr %patch0, i64 %patches
  %observed = load i32, ptr @mxf_observed
  %watched = icmp ne i32 %observed, 0
  br i1 %watched, label %refuse, label %count
count:
  %fits = icmp uge i64 %given, %operands
  br i1 %fits, label %check, label %bad
check:
  %plain = icmp eq i64 %given, %operands
  br i1 %plain, label %head, label %versioned
versioned:
  %key_p = getelementptr ptr, ptr %arguments, i64 %operands
  %key = load ptr, ptr %key_p
  %same = icmp eq ptr %key, %version
  br i1 %same, label %head, label %refuse
head:
  %patch = phi ptr [%patch0, %check], [%patch0, %versioned], [%next, %write]
  %more = icmp ult ptr %patch, %end
  br i1 %more, label %read, label %run
read:
  %next = getelementptr %patch, ptr %patch, i64 1
  %position = load i64, ptr %patch
  %word_p = getelementptr %patch, ptr %patch, i32 0, i32 1
  %word = load ptr, ptr %word_p
  %offset_p = getelementptr %patch, ptr %patch, i32 0, i32 2
  %offset = load i64, ptr %offset_p
  %argument_p = getelementptr ptr, ptr %arguments, i64 %position
  %argument = load ptr, ptr %argument_p
  %address = call ptr @PyLong_AsVoidPtr(ptr %argument)
  %zero = icmp eq ptr %address, null
  br i1 %zero, label %doubt, label %write
doubt:
  %error = call ptr @PyErr_Occurred()
  %failed = icmp ne ptr %error, null
  br i1 %failed, label %refuse, label %write
write:
  %place = getelementptr i8, ptr %address, i64 %offset
  store ptr %place, ptr %word
  br label %head
run:
  call void @mxf_run(ptr %records, i64 %n)
  %none = load ptr, ptr @mxf_none
  call void @Py_IncRef(ptr %none)
  ret ptr %none
refuse:
  %class = load ptr, ptr @mxf_refusal
  call void @PyErr_SetString(ptr %class, ptr @refusal_text)
  ret ptr null
bad:
  %rc = call i32 @PyErr_BadArgument()
  ret ptr null
}
"""
)
