/* psclust's own wire between tasks, as the ops (wire_kernels.c) use it. It knows no TensorFlow but
 * its tensors, so that it runs alone under sanitizers (tests/native/wire_alone.c). */
#ifndef PSCLUST_WIRE_H
#define PSCLUST_WIRE_H

#include "kernels.h"

#include <time.h>

enum { MOST_DIMENSIONS = 8 };

/* What a task that connects needs to know of one that listens. port: in an encrypted run another
 * number, by which the forwarder of its host knows it. */
typedef struct {
    int64_t port, secret[2];
} Ticket;

/* Of a task's TensorFlow server. */
typedef struct {
    const char *host;
    int64_t port;
} Address;

/* "pscwire1", and the other way round on a machine with the other order of bytes: it is refused. */
#define MAGIC 0x3165726977637370

/* What a task that connects sends first. pair: as it sees it. */
typedef struct {
    int64_t magic, secret[2];
    Pair pair;
} Hello;

/* A message is for one op of one run: TensorFlow gives a run the same step number in all tasks.
 * key: not negative. */
typedef struct {
    int64_t step, key;
} Label;

/* Either `come` or `failed` is called, once, from any thread. */
typedef struct Waiter {
    /* The tensor is then the callee's. */
    void (*come)(struct Waiter *, TF_Tensor *);
    void (*failed)(struct Waiter *, int code, const char *reason);
    /* Whether its run was cancelled; called ten times a second. */
    int (*unwanted)(struct Waiter *);
} Waiter;

/* Listens, unless this process does. Returns NULL, or why it cannot, such as `no port`. */
INTERNAL const char *wire_listen(Ticket *ticket);

/* Connects a pair whose peer is at `at`, unless it is connected by this ticket. Replaces an earlier
 * connection. Returns NULL, or why it cannot. */
INTERNAL const char *wire_connect(Address at, Ticket ticket, const Pair *pair);

/* Takes over the tensor, and returns before it has left. 0: the pair has no connection. */
INTERNAL int wire_send(const Pair *pair, Label label, TF_Tensor *tensor);

INTERNAL void wire_receive(const Pair *pair, Label label, Waiter *waiter);

/* Of a clock that never goes back. */
static inline int64_t now_ms(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &time);
    return time.tv_sec * 1000 + time.tv_nsec / 1000000;
}

#endif
