/* TensorFlow ops for psclust's own wire (wire.c), which a step uses in place of TensorFlow's
 * (replication/wire/own_wire.py).
 *
 * PsclustListen(; own) -> ticket: int64 [3]: starts to listen; the same ticket for the life of the
 *     process. Fails with Unimplemented if it cannot.
 * PsclustConnect(ticket; host, own, peer): connects the task `own` to the task `peer`, whose ticket
 *     it is, unless they are connected. Fails with Unimplemented if it cannot.
 * PsclustSend(value: T; own, peer, key): sends to the PsclustReceive of the same run in the task
 *     `peer` that has the same key. Does not wait until the value has left.
 * PsclustReceive(; own, peer, key) -> value: T
 * PsclustReceiveInto(whole: float32; own, peer, key, at, count): whole[at : at + count] = what is
 *     received. Nothing else may read `whole` yet.
 *
 * A receive fails with Aborted when the connection ends (TensorFlow handles Unavailable itself),
 * and when its run is cancelled. */
#define _GNU_SOURCE
#include "tensorflow_private.h"
#include "wire.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HOST = 256 };

typedef struct {
    Pair pair;
    char host[HOST];
    int64_t key, at, count;
} Link;

typedef struct {
    Waiter waiter;
    Context *context;
    Done done;
    TF_Tensor *whole; /* NULL: the value is an output */
} Receive;

static void finish(Receive *receive) {
    Done done = receive->done;
    free(receive);
    say(&done);
}

static void come(Waiter *waiter, TF_Tensor *tensor) {
    Receive *receive = (Receive *)waiter;
    TF_Status *status = tf.new_status();
    TF_Tensor *tensors[] = {tensor, receive->whole};
    if (receive->whole == NULL)
        tf.set_output(receive->context, 0, tensor, status);
    else if (tensor != NULL && tf.bytes(tensor) != waiter->bytes)
        tf.set_status(status, INVALID_ARGUMENT, "what has come and its place differ in size");
    else if (tensor != NULL)
        memcpy(waiter->place, tf.data(tensor), waiter->bytes);
    end(receive->context, status, tensors, 2);
    finish(receive);
}

static void failed(Waiter *waiter, int code, const char *reason) {
    Receive *receive = (Receive *)waiter;
    TF_Status *status = tf.new_status();
    tf.set_status(status, code, reason);
    end(receive->context, status, &receive->whole, 1);
    finish(receive);
}

static int unwanted(Waiter *waiter) {
    return is_cancelled(((Receive *)waiter)->context);
}

static Receive *new_receive(Context *context, const void *done) {
    Receive *made = calloc(1, sizeof *made);
    if (made == NULL)
        abort();
    *made = (Receive){.waiter = {.come = come, .failed = failed, .unwanted = unwanted},
                      .context = context,
                      .done = copy_of(done)};
    return made;
}

static void begin(Receive *receive, const Link *link) {
    if (is_known(receive->context))
        wire_receive(&link->pair, (Label){tf.step(receive->context), link->key}, &receive->waiter);
    else
        failed(&receive->waiter, INVALID_ARGUMENT, "psclust's wire does not fit this TensorFlow");
}

static void receive(void *kernel, Context *context, void *done) {
    begin(new_receive(context, done), kernel);
}

static void receive_into(void *kernel, Context *context, void *done) {
    const Link *link = kernel;
    Receive *made = new_receive(context, done);
    TF_Status *status = tf.new_status();
    made->whole = input(context, 0, status);
    tf.delete_status(status);
    if (made->whole == NULL || link->at + link->count > tf.elements(made->whole)) {
        failed(&made->waiter, INVALID_ARGUMENT, "the place is not in the whole");
        return;
    }
    made->waiter.place = (float *)tf.data(made->whole) + link->at;
    made->waiter.bytes = (size_t)link->count * sizeof(float);
    begin(made, link);
}

static void send_value(void *kernel, Context *context) {
    const Link *link = kernel;
    TF_Status *status = tf.new_status();
    TF_Tensor *value = input(context, 0, status);
    char reason[NAME + 64];
    if (tf.code(status) == 0 && tf.dimensions(value) > MOST_DIMENSIONS) {
        tf.set_status(status, INVALID_ARGUMENT,
                      "psclust's wire takes tensors of eight dimensions at most");
        tf.delete_tensor(value);
    } else if (tf.code(status) == 0 &&
               !wire_send(&link->pair, (Label){tf.step(context), link->key}, value)) {
        snprintf(reason, sizeof reason, "there is no connection to %s", link->pair.peer);
        tf.set_status(status, ABORTED, reason);
    }
    end(context, status, NULL, 0);
}

/* Sets the status of a task that cannot listen, or connect to `port` of its peer. */
static void fail_to(const Link *link, int port, const char *reason, TF_Status *status) {
    char text[2 * HOST];
    if (port == 0)
        snprintf(text, sizeof text, "psclust's wire: %s on %s", reason, link->pair.own);
    else
        snprintf(text, sizeof text, "psclust's wire: %s from %s to %s at %s:%d", reason,
                 link->pair.own, link->pair.peer, link->host, port);
    tf.set_status(status, UNIMPLEMENTED, text);
}

static void listen_here(void *kernel, Context *context) {
    const Link *link = kernel;
    TF_Status *status = tf.new_status();
    const int64_t shape[1] = {sizeof(Ticket) / sizeof(int64_t)};
    TF_Tensor *output = tf.allocate(context, 0, INT64, shape, 1, sizeof(Ticket), status);
    const char *reason = tf.code(status) == 0 ? wire_listen(tf.data(output)) : NULL;
    if (reason != NULL)
        fail_to(link, 0, reason, status);
    end(context, status, &output, 1);
}

static void connect_to(void *kernel, Context *context) {
    const Link *link = kernel;
    TF_Status *status = tf.new_status();
    TF_Tensor *ticket = input(context, 0, status);
    Ticket copy;
    if (tf.code(status) == 0 && tf.bytes(ticket) != sizeof copy)
        tf.set_status(status, INVALID_ARGUMENT, "a ticket has three numbers");
    if (tf.code(status) == 0) {
        const char *reason;
        memcpy(&copy, tf.data(ticket), sizeof copy);
        reason = wire_connect(link->host, copy, &link->pair);
        if (reason != NULL)
            fail_to(link, (int)copy.port, reason, status);
    }
    end(context, status, &ticket, 1);
}

static void read_string(Construction *construction, const char *name, char *to, size_t size,
                        TF_Status *status) {
    if (tf.code(status) == 0)
        tf.string(construction, name, to, size - 1, status);
}

/* has: which attributes, beside `own`. */
enum { HAS_PEER = 1, HAS_HOST = 2, HAS_KEY = 4, HAS_PLACE = 8 };

static void *create_link(Construction *construction, int has) {
    TF_Status *status = tf.new_status();
    Link *link = calloc(1, sizeof *link);
    read_string(construction, "own", link->pair.own, NAME, status);
    if (has & HAS_PEER)
        read_string(construction, "peer", link->pair.peer, NAME, status);
    if (has & HAS_HOST)
        read_string(construction, "host", link->host, HOST, status);
    if (has & HAS_KEY)
        link->key = natural(construction, "key", status);
    if (has & HAS_PLACE) {
        link->at = natural(construction, "at", status);
        link->count = natural(construction, "count", status);
    }
    return created(construction, status, link);
}

static void *create_listen(Construction *construction) {
    return create_link(construction, 0);
}

static void *create_connect(Construction *construction) {
    return create_link(construction, HAS_PEER | HAS_HOST);
}

static void *create_end(Construction *construction) {
    return create_link(construction, HAS_PEER | HAS_KEY);
}

static void *create_place(Construction *construction) {
    return create_link(construction, HAS_PEER | HAS_KEY | HAS_PLACE);
}

#define TYPES "T: {float, double, bfloat16, half, int8, uint8, int16, int32, int64, bool}"

void add_wire_ops(TF_Status *status) {
    static const char *const none[] = {NULL}, *const ticket[] = {"ticket: int64", NULL},
                             *const value[] = {"value: T", NULL};
    static const char *const listens[] = {"own: string", NULL}, *const connects[] = {
                                                                    "host: string", "own: string",
                                                                    "peer: string", NULL};
    static const char *const end_of_wire[] = {TYPES, "own: string", "peer: string", "key: int",
                                              NULL};
    static const char *const whole[] = {"whole: float", NULL};
    static const char *const place[] = {"own: string", "peer: string", "key: int",
                                        "at: int",     "count: int",   NULL};
    add_op(&(Op){"PsclustListen", none, ticket, listens, create_listen, listen_here, .stateful = 1},
           status);
    add_op(
        &(Op){"PsclustConnect", ticket, none, connects, create_connect, connect_to, .stateful = 1},
        status);
    add_op(&(Op){"PsclustSend", value, none, end_of_wire, create_end, send_value, .stateful = 1},
           status);
    add_op(&(Op){"PsclustReceive", none, value, end_of_wire, create_end, .compute_later = receive,
                 .stateful = 1},
           status);
    add_op(&(Op){"PsclustReceiveInto", whole, none, place, create_place,
                 .compute_later = receive_into, .stateful = 1},
           status);
}
