/* psclust's own wire between tasks: tensors as they are in memory, one TCP connection for each pair
 * of tasks.
 *
 * TensorFlow moves a tensor by a gRPC call from the task that needs it, which several threads of
 * both tasks handle. Here a task sends a tensor as soon as it has it, from the thread that made it,
 * and one thread reads what arrives straight into the memory that the waiting op then gets.
 *
 * The task that connects sends `Hello` and the one that listens answers with one byte; then both
 * send frames (connection.c). The secret in a `Ticket` travels by TensorFlow's own wire, so it
 * keeps out only those who cannot reach the task's gRPC port.
 *
 * Anybody may connect, so strangers get a fixed number of places and ten seconds each: a crowd of
 * them takes no memory and no descriptor that a task needs. */
#define _GNU_SOURCE
#include "wire.h"
#include "connection.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

/* LOOK_MS: how soon a run that was cancelled stops waiting. SHAKE_S: how long a greeting may take.
 * TRIES: to be greeted. AT_A_TIME: strangers that come in before it is the turn of those who are
 * greeted. */
enum { LOOK_MS = 100, SHAKE_S = 10, TRIES = 3, STRANGERS = 64, AT_A_TIME = 16 };

/* One that has connected, and not yet given the secret. */
typedef struct {
    Polled polled;
    int fd; /* -1: nobody */
    int64_t since_ms;
} Stranger;

/* Guards the start of the thread that reads and of its door, and lets one pair connect at a time:
 * several sessions may ask for it at once. */
static pthread_mutex_t starting = PTHREAD_MUTEX_INITIALIZER;
static atomic_uint failures; /* to connect */
static Ticket own_ticket;
static atomic_int listener = -1;
static Stranger strangers[STRANGERS] = {[0 ... STRANGERS - 1] = {.fd = -1}}; /* of the thread */

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

/* Reads no more than the greeting: what follows is for the wire. Epoll tells of it when it is all
 * there. */
static void hear(Polled *polled, uint32_t events) {
    Stranger *stranger = (Stranger *)polled;
    int least = 1;
    Hello hello;
    Pair pair;
    ssize_t count;
    (void)events;
    if (stranger->fd < 0) /* it has just been turned away */
        return;
    count = recv(stranger->fd, &hello, sizeof hello, MSG_DONTWAIT);
    if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
        return;
    if (count == sizeof hello && is_of_the_cluster(&hello)) {
        memcpy(pair.own, hello.pair.peer, NAME);
        memcpy(pair.peer, hello.pair.own, NAME);
        setsockopt(stranger->fd, SOL_SOCKET, SO_RCVLOWAT, &least, sizeof least);
        if (open_connection(stranger->fd, 1, &pair, 0)) {
            stranger->fd = -1;
            return;
        }
    }
    turn_away(stranger);
}

/* A free place, else that of the oldest stranger. */
static Stranger *place(void) {
    Stranger *oldest = strangers;
    for (Stranger *at = strangers; at < strangers + STRANGERS; at++) {
        if (at->fd < 0)
            return at;
        if (at->since_ms < oldest->since_ms)
            oldest = at;
    }
    hear(&oldest->polled, 0);
    if (oldest->fd >= 0)
        turn_away(oldest);
    return oldest;
}

static void welcome(int fd) {
    Stranger *stranger = place();
    int least = sizeof(Hello);
    *stranger = (Stranger){{hear}, fd, now_ms()};
    if (setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &least, sizeof least) != 0 ||
        !poll_for(EPOLL_CTL_ADD, fd, EPOLLIN, &stranger->polled))
        turn_away(stranger);
}

/* Without a free descriptor, does not poll the listener until `look_at_the_door`: it stays ready,
 * and the thread would spin. */
static void welcome_some(Polled *door, uint32_t events) {
    (void)events;
    for (int left = AT_A_TIME; left > 0; left--) {
        int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd >= 0) {
            welcome(fd);
        } else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
            poll_for(EPOLL_CTL_MOD, listener, 0, door);
            return;
        } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
            return;
        }
    }
}

static Polled door = {welcome_some};

/* Turns away strangers whose time is up, and lets others come. */
static void look_at_the_door(void) {
    int64_t late = now_ms() - SHAKE_S * 1000;
    for (Stranger *at = strangers; at < strangers + STRANGERS; at++)
        if (at->fd >= 0 && at->since_ms < late)
            turn_away(at);
    poll_for(EPOLL_CTL_MOD, listener, EPOLLIN, &door);
}

/* A socket that listens on every interface, as TensorFlow's server does; the server shim narrows
 * it to PSCLUST_BIND. port: 0: any. reserved: whether it is this task's alone. Returns -1 if there
 * is none. */
static int listening(int family, unsigned port, int reserved) {
    /* Both kinds of address have the port at the same place, and zeros for every interface. */
    struct sockaddr_in6 every = {.sin6_family = (sa_family_t)family,
                                 .sin6_port = htons((uint16_t)port)};
    socklen_t size = family == AF_INET6 ? sizeof every : sizeof(struct sockaddr_in);
    int off = 0, fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -1;
    if (reserved) /* psclust holds it, and shares it with whom says this */
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &reserved, sizeof reserved);
    if ((family == AF_INET6 && setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off) != 0) ||
        bind(fd, (struct sockaddr *)&every, size) != 0 || listen(fd, SOMAXCONN) != 0) {
        close(fd);
        return -1;
    }
    return fd;
}

/* At a port of PSCLUST_PORTS, such as 2300-2399, if that is set. Returns -1 if there is none. */
static int listening_within(const char *range) {
    unsigned first = 0, last = 0;
    int fd = -1;
    if (range != NULL && sscanf(range, "%u-%u", &first, &last) != 2)
        return -1;
    /* From the last on: tasks get theirs from the first on. */
    for (unsigned above = last + 1; fd < 0 && above > first; above--) {
        fd = listening(AF_INET6, above - 1, first == last);
        if (fd < 0) /* a machine without IPv6 */
            fd = listening(AF_INET, above - 1, first == last);
    }
    return fd;
}

static void *serve(void *unused) {
    struct epoll_event events[64];
    int64_t last = 0;
    (void)unused;
    for (;;) {
        int count = epoll_wait(poller, events, sizeof events / sizeof *events, LOOK_MS);
        for (int i = 0; i < count; i++) {
            Polled *polled = events[i].data.ptr;
            polled->serve(polled, events[i].events);
        }
        if (now_ms() - last >= LOOK_MS) {
            last = now_ms();
            look_at_connections();
            look_at_the_door();
        }
    }
    return NULL;
}

/* In the child of a process that has forked: it has no thread that reads, and the connections are
 * its parent's. */
static void forget(void) {
    for (Stranger *at = strangers; at < strangers + STRANGERS; at++) {
        close(at->fd);
        at->fd = -1;
    }
    close(listener);
    close(poller);
    listener = poller = -1;
    forget_connections();
    pthread_mutex_init(&starting, NULL);
}

/* With `starting`. */
static const char *start(void) {
    static int may_fork;
    pthread_t thread;
    if (poller >= 0)
        return NULL;
    poller = epoll_create1(EPOLL_CLOEXEC);
    if (poller < 0)
        return "no descriptor";
    if (pthread_create(&thread, NULL, serve, NULL) != 0) {
        close(poller);
        poller = -1;
        return "no thread";
    }
    if (!may_fork && pthread_atfork(NULL, NULL, forget) == 0)
        may_fork = 1;
    pthread_detach(thread);
    return NULL;
}

/* With `starting`. */
static const char *open_door(void) {
    struct sockaddr_in6 address;
    socklen_t size = sizeof address;
    int fd = listening_within(getenv("PSCLUST_PORTS"));
    if (fd < 0)
        return "no port";
    listener = fd;
    if (getsockname(fd, (struct sockaddr *)&address, &size) != 0 ||
        /* as in the shim, for a glibc without getrandom */
        syscall(SYS_getrandom, own_ticket.secret, sizeof own_ticket.secret, 0) !=
            sizeof own_ticket.secret ||
        !poll_for(EPOLL_CTL_ADD, fd, EPOLLIN, &door)) {
        listener = -1;
        close(fd);
        return "no secret";
    }
    own_ticket.port = ntohs(address.sin6_port); /* at the same place in both kinds of address */
    return NULL;
}

const char *wire_listen(Ticket *ticket) {
    const char *reason;
    pthread_mutex_lock(&starting);
    reason = start();
    if (reason == NULL && listener < 0)
        reason = open_door();
    *ticket = own_ticket;
    pthread_mutex_unlock(&starting);
    return reason;
}

static int connected(const char *host, int64_t port) {
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found = NULL;
    struct timeval limit = {.tv_sec = SHAKE_S};
    char service[sizeof "65535"];
    int fd = -1;
    snprintf(service, sizeof service, "%u", (unsigned)(port & 0xffff));
    if (getaddrinfo(host, service, &hints, &found) != 0)
        return -1;
    for (struct addrinfo *at = found; at != NULL && fd < 0; at = at->ai_next) {
        fd = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (fd < 0)
            continue;
        setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
        setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
        if (connect(fd, at->ai_addr, at->ai_addrlen) != 0) {
            close(fd);
            fd = -1;
        }
    }
    freeaddrinfo(found);
    return fd;
}

/* With `starting`. */
static const char *connect_pair(const char *host, Ticket ticket, const Pair *pair) {
    Hello hello = {.magic = MAGIC, .secret = {ticket.secret[0], ticket.secret[1]}, .pair = *pair};
    char answer;
    /* Again if the other end closes: a crowd of strangers may have pushed this task out of its
     * place. */
    for (int left = TRIES, silent = 0; left > 0 && !silent; left--) {
        int fd = connected(host, ticket.port);
        if (fd < 0)
            return "no connection";
        errno = 0;
        if (send(fd, &hello, sizeof hello, MSG_NOSIGNAL) == sizeof hello &&
            recv(fd, &answer, 1, 0) == 1 && open_connection(fd, 0, pair, ticket.secret[0]))
            return NULL;
        silent = errno == EAGAIN || errno == EWOULDBLOCK;
        close(fd);
    }
    return "no answer";
}

const char *wire_connect(const char *host, Ticket ticket, const Pair *pair) {
    const char *reason;
    unsigned before = failures;
    pthread_mutex_lock(&starting);
    reason = start();
    if (reason == NULL && failures != before) /* as others will: they need not take as long */
        reason = "no connection";
    if (reason == NULL && !is_connected(pair, ticket.secret[0])) {
        reason = connect_pair(host, ticket, pair);
        failures += reason != NULL;
    }
    pthread_mutex_unlock(&starting);
    return reason;
}
