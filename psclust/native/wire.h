/* psclust's own wire between tasks, as the ops (wire_kernels.c) use it. It knows no TensorFlow but
 * its tensors, so that it runs alone under sanitizers (tests/native/wire_alone.c). */
#ifndef PSCLUST_WIRE_H
#define PSCLUST_WIRE_H

#include "kernels.h"

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

/* Listens, unless this process does. Returns NULL, or why it cannot, such as `no port`. */
INTERNAL const char *wire_listen(Ticket *ticket);

/* Connects a pair whose peer is at `at`, unless it is connected by this ticket. Replaces an earlier
 * connection. Returns NULL, or why it cannot. */
INTERNAL const char *wire_connect(Address at, Ticket ticket, const Pair *pair);

#endif
