"""The header of a library for C and C++, and its CMake file."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ... import mxforge_version
from ...runtime.compiled_folder import Argument, StoredModel
from .tables import LibraryModel, dtype_name

FUNCTIONS = ("create", "destroy", "set", "shape", "bind", "seed", "run", "inputs", "outputs", "get", "error")
"""The functions of a library, after its name and `_`."""

PREDICT_FUNCTIONS = (
    *("MXGetLastError", "MXPredCreate", "MXPredCreateEx", "MXPredCreatePartialOut", "MXPredCreateMultiThread"),
    *("MXPredReshape", "MXPredSetInput", "MXPredForward", "MXPredPartialForward", "MXPredGetOutputShape"),
    *("MXPredGetOutputType", "MXPredGetOutput", "MXPredFree", "MXNDListCreate", "MXNDListGet", "MXNDListFree"),
)
"""The functions of MXNet's C predict API that libraries can have."""

_TAKEN = frozenset(
    """alignas alignof and asm auto bool break case catch char class const constexpr continue default delete do double
    else enum explicit export extern false float for friend goto if inline int long mutable namespace new not nullptr
    operator or private protected public register restrict return short signed sizeof static struct switch template this
    throw true try typedef typename union unsigned using virtual void volatile while xor
    mxf mxforge std""".split()
)
"""Keywords, and names that the headers and the C code of libraries use."""

_HEADER = """\
/* The model {model} as a library, written by mxforge {version}. See `mxforge help deploy-c`.

   It takes {takes}.

{arguments} */
#ifndef {guard}
#define {guard}

#include "mxforge.h"

#ifdef __cplusplus
extern "C" {{
#endif

/* A context, which one thread at a time can use. */
typedef struct {name}_context {name}_context;

/* A context with these options; NULL for the defaults. Returns NULL if that fails. */
{name}_context *{name}_create(const mxf_options *options);

/* Frees the context. When a library has no context, it has no threads either. */
void {name}_destroy({name}_context *context);

/* Lets runs read an input from this memory of the caller; a state is copied. */
mxf_status {name}_set({name}_context *context, const char *input, const void *data, size_t bytes);

/* Changes the shape of an input, and forgets its value and the bound outputs. */
mxf_status {name}_shape({name}_context *context, const char *input, const int64_t *shape, int64_t rank);

/* Lets runs write an output to this memory of the caller; to that of the context if it is NULL. */
mxf_status {name}_bind({name}_context *context, const char *output, void *data, size_t bytes);

/* Restarts the random numbers: those that follow mx.random.seed(seed). */
mxf_status {name}_seed({name}_context *context, uint64_t seed);

/* Computes the outputs. */
mxf_status {name}_run({name}_context *context);

/* All inputs, with their memory and present shapes, and all outputs, by position; `count` gets their number and can be
   NULL. They hold until the next call with this context. */
const mxf_tensor *{name}_inputs({name}_context *context, int64_t *count);
const mxf_tensor *{name}_outputs({name}_context *context, int64_t *count);

/* An output of the last run. */
const mxf_tensor *{name}_get({name}_context *context, const char *output);

/* Why the last call of this thread failed; of `create` if the context is NULL. "" if it did not fail. */
const char *{name}_error(const {name}_context *context);

#ifdef __cplusplus
}}
#endif

#endif
"""

_CPP = """\
// The model {model} as a class, for C++11 and newer. Errors are exceptions.
#ifndef {guard}_PP
#define {guard}_PP

#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "{name}.h"

class {name} {{
public:
    explicit {name}(const mxf_options &options = mxf_options MXF_OPTIONS)
        : context_({name}_create(&options), {name}_destroy)
    {{
        if (!context_)
            throw std::runtime_error({name}_error(nullptr));
    }}

    // The input is read from this memory in each run.
    void set(const std::string &input, const void *data, std::size_t bytes)
    {{
        check({name}_set(context_.get(), input.c_str(), data, bytes));
    }}

    template <typename T> void set(const std::string &input, const std::vector<T> &data)
    {{
        set(input, data.data(), data.size() * sizeof(T));
    }}

    void shape(const std::string &input, const std::vector<std::int64_t> &extents)
    {{
        check({name}_shape(context_.get(), input.c_str(), extents.data(), static_cast<std::int64_t>(extents.size())));
    }}

    // The output is written to this memory in each run.
    void bind(const std::string &output, void *data, std::size_t bytes)
    {{
        check({name}_bind(context_.get(), output.c_str(), data, bytes));
    }}

    void seed(std::uint64_t seed) {{ check({name}_seed(context_.get(), seed)); }}

    void run() {{ check({name}_run(context_.get())); }}

    // An output of the last run, which the next run overwrites.
    const mxf_tensor &get(const std::string &output)
    {{
        const mxf_tensor *result = {name}_get(context_.get(), output.c_str());
        if (!result)
            throw std::runtime_error({name}_error(context_.get()));
        return *result;
    }}

    // A copy of an output. T is the type of its elements.
    template <typename T> std::vector<T> copy(const std::string &output)
    {{
        const mxf_tensor &result = get(output);
        std::vector<T> copied(result.bytes / sizeof(T));
        if (result.bytes)
            std::memcpy(copied.data(), result.data, result.bytes);
        return copied;
    }}

private:
    void check(mxf_status status)
    {{
        if (status != MXF_OK)
            throw std::runtime_error({name}_error(context_.get()));
    }}

    std::unique_ptr<{name}_context, void (*)({name}_context *)> context_;
}};

#endif
"""

_CMAKE = {
    "shared": """\
# include(path/to/{name}.cmake), then target_link_libraries(program {name})
add_library({name} SHARED IMPORTED)
set_target_properties({name} PROPERTIES
    IMPORTED_LOCATION "${{CMAKE_CURRENT_LIST_DIR}}/lib{name}.so"
    INTERFACE_INCLUDE_DIRECTORIES "${{CMAKE_CURRENT_LIST_DIR}}")
""",
    "object": """\
# include(path/to/{name}.cmake), then target_link_libraries(program {name})
find_package(Threads REQUIRED)
add_library({name} INTERFACE)
target_include_directories({name} INTERFACE "${{CMAKE_CURRENT_LIST_DIR}}")
target_link_libraries({name} INTERFACE "${{CMAKE_CURRENT_LIST_DIR}}/{name}.o" Threads::Threads m)
""",
    "c": """\
# include(path/to/{name}.cmake), then target_link_libraries(program {name})
find_package(Threads REQUIRED)
add_library({name} STATIC "${{CMAKE_CURRENT_LIST_DIR}}/{name}.c"{predict} "${{CMAKE_CURRENT_LIST_DIR}}/{name}_code.o")
set_target_properties({name} PROPERTIES LINKER_LANGUAGE C C_STANDARD 11 POSITION_INDEPENDENT_CODE ON)
target_include_directories({name} PUBLIC "${{CMAKE_CURRENT_LIST_DIR}}")
target_link_libraries({name} PUBLIC Threads::Threads m)
""",
}


def c_name(name: str) -> str:
    """An identifier of C for a model."""
    text = re.sub(r"\W", "_", name, flags=re.ASCII)
    return f"model_{text}" if not text or text[0].isdigit() or text[0] == "_" or text in _TAKEN else text


def c_header(name: str, model: LibraryModel) -> str:
    """NAME.h."""
    return _filled(_HEADER, name, model)


def cpp_header(name: str, model: LibraryModel) -> str:
    """NAME.hpp."""
    return _filled(_CPP, name, model)


def cmake(name: str, emit: str, *, has_predict: bool) -> str:
    """NAME.cmake for a kind of library, perhaps with the source of MXNet's C predict API."""
    predict = f' "${{CMAKE_CURRENT_LIST_DIR}}/{name}_predict.c"' if has_predict else ""
    return _CMAKE[emit].format(name=name, predict=predict)


def _filled(text: str, name: str, model: LibraryModel) -> str:
    first = model.models[0]
    return text.format(
        name=name,
        guard=f"{name.upper()}_H",
        model=_comment(model.name),
        takes=_comment(model.takes),
        version=mxforge_version,
        arguments=_comment("\n".join(_arguments(first))),
    )


def _arguments(model: StoredModel) -> Sequence[str]:
    """A line for each input and output, with its position."""
    listed = (("input", model.inputs), ("output", model.outputs))
    return [f"   {kind} {i}: {_text(a)}" for kind, arguments in listed for i, a in enumerate(arguments)]


def _text(argument: Argument) -> str:
    return f'"{argument.name}" {dtype_name(argument.type)} {list(argument.shape)}'


def _comment(text: str) -> str:
    """The text for a comment, which it cannot end."""
    return text.replace("*/", "* /").replace("\\\n", "\n")
