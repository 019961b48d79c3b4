"""The part of the support module that takes chunks, and that starts, pins and stops workers. `support.py` explains the
protocol and replaces $words in the text.
"""

from __future__ import annotations

CHUNKS = """
; The start of chunk `index`: index * units / chunks units, but not more than the count.
define internal i64 @chunk_begin(i64 %index, i32 %chunks32) alwaysinline {
  %all = load i64, $units
  %chunks = zext i32 %chunks32 to i64
  %count = load i64, $count
  %shift32 = load i32, $shift
  %shift = zext i32 %shift32 to i64
  %scaled = mul i64 %index, %all
  %units = udiv i64 %scaled, %chunks
  %begin = shl i64 %units, %shift
  %bounded = call i64 @llvm.smin.i64(i64 %begin, i64 %count)
  ret i64 %bounded
}

; Takes chunks for a thread: first | end << 32, with bit 63 if the last of them is to run first; 0 if none are left.
define internal i64 @take(i32 %id) alwaysinline {
entry:
  %threads = load i32, ptr @mxf_threads
  %home32 = and i32 %id, 1
  %home = zext i32 %home32 to i64
  %own = shl i64 %home, 5
  %other = xor i64 %own, 32
  %seen = load atomic i64, $ranges acquire, align 8
  br label %look
look:
  %word = phi i64 [%seen, %entry], [%now, %try]
  %own_word = lshr i64 %word, %own
  %own_count = call i32 @untaken(i64 %own_word)
  %away = icmp eq i32 %own_count, 0
  %half = select i1 %away, i64 %other, i64 %own
  %half_word = lshr i64 %word, %half
  %left = call i32 @untaken(i64 %half_word)
  %none = icmp eq i32 %left, 0
  br i1 %none, label %exit, label %try
try:
  %part = udiv i32 %left, %threads
  %some = icmp ugt i32 %part, 1
  %taken32 = select i1 %some, i32 %part, i32 1
  %taken = zext i32 %taken32 to i64
  %reversed = icmp slt i64 %word, 0
  %falls = icmp ne i1 %reversed, %away
  %at_end = add i64 %half, 16
  %rises_by = shl i64 %taken, %half
  %falls_by = shl i64 %taken, %at_end
  %risen = add i64 %word, %rises_by
  %fallen = sub i64 %word, %falls_by
  %next = select i1 %falls, i64 %fallen, i64 %risen
  %swap = cmpxchg weak $ranges, i64 %word, i64 %next seq_cst acquire
  %now = extractvalue { i64, i1 } %swap, 0
  %owned = extractvalue { i64, i1 } %swap, 1
  br i1 %owned, label %owner, label %look
owner:
  %next_half = lshr i64 %next, %half
  %next_end = lshr i64 %next_half, 16
  %low = select i1 %falls, i64 %next_end, i64 %half_word
  %first = and i64 %low, 32767
  %end = add i64 %first, %taken
  %high = shl i64 %end, 32
  %both = or i64 %first, %high
  %order = zext i1 %falls to i64
  %sign = shl i64 %order, 63
  %found = or i64 %both, %sign
  ret i64 %found
exit:
  ret i64 0
}

define internal i32 @untaken(i64 %half) alwaysinline {
  %first0 = trunc i64 %half to i32
  %first = and i32 %first0, 32767
  %end0 = lshr i32 %first0, 16
  %end = and i32 %end0, 32767
  %left = sub i32 %end, %first
  ret i32 %left
}

define internal void @take_chunks(i32 %id) {
entry:
  br label %look
look:
  %found = call i64 @take(i32 %id)
  %some = icmp ne i64 %found, 0
  br i1 %some, label %run, label %exit
run:
  %first = and i64 %found, 4294967295
  %end0 = lshr i64 %found, 32
  %end = and i64 %end0, 32767
  %size = sub i64 %end, %first
  %chunks = load i32, $chunks
  %kernel = load ptr, $kernel
  %arguments = load ptr, $arguments
  %falls = icmp slt i64 %found, 0
  %last_index = sub i64 %end, 1
  br label %chunk
chunk:
  %done_here = phi i64 [0, %run], [%done_next, %chunk]
  %up = add i64 %first, %done_here
  %down = sub i64 %last_index, %done_here
  %index = select i1 %falls, i64 %down, i64 %up
  %after = add i64 %index, 1
  %from = call i64 @chunk_begin(i64 %index, i32 %chunks)
  %to = call i64 @chunk_begin(i64 %after, i32 %chunks)
  call void %kernel(ptr %arguments, i64 %from, i64 %to, i32 %id)
  %done_next = add i64 %done_here, 1
  %more = icmp ult i64 %done_next, %size
  br i1 %more, label %chunk, label %finish
finish:
  %count = trunc i64 %size to i32
  %done0 = atomicrmw add $done, i32 %count seq_cst
  %done = add i32 %done0, %count
  %last = icmp eq i32 %done, %chunks
  br i1 %last, label %report, label %look
report:
  %sleeps = load atomic i32, $caller_sleeps seq_cst, align 4
  %must_wake = icmp ne i32 %sleeps, 0
  br i1 %must_wake, label %rouse, label %look
rouse:
  call void @wake($done, i32 1)
  br label %look
exit:
  ret void
}
"""

WORKER = """
define internal ptr @work(ptr %unused) {
entry:
  %id0 = atomicrmw add $next_id, i32 1 seq_cst
  %id = add i32 %id0, 1
  br label %look
look:
  %epoch = load atomic i32, $epoch seq_cst, align 4
  %stop = load atomic i32, $stopping seq_cst, align 4
  %stopped = icmp ne i32 %stop, 0
  br i1 %stopped, label %exit, label %run
run:
  call void @take_chunks(i32 %id)
  %posted = call i1 @spin($epoch, i32 %epoch, i1 true)
  br i1 %posted, label %look, label %doze
doze:
  %more = atomicrmw add $sleepers, i32 1 seq_cst
  call void @sleep($epoch, i32 %epoch)
  %fewer = atomicrmw sub $sleepers, i32 1 seq_cst
  br label %look
exit:
  ret ptr null
}
"""

START = """
define internal void @pin(i64 %thread, i32 %cpu) {
  %mask = alloca [$MASK x i8], align 8
  call void @llvm.memset.p0.i64(ptr %mask, i8 0, i64 $MASK, i1 false)
  %index = lshr i32 %cpu, 3
  %low = and i32 %cpu, 7
  %bit32 = shl i32 1, %low
  %bit = trunc i32 %bit32 to i8
  %byte = getelementptr i8, ptr %mask, i32 %index
  store i8 %bit, ptr %byte
  %rc = call i32 @pthread_setaffinity_np(i64 %thread, i64 $MASK, ptr %mask)
  ret void
}

; The first CPU of the mask from `from` on, other than `except`; $CPUS if there is none.
define internal i32 @next_cpu(ptr %mask, i32 %from, i32 %except) {
entry:
  br label %look
look:
  %cpu = phi i32 [%from, %entry], [%next, %miss]
  %inside = icmp ult i32 %cpu, $CPUS
  br i1 %inside, label %test, label %exit
test:
  %index = lshr i32 %cpu, 3
  %byte = getelementptr i8, ptr %mask, i32 %index
  %bits8 = load i8, ptr %byte
  %bits = zext i8 %bits8 to i32
  %low = and i32 %cpu, 7
  %moved = lshr i32 %bits, %low
  %set = and i32 %moved, 1
  %member = icmp ne i32 %set, 0
  %other = icmp ne i32 %cpu, %except
  %found = and i1 %member, %other
  br i1 %found, label %exit, label %miss
miss:
  %next = add i32 %cpu, 1
  br label %look
exit:
  ret i32 %cpu
}

; Starts threads - 1 workers with all signals blocked, because Python's threads handle signals. If the system cannot
; start all, the others work without them.
define internal void @start(i32 %threads) noinline cold {
entry:
  %needed = sub i32 %threads, 1
  %needed64 = sext i32 %needed to i64
  %table = call ptr @calloc(i64 %needed64, i64 16)
  %mask = alloca [$MASK x i8], align 8
  %all = alloca [128 x i8], align 8
  %old = alloca [128 x i8], align 8
  call void @llvm.memset.p0.i64(ptr %mask, i8 0, i64 $MASK, i1 false)
  call void @llvm.memset.p0.i64(ptr %all, i8 -1, i64 128, i1 false)
  %rc = call i32 @sched_getaffinity(i32 0, i64 $MASK, ptr %mask)
  %here = call i32 @sched_getcpu()
  store ptr %table, $table
  store i32 %here, $free_cpu
  store i32 1, $started
  store i32 0, $workers
  store i32 0, $next_id
  store atomic i32 0, $stopping seq_cst, align 4
  %none = icmp eq ptr %table, null
  br i1 %none, label %exit, label %fits
fits: ; workers are pinned only if each gets its own CPU
  %i0 = phi i32 [0, %entry], [%i1, %fits_next]
  %cpu0 = phi i32 [0, %entry], [%cpu1, %fits_next]
  %cpu_found = call i32 @next_cpu(ptr %mask, i32 %cpu0, i32 %here)
  %missing = icmp uge i32 %cpu_found, $CPUS
  %counted = icmp sge i32 %i0, %needed
  %decided = or i1 %missing, %counted
  br i1 %decided, label %create, label %fits_next
fits_next:
  %i1 = add i32 %i0, 1
  %cpu1 = add i32 %cpu_found, 1
  br label %fits
create:
  %pinned = zext i1 %counted to i32
  store i32 %pinned, $pinned
  %rc1 = call i32 @pthread_sigmask(i32 2, ptr %all, ptr %old)
  br label %head
head:
  %i = phi i32 [0, %create], [%i_next, %created]
  %from = phi i32 [0, %create], [%from_next, %created]
  %more = icmp slt i32 %i, %needed
  br i1 %more, label %new, label %restore
new:
  %entry_p = getelementptr %worker, ptr %table, i32 %i
  %failed = call i32 @pthread_create(ptr %entry_p, ptr null, ptr @work, ptr null)
  %bad = icmp ne i32 %failed, 0
  br i1 %bad, label %restore, label %place
place:
  %i_next = add i32 %i, 1
  store i32 %i_next, $workers
  %cpu = call i32 @next_cpu(ptr %mask, i32 %from, i32 %here)
  %from_next = add i32 %cpu, 1
  br i1 %counted, label %fix, label %created
fix:
  %cpu_p = getelementptr %worker, ptr %entry_p, i32 0, i32 1
  store i32 %cpu, ptr %cpu_p
  %thread = load i64, ptr %entry_p
  call void @pin(i64 %thread, i32 %cpu)
  br label %created
created:
  br label %head
restore:
  %rc2 = call i32 @pthread_sigmask(i32 2, ptr %old, ptr null)
  br label %exit
exit:
  ret void
}

; Called before sleepers are woken: a worker on the caller's CPU moves to the free CPU.
define internal void @repin() noinline cold {
entry:
  %pinned = load i32, $pinned
  %here = call i32 @sched_getcpu()
  %free = load i32, $free_cpu
  %workers = load i32, $workers
  %table = load ptr, $table
  %loose = icmp eq i32 %pinned, 0
  %home = icmp eq i32 %here, %free
  %skip = or i1 %loose, %home
  br i1 %skip, label %exit, label %head
head:
  %i = phi i32 [0, %entry], [%next, %step]
  %more = icmp slt i32 %i, %workers
  br i1 %more, label %test, label %exit
test:
  %worker = getelementptr %worker, ptr %table, i32 %i
  %cpu_p = getelementptr %worker, ptr %worker, i32 0, i32 1
  %cpu = load i32, ptr %cpu_p
  %hit = icmp eq i32 %cpu, %here
  br i1 %hit, label %move, label %step
move:
  store i32 %free, ptr %cpu_p
  store i32 %here, $free_cpu
  %thread = load i64, ptr %worker
  call void @pin(i64 %thread, i32 %free)
  br label %exit
step:
  %next = add i32 %i, 1
  br label %head
exit:
  ret void
}
"""

STOP = """
; Waits until no launch is running and prevents new ones. Must not be called from a kernel.
define internal void @acquire() {
entry:
  br label %try
try:
  %swap = cmpxchg $busy, i32 0, i32 1 seq_cst seq_cst
  %owned = extractvalue { i32, i1 } %swap, 1
  br i1 %owned, label %exit, label %again
again:
  %rc = call i32 @sched_yield()
  br label %try
exit:
  ret void
}

; Stops and joins the workers. The caller owns `busy`.
define internal void @end_workers() {
entry:
  %workers = load i32, $workers
  %table = load ptr, $table
  store atomic i32 1, $stopping seq_cst, align 4
  %old_epoch = atomicrmw add $epoch, i32 1 seq_cst
  call void @wake($epoch, i32 $LARGEST)
  br label %head
head:
  %i = phi i32 [0, %entry], [%next, %join]
  %more = icmp slt i32 %i, %workers
  br i1 %more, label %join, label %exit
join:
  %worker = getelementptr %worker, ptr %table, i32 %i
  %thread = load i64, ptr %worker
  %rc = call i32 @pthread_join(i64 %thread, ptr null)
  %next = add i32 %i, 1
  br label %head
exit:
  call void @free(ptr %table)
  store ptr null, $table
  store i32 0, $workers
  store i32 0, $started
  ret void
}

; Stops the workers; the next launch that can use them starts `threads` - 1 new ones.
define void @mxf_resize(i32 %threads) {
  call void @acquire()
  call void @end_workers()
  store i32 %threads, ptr @mxf_threads
  store atomic i32 0, $busy release, align 4
  ret void
}

; For the exit of the process: stops the workers and keeps `busy`, so that launches that still run do so alone.
define void @mxf_stop() {
  call void @acquire()
  call void @end_workers()
  ret void
}
"""
