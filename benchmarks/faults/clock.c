/* A wall clock that can be stepped for one run alone: preloaded into a process, it adds an offset to
 * CLOCK_REALTIME and to what waits until a time of that clock.
 *
 * CHAOS_CLOCK names a folder; the file in it that is named as this host holds the offset, a 64-bit
 * count of nanoseconds. Without the file nothing is changed. Times of files are the kernel's. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

enum { SECOND = 1000000000, SLICE = SECOND / 5, EARLIEST_S = SECOND };

static const volatile int64_t *offset; /* NULL: nothing is changed */

__attribute__((constructor)) static void map_offset(void) {
    const char *folder = getenv("CHAOS_CLOCK");
    char host[256] = "", path[4096];
    if (folder == NULL || gethostname(host, sizeof host - 1) != 0)
        return;
    if (snprintf(path, sizeof path, "%s/%s", folder, host) >= (int)sizeof path)
        return;
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return;
    void *mapped = mmap(NULL, sizeof *offset, PROT_READ, MAP_SHARED, file, 0);
    if (mapped != MAP_FAILED)
        offset = mapped;
    close(file);
}

/* Of the C library. Conditions have an older version there, too. */
#define NEXT(name) ((__typeof__(&name))next(&next_##name, #name))
#define FIND(name) static void *next_##name
static void *next(void **found, const char *name) {
    if (*found == NULL)
        *found = dlvsym(RTLD_NEXT, name, "GLIBC_2.3.2");
    if (*found == NULL)
        *found = dlsym(RTLD_NEXT, name);
    return *found;
}
FIND(clock_gettime);
FIND(clock_nanosleep);
FIND(pthread_cond_clockwait);
FIND(pthread_cond_timedwait);
FIND(pthread_mutex_timedlock);
FIND(sem_clockwait);
FIND(sem_timedwait);
FIND(syscall);

static int64_t count(const struct timespec *at) {
    return (int64_t)at->tv_sec * SECOND + at->tv_nsec;
}

static struct timespec from_count(int64_t ns) {
    int64_t part = ns % SECOND;
    part += part < 0 ? SECOND : 0;
    return (struct timespec){.tv_sec = (ns - part) / SECOND, .tv_nsec = part};
}

static int is_wall(clockid_t clock) {
    return clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE || clock == CLOCK_TAI;
}

int clock_gettime(clockid_t clock, struct timespec *at) {
    int failed = NEXT(clock_gettime)(clock, at);
    if (!failed && offset != NULL && is_wall(clock))
        *at = from_count(count(at) + *offset);
    return failed;
}

int gettimeofday(struct timeval *restrict at, void *restrict zone) {
    struct timespec now;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &now);
    *at = (struct timeval){.tv_sec = now.tv_sec, .tv_usec = now.tv_nsec / 1000};
    return 0;
}

time_t time(time_t *at) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (at != NULL)
        *at = now.tv_sec;
    return now.tv_sec;
}

int timespec_get(struct timespec *at, int base) {
    return base == TIME_UTC && clock_gettime(CLOCK_REALTIME, at) == 0 ? base : 0;
}

/* Converts a time of the stepped clock to one of the kernel's, at most SLICE from now, so that a
 * step ends or prolongs a wait that has begun. Returns 1 if it cut the wait short. A time that is
 * too early for a wall clock is one of the monotonic clock. */
static int convert(const struct timespec *wanted, struct timespec *until) {
    *until = *wanted;
    if (offset == NULL || wanted->tv_sec < EARLIEST_S)
        return 0;
    struct timespec now;
    NEXT(clock_gettime)(CLOCK_REALTIME, &now);
    int64_t end = count(wanted) - *offset, slice = count(&now) + SLICE;
    *until = from_count(end < slice ? end : slice);
    return end > slice;
}

/* A condition may also wake without a reason, which ends a slice. */
int pthread_cond_timedwait(pthread_cond_t *restrict condition, pthread_mutex_t *restrict mutex,
                           const struct timespec *restrict wanted) {
    struct timespec until;
    int cut = convert(wanted, &until);
    int error = NEXT(pthread_cond_timedwait)(condition, mutex, &until);
    return cut && error == ETIMEDOUT ? 0 : error;
}

int pthread_cond_clockwait(pthread_cond_t *restrict condition, pthread_mutex_t *restrict mutex,
                           clockid_t clock, const struct timespec *restrict wanted) {
    struct timespec until;
    int cut = convert(wanted, &until);
    int error = NEXT(pthread_cond_clockwait)(condition, mutex, clock, &until);
    return cut && error == ETIMEDOUT ? 0 : error;
}

int pthread_mutex_timedlock(pthread_mutex_t *restrict mutex,
                            const struct timespec *restrict wanted) {
    struct timespec until;
    int cut, error;
    do {
        cut = convert(wanted, &until);
        error = NEXT(pthread_mutex_timedlock)(mutex, &until);
    } while (cut && error == ETIMEDOUT);
    return error;
}

int sem_timedwait(sem_t *restrict semaphore, const struct timespec *restrict wanted) {
    struct timespec until;
    int cut, failed;
    do {
        cut = convert(wanted, &until);
        failed = NEXT(sem_timedwait)(semaphore, &until);
    } while (cut && failed && errno == ETIMEDOUT);
    return failed;
}

int sem_clockwait(sem_t *restrict semaphore, clockid_t clock,
                  const struct timespec *restrict wanted) {
    struct timespec until;
    int cut, failed;
    do {
        cut = convert(wanted, &until);
        failed = NEXT(sem_clockwait)(semaphore, clock, &until);
    } while (cut && failed && errno == ETIMEDOUT);
    return failed;
}

int clock_nanosleep(clockid_t clock, int flags, const struct timespec *wanted,
                    struct timespec *left) {
    struct timespec until;
    int cut, error;
    if (!(flags & TIMER_ABSTIME) || !is_wall(clock))
        return NEXT(clock_nanosleep)(clock, flags, wanted, left);
    do {
        cut = convert(wanted, &until);
        error = NEXT(clock_nanosleep)(clock, flags, &until, left);
    } while (cut && error == 0);
    return error;
}

/* For futexes, by which TensorFlow waits; they may be interrupted, which ends a slice. */
long syscall(long number, ...) {
    long words[6];
    va_list given;
    va_start(given, number);
    for (int index = 0; index < 6; index++)
        words[index] = va_arg(given, long);
    va_end(given);
    struct timespec until;
    int cut = 0;
    if (number == SYS_clock_gettime)
        return clock_gettime((clockid_t)words[0], (struct timespec *)words[1]);
    if (number == SYS_futex && words[3] != 0 &&
        (words[1] & ~FUTEX_PRIVATE_FLAG) == (FUTEX_WAIT_BITSET | FUTEX_CLOCK_REALTIME)) {
        cut = convert((const struct timespec *)words[3], &until);
        words[3] = (long)&until;
    }
    long result =
        NEXT(syscall)(number, words[0], words[1], words[2], words[3], words[4], words[5]);
    if (cut && result < 0 && errno == ETIMEDOUT)
        errno = EINTR;
    return result;
}
