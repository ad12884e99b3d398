/* psclust's own wire between tasks: tensors as they are in memory, one TCP connection for each pair
 * of tasks.
 *
 * TensorFlow moves a tensor by a gRPC call from the task that needs it, which several threads of
 * both tasks handle. Here a task sends a tensor as soon as it has it, from the thread that made it,
 * and one thread reads what arrives straight into the memory that the waiting op then gets.
 *
 * The task that connects sends `Hello` and the one that listens answers with one byte; then both
 * send frames (connection.c). The secret in a `Ticket` travels by TensorFlow's own wire, so it
 * keeps out only those who cannot reach the task's gRPC port. In an encrypted run, both go on by
 * TLS (forwarded.h).
 *
 * Anybody may connect, so strangers get a fixed number of places and ten seconds each: a crowd of
 * them takes no memory and no descriptor that a task needs. */
#define _GNU_SOURCE
#include "wire.h"
#include "clock.h"
#include "connection.h"
#include "forwarded.h"
#include "variables.h"

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
    Channel channel; /* fd -1: nobody */
    int greeted;     /* what comes is its `Hello`, and does not hand over a connection */
    size_t got;      /* of it */
    Hello hello;
    int64_t since_ms;
} Stranger;

/* Guards the start of the thread that reads and of its door, and lets one pair connect at a time:
 * several sessions may ask for it at once. */
static pthread_mutex_t starting = PTHREAD_MUTEX_INITIALIZER;
static atomic_uint failures; /* to connect */
static Ticket own_ticket;
static atomic_int listener = -1;
/* Of the thread. */
static Stranger strangers[STRANGERS] = {[0 ... STRANGERS - 1] = {.channel = {-1, NULL}}};

static void turn_away(Stranger *stranger) {
    channel_close(&stranger->channel, poller);
}

static int is_of_the_cluster(const Hello *hello) {
    return hello->magic == MAGIC &&
           ((hello->secret[0] ^ own_ticket.secret[0]) |
            (hello->secret[1] ^ own_ticket.secret[1])) == 0 &&
           memchr(hello->pair.own, 0, NAME) != NULL && memchr(hello->pair.peer, 0, NAME) != NULL;
}

/* Goes on with a connection that the forwarder of this host has handed over. */
static ssize_t go_on_with(Stranger *stranger, Channel other) {
    turn_away(stranger);
    stranger->channel = other;
    if (!poll_for(EPOLL_CTL_ADD, other.fd, EPOLLIN, &stranger->polled)) {
        turn_away(stranger);
        return 0;
    }
    errno = EAGAIN;
    return -1;
}

/* As recv: no more than the greeting, as what follows is for the wire. */
static ssize_t hear_some(Stranger *stranger) {
    char *to = (char *)&stranger->hello + stranger->got;
    size_t size = sizeof stranger->hello - stranger->got;
    Channel other;
    ssize_t count;
    if (stranger->greeted)
        return channel_receive(&stranger->channel, to, size);
    if (stranger->channel.tls != NULL) {
        count = tls_greet(stranger->channel.tls);
        stranger->greeted = count == 1;
        return count == 1 ? hear_some(stranger) : count;
    }
    count = hear_first(stranger->channel.fd, to, size, &other);
    stranger->greeted = other.fd < 0 && count > 0;
    return other.fd >= 0 ? go_on_with(stranger, other) : count;
}

static int open_for(Stranger *stranger) {
    Pair pair;
    memcpy(pair.own, stranger->hello.pair.peer, NAME);
    memcpy(pair.peer, stranger->hello.pair.own, NAME);
    return open_connection(stranger->channel, 1, &pair, 0);
}

static void hear(Polled *polled, uint32_t events) {
    Stranger *stranger = (Stranger *)polled;
    ssize_t count;
    (void)events;
    if (stranger->channel.fd < 0) /* it has just been turned away */
        return;
    count = hear_some(stranger);
    if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
        return;
    stranger->got += count > 0 ? (size_t)count : 0;
    if (count > 0 && stranger->got < sizeof stranger->hello)
        return;
    if (count > 0 && is_of_the_cluster(&stranger->hello) && open_for(stranger))
        stranger->channel = (Channel){-1, NULL};
    else
        turn_away(stranger);
}

/* A free place, else that of the oldest stranger. */
static Stranger *place(void) {
    Stranger *oldest = strangers;
    for (Stranger *at = strangers; at < strangers + STRANGERS; at++) {
        if (at->channel.fd < 0)
            return at;
        if (at->since_ms < oldest->since_ms)
            oldest = at;
    }
    hear(&oldest->polled, 0);
    if (oldest->channel.fd >= 0)
        turn_away(oldest);
    return oldest;
}

static void welcome(int fd) {
    Stranger *stranger = place();
    int forwarded = is_forwarded();
    *stranger = (Stranger){
        .polled = {hear}, .channel = {fd, NULL}, .greeted = !forwarded, .since_ms = now_ms()};
    if ((forwarded && !is_own(fd)) || !poll_for(EPOLL_CTL_ADD, fd, EPOLLIN, &stranger->polled))
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
        if (at->channel.fd >= 0 && at->since_ms < late)
            turn_away(at);
    poll_for(EPOLL_CTL_MOD, listener, EPOLLIN, &door);
}

/* With its forwarder, a task loses the connections that TensorFlow has through it, and a run that
 * fails before it has begun here may wait here for ever: so it gives up those of the wire, too. */
static void lose_forwarder(Polled *polled, uint32_t events);
static Polled watch = {lose_forwarder};
static int watched = -1;

static void lose_forwarder(Polled *polled, uint32_t events) {
    (void)polled, (void)events;
    close(watched);
    watched = -1;
    end_connections();
}

static void look_at_forwarder(void) {
    if (watched >= 0 || !is_forwarded())
        return;
    watched = beside_forwarder();
    if (watched >= 0 && !poll_for(EPOLL_CTL_ADD, watched, EPOLLIN, &watch)) {
        close(watched);
        watched = -1;
    }
}

/* A socket that listens on every interface, as TensorFlow's server does; the server shim narrows
 * it to PSCLUST_BIND. port: 0: any. Returns -1 if there is none. */
static int listening(int family, unsigned port) {
    /* Both kinds of address have the port at the same place, and zeros for every interface. */
    struct sockaddr_in6 every = {.sin6_family = (sa_family_t)family,
                                 .sin6_port = htons((uint16_t)port)};
    socklen_t size = family == AF_INET6 ? sizeof every : sizeof(struct sockaddr_in);
    int off = 0, fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -1;
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
        fd = listening(AF_INET6, above - 1);
        if (fd < 0) /* a machine without IPv6 */
            fd = listening(AF_INET, above - 1);
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
            look_at_forwarder();
        }
    }
    return NULL;
}

/* In the child of a process that has forked: it has no thread that reads, and the connections are
 * its parent's. */
static void forget(void) {
    for (Stranger *at = strangers; at < strangers + STRANGERS; at++) {
        close(at->channel.fd);
        at->channel.fd = -1;
    }
    close(listener);
    close(poller);
    close(watched);
    listener = poller = watched = -1;
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

/* Sets where others find this task: the port, or a number that nobody guesses. Returns a socket
 * that listens; -1 if there is none. */
static int listening_as(Ticket *ticket) {
    struct sockaddr_in6 address;
    socklen_t size = sizeof address;
    int fd;
    if (is_forwarded()) {
        ticket->port &= INT64_MAX;
        return listening_for(ticket->port);
    }
    fd = listening_within(variable(PSCLUST_PORTS));
    if (fd >= 0 && getsockname(fd, (struct sockaddr *)&address, &size) == 0)
        ticket->port = ntohs(address.sin6_port); /* at the same place in both kinds of address */
    return fd;
}

/* With `starting`. */
static const char *open_door(void) {
    const char *reason = is_forwarded() ? start_forwarded() : NULL;
    int fd;
    if (reason != NULL)
        return reason;
    /* as in the shim, for a glibc without getrandom */
    if (syscall(SYS_getrandom, &own_ticket, sizeof own_ticket, 0) != sizeof own_ticket)
        return "no secret";
    fd = listening_as(&own_ticket);
    if (fd < 0)
        return "no port";
    listener = fd;
    if (!poll_for(EPOLL_CTL_ADD, fd, EPOLLIN, &door)) {
        listener = -1;
        close(fd);
        return "no memory";
    }
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

static Channel connected_to(const char *host, int64_t port) {
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found = NULL;
    struct timeval limit = {.tv_sec = SHAKE_S};
    char service[sizeof "65535"];
    int fd = -1;
    snprintf(service, sizeof service, "%u", (unsigned)(port & 0xffff));
    if (getaddrinfo(host, service, &hints, &found) != 0)
        return (Channel){-1, NULL};
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
    return (Channel){fd, NULL};
}

/* 0: the other end has closed or, with EAGAIN in errno, is silent. */
static int greet(Channel channel, const Hello *hello) {
    char answer;
    errno = 0;
    if (channel.tls != NULL)
        return tls_write(channel.tls, (const char *)hello, sizeof *hello, SHAKE_S * 1000) &&
               tls_read(channel.tls, &answer, 1, SHAKE_S * 1000);
    return send(channel.fd, hello, sizeof *hello, MSG_NOSIGNAL) == sizeof *hello &&
           recv(channel.fd, &answer, 1, 0) == 1;
}

/* With `starting`. */
static const char *connect_pair(Address at, Ticket ticket, const Pair *pair) {
    Hello hello = {.magic = MAGIC, .secret = {ticket.secret[0], ticket.secret[1]}, .pair = *pair};
    /* Again if the other end closes: a crowd of strangers may have pushed this task out of its
     * place. */
    for (int left = TRIES, silent = 0; left > 0 && !silent; left--) {
        Channel channel = is_forwarded() ? forwarded_to(at.port, ticket.port)
                                         : connected_to(at.host, ticket.port);
        if (channel.fd < 0 && errno != ECONNRESET)
            return "no connection";
        if (channel.fd < 0)
            continue;
        if (greet(channel, &hello) && open_connection(channel, 0, pair, ticket.secret[0]))
            return NULL;
        silent = errno == EAGAIN || errno == EWOULDBLOCK;
        channel_close(&channel, -1);
    }
    return "no answer";
}

const char *wire_connect(Address at, Ticket ticket, const Pair *pair) {
    const char *reason;
    unsigned before = failures;
    pthread_mutex_lock(&starting);
    reason = start();
    if (reason == NULL && is_forwarded())
        reason = start_forwarded();
    if (reason == NULL && failures != before) /* as others will: they need not take as long */
        reason = "no connection";
    if (reason == NULL && !is_connected(pair, ticket.secret[0])) {
        reason = connect_pair(at, ticket, pair);
        failures += reason != NULL;
    }
    pthread_mutex_unlock(&starting);
    return reason;
}
