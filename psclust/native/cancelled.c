#include "cancelled.h"
#include "clock.h"

#include <pthread.h>
#include <stdatomic.h>

/* LAST: a run ends within a second of the news; more than these are not cancelled meanwhile.
 * UNTOLD_MS: TensorFlow ends most runs by itself, with the error for which it cancelled them, such
 * as the end of the data; from a part that is told before, it would hear of a cancelled run
 * instead. */
enum { LAST = 64, UNTOLD_MS = 3000 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards the rest, but for `noted` */
static atomic_uint noted;
static int64_t steps[LAST], untold[LAST], since_ms[LAST];
static unsigned first_untold, end_untold;

static int is_among_the_last(int64_t step) {
    unsigned count = noted < LAST ? noted : LAST;
    for (unsigned i = 0; i < count; i++)
        if (steps[i] == step)
            return 1;
    return 0;
}

void note_cancelled(int64_t step, int own) {
    pthread_mutex_lock(&lock);
    if (!is_among_the_last(step)) {
        steps[noted % LAST] = step;
        noted++;
        if (own && end_untold - first_untold < LAST) {
            since_ms[end_untold % LAST] = now_ms();
            untold[end_untold++ % LAST] = step;
        }
    }
    pthread_mutex_unlock(&lock);
}

int was_cancelled(int64_t step) {
    int was;
    if (noted == 0)
        return 0;
    pthread_mutex_lock(&lock);
    was = is_among_the_last(step);
    pthread_mutex_unlock(&lock);
    return was;
}

int take_untold(int64_t *step) {
    int found;
    pthread_mutex_lock(&lock);
    found = first_untold != end_untold && now_ms() - since_ms[first_untold % LAST] >= UNTOLD_MS;
    if (found)
        *step = untold[first_untold++ % LAST];
    pthread_mutex_unlock(&lock);
    return found;
}
