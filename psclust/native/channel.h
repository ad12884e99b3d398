/* A connection of psclust's wire as its bytes travel: in the open, or by TLS. */
#ifndef PSCLUST_CHANNEL_H
#define PSCLUST_CHANNEL_H

#include "kernels.h"
#include "tls.h"

#include <sys/uio.h>

/* For one thread at a time. */
typedef struct {
    int fd;   /* -1: it has ended */
    Tls *tls; /* NULL: in the open */
} Channel;

/* As recv and sendmsg, without waiting. What had to wait must be sent next. */
INTERNAL ssize_t channel_receive(Channel *channel, void *to, size_t size);
INTERNAL ssize_t channel_send(Channel *channel, struct iovec parts[2]);

/* Whether there is more to receive that the kernel does not know of. */
INTERNAL int channel_holds(const Channel *channel);

/* epoll: that polls it; -1: none. */
INTERNAL void channel_close(Channel *channel, int epoll);

#endif
