/* psclust's own wire between tasks: tensors as they are in memory, one TCP connection for each pair
 * of tasks.
 *
 * TensorFlow's own way to move a tensor is a call by gRPC from the task that needs it, which has it
 * answered when it is there: two messages that several threads of each task take in turn. Here a
 * task sends a tensor as soon as it is there, from the thread that made it as far as the connection
 * takes it, and one thread reads what comes into memory that the op that waits for it then has.
 *
 * Connection: the task that connects says `Hello`, the one that listens answers with one byte. Then
 * both send frames: a `Header`, the values. The secret of a `Ticket`, which travels by TensorFlow's
 * own wire, keeps out whoever is not of the cluster.
 */
#define _GNU_SOURCE
#include "wire.h"
#include "lost_peer.h"
#include "messages.h"
#include "strangers.h"

#include <errno.h>
#include <netdb.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

/* LOOK_MS: how soon a run that was cancelled does not wait any more. AT_A_TIME: frames of one
 * connection before it is others' turn. TRIES: to be greeted. */
enum { LOOK_MS = 100, AT_A_TIME = 16, TRIES = 3 };

typedef struct {
    Label label;
    int64_t bytes, dimension[MOST_DIMENSIONS];
    int32_t type, dimensions;
} Header;

typedef struct Frame {
    struct Frame *next;
    Header header;
    TF_Tensor *tensor;
} Frame;

/* Of two tasks that have greeted each other. */
struct Connection {
    struct Connection *next;
    Pair pair;
    int64_t secret;
    int fd, open, users; /* open, users: guarded by `list`; freed with the last user */
    atomic_int lost;     /* nothing is heard of it: to be closed */

    /* For the thread that reads. */
    Header header;
    TF_Tensor *arriving; /* NULL while it comes into a place */
    Waiter *waiter;      /* whose place that is */
    void *to;
    size_t got; /* of the frame that is coming */

    pthread_mutex_t leaving; /* guards the rest */
    Frame *first, **last;
    size_t sent; /* of the first frame */
    int awaits_room;
};

static pthread_mutex_t list = PTHREAD_MUTEX_INITIALIZER;
static Connection *connections;

/* A pair that is being connected. */
typedef struct Attempt {
    struct Attempt *next;
    const Pair *pair;
} Attempt;

static Attempt *attempts; /* guarded by `list` */
static pthread_cond_t attempt_ended = PTHREAD_COND_INITIALIZER;

static pthread_mutex_t starting = PTHREAD_MUTEX_INITIALIZER;
static int poller = -1, listens;
static int64_t memory;    /* of this machine */
static Ticket own_ticket; /* if it listens */

/* Of the connections that are open; NULL: none. With `list`. */
static Connection *connection_of(const Pair *pair) {
    Connection *at = connections;
    while (at != NULL && (!at->open || strcmp(at->pair.peer, pair->peer) != 0 ||
                          strcmp(at->pair.own, pair->own) != 0))
        at = at->next;
    return at;
}

/* The one of a pair, which the caller then uses; NULL: none. */
static Connection *use(const Pair *pair) {
    Connection *found;
    pthread_mutex_lock(&list);
    found = connection_of(pair);
    if (found != NULL)
        found->users++;
    pthread_mutex_unlock(&list);
    return found;
}

static void end_use(Connection *connection) {
    int users;
    if (connection == NULL)
        return;
    pthread_mutex_lock(&list);
    users = --connection->users;
    pthread_mutex_unlock(&list);
    if (users > 0)
        return;
    pthread_mutex_destroy(&connection->leaving);
    free(connection);
}

static void drop_frames(Connection *connection) {
    while (connection->first != NULL) {
        Frame *frame = connection->first;
        connection->first = frame->next;
        tf.delete_tensor(frame->tensor);
        free(frame);
    }
    connection->last = &connection->first;
}

/* By the thread that reads. */
static void close_connection(Connection *connection) {
    char reason[NAME + 64];
    snprintf(reason, sizeof reason, "the connection to %s has ended", connection->pair.peer);
    pthread_mutex_lock(&list);
    connection->open = 0;
    for (Connection **at = &connections; *at != NULL; at = &(*at)->next)
        if (*at == connection) {
            *at = connection->next;
            break;
        }
    pthread_mutex_unlock(&list);
    pthread_mutex_lock(&connection->leaving);
    /* A process that is being started may have a copy of the descriptor. */
    epoll_ctl(poller, EPOLL_CTL_DEL, connection->fd, NULL);
    close(connection->fd);
    connection->fd = -1;
    drop_frames(connection);
    pthread_mutex_unlock(&connection->leaving);
    if (connection->arriving != NULL)
        tf.delete_tensor(connection->arriving);
    connection->arriving = NULL;
    if (connection->waiter != NULL)
        connection->waiter->failed(connection->waiter, ABORTED, reason);
    connection->waiter = NULL;
    end_messages(connection, reason);
    end_use(connection);
}

/* With its `leaving`. */
static int poll_for(Connection *connection, int operation) {
    struct epoll_event event = {.events = EPOLLIN | (connection->awaits_room ? EPOLLOUT : 0),
                                .data.ptr = connection};
    return epoll_ctl(poller, operation, connection->fd, &event) == 0;
}

/* Sends as much as the connection takes; with its `leaving`. If it is broken, the thread that reads
 * will hear of it. */
static void send_frames(Connection *connection) {
    int awaits_room = 0;
    while (connection->first != NULL && connection->fd >= 0) {
        Frame *frame = connection->first;
        size_t head = sizeof frame->header, all = head + (size_t)frame->header.bytes,
               from = connection->sent;
        struct iovec parts[2] = {
            {(char *)&frame->header + (from < head ? from : head), from < head ? head - from : 0},
            {(char *)tf.data(frame->tensor) + (from < head ? 0 : from - head),
             from < head ? all - head : all - from},
        };
        struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
        ssize_t count = sendmsg(connection->fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (count < 0 && errno == EINTR)
            continue;
        if (count < 0) {
            awaits_room = errno == EAGAIN || errno == EWOULDBLOCK;
            break;
        }
        connection->sent += (size_t)count;
        if (connection->sent == all) {
            connection->first = frame->next;
            if (connection->first == NULL)
                connection->last = &connection->first;
            connection->sent = 0;
            tf.delete_tensor(frame->tensor);
            free(frame);
        }
    }
    if (awaits_room != connection->awaits_room && connection->fd >= 0) {
        connection->awaits_room = awaits_room;
        poll_for(connection, EPOLL_CTL_MOD);
    }
}

/* 1: all `size` bytes are there; 0: not yet; -1: they never will. */
static int read_into(Connection *connection, void *to, size_t size, size_t *got) {
    while (*got < size) {
        ssize_t count = recv(connection->fd, (char *)to + *got, size - *got, MSG_DONTWAIT);
        if (count > 0)
            *got += (size_t)count;
        else if (count == 0 || (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR))
            return -1;
        else if (errno != EINTR)
            return 0;
    }
    return 1;
}

/* 0: no tensor of this type travels. */
static int64_t bytes_of(int type) {
    switch (type) {
    case BOOL:
    case INT8:
    case UINT8:
        return 1;
    case BFLOAT16:
    case HALF:
    case INT16:
        return 2;
    case FLOAT:
    case INT32:
        return 4;
    case DOUBLE:
    case INT64:
        return 8;
    default:
        return 0;
    }
}

/* Whether a frame of this wire begins like that, of no more bytes than this machine's memory. */
static int is_sound(const Header *header) {
    int64_t bytes = bytes_of(header->type);
    if (bytes == 0 || header->label.key < 0 || header->dimensions < 0 ||
        header->dimensions > MOST_DIMENSIONS)
        return 0;
    for (int i = 0; i < header->dimensions; i++)
        if (header->dimension[i] < 0 || __builtin_mul_overflow(bytes, header->dimension[i], &bytes))
            return 0;
    return header->bytes == bytes && bytes <= memory;
}

/* The tensor of the frame whose header is there and sound; NULL: there is no memory. */
static TF_Tensor *new_arriving(const Header *header) {
    TF_Tensor *tensor =
        tf.new_tensor(header->type, header->dimension, header->dimensions, (size_t)header->bytes);
    if (tensor != NULL && header->bytes > 0 && tf.data(tensor) == NULL) {
        tf.delete_tensor(tensor);
        return NULL;
    }
    return tensor;
}

/* Puts a connection in place of an earlier one of the same pair. */
static void install(Connection *connection) {
    Connection *earlier;
    pthread_mutex_lock(&list);
    earlier = connection_of(&connection->pair);
    if (earlier != NULL) {
        earlier->open = 0;
        earlier->users++;
    }
    connection->next = connections;
    connections = connection;
    pthread_mutex_unlock(&list);
    if (earlier == NULL)
        return;
    /* The thread that reads then hears of its end. */
    pthread_mutex_lock(&earlier->leaving);
    if (earlier->fd >= 0)
        shutdown(earlier->fd, SHUT_RDWR);
    pthread_mutex_unlock(&earlier->leaving);
    end_use(earlier);
}

/* Chooses where the values of the frame go whose header is there. 0: no frame of this wire begins
 * like that, or there is no memory. */
static int begin_frame(Connection *connection) {
    const Header *header = &connection->header;
    if (!is_sound(header))
        return 0;
    connection->waiter =
        header->bytes > 0 ? place_for_message(header->label, (size_t)header->bytes) : NULL;
    connection->arriving = connection->waiter == NULL ? new_arriving(header) : NULL;
    if (connection->waiter == NULL && connection->arriving == NULL)
        return 0;
    connection->to =
        connection->waiter != NULL ? connection->waiter->place : tf.data(connection->arriving);
    return 1;
}

/* 0: there is no memory. */
static int end_frame(Connection *connection) {
    TF_Tensor *tensor = connection->arriving;
    Waiter *waiter = connection->waiter;
    connection->arriving = NULL;
    connection->waiter = NULL;
    connection->got = 0;
    if (waiter == NULL)
        return message_has_come(connection, connection->header.label, tensor);
    waiter->come(waiter, NULL);
    return 1;
}

static int read_frame(Connection *connection) {
    size_t head = sizeof connection->header, got;
    int state;
    if (connection->got < head) {
        state = read_into(connection, &connection->header, head, &connection->got);
        if (state != 1)
            return state;
        if (!begin_frame(connection))
            return -1;
    }
    got = connection->got - head;
    state = read_into(connection, connection->to, (size_t)connection->header.bytes, &got);
    connection->got = got + head;
    return state == 1 && !end_frame(connection) ? -1 : state;
}

/* Of the frame that comes: if its run was cancelled, the rest goes into a tensor that nobody will
 * ask for. 0: there is no memory. */
static int keep_out_of_place(Connection *connection) {
    Waiter *waiter = connection->waiter;
    if (waiter == NULL || !waiter->unwanted(waiter))
        return 1;
    connection->waiter = NULL;
    connection->arriving = new_arriving(&connection->header);
    connection->to = connection->arriving != NULL ? tf.data(connection->arriving) : NULL;
    waiter->failed(waiter, CANCELLED, "the step was cancelled");
    return connection->arriving != NULL;
}

/* NULL: there is no memory. */
static Connection *new_connection(int fd, const Pair *pair) {
    Connection *connection = calloc(1, sizeof *connection);
    int on = 1;
    if (connection == NULL)
        return NULL;
    connection->fd = fd;
    connection->pair = *pair;
    connection->open = connection->users = 1;
    connection->last = &connection->first;
    pthread_mutex_init(&connection->leaving, NULL);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    notice_a_lost_peer(fd);
    return connection;
}

int let_in(int fd, const Pair *pair) {
    Connection *connection = new_connection(fd, pair);
    int greeted;
    if (connection == NULL)
        return 0;
    /* What another thread sends by it comes after the answer. */
    pthread_mutex_lock(&connection->leaving);
    install(connection);
    greeted =
        send(fd, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL) == 1 && poll_for(connection, EPOLL_CTL_MOD);
    pthread_mutex_unlock(&connection->leaving);
    if (!greeted)
        close_connection(connection);
    return 1;
}

/* Of all connections. */
static void end_unwanted_places(void) {
    Connection *at, *next;
    pthread_mutex_lock(&list);
    at = connections;
    pthread_mutex_unlock(&list);
    for (; at != NULL; at = next) {
        next = at->next;
        if (at->lost || !keep_out_of_place(at))
            close_connection(at);
    }
}

static void *serve(void *unused) {
    struct epoll_event events[64];
    struct timespec time;
    int64_t now, last = 0;
    (void)unused;
    for (;;) {
        int count = epoll_wait(poller, events, sizeof events / sizeof *events, LOOK_MS);
        for (int i = 0; i < count; i++) {
            Connection *connection = events[i].data.ptr;
            int state = 1;
            if (is_at_the_door(connection)) {
                answer_the_door(connection);
                continue;
            }
            if (events[i].events & EPOLLOUT) {
                pthread_mutex_lock(&connection->leaving);
                send_frames(connection);
                pthread_mutex_unlock(&connection->leaving);
            }
            if (events[i].events & ~(unsigned)EPOLLOUT)
                for (int left = AT_A_TIME; state == 1 && left > 0; left--)
                    state = read_frame(connection);
            if (state == -1)
                close_connection(connection);
        }
        clock_gettime(CLOCK_MONOTONIC_COARSE, &time);
        now = time.tv_sec * 1000 + time.tv_nsec / 1000000;
        if (now - last >= LOOK_MS) {
            last = now;
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
    /* They end when the parent does. */
    for (Connection *at = connections; at != NULL; at = at->next)
        if (at->fd >= 0)
            close(at->fd);
    poller = -1;
    listens = 0;
    connections = NULL;
    attempts = NULL;
    pthread_mutex_init(&list, NULL);
    pthread_cond_init(&attempt_ended, NULL);
    pthread_mutex_init(&starting, NULL);
    forget_messages();
}

/* With `starting`. */
static const char *start(void) {
    static int may_fork;
    pthread_t thread;
    if (poller >= 0)
        return NULL;
    memory = (int64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGE_SIZE);
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

/* With `list`. */
static int is_attempted(const Pair *pair) {
    const Attempt *at = attempts;
    while (at != NULL &&
           (strcmp(at->pair->peer, pair->peer) != 0 || strcmp(at->pair->own, pair->own) != 0))
        at = at->next;
    return at != NULL;
}

/* Whether the pair is to be connected; sessions of several tasks may ask for it at once. */
static int begin_attempt(Attempt *attempt, int64_t secret) {
    const Connection *connection;
    int there;
    pthread_mutex_lock(&list);
    while (is_attempted(attempt->pair))
        pthread_cond_wait(&attempt_ended, &list);
    connection = connection_of(attempt->pair);
    there = connection != NULL && connection->secret == secret;
    if (!there) {
        attempt->next = attempts;
        attempts = attempt;
    }
    pthread_mutex_unlock(&list);
    return !there;
}

static void end_attempt(const Attempt *attempt) {
    Attempt **at = &attempts;
    pthread_mutex_lock(&list);
    while (*at != attempt)
        at = &(*at)->next;
    *at = attempt->next;
    pthread_cond_broadcast(&attempt_ended);
    pthread_mutex_unlock(&list);
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

static const char *connect_pair(const char *host, Ticket ticket, const Pair *pair) {
    Connection *connection;
    int greeted = 0, polled, fd = -1;
    /* Where strangers crowd, one may have been taken for one of them. */
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
    connection = new_connection(fd, pair);
    if (connection == NULL) {
        close(fd);
        return "no memory";
    }
    connection->secret = ticket.secret[0];
    pthread_mutex_lock(&connection->leaving);
    install(connection);
    polled = poll_for(connection, EPOLL_CTL_ADD);
    pthread_mutex_unlock(&connection->leaving);
    if (polled)
        return NULL;
    connection->lost = 1; /* from here on it may be gone */
    return "no room for a connection";
}

const char *wire_connect(const char *host, Ticket ticket, const Pair *pair) {
    Attempt attempt = {.pair = pair};
    const char *reason;
    pthread_mutex_lock(&starting);
    reason = start();
    pthread_mutex_unlock(&starting);
    if (reason != NULL || !begin_attempt(&attempt, ticket.secret[0]))
        return reason;
    reason = connect_pair(host, ticket, pair);
    end_attempt(&attempt);
    return reason;
}

int wire_send(const Pair *pair, Label label, TF_Tensor *tensor) {
    Connection *connection = use(pair);
    Frame *frame = calloc(1, sizeof *frame);
    if (frame == NULL)
        abort();
    frame->tensor = tensor;
    frame->header = (Header){.label = label,
                             .bytes = (int64_t)tf.bytes(tensor),
                             .type = tf.type(tensor),
                             .dimensions = tf.dimensions(tensor)};
    for (int i = 0; i < frame->header.dimensions; i++)
        frame->header.dimension[i] = tf.dimension(tensor, i);
    if (connection != NULL) {
        pthread_mutex_lock(&connection->leaving);
        if (connection->fd >= 0) {
            *connection->last = frame;
            connection->last = &frame->next;
            if (connection->first == frame)
                send_frames(connection);
            frame = NULL;
        }
        pthread_mutex_unlock(&connection->leaving);
        end_use(connection);
    }
    if (frame == NULL)
        return 1;
    tf.delete_tensor(tensor);
    free(frame);
    return 0;
}

void wire_receive(const Pair *pair, Label label, Waiter *waiter) {
    Connection *connection = use(pair);
    int open;
    await_message(connection, label, waiter);
    pthread_mutex_lock(&list);
    open = connection != NULL && connection->open;
    pthread_mutex_unlock(&list);
    /* It may have ended before the message was awaited. */
    if (!open)
        end_messages(connection, "there is no connection to the task that sends");
    end_use(connection);
}
