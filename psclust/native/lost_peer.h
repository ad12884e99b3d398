/* Socket options by which the kernel ends a connection whose peer's machine has been out of reach
 * for PSCLUST_PEER_TIMEOUT seconds (60): a machine that loses power closes nothing. */
#ifndef PSCLUST_LOST_PEER_H
#define PSCLUST_LOST_PEER_H

#include "variables.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/socket.h>

static inline void notice_a_lost_peer(int fd) {
    const char *wanted = variable(PSCLUST_PEER_TIMEOUT);
    int seconds = wanted != NULL ? atoi(wanted) : 0;
    if (seconds < 3 || seconds > 36000)
        seconds = 60;
    /* Linux ends a quiet connection at the first probe after the user timeout: half of it quiet,
     * then probes at sixths. */
    int on = 1, idle = seconds / 2, between = seconds >= 6 ? seconds / 6 : 1, probes = 3,
        limit = seconds * 1000;

    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &between, sizeof between);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
    setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &limit, sizeof limit);
}

#endif
