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

static int is_empty(const Way *way) {
    return way->from == way->to;
}

/* From plain to TLS. readable: whether there may be something to read. */
static void send_some(Carried *carried, int readable) {
    Way *way = &carried->out;
    if (readable && is_empty(way) && !way->ended) {
        ssize_t got = recv(carried->plain, way->bytes, ROOM, 0);
        way->from = 0;
        way->to = moved_by(carried, got);
        way->ended = got == 0;
    }
    for (int put = 1; !is_empty(way) && put > 0; way->from += put)
        put = moved_by_tls(
            carried, tls_send(carried->tls, way->bytes + way->from, (size_t)(way->to - way->from)));
    if (way->ended && !way->told && is_empty(way)) {
        tls_end(carried->tls);
        way->told = 1;
    }
}

static void receive_some(Carried *carried, int readable) {
    Way *way = &carried->in;
    if (readable && is_empty(way) && !way->ended) {
        way->from = way->to = 0;
        /* After a part of a record there is seldom another: poll tells. */
        for (int got = TLS_RECORD; way->to < ROOM && got >= TLS_RECORD; way->to += got) {
            ssize_t result =
                tls_receive(carried->tls, way->bytes + way->to, (size_t)(ROOM - way->to));
            got = moved_by_tls(carried, result);
            way->ended = result == 0;
        }
    }
    if (!is_empty(way))
        way->from += moved_by(carried, send(carried->plain, way->bytes + way->from,
                                            (size_t)(way->to - way->from), MSG_NOSIGNAL));
    if (way->ended && !way->told && is_empty(way)) {
        shutdown(carried->plain, SHUT_WR);
        way->told = 1;
    }
}

/* Sets of which side there may be something to read. */
static void wait_for_more(Carried *carried, int *plain, int *tls) {
    struct pollfd polled[] = {{.fd = carried->plain}, {.fd = carried->fd}};
    int held = is_empty(&carried->in) && tls_holds(carried->tls);
    if (is_empty(&carried->out) && !carried->out.ended)
        polled[0].events |= POLLIN;
    if (!is_empty(&carried->in))
        polled[0].events |= POLLOUT;
    if (is_empty(&carried->in) && !carried->in.ended)
        polled[1].events |= POLLIN;
    polled[1].events |= carried->wanted;
    for (int i = 0; i < 2; i++)
        if (polled[i].events == 0)
            polled[i].fd = -1; /* else poll tells of a peer that has closed, again and again */
    if (poll(polled, 2, held ? 0 : -1) < 0 && errno != EINTR)
        carried->failed = 1;
    *plain = (polled[0].revents & ~POLLOUT) != 0;
    *tls = held || (polled[1].revents & ~POLLOUT) != 0;
    carried->wanted = 0;
}

/* Carries what comes by `plain`, a connected socket, to the peer, and back, until both have ended
 * or one is cut off. Both sockets stay the caller's. Returns 0 if it could not begin, or one was
 * cut off. */
int tls_carry(Tls *tls, int fd, int plain) {
    Carried *carried = calloc(1, sizeof *carried); /* its pages are touched as bytes come */
    int ended_well, plain_has = 1, tls_has = 1;
    if (carried == NULL)
        return 0;
    carried->tls = tls;
    carried->fd = fd;
    carried->plain = plain;
    carried->failed = fcntl(plain, F_SETFL, fcntl(plain, F_GETFL) | O_NONBLOCK) != 0;
    while (!carried->failed) {
        send_some(carried, plain_has);
        receive_some(carried, tls_has);
        if (carried->failed || (carried->out.told && carried->in.told))
            break;
        wait_for_more(carried, &plain_has, &tls_has);
    }
    ended_well = !carried->failed;
    free(carried);
    return ended_well;
}

/* Whether a connection of this machine may be carried: as a server of a task asks it. */
int tls_admits(int fd) {
    return is_admitted(fd);
}
