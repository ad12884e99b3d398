/* TensorFlow ops for psclust's own wire (wire.c), which a step uses in place of TensorFlow's
 * (replication/wire/own_wire.py).
 *
 * PsclustListen(; own) -> ticket: int64 [3]: starts to listen; the same ticket for the life of the
 *     process. Fails with Unimplemented if it cannot.
 * PsclustConnect(ticket; host, port, own, peer): connects the task `own` to the task `peer`, whose
 *     ticket it is, and whose server is at `host` and `port`, unless they are connected. Fails with
 * Unimplemented if it cannot. PsclustSend(value: T; own, peer, key): sends to the PsclustReceive of
 * the same run in the task `peer` that has the same key. Does not wait until the value has left.
 * PsclustReceive(; own, peer, key) -> value: T
 *
 * A receive fails with Aborted when the connection ends (TensorFlow handles Unavailable itself),
 * and when its run is cancelled. */
#define _GNU_SOURCE
#include "connection.h"
#include "forwarded.h"
#include "tensorflow_private.h"
#include "wire.h"

#include <stdlib.h>
#include <string.h>

typedef struct {
    Waiter waiter;
    Context *context;
    Done done;
} Receive;

/* Ends the op, and says so to TensorFlow. */
static void finish(Receive *receive, TF_Status *status, TF_Tensor *tensor) {
    Done done = receive->done;
    end(receive->context, status, &tensor, 1);
    free(receive);
    say(&done);
}

static void come(Waiter *waiter, TF_Tensor *tensor) {
    Receive *receive = (Receive *)waiter;
    TF_Status *status = tf.new_status();
    tf.set_output(receive->context, 0, tensor, status);
    finish(receive, status, tensor);
}

static void failed(Waiter *waiter, int code, const char *reason) {
    TF_Status *status = tf.new_status();
    tf.set_status(status, code, reason);
    finish((Receive *)waiter, status, NULL);
}

static int unwanted(Waiter *waiter) {
    return is_cancelled(((Receive *)waiter)->context);
}

static void receive(void *kernel, Context *context, void *done) {
    const Attributes *given = kernel;
    Receive *made = calloc(1, sizeof *made);
    if (made == NULL)
        abort();
    *made = (Receive){{come, failed, unwanted}, context, copy_of(done)};
    if (is_known(context))
        receive_message(&given->pair, (Label){tf.step(context), given->key}, &made->waiter);
    else
        failed(&made->waiter, INVALID_ARGUMENT, "psclust's wire does not fit this TensorFlow");
}

static void send_value(void *kernel, Context *context) {
    const Attributes *given = kernel;
    TF_Status *status = tf.new_status();
    TF_Tensor *value = input(context, 0, status);
    if (tf.code(status) == 0 && tf.dimensions(value) > MOST_DIMENSIONS) {
        fail(status, INVALID_ARGUMENT, "psclust's wire takes tensors of eight dimensions at most");
        tf.delete_tensor(value);
    } else if (tf.code(status) == 0 &&
               !send_message(&given->pair, (Label){tf.step(context), given->key}, value)) {
        fail(status, ABORTED, "there is no connection to %s", given->pair.peer);
    }
    end(context, status, NULL, 0);
}

static void listen_here(void *kernel, Context *context) {
    const Attributes *given = kernel;
    TF_Status *status = tf.new_status();
    const int64_t shape[1] = {sizeof(Ticket) / sizeof(int64_t)};
    TF_Tensor *ticket = tf.allocate(context, 0, INT64, shape, 1, sizeof(Ticket), status);
    const char *reason = tf.code(status) == 0 ? wire_listen(tf.data(ticket)) : NULL;
    if (reason != NULL)
        fail(status, UNIMPLEMENTED, "psclust's wire: %s on %s", reason, given->pair.own);
    end(context, status, &ticket, 1);
}

static void connect_to(void *kernel, Context *context) {
    const Attributes *given = kernel;
    const Pair *pair = &given->pair;
    TF_Status *status = tf.new_status();
    TF_Tensor *given_ticket = input(context, 0, status);
    const char *reason = NULL;
    Ticket ticket = {0};
    if (tf.code(status) == 0 && tf.bytes(given_ticket) != sizeof ticket)
        fail(status, INVALID_ARGUMENT, "a ticket has three numbers");
    if (tf.code(status) == 0) {
        memcpy(&ticket, tf.data(given_ticket), sizeof ticket);
        reason = wire_connect((Address){given->host, given->port}, ticket, pair);
    }
    if (reason != NULL)
        fail(status, UNIMPLEMENTED, "psclust's wire: %s from %s to %s at %s:%lld", reason,
             pair->own, pair->peer, given->host,
             (long long)(is_forwarded() ? given->port : ticket.port));
    end(context, status, &given_ticket, 1);
}

#define TYPES "T: {float, double, bfloat16, half, int8, uint8, int16, int32, int64, bool}"

static const Op OPS[] = {
    {.name = "PsclustListen",
     .outputs = {"ticket: int64"},
     .attributes = {"own: string"},
     .compute = listen_here},
    {.name = "PsclustConnect",
     .inputs = {"ticket: int64"},
     .attributes = {"host: string", "port: int", "own: string", "peer: string"},
     .compute = connect_to},
    {.name = "PsclustSend",
     .inputs = {"value: T"},
     .attributes = {TYPES, "own: string", "peer: string", "key: int"},
     .compute = send_value},
    {.name = "PsclustReceive",
     .outputs = {"value: T"},
     .attributes = {TYPES, "own: string", "peer: string", "key: int"},
     .compute_later = receive},
    {.name = NULL},
};

__attribute__((constructor)) static void add(void) {
    if (find_private())
        add_ops(OPS);
}
