/* psclust's own wire between tasks, as the ops (wire_kernels.c) use it. It knows no TensorFlow but
 * its tensors, so that it runs alone under sanitizers (tests/native/wire_alone.c). */
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

/* Either `come` or `failed` is called, once, from any thread. come: with the tensor, which is then
 * the callee's, or with NULL if the values were written to `place`. place: memory of `bytes` bytes
 * for the values; NULL: none. */
typedef struct Waiter {
    void (*come)(struct Waiter *, TF_Tensor *);
    void (*failed)(struct Waiter *, int code, const char *reason);
    void *place;
    size_t bytes;
    /* Whether its run was cancelled; called ten times a second. */
    int (*unwanted)(struct Waiter *);
} Waiter;

/* Listens, unless this process does. Returns NULL, or why it cannot, such as `no port`. */
INTERNAL const char *wire_listen(Ticket *ticket);

/* Connects a pair whose peer listens at `host`, unless it is connected by this ticket. Replaces an
 * earlier connection. Returns NULL, or why it cannot. */
INTERNAL const char *wire_connect(const char *host, Ticket ticket, const Pair *pair);

/* Takes over the tensor, and returns before it has left. 0: the pair has no connection. */
INTERNAL int wire_send(const Pair *pair, Label label, TF_Tensor *tensor);

INTERNAL void wire_receive(const Pair *pair, Label label, Waiter *waiter);

#endif
