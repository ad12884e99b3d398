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

/* Starts to listen, polled by `poller`. Returns NULL, or why it cannot. */
INTERNAL const char *open_door(int poller, Ticket *ticket);

/* Whether epoll's `data` is of the door or of a stranger. */
INTERNAL int is_at_the_door(const void *data);

/* By the thread that reads. */
INTERNAL void answer_the_door(void *data);

/* Ten times a second, by the thread that reads: turns away strangers whose time is up. */
INTERNAL void look_at_the_door(void);

/* In the child of a process that has forked. */
INTERNAL void forget_the_door(void);

#endif
