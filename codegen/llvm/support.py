"""The native support module: the loop that runs a program's launches, and the threads that share each launch.

Launches. A kernel is `void(ptr arguments, i64 begin, i64 end, i32 worker)`. A launch record is four 8-byte slots

    { kernel, arguments, count, grain }

and runs the kernel over [0, count) of its parallel axis. `mxf_run(records, n)` runs n records in order; a program is
one such native call. A launch of more than `grain` units is divided into chunks, which threads take one by one. The
launch ends when all chunks are finished.

Chunks. A launch has up to 8 chunks per thread, or 32, each of at least `grain` units. With n < 8 threads, for which a
chunk costs less, chunks can be smaller by n / 8. The number of chunks is a multiple of the threads if it is not less.
Their sizes differ by at most one. Chunks of 1024 units and more start at multiples of 64, and can be smaller by this
rounding, so that aligned vectors stay aligned.

Halves. Threads with even numbers take the chunks of the first half in order, the others those of the second half. A
thread whose half is empty takes chunks from the end of the other. So a thread finds in its own cache what it read and
wrote there in the launch before. A launch of the same kernel as the launch before runs in the opposite order, so it
begins with the data that was read last. One of n threads takes an n-th of the chunks that are left in a half at a time,
and at least one: taking chunks one by one costs a thread up to 0.2 microseconds each.

Further kernels. `mxf_pieces` is a kernel over a table of pieces, four 8-byte slots each: { kernel, arguments, begin,
end }. Piece i runs its kernel over [begin, end). One launch of it runs launches that are independent of each other on
all threads, and the threads wait for each other once and not after each of them. `mxf_copy` is a kernel over bytes: it
copies its second argument to its first.

Python calls short programs by `mxf_call` (`support_calls.py`).

Workers. The caller of `mxf_run` is worker 0; the others are numbered from 1. A call from inside a kernel, or during a
launch of another thread, runs its launch alone as worker 0. So within one run the numbers of working threads are always
distinct. Two threads must not run the same records and memory at once, because both could be their worker 0. While as
many callers run launches as there are threads, each runs its launches alone: workers would take cores from callers.

The protocol. These are fields of the state; those that are written often have their own cache line:

    busy       acquired by compare-and-swap for the duration of a launch; a thread that fails runs its launch alone
    alone      the number of threads that do so. If they are all threads but one, the owner of `busy` runs alone too
    ranges     the chunks not yet taken: bits 0 to 14 are the first of the first half and bits 16 to 30 its end, bits 32
               to 46 and 48 to 62 those of the second half, and bit 63 is set if the launch runs in the opposite order.
               A thread takes chunks by a compare-and-swap. This pins the description of the launch, which is read only
               afterwards. A late worker finds no chunk, or joins the next launch
    done       chunks finished. The caller waits for chunks and never for workers, so a worker that the system has
               suspended outside of a chunk causes no delay
    epoch      counts launches. Idle workers poll it for `mxf_spin_ns` and then sleep on it (futex)
    sleepers   the number of sleeping workers: a new launch wakes them if it is not 0

Forks. The state is one page, which is zero in a forked child (MADV_WIPEONFORK). Threads do not survive a fork, and zero
means "not started", so the child starts its own threads with its first launch. The settings are outside of this page.

Pinning. Workers are pinned to one CPU each, and one CPU is left for the caller. On some systems an unpinned thread
wakes up on the CPU of its waker, where it waits for milliseconds. If the caller has moved to a worker's CPU, that
worker moves to the free CPU.
"""

from __future__ import annotations

import re

from .support_calls import CALLS
from .support_workers import CHUNKS, START, STOP, WORKER

PIECES, COPY = "mxf_pieces", "mxf_copy"
"""Kernels of the support module, which programs can launch."""

RUN, RECORD_WORDS = "mxf_run", 4
"""The function that runs records, which loops call for each step, and the size of a record in 8-byte words."""

_CACHE_LINE = 128
LARGEST_POOL = 1024
MOST_CHUNKS_OF_FEW = 32
"""The most chunks of a launch that less than four threads share."""
_MASK_BYTES = 128  # sets of up to 1024 CPUs

# Names and sizes in bytes of the fields, by cache line; fields on one line are written together, by the owner of
# `busy`. In the text below `$field` is the operand `ptr ...` of a field, and `$WORD` a number or an instruction of the
# architecture.
_LINES: tuple[tuple[tuple[str, int], ...], ...] = (
    (("busy", 4),),
    (("alone", 4),),
    (("epoch", 4),),
    (("ranges", 8),),
    (("done", 4), ("caller_sleeps", 4)),
    (("sleepers", 4),),
    (("kernel", 8), ("arguments", 8), ("count", 8), ("chunks", 4), ("shift", 4), ("units", 8), ("reversed", 4)),
    (("started", 4), ("stopping", 4), ("workers", 4), ("next_id", 4), ("pinned", 4), ("free_cpu", 4), ("table", 8)),
)

# What differs between architectures: the number of the futex system call, and the instruction for spin loops.
_DIALECTS = {
    "x86_64": {
        "FUTEX": "202",
        "PAUSE": "call void @llvm.x86.sse2.pause()",
        "DECLARE_PAUSE": "declare void @llvm.x86.sse2.pause()",
    },
    "aarch64": {
        "FUTEX": "98",
        "PAUSE": "call void @llvm.aarch64.hint(i32 1)",
        "DECLARE_PAUSE": "declare void @llvm.aarch64.hint(i32)",
    },
}


def _offsets() -> dict[str, int]:
    offsets: dict[str, int] = {}
    for line, fields in enumerate(_LINES):
        position = line * _CACHE_LINE
        for name, size in fields:
            offsets[name] = position
            position += size
    return offsets


def support_module(triple: str, page_bytes: int) -> str:
    """The module's text for a target `triple` and its size of a memory page in bytes.

    It defines mxf_run, mxf_call, mxf_pieces, mxf_copy, mxf_resize(i32 threads), mxf_stop, the settings mxf_threads
    (i32) and mxf_spin_ns (i64), and mxf_state: one page, for which the loader must set MADV_WIPEONFORK. ValueError for
    an unknown architecture.
    """
    architecture = triple.partition("-")[0]
    if architecture not in _DIALECTS:
        raise ValueError(f"no support module for {triple!r}: it is implemented for {', '.join(_DIALECTS)}")
    words = _DIALECTS[architecture] | {"PAGE": str(page_bytes), "MASK": str(_MASK_BYTES), "CPUS": str(8 * _MASK_BYTES)}
    words |= {"LARGEST": str(LARGEST_POOL), "CHUNKS": str(MOST_CHUNKS_OF_FEW)}
    words |= {name: f"ptr getelementptr (i8, ptr @mxf_state, i64 {offset})" for name, offset in _offsets().items()}
    return re.sub(
        r"\$(\w+)", lambda found: words[found[1]], _DECLARATIONS + _RUN + CALLS + CHUNKS + WORKER + START + STOP
    )


_DECLARATIONS = """
@mxf_state = dso_local global [$PAGE x i8] zeroinitializer, align $PAGE
@mxf_threads = dso_local global i32 1
@mxf_spin_ns = dso_local global i64 200000

%record = type { ptr, ptr, i64, i64 }
%worker = type { i64, i32, i32 } ; pthread_t, CPU, unused

$DECLARE_PAUSE
declare i32 @pthread_create(ptr, ptr, ptr, ptr)
declare i32 @pthread_join(i64, ptr)
declare i32 @pthread_setaffinity_np(i64, i64, ptr)
declare i32 @pthread_sigmask(i32, ptr, ptr)
declare i32 @sched_getaffinity(i32, i64, ptr)
declare i32 @sched_getcpu()
declare i32 @sched_yield()
declare i32 @clock_gettime(i32, ptr)
declare ptr @calloc(i64, i64)
declare void @free(ptr)
declare i64 @syscall(i64, ...)
declare i64 @llvm.smin.i64(i64, i64)
declare i64 @llvm.smax.i64(i64, i64)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)

define internal i64 @now() {
  %time = alloca { i64, i64 }
  %rc = call i32 @clock_gettime(i32 1, ptr %time) ; CLOCK_MONOTONIC
  %seconds = load i64, ptr %time
  %fraction = getelementptr { i64, i64 }, ptr %time, i32 0, i32 1
  %nanoseconds = load i64, ptr %fraction
  %scaled = mul i64 %seconds, 1000000000
  %sum = add i64 %scaled, %nanoseconds
  ret i64 %sum
}

; Sleeps while the word is `value`. Can return early.
define internal void @sleep(ptr %word, i32 %value) {
  %rc = call i64 (i64, ...) @syscall(i64 $FUTEX, ptr %word, i32 128, i32 %value, ptr null)
  ret void
}

define internal void @wake(ptr %word, i32 %most) {
  %rc = call i64 (i64, ...) @syscall(i64 $FUTEX, ptr %word, i32 129, i32 %most)
  ret void
}

; Polls the word for mxf_spin_ns. Returns true if it differs from `value` (differ = true) or equals it (differ = false).
define internal i1 @spin(ptr %word, i32 %value, i1 %differ) {
entry:
  %budget = load i64, ptr @mxf_spin_ns
  br label %look
look:
  %turn = phi i32 [0, %entry], [%next, %pause], [%next, %clock]
  %start = phi i64 [0, %entry], [%start, %pause], [%began, %clock] ; 0 until the clock is read for the first time
  %seen = load atomic i32, ptr %word acquire, align 4
  %differs = icmp ne i32 %seen, %value
  %found = icmp eq i1 %differs, %differ
  br i1 %found, label %yes, label %pause
pause:
  $PAUSE
  %next = add i32 %turn, 1
  %low = and i32 %next, 15
  %due = icmp eq i32 %low, 0
  br i1 %due, label %clock, label %look
clock:
  %time = call i64 @now()
  %first = icmp eq i64 %start, 0
  %began = select i1 %first, i64 %time, i64 %start
  %spent = sub i64 %time, %began
  %over = icmp sgt i64 %spent, %budget
  br i1 %over, label %no, label %look
yes:
  ret i1 true
no:
  ret i1 false
}
"""

_RUN = """
define void @mxf_run(ptr %records, i64 %n) {
entry:
  %end = getelementptr %record, ptr %records, i64 %n
  br label %head
head:
  %record = phi ptr [%records, %entry], [%next, %step]
  %more = icmp ult ptr %record, %end
  br i1 %more, label %read, label %exit
read:
  %next = getelementptr %record, ptr %record, i64 1
  %kernel = load ptr, ptr %record
  %p1 = getelementptr %record, ptr %record, i32 0, i32 1
  %arguments = load ptr, ptr %p1
  %p2 = getelementptr %record, ptr %record, i32 0, i32 2
  %count = load i64, ptr %p2
  %p3 = getelementptr %record, ptr %record, i32 0, i32 3
  %grain = load i64, ptr %p3
  %wide = icmp sgt i64 %count, %grain
  br i1 %wide, label %share, label %small
share:
  call void @launch(ptr %kernel, ptr %arguments, i64 %count, i64 %grain)
  br label %step
small:
  %some = icmp sgt i64 %count, 0
  br i1 %some, label %alone, label %step
alone:
  call void %kernel(ptr %arguments, i64 0, i64 %count, i32 0)
  br label %step
step:
  br label %head
exit:
  ret void
}

define void @mxf_pieces(ptr %pieces, i64 %begin, i64 %end, i32 %worker) {
entry:
  %first = getelementptr %record, ptr %pieces, i64 %begin
  %last = getelementptr %record, ptr %pieces, i64 %end
  br label %head
head:
  %piece = phi ptr [%first, %entry], [%next, %body]
  %more = icmp ult ptr %piece, %last
  br i1 %more, label %body, label %exit
body:
  %next = getelementptr %record, ptr %piece, i64 1
  %kernel = load ptr, ptr %piece
  %p1 = getelementptr %record, ptr %piece, i32 0, i32 1
  %arguments = load ptr, ptr %p1
  %p2 = getelementptr %record, ptr %piece, i32 0, i32 2
  %from = load i64, ptr %p2
  %p3 = getelementptr %record, ptr %piece, i32 0, i32 3
  %to = load i64, ptr %p3
  call void %kernel(ptr %arguments, i64 %from, i64 %to, i32 %worker)
  br label %head
exit:
  ret void
}

define void @mxf_copy(ptr %arguments, i64 %begin, i64 %end, i32 %worker) {
  %target = load ptr, ptr %arguments
  %p = getelementptr ptr, ptr %arguments, i64 1
  %source = load ptr, ptr %p
  %to = getelementptr i8, ptr %target, i64 %begin
  %from = getelementptr i8, ptr %source, i64 %begin
  %size = sub i64 %end, %begin
  call void @llvm.memcpy.p0.p0.i64(ptr %to, ptr %from, i64 %size, i1 false)
  ret void
}

define internal void @launch(ptr %kernel, ptr %arguments, i64 %count, i64 %grain0) noinline {
entry:
  %threads32 = load i32, ptr @mxf_threads
  %threads = sext i32 %threads32 to i64
  %grain = call i64 @llvm.smax.i64(i64 %grain0, i64 1)
  %eight = shl i64 %threads, 3
  %most = call i64 @llvm.smax.i64(i64 %eight, i64 $CHUNKS)
  %fitting = udiv i64 %count, %grain
  %eightfold = shl i64 %fitting, 3
  %finer0 = udiv i64 %eightfold, %threads
  %finer = call i64 @llvm.smax.i64(i64 %finer0, i64 %fitting)
  %finest = call i64 @llvm.smin.i64(i64 %finer, i64 %count)
  %desired = call i64 @llvm.smin.i64(i64 %finest, i64 %most)
  %excess = urem i64 %desired, %threads
  %even = sub i64 %desired, %excess
  %enough = icmp uge i64 %desired, %threads
  %chunks = select i1 %enough, i64 %even, i64 %desired
  %single = icmp ult i64 %fitting, 2
  %solo = icmp slt i64 %threads, 2
  %simple = or i1 %single, %solo
  br i1 %simple, label %alone, label %try
alone:
  call void %kernel(ptr %arguments, i64 0, i64 %count, i32 0)
  ret void
try:
  %swap = cmpxchg $busy, i32 0, i32 1 seq_cst seq_cst
  %owned = extractvalue { i32, i1 } %swap, 1
  br i1 %owned, label %own, label %refused
refused:
  %before = atomicrmw add $alone, i32 1 seq_cst
  call void %kernel(ptr %arguments, i64 0, i64 %count, i32 0)
  %after = atomicrmw sub $alone, i32 1 seq_cst
  ret void
own:
  %callers = load atomic i32, $alone monotonic, align 4
  %left = sub i32 %threads32, %callers
  %crowded = icmp slt i32 %left, 2
  br i1 %crowded, label %unshared, label %shared
unshared:
  call void %kernel(ptr %arguments, i64 0, i64 %count, i32 0)
  store atomic i32 0, $busy release, align 4
  ret void
shared:
  %was_started = load i32, $started
  %cold = icmp eq i32 %was_started, 0
  br i1 %cold, label %start, label %post
start:
  call void @start(i32 %threads32)
  br label %post
post:
  %size = udiv i64 %count, %chunks
  %long = icmp uge i64 %size, 1024
  %shift = select i1 %long, i64 6, i64 0
  %unit = shl i64 1, %shift
  %up = add i64 %count, %unit
  %up1 = sub i64 %up, 1
  %units = lshr i64 %up1, %shift
  %shift32 = trunc i64 %shift to i32
  %chunks32 = trunc i64 %chunks to i32
  %kernel_before = load ptr, $kernel
  %reversed_before = load i32, $reversed
  %repeats = icmp eq ptr %kernel, %kernel_before
  %opposite = xor i32 %reversed_before, 1
  %reversed = select i1 %repeats, i32 %opposite, i32 0
  store i32 %reversed, $reversed
  store ptr %kernel, $kernel
  store ptr %arguments, $arguments
  store i64 %count, $count
  store i32 %chunks32, $chunks
  store i32 %shift32, $shift
  store i64 %units, $units
  store atomic i32 0, $done release, align 4
  %middle = lshr i64 %chunks, 1
  %end_of_first = shl i64 %middle, 16
  %start_of_second = shl i64 %middle, 32
  %end_of_second = shl i64 %chunks, 48
  %opposite64 = zext i32 %reversed to i64
  %order = shl i64 %opposite64, 63
  %first_half = or i64 %end_of_first, %order
  %second_half = or i64 %start_of_second, %end_of_second
  %ranges = or i64 %first_half, %second_half
  store atomic i64 %ranges, $ranges release, align 8
  %old_epoch = atomicrmw add $epoch, i32 1 seq_cst
  %asleep = load atomic i32, $sleepers seq_cst, align 4
  %any = icmp sgt i32 %asleep, 0
  br i1 %any, label %rouse, label %work
rouse:
  call void @repin()
  %others = sub i32 %chunks32, 1
  call void @wake($epoch, i32 %others)
  br label %work
work:
  call void @take_chunks(i32 0)
  br label %join
join:
  %ready = call i1 @spin($done, i32 %chunks32, i1 false)
  br i1 %ready, label %finish, label %doze
doze:
  store atomic i32 1, $caller_sleeps seq_cst, align 4
  %now_done = load atomic i32, $done seq_cst, align 4
  %all = icmp eq i32 %now_done, %chunks32
  br i1 %all, label %awake, label %wait
wait:
  call void @sleep($done, i32 %now_done)
  br label %awake
awake:
  store atomic i32 0, $caller_sleeps seq_cst, align 4
  %last_done = load atomic i32, $done acquire, align 4
  %complete = icmp eq i32 %last_done, %chunks32
  br i1 %complete, label %finish, label %doze
finish:
  store atomic i32 0, $busy release, align 4
  ret void
}
"""
