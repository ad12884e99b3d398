#ifndef PSCLUST_CLOCK_H
#define PSCLUST_CLOCK_H

#include <stdint.h>
#include <time.h>

/* Of a clock that never goes back. */
static inline int64_t now_ms(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &time);
    return time.tv_sec * 1000 + time.tv_nsec / 1000000;
}

#endif
