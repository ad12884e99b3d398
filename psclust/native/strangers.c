/* Anybody may connect, so strangers get a fixed number of places and ten seconds each: a crowd of
 * them takes no memory and no descriptor that a task needs. All but `open_door` is called by the
 * thread that reads, and needs no lock. */
#define _GNU_SOURCE
#include "strangers.h"
#include "connection.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* AT_A_TIME: how many come in before it is the turn of those who are greeted. */
enum { STRANGERS = 64, AT_A_TIME = 16 };

typedef struct {
    int fd; /* -1: nobody */
    int64_t since_us;
    size_t got;
    Hello hello;
} Stranger;

static Stranger strangers[STRANGERS];
static Ticket own_ticket;
static int poller = -1;
static atomic_int listener = -1; /* once it is set, the rest is the thread's that reads */
static int closed;               /* for a while: this process has no descriptor for another */

static int64_t now_us(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000 + time.tv_nsec / 1000;
}

static int poll_for_strangers(int operation) {
    struct epoll_event event = {.events = closed ? 0 : EPOLLIN};
    return epoll_ctl(poller, operation, listener, &event) == 0;
}

static void turn_away(Stranger *stranger) {
    /* A process that is being started may have a copy of the descriptor. */
    epoll_ctl(poller, EPOLL_CTL_DEL, stranger->fd, NULL);
    close(stranger->fd);
    stranger->fd = -1;
}

static int is_of_the_cluster(const Hello *hello) {
    return hello->magic == MAGIC &&
           ((hello->secret[0] ^ own_ticket.secret[0]) |
            (hello->secret[1] ^ own_ticket.secret[1])) == 0 &&
           memchr(hello->pair.own, 0, NAME) != NULL && memchr(hello->pair.peer, 0, NAME) != NULL;
}

/* Reads no more than the greeting: what follows is for the wire. */
static void hear(Stranger *stranger) {
    char *hello = (char *)&stranger->hello;
    Pair pair;
    ssize_t count = 1;
    while (stranger->fd >= 0 && stranger->got < sizeof stranger->hello) {
        count = recv(stranger->fd, hello + stranger->got, sizeof stranger->hello - stranger->got,
                     MSG_DONTWAIT);
        if (count > 0)
            stranger->got += (size_t)count;
        else if (count == 0 || (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR))
            turn_away(stranger);
        else if (errno != EINTR)
            return;
    }
    if (stranger->fd < 0)
        return;
    memcpy(pair.own, stranger->hello.pair.peer, NAME);
    memcpy(pair.peer, stranger->hello.pair.own, NAME);
    if (is_of_the_cluster(&stranger->hello) &&
        open_connection(poller, EPOLL_CTL_MOD, stranger->fd, &pair, 0, "", 1))
        stranger->fd = -1;
    else
        turn_away(stranger);
}

/* A free place, else that of the oldest stranger. */
static Stranger *place(void) {
    Stranger *oldest = strangers;
    for (Stranger *at = strangers; at < strangers + STRANGERS; at++) {
        if (at->fd < 0)
            return at;
        if (at->since_us < oldest->since_us)
            oldest = at;
    }
    hear(oldest);
    if (oldest->fd >= 0)
        turn_away(oldest);
    return oldest;
}

static void welcome(int fd) {
    Stranger *stranger = place();
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = stranger};
    stranger->fd = fd;
    stranger->since_us = now_us();
    stranger->got = 0;
    if (epoll_ctl(poller, EPOLL_CTL_ADD, fd, &event) == 0)
        hear(stranger);
    else
        turn_away(stranger);
}

/* Without a free descriptor, does not poll the listener until `look_at_the_door`: it stays ready,
 * and the thread would spin. */
static void welcome_some(void) {
    for (int left = AT_A_TIME; left > 0; left--) {
        int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd >= 0) {
            welcome(fd);
        } else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
            closed = 1;
            poll_for_strangers(EPOLL_CTL_MOD);
            return;
        } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
            return;
        }
    }
}

int is_at_the_door(const void *data) {
    return data == NULL ||
           (data >= (const void *)strangers && data < (const void *)(strangers + STRANGERS));
}

void answer_the_door(void *data) {
    if (data != NULL)
        hear(data);
    else
        welcome_some();
}

void look_at_the_door(void) {
    int64_t late = now_us() - SHAKE_S * (int64_t)1000000;
    if (listener < 0)
        return;
    for (Stranger *at = strangers; at < strangers + STRANGERS; at++)
        if (at->fd >= 0 && at->since_us < late)
            turn_away(at);
    if (closed) {
        closed = 0;
        poll_for_strangers(EPOLL_CTL_MOD);
    }
}

void forget_the_door(void) {
    if (listener < 0)
        return;
    close(listener);
    for (Stranger *at = strangers; at < strangers + STRANGERS; at++)
        if (at->fd >= 0)
            close(at->fd);
    listener = -1;
}

/* A socket that listens on every interface, as TensorFlow's server does; the server shim narrows
 * it to PSCLUST_BIND. port: 0: any. Returns -1 if there is none. */
static int listening(uint16_t port) {
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(port)};
    int kind = SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, off = 0, fd = socket(AF_INET6, kind, 0),
        bound;
    if (fd >= 0 && setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off) == 0) {
        bound = bind(fd, (struct sockaddr *)&v6, sizeof v6);
    } else { /* a machine without IPv6 */
        if (fd >= 0)
            close(fd);
        fd = socket(AF_INET, kind, 0);
        bound = fd < 0 ? -1 : bind(fd, (struct sockaddr *)&v4, sizeof v4);
    }
    if (fd >= 0 && (bound != 0 || listen(fd, SOMAXCONN) != 0)) {
        close(fd);
        fd = -1;
    }
    return fd;
}

/* At a port of PSCLUST_PORTS, such as 2300-2399, if that is set. */
const char *open_door(int by, Ticket *ticket) {
    const char *range = getenv("PSCLUST_PORTS");
    struct sockaddr_in6 address;
    socklen_t size = sizeof address;
    unsigned first = 0, last = 0;
    int fd = -1;
    if (range != NULL && sscanf(range, "%u-%u", &first, &last) != 2)
        return "no port";
    /* From the last on: tasks get theirs from the first on. */
    for (unsigned port = last; fd < 0 && port >= first; port--) {
        fd = listening((uint16_t)port);
        if (port == 0)
            break;
    }
    if (fd < 0)
        return "no port";
    if (getsockname(fd, (struct sockaddr *)&address, &size) != 0 ||
        /* as in the shim, for a glibc without getrandom */
        syscall(SYS_getrandom, own_ticket.secret, sizeof own_ticket.secret, 0) !=
            sizeof own_ticket.secret) {
        close(fd);
        return "no secret";
    }
    own_ticket.port = ntohs(address.sin6_port); /* at the same place in both kinds of address */
    *ticket = own_ticket;
    for (Stranger *at = strangers; at < strangers + STRANGERS; at++)
        at->fd = -1;
    poller = by;
    closed = 0;
    listener = fd;
    if (poll_for_strangers(EPOLL_CTL_ADD))
        return NULL;
    listener = -1;
    close(fd);
    return "no room to listen";
}
