/* Calls of short programs from Python: a built-in function that writes addresses into the launch records of a program and
   runs them. `x + y` on 10 x 10 takes 39 ns so; a call through ctypes takes 0.1 us longer, and writing the addresses in
   Python another 0.2 us.

   This is an object of its own, because it needs Python's functions (of the stable interface, declared below) and the
   thread pool does not.

   The arguments are the addresses of the operands as Python ints and then, if the call has a version, any object. The
   function raises the exception class `mxf_refusal`, and runs nothing, if an address is not an int, if the object is not
   the version, or while `mxf_observed` is not 0. All of this happens while holding Python's lock, so two calls of one
   program never overlap. */
#include <stddef.h>
#include <stdint.h>

#include "pool.h"

typedef struct PyObject PyObject;

void *PyLong_AsVoidPtr(PyObject *number);
PyObject *PyErr_Occurred(void);
void PyErr_SetString(PyObject *type, const char *message);
int PyErr_BadArgument(void);
void Py_IncRef(PyObject *object);

/* Settings: the exception class, None, and whether calls are refused. runtime/direct_calls.py sets them. */
PyObject *mxf_refusal, *mxf_none;
int32_t mxf_observed;

/* Writes the address of operand `position` plus `offset` bytes to `word`. */
struct patch {
    int64_t position;
    char **word;
    int64_t offset;
};

/* The description of a call, which runtime/direct_calls.py writes: all members take 8 bytes. */
struct call {
    const struct mxf_record *records;
    int64_t n, operands;
    PyObject *version; /* NULL: the call has none */
    int64_t patches;
    struct patch patch[];
};

static PyObject *refuse(void)
{
    PyErr_SetString(
        mxf_refusal, "an operand is in the memory of another device, parameters have changed, or launches are observed");
    return NULL;
}

/* A built-in function (METH_FASTCALL). `self` is the address of a `struct call` as a Python int. */
PyObject *mxf_call(PyObject *self, PyObject *const *arguments, intptr_t given)
{
    const struct call *call = PyLong_AsVoidPtr(self);
    if (mxf_observed)
        return refuse();
    if (given < call->operands) {
        PyErr_BadArgument();
        return NULL;
    }
    if (given > call->operands && arguments[call->operands] != call->version)
        return refuse();
    const struct patch *end = call->patch + call->patches;
    for (const struct patch *patch = call->patch; patch < end; patch++) {
        char *address = PyLong_AsVoidPtr(arguments[patch->position]);
        if (address == NULL && PyErr_Occurred())
            return refuse();
        *patch->word = address + patch->offset;
    }
    mxf_run(call->records, call->n);
    Py_IncRef(mxf_none);
    return mxf_none;
}
