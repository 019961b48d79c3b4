/* The processors of this machine: what they can, and how many there are. Only instance.h includes this. */
#ifndef MXF_PROCESSORS_H
#define MXF_PROCESSORS_H

#include <stdbool.h>

#if defined(__APPLE__)
#include <unistd.h>
#else
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#endif

#if defined(__x86_64__)
#include <cpuid.h>
#elif !defined(__APPLE__)
#include <sys/auxv.h>
#endif

#include "model.h"

#if defined(__x86_64__)
static bool has(const struct model_need *need)
{
    unsigned words[4] = {0};
    if (need->leaf == -1) { /* the registers that the system saves */
        __cpuid_count(1, 0, words[0], words[1], words[2], words[3]);
        if (!(words[2] & bit_OSXSAVE))
            return false;
        __asm__("xgetbv" : "=a"(words[0]), "=d"(words[3]) : "c"(0));
        return (words[0] & need->mask) == need->mask;
    }
    if (!__get_cpuid_count((unsigned)need->leaf, (unsigned)need->subleaf, &words[0], &words[1], &words[2], &words[3]))
        return false;
    return (words[need->word] & need->mask) == need->mask;
}
#elif defined(__APPLE__)
/* Code for macOS uses what all processors of Apple for it have. */
static bool has(const struct model_need *need)
{
    (void)need;
    return true;
}
#else
static bool has(const struct model_need *need)
{
    return (getauxval((unsigned long)need->leaf) & (unsigned long)need->mask) == (unsigned long)need->mask;
}
#endif

#if defined(__APPLE__)
static int32_t processors(void)
{
    long found = sysconf(_SC_NPROCESSORS_ONLN);
    return found < 1 ? 1 : (int32_t)found;
}
#else
/* The processors that the cgroup of this process may use, rounded up; INT_MAX without such a limit. More threads would use
   up the quota by waiting. */
static int32_t quota(void)
{
    long long time, period;
    FILE *file = fopen("/sys/fs/cgroup/cpu.max", "re");
    if (file == NULL)
        return INT_MAX;
    bool limited = fscanf(file, "%lld %lld", &time, &period) == 2 && period > 0 && time > 0;
    fclose(file);
    return limited ? (int32_t)((time + period - 1) / period) : INT_MAX;
}

/* The processors that this process may use. */
static int32_t processors(void)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    int32_t allowed = sched_getaffinity(0, sizeof set, &set) ? 1 : CPU_COUNT(&set), most = quota();
    return allowed < most ? allowed : most;
}
#endif

#endif
