/* The door of psclust's wire: the port where a task listens, and the strangers that have connected
 * and not yet given the cluster's secret. */
#ifndef PSCLUST_STRANGERS_H
#define PSCLUST_STRANGERS_H

#include "wire.h"

#define MAGIC                                                                                      \
    0x3165726977637370 /* "pscwire1", and the other way round on a machine with the other order of \
                          bytes, which is refused */

/* SHAKE_S: how long a greeting may take. */
enum { SHAKE_S = 10 };

typedef struct {
    int64_t magic, secret[2];
    Pair pair; /* as the task that connects sees it */
} Hello;

/* Begins to listen; its events are then `poller`'s. The reason why it cannot, or NULL. */
INTERNAL const char *open_door(int poller, Ticket *ticket);

/* Whether an event with this `data` is the door's or a stranger's. */
INTERNAL int is_at_the_door(const void *data);

/* By the thread that reads. */
INTERNAL void answer_the_door(void *data);

/* Now and then, by the thread that reads: ends greetings that take too long. */
INTERNAL void look_at_the_door(void);

/* In the child of a process that has forked. */
INTERNAL void forget_the_door(void);

#endif
