/* A connection of psclust's wire: one TCP connection between two tasks that have greeted each
 * other. It is named by its pair until another takes its place or it ends. */
#ifndef PSCLUST_CONNECTION_H
#define PSCLUST_CONNECTION_H

#include "wire.h"

#include <stdint.h>

/* Takes over the descriptor, in place of an earlier connection of the pair. operation:
 * EPOLL_CTL_ADD or, for one that is polled already, EPOLL_CTL_MOD. greeting: sent first, unless its
 * length is 0. 0: it cannot be; the descriptor is then still the caller's. */
INTERNAL int open_connection(int poller, int operation, int fd, const Pair *pair, int64_t secret,
                             const char *greeting, size_t length);

/* The one of a pair, to be given to `end_use`; NULL: none. */
INTERNAL Connection *use(const Pair *pair);

/* connection: may be NULL. */
INTERNAL void end_use(Connection *connection);

/* Whether the pair is connected, and the secret is that by which it was. */
INTERNAL int is_connected(const Pair *pair, int64_t secret);

/* The tensor is then the callee's. 0: the connection has ended. */
INTERNAL int send_tensor(Connection *connection, Label label, TF_Tensor *tensor);

/* Whether it has ended, after which nothing comes from it. */
INTERNAL int has_ended(Connection *connection);

/* By the thread that reads: what epoll tells of it. */
INTERNAL void serve_connection(Connection *connection, uint32_t events);

/* Now and then, by the thread that reads: frees the places of runs that were cancelled. */
INTERNAL void end_unwanted_places(void);

/* In the child of a process that has forked. */
INTERNAL void forget_connections(void);

#endif
