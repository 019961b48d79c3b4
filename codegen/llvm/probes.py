"""The native probe module: kernels that measure the machine, and a kernel that times the chunks of another one.

All are kernels as in `support.py`, `void(ptr arguments, i64 begin, i64 end, i32 worker)`, so the thread pool runs them.

`mxf_fma` over [begin, end) runs `FMA_STEPS` steps for each unit. A step is one multiply-add of each of
`probe_accumulators` vectors of float32: enough for every multiply-add unit to start one in each cycle. They are in
registers, so nothing but the arithmetic limits the speed. Arguments: two floats (factor, summand) and the sink.

`mxf_read` over [begin, end) reads that many pages of `READ_PAGE` bytes, with vector loads whose results are combined by
exclusive or, so that none can be removed. Arguments: the buffer and the sink.

`mxf_timed` runs another kernel and notes the time. Arguments: the kernel, its arguments, and from `SLOTS` on, one slot
of a cache line for each worker: { start of its first chunk, end of its last, sum of its times }, in nanoseconds
of CLOCK_MONOTONIC. A slot must be zero before the run.

A sink has a cache line for each worker.
"""

from __future__ import annotations

from collections.abc import Mapping

from .cpu import Cpu

FMA, READ, TIMED = "mxf_fma", "mxf_read", "mxf_timed"
FMA_STEPS, READ_PAGE, SLOTS, LINE = 1000, 4096, 64, 64
_STREAMS = 8
"""The loads of a step of `mxf_read`."""


def probe_accumulators(target: Cpu) -> int:
    """The vectors that a step of `mxf_fma` updates: three quarters of the registers."""
    return target.vector_registers * 3 // 4


def fma_operations(target: Cpu) -> int:
    """The floating point operations of one unit of `mxf_fma`; a multiply-add is two."""
    return 2 * FMA_STEPS * probe_accumulators(target) * target.lanes()


def probe_module(target: Cpu) -> str:
    """The text of the module."""
    lanes = target.lanes()
    return "\n".join((_fma(f"<{lanes} x float>", lanes, probe_accumulators(target)), _read(lanes), _TIMED))


def _fma(vector: str, lanes: int, count: int) -> str:
    numbers = range(count)
    intrinsic = f"llvm.fma.v{lanes}f32"
    phis = [f"  %s{i} = phi {vector} [{_splat(lanes, i)}, %entry], [%t{i}, %step]" for i in numbers]
    steps = [f"  %t{i} = call {vector} @{intrinsic}({vector} %s{i}, {vector} %x, {vector} %y)" for i in numbers]
    sums = [f"  %r0 = fadd {vector} %s0, zeroinitializer"]
    sums += [f"  %r{i} = fadd {vector} %r{i - 1}, %s{i}" for i in numbers[1:]]
    lines = (_FMA_HEAD, *phis, _FMA_TEST, *steps, _FMA_STEP, *sums, _FMA_END)
    words = {"VECTOR": vector, "INTRINSIC": intrinsic, "STEPS": FMA_STEPS, "LAST": count - 1, "LINE": LINE}
    words["ZEROS"] = f"<{lanes} x i32> zeroinitializer"
    return _filled("\n".join(lines), words)


def _splat(lanes: int, value: int) -> str:
    return f"<{', '.join([f'float {value}.0'] * lanes)}>"


def _read(lanes: int) -> str:
    vector, numbers = f"<{lanes} x i32>", range(_STREAMS)
    phis = [f"  %s{i} = phi {vector} [zeroinitializer, %entry], [%t{i}, %step]" for i in numbers]
    steps: list[str] = []
    for i in numbers:
        steps.append(f"  %p{i} = getelementptr {vector}, ptr %from, i64 {i}")
        steps.append(f"  %v{i} = load {vector}, ptr %p{i}, align 4")
        steps.append(f"  %t{i} = xor {vector} %s{i}, %v{i}")
    sums = [f"  %r0 = or {vector} %s0, zeroinitializer"]
    sums += [f"  %r{i} = xor {vector} %r{i - 1}, %s{i}" for i in numbers[1:]]
    lines = (_READ_HEAD, *phis, _READ_TEST, *steps, _READ_STEP, *sums, _READ_END)
    words = {"VECTOR": vector, "STEP": 4 * lanes * _STREAMS, "PAGE": READ_PAGE, "LAST": _STREAMS - 1, "LINE": LINE}
    return _filled("\n".join(lines), words)


def _filled(text: str, words: Mapping[str, str | int]) -> str:
    for name, value in words.items():
        text = text.replace(f"${name}", str(value))
    return text


_FMA_HEAD = """
declare $VECTOR @$INTRINSIC($VECTOR, $VECTOR, $VECTOR)

define void @mxf_fma(ptr %arguments, i64 %begin, i64 %end, i32 %worker) {
entry:
  %factor = load float, ptr %arguments
  %at = getelementptr float, ptr %arguments, i64 1
  %summand = load float, ptr %at
  %x0 = insertelement $VECTOR poison, float %factor, i32 0
  %x = shufflevector $VECTOR %x0, $VECTOR poison, $ZEROS
  %y0 = insertelement $VECTOR poison, float %summand, i32 0
  %y = shufflevector $VECTOR %y0, $VECTOR poison, $ZEROS
  %units = sub i64 %end, %begin
  %steps = mul i64 %units, $STEPS
  br label %head
head:
  %left = phi i64 [%steps, %entry], [%fewer, %step]"""

_FMA_TEST = """  %more = icmp ne i64 %left, 0
  br i1 %more, label %step, label %exit
step:"""

_FMA_STEP = """  %fewer = sub i64 %left, 1
  br label %head
exit:"""

_FMA_END = """  %sinks = getelementptr i8, ptr %arguments, i64 8
  %sink = load ptr, ptr %sinks
  %row = sext i32 %worker to i64
  %offset = mul i64 %row, $LINE
  %own = getelementptr i8, ptr %sink, i64 %offset
  store $VECTOR %r$LAST, ptr %own, align 4
  ret void
}
"""

_READ_HEAD = """
define void @mxf_read(ptr %arguments, i64 %begin, i64 %end, i32 %worker) {
entry:
  %buffer = load ptr, ptr %arguments
  %first = mul i64 %begin, $PAGE
  %last = mul i64 %end, $PAGE
  %limit = getelementptr i8, ptr %buffer, i64 %last
  %start = getelementptr i8, ptr %buffer, i64 %first
  br label %head
head:
  %from = phi ptr [%start, %entry], [%next, %step]"""

_READ_TEST = """  %more = icmp ult ptr %from, %limit
  br i1 %more, label %step, label %exit
step:"""

_READ_STEP = """  %next = getelementptr i8, ptr %from, i64 $STEP
  br label %head
exit:"""

_READ_END = """  %sinks = getelementptr i8, ptr %arguments, i64 8
  %sink = load ptr, ptr %sinks
  %row = sext i32 %worker to i64
  %offset = mul i64 %row, $LINE
  %own = getelementptr i8, ptr %sink, i64 %offset
  store $VECTOR %r$LAST, ptr %own, align 4
  ret void
}
"""

_TIMED = f"""
declare i32 @clock_gettime(i32, ptr)

define internal i64 @now() {{
  %time = alloca {{ i64, i64 }}
  %rc = call i32 @clock_gettime(i32 1, ptr %time) ; CLOCK_MONOTONIC
  %seconds = load i64, ptr %time
  %fraction = getelementptr {{ i64, i64 }}, ptr %time, i32 0, i32 1
  %nanoseconds = load i64, ptr %fraction
  %scaled = mul i64 %seconds, 1000000000
  %sum = add i64 %scaled, %nanoseconds
  ret i64 %sum
}}

define void @mxf_timed(ptr %table, i64 %begin, i64 %end, i32 %worker) {{
entry:
  %kernel = load ptr, ptr %table
  %p1 = getelementptr ptr, ptr %table, i64 1
  %arguments = load ptr, ptr %p1
  %row = sext i32 %worker to i64
  %offset = mul i64 %row, {LINE}
  %slots = getelementptr i8, ptr %table, i64 {SLOTS}
  %slot = getelementptr i8, ptr %slots, i64 %offset
  %p_end = getelementptr i64, ptr %slot, i64 1
  %p_sum = getelementptr i64, ptr %slot, i64 2
  %start = call i64 @now()
  call void %kernel(ptr %arguments, i64 %begin, i64 %end, i32 %worker)
  %stop = call i64 @now()
  %known = load i64, ptr %slot
  %is_first = icmp eq i64 %known, 0
  %first = select i1 %is_first, i64 %start, i64 %known
  store i64 %first, ptr %slot
  store i64 %stop, ptr %p_end
  %before = load i64, ptr %p_sum
  %own = sub i64 %stop, %start
  %sum = add i64 %before, %own
  store i64 %sum, ptr %p_sum
  ret void
}}
"""
