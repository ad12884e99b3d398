/* The connections of psclust's wire: one TCP connection between two tasks that have greeted each
 * other, named by its pair until another takes its place or it ends. */
#ifndef PSCLUST_CONNECTION_H
#define PSCLUST_CONNECTION_H

#include "channel.h"
#include "messages.h"

/* Begins all that one thread, the one that reads, polls. events: what epoll tells. */
typedef struct Polled {
    void (*serve)(struct Polled *, uint32_t events);
} Polled;

/* That thread's epoll; -1: there is none. */
extern INTERNAL int poller;

/* As epoll_ctl; 0: it cannot be. */
INTERNAL int poll_for(int operation, int fd, uint32_t events, Polled *polled);

/* Takes over the channel, in place of an earlier connection of the pair. accepted: it is polled
 * already, and its other end waits for a byte that says so. 0: it cannot be; the channel is then
 * still the caller's. */
INTERNAL int open_connection(Channel channel, int accepted, const Pair *pair, int64_t secret);

/* Whether the pair is connected, and the secret is that by which it was. */
INTERNAL int is_connected(const Pair *pair, int64_t secret);

/* Takes over the tensor, and returns before it has left. 0: the pair has no connection. */
INTERNAL int send_message(const Pair *pair, Label label, TF_Tensor *tensor);

INTERNAL void receive_message(const Pair *pair, Label label, Waiter *waiter);

/* Ten times a second, by the thread that reads: ends what waits in runs that were cancelled, and
 * tells others. */
INTERNAL void look_at_connections(void);

/* By the thread that reads. */
INTERNAL void end_connections(void);

/* In the child of a process that has forked. */
INTERNAL void forget_connections(void);

#endif
