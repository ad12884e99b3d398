/* What forwarders do with TLS (tls.c), for psclust/forward/native_tls.py: one connection of TCP is
 * carried by one of TLS, on the thread that calls, without Python's lock. */
#define _GNU_SOURCE
#include "admission.h"
#include "tls.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>

enum { ROOM = 1 << 17 };

/* What has been read from one side and not yet written to the other. */
typedef struct {
    char bytes[ROOM];
    int from, to;
    int ended; /* nothing more will be read */
    int told;  /* and the other side knows */
} Way;

typedef struct {
    Tls *tls;
    int fd, plain;
    Way out, in;  /* plain to TLS, and back */
    short wanted; /* of fd, by TLS */
    int failed;
} Carried;

/* What an operation on one of both sides has done: how many bytes; 0: it has ended, or must wait.
 */
static int moved_by(Carried *carried, ssize_t result) {
    if (result >= 0)
        return (int)result;
    if (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)
        carried->failed = 1;
    return 0;
}

static int moved_by_tls(Carried *carried, ssize_t result) {
    int moved = moved_by(carried, result);
    carried->wanted |= tls_awaits(carried->tls);
    return moved;
}

/* One round of plain to TLS; returns how many bytes it has moved. */
static int send_some(Carried *carried) {
    Way *way = &carried->out;
    int moved = 0;
    if (way->from == way->to && !way->ended) {
        ssize_t got = recv(carried->plain, way->bytes, ROOM, 0);
        way->from = 0;
        way->to = moved_by(carried, got);
        way->ended = got == 0;
    }
    for (int put = 1; way->from < way->to && put > 0; moved += put, way->from += put)
        put = moved_by_tls(
            carried, tls_send(carried->tls, way->bytes + way->from, (size_t)(way->to - way->from)));
    if (way->ended && !way->told && way->from == way->to) {
        tls_end(carried->tls);
        way->told = 1;
    }
    return moved;
}

static int receive_some(Carried *carried) {
    Way *way = &carried->in;
    int moved = 0;
    if (way->from == way->to && !way->ended) {
        way->from = way->to = 0;
        for (int got = 1; way->to < ROOM && got > 0; way->to += got) {
            ssize_t result =
                tls_receive(carried->tls, way->bytes + way->to, (size_t)(ROOM - way->to));
            got = moved_by_tls(carried, result);
            way->ended = result == 0;
        }
    }
    if (way->from < way->to) {
        moved = moved_by(carried, send(carried->plain, way->bytes + way->from,
                                       (size_t)(way->to - way->from), MSG_NOSIGNAL));
        way->from += moved;
    }
    if (way->ended && !way->told && way->from == way->to) {
        shutdown(carried->plain, SHUT_WR);
        way->told = 1;
    }
    return moved;
}

static void wait_for_more(Carried *carried) {
    struct pollfd polled[] = {{.fd = carried->fd, .events = carried->wanted},
                              {.fd = carried->plain}};
    if (carried->out.from == carried->out.to && !carried->out.ended)
        polled[1].events |= POLLIN;
    if (carried->in.from < carried->in.to)
        polled[1].events |= POLLOUT;
    for (int i = 0; i < 2; i++)
        if (polled[i].events == 0)
            polled[i].fd = -1; /* else poll tells of a peer that has closed, again and again */
    if (poll(polled, 2, -1) < 0 && errno != EINTR)
        carried->failed = 1;
}

/* Carries what comes by `plain`, a connected socket, to the peer, and back, until both have ended
 * or one is cut off. Both sockets stay the caller's. Returns 0 if it could not begin, or one was
 * cut off. */
int tls_carry(Tls *tls, int fd, int plain) {
    Carried *carried = calloc(1, sizeof *carried); /* its pages are touched as bytes come */
    int ended_well;
    if (carried == NULL)
        return 0;
    carried->tls = tls;
    carried->fd = fd;
    carried->plain = plain;
    carried->failed = fcntl(plain, F_SETFL, fcntl(plain, F_GETFL) | O_NONBLOCK) != 0;
    while (!carried->failed && !(carried->out.told && carried->in.told)) {
        carried->wanted = 0;
        if (send_some(carried) + receive_some(carried) == 0 && !carried->failed &&
            !(carried->out.told && carried->in.told))
            wait_for_more(carried);
    }
    ended_well = !carried->failed;
    free(carried);
    return ended_well;
}

/* Whether a connection of this machine may be carried: as a server of a task asks it. */
int tls_admits(int fd) {
    return is_admitted(fd);
}
