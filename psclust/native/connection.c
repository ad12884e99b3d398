/* The connections of psclust's wire, and the frames that travel by them: a `Header`, then the
 * values as they are in memory.
 *
 * One thread reads all of them; any thread sends, as much as the connection takes at once, and the
 * thread that reads sends the rest. A connection is freed by its last user, because it may end
 * while another thread is about to send. */
#define _GNU_SOURCE
#include "connection.h"
#include "lost_peer.h"
#include "messages.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

/* AT_A_TIME: frames of one connection before it is others' turn. */
enum { AT_A_TIME = 16 };

typedef struct Frame {
    struct Frame *next;
    Header header;
    TF_Tensor *tensor;
} Frame;

struct Connection {
    struct Connection *next; /* guarded by `list` */
    int users;               /* guarded by `list` */
    Pair pair;
    int64_t secret;
    int poller;
    atomic_int ended;

    /* For the thread that reads. */
    Header header;
    TF_Tensor *arriving; /* NULL while it comes into a place */
    Waiter *waiter;      /* whose place that is */
    void *to;
    size_t got; /* of the frame that is coming */

    pthread_mutex_t leaving; /* guards the rest */
    int fd;                  /* -1: it has ended */
    Frame *first, **last;
    size_t sent; /* of the first frame */
    int awaits_room;
};

static pthread_mutex_t list = PTHREAD_MUTEX_INITIALIZER;
static Connection *connections;

/* NULL: none. With `list`. */
static Connection *connection_of(const Pair *pair) {
    Connection *at = connections;
    while (at != NULL &&
           (strcmp(at->pair.peer, pair->peer) != 0 || strcmp(at->pair.own, pair->own) != 0))
        at = at->next;
    return at;
}

/* If it is in the list. With `list`. */
static void unlist(const Connection *connection) {
    Connection **at = &connections;
    while (*at != NULL && *at != connection)
        at = &(*at)->next;
    if (*at != NULL)
        *at = connection->next;
}

Connection *use(const Pair *pair) {
    Connection *found;
    pthread_mutex_lock(&list);
    found = connection_of(pair);
    if (found != NULL)
        found->users++;
    pthread_mutex_unlock(&list);
    return found;
}

void end_use(Connection *connection) {
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

int is_connected(const Pair *pair, int64_t secret) {
    const Connection *found;
    int same;
    pthread_mutex_lock(&list);
    found = connection_of(pair);
    same = found != NULL && found->secret == secret;
    pthread_mutex_unlock(&list);
    return same;
}

int has_ended(Connection *connection) {
    return connection->ended;
}

/* With its `leaving`. */
static int poll_for(Connection *connection, int operation) {
    struct epoll_event event = {.events = EPOLLIN | (connection->awaits_room ? EPOLLOUT : 0),
                                .data.ptr = connection};
    return epoll_ctl(connection->poller, operation, connection->fd, &event) == 0;
}

/* Of two tasks that share a link, BBR lets one have most of it for a tenth of a second and longer;
 * cubic does not. Where the kernel does not let this user choose it, the host's own is used. */
static void share_the_link(int fd) {
    static const char cubic[] = "cubic";
    setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, cubic, sizeof cubic - 1);
}

int open_connection(int poller, int operation, int fd, const Pair *pair, int64_t secret,
                    const char *greeting, size_t length) {
    Connection *connection = calloc(1, sizeof *connection), *earlier;
    int polled, on = 1;
    if (connection == NULL)
        return 0;
    connection->poller = poller;
    connection->fd = fd;
    connection->pair = *pair;
    connection->secret = secret;
    connection->users = 1;
    connection->last = &connection->first;
    pthread_mutex_init(&connection->leaving, NULL);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    share_the_link(fd);
    notice_a_lost_peer(fd);
    /* The thread that reads may hear of it at once: with `list`, it ends no connection. */
    pthread_mutex_lock(&list);
    polled = (length == 0 ||
              send(fd, greeting, length, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)length) &&
             poll_for(connection, operation);
    earlier = polled ? connection_of(pair) : NULL;
    if (earlier != NULL) {
        unlist(earlier);
        earlier->users++;
    }
    if (polled) {
        connection->next = connections;
        connections = connection;
    }
    pthread_mutex_unlock(&list);
    if (!polled)
        end_use(connection);
    if (earlier != NULL) { /* the thread that reads then hears of its end */
        pthread_mutex_lock(&earlier->leaving);
        if (earlier->fd >= 0)
            shutdown(earlier->fd, SHUT_RDWR);
        pthread_mutex_unlock(&earlier->leaving);
        end_use(earlier);
    }
    return polled;
}

static void drop_first(Connection *connection) {
    Frame *frame = connection->first;
    connection->first = frame->next;
    if (connection->first == NULL)
        connection->last = &connection->first;
    connection->sent = 0;
    tf.delete_tensor(frame->tensor);
    free(frame);
}

/* By the thread that reads. */
static void close_connection(Connection *connection) {
    char reason[NAME + 64];
    snprintf(reason, sizeof reason, "the connection to %s has ended", connection->pair.peer);
    pthread_mutex_lock(&list);
    unlist(connection);
    pthread_mutex_unlock(&list);
    pthread_mutex_lock(&connection->leaving);
    /* A process that is being started may have a copy of the descriptor. */
    epoll_ctl(connection->poller, EPOLL_CTL_DEL, connection->fd, NULL);
    close(connection->fd);
    connection->fd = -1;
    while (connection->first != NULL)
        drop_first(connection);
    pthread_mutex_unlock(&connection->leaving);
    if (connection->arriving != NULL)
        leave_room(connection->arriving);
    if (connection->waiter != NULL)
        connection->waiter->failed(connection->waiter, ABORTED, reason);
    connection->ended = 1; /* what is awaited from now on fails by itself */
    end_messages(connection, reason);
    end_use(connection);
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
        if (connection->sent == all)
            drop_first(connection);
    }
    if (awaits_room != connection->awaits_room && connection->fd >= 0) {
        connection->awaits_room = awaits_room;
        poll_for(connection, EPOLL_CTL_MOD);
    }
}

int send_tensor(Connection *connection, Label label, TF_Tensor *tensor) {
    Frame *frame = calloc(1, sizeof *frame);
    int open;
    if (frame == NULL)
        abort();
    frame->tensor = tensor;
    frame->header = (Header){.label = label,
                             .bytes = (int64_t)tf.bytes(tensor),
                             .type = tf.type(tensor),
                             .dimensions = tf.dimensions(tensor)};
    for (int i = 0; i < frame->header.dimensions; i++)
        frame->header.dimension[i] = tf.dimension(tensor, i);
    pthread_mutex_lock(&connection->leaving);
    *connection->last = frame;
    connection->last = &frame->next;
    open = connection->fd >= 0;
    if (!open)
        drop_first(connection);
    else if (connection->first == frame)
        send_frames(connection);
    pthread_mutex_unlock(&connection->leaving);
    return open;
}

/* 1: all `size` bytes are there; 0: not yet; -1: they never will. */
static int read_into(const Connection *connection, void *to, size_t size, size_t *got) {
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

/* Chooses where the values of the frame go whose header is there. 0: nowhere. */
static int begin_frame(Connection *connection) {
    const Header *header = &connection->header;
    connection->waiter = header->bytes > 0 ? place_for_message(header) : NULL;
    connection->arriving = connection->waiter == NULL ? make_room(header) : NULL;
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

/* As `read_into`. */
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

void serve_connection(Connection *connection, uint32_t events) {
    int state = 1;
    if (events & EPOLLOUT) {
        pthread_mutex_lock(&connection->leaving);
        send_frames(connection);
        pthread_mutex_unlock(&connection->leaving);
    }
    if (events & ~(uint32_t)EPOLLOUT)
        for (int left = AT_A_TIME; state == 1 && left > 0; left--)
            state = read_frame(connection);
    if (state == -1)
        close_connection(connection);
}

/* Of the frame that comes: if its run was cancelled, the rest goes into a tensor that nobody will
 * ask for. 0: there is no memory. */
static int keep_out_of_place(Connection *connection) {
    Waiter *waiter = connection->waiter;
    if (waiter == NULL || !waiter->unwanted(waiter))
        return 1;
    connection->waiter = NULL;
    connection->arriving = make_room(&connection->header);
    connection->to = connection->arriving != NULL ? tf.data(connection->arriving) : NULL;
    waiter->failed(waiter, CANCELLED, "the step was cancelled");
    return connection->arriving != NULL;
}

/* Of the list; NULL: the first one. */
static Connection *next_of(const Connection *connection) {
    Connection *next;
    pthread_mutex_lock(&list);
    next = connection != NULL ? connection->next : connections;
    pthread_mutex_unlock(&list);
    return next;
}

void end_unwanted_places(void) {
    Connection *next;
    for (Connection *at = next_of(NULL); at != NULL; at = next) {
        next = next_of(at);
        if (!keep_out_of_place(at))
            close_connection(at);
    }
}

void forget_connections(void) {
    /* They end when the parent does. */
    for (Connection *at = connections; at != NULL; at = at->next)
        if (at->fd >= 0)
            close(at->fd);
    connections = NULL;
    pthread_mutex_init(&list, NULL);
}
