/* psclust's own wire between tasks: what the ops (wire_kernels.c) ask of the connections (wire.c).
 */
#ifndef PSCLUST_WIRE_H
#define PSCLUST_WIRE_H

#include "kernels.h"

/* NAME: bytes of a task's name, such as ps:0, with the zero at its end. */
enum { NAME = 64, MOST_DIMENSIONS = 8 };

/* What a task that connects needs to know of one that listens. */
typedef struct {
    int64_t port, secret[2];
} Ticket;

/* Two tasks, as one of them sees it. There may be several tasks in one process. */
typedef struct {
    char own[NAME], peer[NAME];
} Pair;

/* A message is for one op of one run: TensorFlow gives a run the same step number in all tasks.
 * key: not negative. */
typedef struct {
    int64_t step, key;
} Label;

typedef struct Connection Connection;

/* One of `come` and `failed` is called once, from any thread: with what has come, which then is the
 * callee's, or with the reason why nothing will. place: where values of `bytes` bytes are to be put
 * as they come, with NULL for the tensor; NULL: nowhere. */
typedef struct Waiter {
    void (*come)(struct Waiter *, TF_Tensor *);
    void (*failed)(struct Waiter *, int code, const char *reason);
    void *place;
    size_t bytes;
    /* Whether nobody needs it any more; asked now and then. */
    int (*unwanted)(struct Waiter *);
} Waiter;

/* Listens, if this process does not yet. The reason why it cannot, such as `no port`, or NULL. */
INTERNAL const char *wire_listen(Ticket *ticket);

/* Connects a pair, whose peer listens at `host`, unless it is; in place of an earlier connection of
 * the pair. The reason why it cannot, or NULL. */
INTERNAL const char *wire_connect(const char *host, Ticket ticket, const Pair *pair);

/* The tensor is then the callee's. Returns before it has left; 0 without a connection of the pair.
 */
INTERNAL int wire_send(const Pair *pair, Label label, TF_Tensor *tensor);

INTERNAL void wire_receive(const Pair *pair, Label label, Waiter *waiter);

#endif
