/* What the C code of libraries uses of macOS, declared for arm64: so `make_native` compiles it without Apple's headers.

   The numbers and sizes are those of Darwin's binary interface, which programs contain and which therefore never change.
   Sources: the headers <pthread.h>, <sys/mman.h>, <signal.h>, <time.h> and <unistd.h> of macOS 11 and newer. A user's
   compiler reads its own headers instead. */
#ifndef MXF_DARWIN_H
#define MXF_DARWIN_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

/* string.h, stdlib.h, stdio.h */
int memcmp(const void *, const void *, size_t);
void *memcpy(void *, const void *, size_t);
void *memset(void *, int, size_t);
int strcmp(const char *, const char *);
size_t strlen(const char *);
int strncmp(const char *, const char *, size_t);
void *calloc(size_t, size_t);
void free(void *);
void *malloc(size_t);
int snprintf(char *, size_t, const char *, ...) __attribute__((format(printf, 3, 4)));
int vsnprintf(char *, size_t, const char *, va_list) __attribute__((format(printf, 3, 0)));

/* errno.h */
int *__error(void);
#define errno (*__error())

/* sys/mman.h */
#define PROT_READ 1
#define PROT_WRITE 2
#define MAP_PRIVATE 2
#define MAP_ANONYMOUS 0x1000
#define MAP_FAILED ((void *)-1)
void *mmap(void *, size_t, int, int, int, int64_t);
int munmap(void *, size_t);

/* pthread.h, sched.h */
typedef struct _opaque_pthread_t *pthread_t;
typedef struct _opaque_pthread_attr_t pthread_attr_t;
typedef unsigned long pthread_key_t;
typedef struct {
    long signature;
    char content[56];
} pthread_mutex_t;
typedef struct {
    long signature;
    char content[40];
} pthread_cond_t;
typedef struct {
    long signature;
    char content[8];
} pthread_once_t;
#define PTHREAD_MUTEX_INITIALIZER {0x32AAABA7, {0}}
#define PTHREAD_COND_INITIALIZER {0x3CB0B1BB, {0}}
#define PTHREAD_ONCE_INIT {0x30B1BCBA, {0}}
int pthread_create(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
int pthread_join(pthread_t, void **);
int pthread_once(pthread_once_t *, void (*)(void));
int pthread_key_create(pthread_key_t *, void (*)(void *));
void *pthread_getspecific(pthread_key_t);
int pthread_setspecific(pthread_key_t, const void *);
int pthread_mutex_lock(pthread_mutex_t *);
int pthread_mutex_unlock(pthread_mutex_t *);
int pthread_cond_wait(pthread_cond_t *, pthread_mutex_t *);
int pthread_cond_broadcast(pthread_cond_t *);
int pthread_atfork(void (*)(void), void (*)(void), void (*)(void));
int sched_yield(void);

/* signal.h */
typedef uint32_t sigset_t;
#define SIG_SETMASK 3
int sigfillset(sigset_t *);
int pthread_sigmask(int, const sigset_t *, sigset_t *);

/* time.h */
typedef int clockid_t;
#define CLOCK_UPTIME_RAW 8
uint64_t clock_gettime_nsec_np(clockid_t);

/* unistd.h */
#define _SC_NPROCESSORS_ONLN 58
long sysconf(int);

#endif
