/* psclust's own wire between tasks: tensors as they are in memory, one TCP connection for each pair
 * of tasks.
 *
 * TensorFlow moves a tensor by a gRPC call from the task that needs it, which several threads of
 * both tasks handle. Here a task sends a tensor as soon as it has it, from the thread that made it,
 * and one thread reads what arrives straight into the memory that the waiting op then gets.
 *
 * The task that connects sends `Hello` and the one that listens answers with one byte; then both
 * send frames (connection.c). The secret in a `Ticket` travels by TensorFlow's own wire, so it
 * keeps out only those who cannot reach the task's gRPC port. */
#define _GNU_SOURCE
#include "wire.h"
#include "connection.h"
#include "messages.h"
#include "strangers.h"

#include <errno.h>
#include <netdb.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

/* LOOK_MS: how soon a run that was cancelled stops waiting. TRIES: to be greeted. */
enum { LOOK_MS = 100, TRIES = 3 };

/* Guards what follows, and lets one pair connect at a time: several sessions may ask for it at
 * once. */
static pthread_mutex_t starting = PTHREAD_MUTEX_INITIALIZER;
static int poller = -1, listens;
static Ticket own_ticket; /* if it listens */
static atomic_uint failures;

static int64_t now_ms(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &time);
    return time.tv_sec * 1000 + time.tv_nsec / 1000000;
}

static void *serve(void *unused) {
    struct epoll_event events[64];
    int64_t last = 0;
    (void)unused;
    for (;;) {
        int count = epoll_wait(poller, events, sizeof events / sizeof *events, LOOK_MS);
        for (int i = 0; i < count; i++)
            if (is_at_the_door(events[i].data.ptr))
                answer_the_door(events[i].data.ptr);
            else
                serve_connection(events[i].data.ptr, events[i].events);
        if (now_ms() - last >= LOOK_MS) {
            last = now_ms();
            end_unwanted_messages();
            end_unwanted_places();
            look_at_the_door();
        }
    }
    return NULL;
}

/* In the child of a process that has forked: it has no thread that reads, and the connections are
 * its parent's. */
static void forget(void) {
    if (poller >= 0)
        close(poller);
    forget_the_door();
    forget_connections();
    forget_messages();
    poller = -1;
    listens = 0;
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

const char *wire_listen(Ticket *ticket) {
    const char *reason;
    pthread_mutex_lock(&starting);
    reason = start();
    if (reason == NULL && !listens)
        reason = open_door(poller, &own_ticket);
    listens = reason == NULL;
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

/* 1: the other end has let this one in; 0: it has closed the connection; -1: it says nothing. */
static int greet(int fd, Ticket ticket, const Pair *pair) {
    Hello hello = {.magic = MAGIC, .secret = {ticket.secret[0], ticket.secret[1]}, .pair = *pair};
    char answer;
    if (send(fd, &hello, sizeof hello, MSG_NOSIGNAL) == sizeof hello &&
        recv(fd, &answer, 1, 0) == 1)
        return 1;
    return errno == EAGAIN || errno == EWOULDBLOCK ? -1 : 0;
}

/* With `starting`. */
static const char *connect_pair(const char *host, Ticket ticket, const Pair *pair) {
    int greeted = 0, fd = -1;
    /* A crowd of strangers may have pushed this task out of its place. */
    for (int left = TRIES; greeted == 0 && left > 0; left--) {
        fd = connected(host, ticket.port);
        if (fd < 0)
            return "no connection";
        errno = 0;
        greeted = greet(fd, ticket, pair);
        if (greeted != 1)
            close(fd);
    }
    if (greeted != 1)
        return "no answer";
    if (open_connection(poller, EPOLL_CTL_ADD, fd, pair, ticket.secret[0], NULL, 0))
        return NULL;
    close(fd);
    return "no room for a connection";
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

int wire_send(const Pair *pair, Label label, TF_Tensor *tensor) {
    Connection *connection = use(pair);
    int sent;
    if (connection == NULL) {
        tf.delete_tensor(tensor);
        return 0;
    }
    sent = send_tensor(connection, label, tensor);
    end_use(connection);
    return sent;
}

void wire_receive(const Pair *pair, Label label, Waiter *waiter) {
    Connection *connection = use(pair);
    await_message(connection, label, waiter);
    /* It may have ended before the message was awaited. */
    if (connection == NULL || has_ended(connection))
        end_messages(connection, "there is no connection to the task that sends");
    end_use(connection);
}
