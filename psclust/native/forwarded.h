/* How a task of an encrypted run reaches others, and is reached: by the forwarder of its host
 * (psclust/forward), which knows the way, has the run's certificates, and is asked by a Unix
 * socket. The bytes of psclust's wire do not pass through it: it hands over connected sockets. */
#ifndef PSCLUST_FORWARDED_H
#define PSCLUST_FORWARDED_H

#include "channel.h"

/* Whether this task is of an encrypted run. */
INTERNAL int is_forwarded(void);

/* A connection to the forwarder of this host that ends when it does, not to be waited for; -1:
 * there is no forwarder now. */
INTERNAL int beside_forwarder(void);

/* Before what follows. NULL, or why it cannot be. */
INTERNAL const char *start_forwarded(void);

/* Listens where the forwarder hands over connections for `id`, a number of this task alone, and
 * tasks of this host connect. Returns -1 if it cannot. */
INTERNAL int listening_for(int64_t id);

/* Whether the other end of a Unix socket is of this user. */
INTERNAL int is_own(int fd);

/* What a new connection of `listening_for` has sent: `size` bytes into `to`, or a connection that
 * was handed over, and whose peer has not greeted: `other`, else -1. Returns as recv. */
INTERNAL ssize_t hear_first(int fd, void *to, size_t size, Channel *other);

/* A connection to `id` of the task at `port` of 127.0.0.1, as tasks of this run know it; greeted.
 * fd -1: none; with ECONNRESET in errno, the other end has closed it. */
INTERNAL Channel forwarded_to(int64_t port, int64_t id);

#endif
