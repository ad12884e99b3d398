/* The connections of psclust's wire, and the frames that travel by them: a `Header`, then the
 * values as they are in memory.
 *
 * One thread reads all of them; any thread sends, as much as the connection takes at once, and the
 * thread that reads sends the rest. A connection is freed by its last user, because it may end
 * while another thread is about to send. */
#define _GNU_SOURCE
#include "connection.h"
#include "cancelled.h"
#include "lost_peer.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

/* AT_A_TIME: frames of one connection before it is others' turn. STEP_IS_CANCELLED: the key of a
 * frame without values, by which a task says so. */
enum { AT_A_TIME = 16, STEP_IS_CANCELLED = -1 };

typedef struct Frame {
    struct Frame *next;
    Header header;
    TF_Tensor *tensor;
    struct iovec left[2]; /* of the header and the values */
} Frame;

typedef struct Connection {
    Polled polled;
    struct Connection *next; /* guarded by `list` */
    int users;               /* guarded by `list` */
    Pair pair;
    int64_t secret;
    Messages messages;

    /* For the thread that reads. */
    Header header;
    TF_Tensor *arriving; /* NULL: the header is */
    size_t got;          /* of one or the other */

    pthread_mutex_t leaving; /* guards the rest; what arrives in the open needs no guard */
    Channel channel;
    Frame *first, **last;
    int awaits_room;
} Connection;

int poller = -1;
static pthread_mutex_t list = PTHREAD_MUTEX_INITIALIZER;
static Connection *connections; /* the newest first; only the thread that reads takes one out */

int poll_for(int operation, int fd, uint32_t events, Polled *polled) {
    struct epoll_event event = {.events = events, .data.ptr = polled};
    return epoll_ctl(poller, operation, fd, &event) == 0;
}

/* The one of a pair, to be given to `end_use`; NULL: none. */
static Connection *use(const Pair *pair) {
    Connection *at;
    pthread_mutex_lock(&list);
    at = connections;
    while (at != NULL &&
           (strcmp(at->pair.peer, pair->peer) != 0 || strcmp(at->pair.own, pair->own) != 0))
        at = at->next;
    if (at != NULL)
        at->users++;
    pthread_mutex_unlock(&list);
    return at;
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
    pthread_mutex_destroy(&connection->messages.lock);
    free(connection);
}

int is_connected(const Pair *pair, int64_t secret) {
    Connection *connection = use(pair);
    int is = connection != NULL && connection->secret == secret;
    end_use(connection);
    return is;
}

static void drop_first(Connection *connection) {
    Frame *frame = connection->first;
    connection->first = frame->next;
    if (connection->first == NULL)
        connection->last = &connection->first;
    if (frame->tensor != NULL)
        tf.delete_tensor(frame->tensor);
    free(frame);
}

/* Sends as much as the connection takes; with its `leaving`. If it is broken, the thread that reads
 * will hear of it. */
static void send_frames(Connection *connection) {
    int awaits_room = 0;
    while (connection->first != NULL) {
        struct iovec *left = connection->first->left;
        ssize_t count = channel_send(&connection->channel, left);
        if (count < 0 && errno == EINTR)
            continue;
        if (count < 0) {
            awaits_room = errno == EAGAIN || errno == EWOULDBLOCK;
            break;
        }
        for (int i = 0; i < 2; i++) {
            size_t part = (size_t)count < left[i].iov_len ? (size_t)count : left[i].iov_len;
            left[i] = (struct iovec){(char *)left[i].iov_base + part, left[i].iov_len - part};
            count -= (ssize_t)part;
        }
        if (left[0].iov_len + left[1].iov_len == 0)
            drop_first(connection);
    }
    if (awaits_room != connection->awaits_room) {
        connection->awaits_room = awaits_room;
        poll_for(EPOLL_CTL_MOD, connection->channel.fd, EPOLLIN | (awaits_room ? EPOLLOUT : 0),
                 &connection->polled);
    }
}

/* Takes over the frame unless it returns 0: the connection has ended. */
static int queue_frame(Connection *connection, Frame *frame) {
    int open;
    pthread_mutex_lock(&connection->leaving);
    open = connection->channel.fd >= 0;
    if (open) {
        *connection->last = frame;
        connection->last = &frame->next;
        if (connection->first == frame)
            send_frames(connection);
    }
    pthread_mutex_unlock(&connection->leaving);
    return open;
}

/* By the thread that reads. */
static void tell_that_it_is_cancelled(Connection *connection, int64_t step) {
    Frame *frame = calloc(1, sizeof *frame);
    if (frame == NULL)
        abort();
    frame->header.label = (Label){step, STEP_IS_CANCELLED};
    frame->left[0] = (struct iovec){&frame->header, sizeof frame->header};
    if (!queue_frame(connection, frame))
        free(frame);
}

int send_message(const Pair *pair, Label label, TF_Tensor *tensor) {
    Connection *connection = use(pair);
    Frame *frame = calloc(1, sizeof *frame);
    int open = 0;
    if (frame == NULL)
        abort();
    frame->tensor = tensor;
    frame->header = (Header){.label = label,
                             .bytes = (int64_t)tf.bytes(tensor),
                             .type = tf.type(tensor),
                             .dimensions = tf.dimensions(tensor)};
    for (int i = 0; i < frame->header.dimensions; i++)
        frame->header.dimension[i] = tf.dimension(tensor, i);
    frame->left[0] = (struct iovec){&frame->header, sizeof frame->header};
    frame->left[1] = (struct iovec){tf.data(tensor), tf.bytes(tensor)};
    if (connection != NULL) {
        open = queue_frame(connection, frame);
        end_use(connection);
    }
    if (!open) {
        tf.delete_tensor(tensor);
        free(frame);
    }
    return open;
}

void receive_message(const Pair *pair, Label label, Waiter *waiter) {
    Connection *connection = use(pair);
    if (connection == NULL) {
        waiter->failed(waiter, ABORTED, "there is no connection to the task that sends");
    } else {
        await_message(&connection->messages, label, waiter);
        end_use(connection);
    }
}

/* By the thread that reads. */
static void close_connection(Connection *connection) {
    char reason[NAME + 64];
    Connection **at = &connections;
    snprintf(reason, sizeof reason, "the connection to %s has ended", connection->pair.peer);
    pthread_mutex_lock(&list);
    while (*at != connection)
        at = &(*at)->next;
    *at = connection->next;
    pthread_mutex_unlock(&list);
    pthread_mutex_lock(&connection->leaving);
    channel_close(&connection->channel, poller);
    while (connection->first != NULL)
        drop_first(connection);
    pthread_mutex_unlock(&connection->leaving);
    if (connection->arriving != NULL)
        leave_room(connection->arriving);
    end_messages(&connection->messages, 1, reason);
    end_use(connection);
}

static ssize_t receive_some(Connection *connection, void *to, size_t size) {
    ssize_t count;
    if (connection->channel.tls == NULL)
        return channel_receive(&connection->channel, to, size);
    pthread_mutex_lock(&connection->leaving);
    count = channel_receive(&connection->channel, to, size);
    pthread_mutex_unlock(&connection->leaving);
    return count;
}

/* Of the header, or the values, that are coming. 1: all `size` bytes are there; 0: not yet; -1:
 * they never will. */
static int read_into(Connection *connection, void *to, size_t size) {
    while (connection->got < size) {
        ssize_t count =
            receive_some(connection, (char *)to + connection->got, size - connection->got);
        if (count > 0)
            connection->got += (size_t)count;
        else if (count == 0 || (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR))
            return -1;
        else if (errno != EINTR)
            return 0;
    }
    connection->got = 0;
    return 1;
}

/* As `read_into`. */
static int read_frame(Connection *connection) {
    Header *header = &connection->header;
    TF_Tensor *tensor;
    int state;
    if (connection->arriving == NULL) {
        state = read_into(connection, header, sizeof *header);
        if (state != 1)
            return state;
        if (header->label.key == STEP_IS_CANCELLED) {
            note_cancelled(header->label.step, 0);
            return header->bytes == 0 ? 1 : -1;
        }
        connection->arriving = make_room(&connection->messages, header);
        if (connection->arriving == NULL)
            return -1;
    }
    tensor = connection->arriving;
    state = read_into(connection, tf.data(tensor), (size_t)header->bytes);
    if (state != 1)
        return state;
    connection->arriving = NULL;
    return message_has_come(&connection->messages, header->label, tensor) ? 1 : -1;
}

static int holds_more(Connection *connection) {
    int more;
    pthread_mutex_lock(&connection->leaving);
    more = channel_holds(&connection->channel);
    pthread_mutex_unlock(&connection->leaving);
    return more;
}

static void serve_connection(Polled *polled, uint32_t events) {
    Connection *connection = (Connection *)polled;
    int state = 1;
    if (events & EPOLLOUT) {
        pthread_mutex_lock(&connection->leaving);
        send_frames(connection);
        pthread_mutex_unlock(&connection->leaving);
    }
    if (events & ~(uint32_t)EPOLLOUT)
        for (int left = AT_A_TIME; state == 1 && (left > 0 || holds_more(connection)); left--)
            state = read_frame(connection);
    if (state == -1)
        close_connection(connection);
}

/* The thread that reads then closes it. */
static void shut_down(Connection *connection) {
    pthread_mutex_lock(&connection->leaving);
    if (connection->channel.fd >= 0)
        shutdown(connection->channel.fd, SHUT_RDWR);
    pthread_mutex_unlock(&connection->leaving);
}

static int say_that_it_is_open(Channel *channel) {
    struct iovec answer[] = {{"", 1}, {NULL, 0}};
    return channel_send(channel, answer) == 1;
}

int open_connection(Channel channel, int accepted, const Pair *pair, int64_t secret) {
    Connection *made = calloc(1, sizeof *made), *earlier;
    int fd = channel.fd, opened, on = 1;
    if (made == NULL)
        return 0;
    made->polled.serve = serve_connection;
    made->channel = channel;
    made->pair = *pair;
    made->secret = secret;
    made->users = 1;
    made->last = &made->first;
    pthread_mutex_init(&made->leaving, NULL);
    pthread_mutex_init(&made->messages.lock, NULL);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    /* Of two tasks that share a link, BBR lets one have most of it for a tenth of a second and
     * longer; cubic does not. Where this user may not choose it, the host's own is used. */
    setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "cubic", sizeof "cubic" - 1);
    notice_a_lost_peer(fd);
    earlier = use(pair);
    /* The thread that reads may hear of it at once: with `list`, it ends no connection. */
    pthread_mutex_lock(&list);
    opened = (!accepted || say_that_it_is_open(&made->channel)) &&
             poll_for(accepted ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, fd, EPOLLIN, &made->polled);
    if (opened) {
        made->next = connections;
        connections = made;
    }
    pthread_mutex_unlock(&list);
    if (!opened)
        end_use(made);
    else if (earlier != NULL)
        shut_down(earlier);
    end_use(earlier);
    return opened;
}

static Connection *newest(void) {
    Connection *found;
    pthread_mutex_lock(&list);
    found = connections;
    pthread_mutex_unlock(&list);
    return found;
}

void look_at_connections(void) {
    int64_t step;
    for (Connection *at = newest(); at != NULL; at = at->next)
        end_messages(&at->messages, 0, "the step was cancelled");
    while (take_untold(&step))
        for (Connection *at = newest(); at != NULL; at = at->next)
            tell_that_it_is_cancelled(at, step);
}

void end_connections(void) {
    for (Connection *at = newest(); at != NULL; at = at->next)
        shut_down(at);
}

void forget_connections(void) {
    /* They end when the parent does. */
    for (Connection *at = connections; at != NULL; at = at->next)
        if (at->channel.fd >= 0)
            close(at->channel.fd);
    connections = NULL;
    forget_messages();
    pthread_mutex_init(&list, NULL);
}
