/* How a run begins and ends its parts in other tasks: by psclust's wire (wire.c), in place of gRPC.
 *
 * A session runs a part of its graph in each task that has one. TensorFlow makes two calls for each, which several threads of gRPC handle
 * at either end: RunGraph, which is answered when the part has ended, and CleanupGraph. What they say is sent here as it is, by the
 * connection that the tensors take:
 *
 *     RUN steps, request ->      CANCEL ->      <- ANSWER code, text, response      <- REFUSED: to be made by gRPC
 *
 * CleanupGraph waits for the next RunGraph, which says of which steps it is: a message less. TensorFlow itself forgets a part that ended
 * well; right after the answer, CleanupGraph may find it still there, logs that it aborts it, and leaks.
 *
 * The sessions of a server do so once one of them has run PsclustConnect, with the tasks that this connects. They know each by a channel of
 * gRPC: so those of another cluster, which this process may have as well, do not take that ps:0 for theirs. The rest is gRPC's: what
 * registers and deregisters graphs, opens and closes sessions, and what has a deadline of its own.
 *
 * Three of TensorFlow's virtual functions are replaced (tensorflow_cpp.h): two by which a session calls a task, and one of this task's own,
 * which tells whose parts to run. Where that is not possible, all calls are gRPC's. What a task does for others is in run_parts.c; when it
 * begins a part, in runs_in_order.c.
 */
#define _GNU_SOURCE
#include "run_calls.h"

#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define UNREADABLE "psclust's wire: the answer to a call is not readable"

enum { LATEST = 8 };

/* A task that sessions call. latest: numbers of runs that were begun by gRPC; by: NULL: gRPC. */
typedef struct Channel {
    struct Channel *next;
    const void *channel;
    char task[2 * NAME];
    int64_t latest[LATEST];
    unsigned runs;
    Connection *by;
} Channel;

/* A part that a run has begun by the wire, until the other task is asked to clean up. */
typedef struct Begun {
    struct Begun *next;
    const void *worker;
    int64_t step;
    const Connection *by;
    int ended;
} Begun;

/* A call that this task makes. */
typedef struct Call {
    struct Call *next;
    int64_t number;
    Connection *to;
    void *worker, *options, *request, *response;
    int64_t step;
    Function done;
    int cancelled;
} Call;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int64_t last_number;
static Channel *channels;
static Begun *begun;
static Call *calls;

static int is(const String *text, const char *other) {
    return text->size == strlen(other) && memcmp(text->text, other, text->size) == 0;
}

/* With `lock`. NULL: nobody has called it yet. */
static Channel *channel_to(const void *worker) {
    Channel *at = channels;
    while (at != NULL && !(at->channel == channel_of(worker) && is(task_of(worker), at->task)))
        at = at->next;
    return at;
}

/* By what parts are begun in the task of a worker; NULL: by gRPC. */
static Connection *connection_for(const void *worker) {
    const Channel *channel;
    Connection *found;
    pthread_mutex_lock(&lock);
    channel = channel_to(worker);
    found = channel != NULL ? channel->by : NULL;
    pthread_mutex_unlock(&lock);
    return found;
}

/* Of one that is begun by gRPC. */
static void note_run(int64_t step, const void *worker) {
    const String *task = task_of(worker);
    Channel *channel;
    if (task->size >= sizeof channel->task)
        return;
    pthread_mutex_lock(&lock);
    channel = channel_to(worker);
    if (channel == NULL) {
        channel = calloc(1, sizeof *channel);
        if (channel == NULL)
            abort();
        channel->channel = channel_of(worker);
        memcpy(channel->task, task->text, task->size);
        channel->next = channels;
        channels = channel;
    }
    channel->latest[channel->runs++ % LATEST] = step;
    pthread_mutex_unlock(&lock);
}

static int is_of(const Channel *channel, int64_t step) {
    for (int i = 0; i < LATEST; i++)
        if (channel->latest[i] == step)
            return 1;
    return 0;
}

void call_by_wire(int64_t step, const Pair *pair) {
    Connection *by = wire_connection(pair);
    const char *number = strchr(pair->peer, ':');
    char task[2 * NAME];
    if (by == NULL || number == NULL)
        return;
    snprintf(task, sizeof task, "/job:%.*s/replica:0/task%s", (int)(number - pair->peer), pair->peer, number);
    pthread_mutex_lock(&lock);
    for (Channel *at = channels; at != NULL; at = at->next)
        if (is_of(at, step) && strcmp(at->task, task) == 0)
            at->by = by;
    pthread_mutex_unlock(&lock);
}

/* Nobody calls by it any more. */
static void unbind(const Connection *by) {
    pthread_mutex_lock(&lock);
    for (Channel *at = channels; at != NULL; at = at->next)
        if (at->by == by)
            at->by = NULL;
    pthread_mutex_unlock(&lock);
}

static void note_begun(const void *worker, int64_t step, const Connection *by) {
    Begun *made = malloc(sizeof *made);
    if (made == NULL)
        abort();
    pthread_mutex_lock(&lock);
    *made = (Begun){begun, worker, step, by, 0};
    begun = made;
    pthread_mutex_unlock(&lock);
}

/* 0: it was begun by gRPC. */
static int end_begun(const void *worker, int64_t step) {
    Begun *at;
    pthread_mutex_lock(&lock);
    for (at = begun; at != NULL && (at->worker != worker || at->step != step);)
        at = at->next;
    if (at != NULL)
        at->ended = 1;
    pthread_mutex_unlock(&lock);
    return at != NULL;
}

/* Takes out those that have ended, or those of this number. Returns how many; `steps` has room for MOST_STEPS. */
static int take_ended(const Connection *by, int64_t step, int64_t *steps) {
    int count = 0;
    pthread_mutex_lock(&lock);
    for (Begun **at = &begun; *at != NULL && count < MOST_STEPS;) {
        Begun *found = *at;
        if (found->by != by || !(step != 0 ? found->step == step : found->ended)) {
            at = &found->next;
            continue;
        }
        *at = found->next;
        steps[count++] = found->step;
        free(found);
    }
    pthread_mutex_unlock(&lock);
    return count;
}

/* Of a connection that has ended: what is there to clean up then is by gRPC. */
static void forget_begun(const Connection *by) {
    pthread_mutex_lock(&lock);
    for (Begun **at = &begun; *at != NULL;) {
        Begun *found = *at;
        if (found->by != by) {
            at = &found->next;
            continue;
        }
        *at = found->next;
        free(found);
    }
    pthread_mutex_unlock(&lock);
}

static Call *take_call(int64_t number) {
    Call **at = &calls, *found;
    pthread_mutex_lock(&lock);
    while (*at != NULL && (*at)->number != number)
        at = &(*at)->next;
    found = *at;
    if (found != NULL)
        *at = found->next;
    pthread_mutex_unlock(&lock);
    return found;
}

/* The call then is no more. */
static void end_call(Call *call, int code, const char *reason) {
    TF_Status *status = tf.new_status();
    if (code != 0)
        tf.set_status(status, code, reason);
    cpp.clear_cancel(call->options);
    call->done.invoke(call->done.functor, status);
    destroy(&call->done);
    tf.delete_status(status);
    free(call);
}

static void call_by_grpc(Call *call) {
    int64_t steps[MOST_STEPS];
    take_ended(call->to, call->step, steps);
    note_run(call->step, call->worker);
    cpp.clear_cancel(call->options);
    cpp.run_remote(call->worker, call->options, call->request, call->response, &call->done);
    destroy(&call->done);
    free(call);
}

TF_Tensor *new_frame(size_t size, char **to) {
    const int64_t shape[1] = {(int64_t)size};
    TF_Tensor *made = tf.new_tensor(UINT8, shape, 1, size);
    if (made == NULL)
        abort();
    *to = tf.data(made);
    return made;
}

int send_number(Connection *to, int64_t number, int key) {
    char *unused;
    return wire_send_by(to, (Label){number, key}, new_frame(0, &unused));
}

static void cancel_call(const void *functor, TF_Status *unused) {
    Call *call = *(Call *const *)functor;
    (void)unused;
    pthread_mutex_lock(&lock);
    call->cancelled = 1;
    pthread_mutex_unlock(&lock);
    send_number(call->to, call->number, CANCEL);
}

/* Whether a call was cancelled that has not ended. */
static int is_cancelled(int64_t number) {
    Call *at;
    int cancelled;
    pthread_mutex_lock(&lock);
    for (at = calls; at != NULL && at->number != number;)
        at = at->next;
    cancelled = at != NULL && at->cancelled;
    pthread_mutex_unlock(&lock);
    return cancelled;
}

/* NULL: the request is too large. */
static TF_Tensor *frame_of_run(const Connection *by, const void *request) {
    const void *message = cpp.request_of(request);
    size_t size = cpp.run_request_size(message), head;
    int64_t steps[1 + MOST_STEPS];
    TF_Tensor *frame;
    char *to;
    if (size > INT_MAX)
        return NULL;
    steps[0] = take_ended(by, 0, steps + 1);
    head = (size_t)(1 + steps[0]) * sizeof *steps;
    frame = new_frame(head + size, &to);
    memcpy(to, steps, head);
    cpp.serialize(message, to + head, (int)size);
    return frame;
}

static void run_remote(void *worker, void *options, void *request, void *response, Function *done) {
    int known = is_a(request, cpp.request_wrapper) && is_a(response, cpp.response_wrapper) && cpp.timeout(options) == 0;
    int64_t step = known ? cpp.step_of(request) : 0, number;
    Connection *to = known ? connection_for(worker) : NULL;
    TF_Tensor *frame = to != NULL ? frame_of_run(to, request) : NULL;
    Function cancel;
    Call *call;
    if (frame == NULL) {
        if (known)
            note_run(step, worker);
        cpp.run_remote(worker, options, request, response, done);
        part_was_begun(step);
        return;
    }
    note_begun(worker, step, to);
    call = malloc(sizeof *call);
    if (call == NULL)
        abort();
    *call = (Call){NULL, 0, to, worker, options, request, response, step, *done, 0};
    done->manage = NULL; /* it is the call's */
    cancel = function_of(call, cancel_call);
    pthread_mutex_lock(&lock);
    number = call->number = ++last_number;
    pthread_mutex_unlock(&lock);
    cpp.set_cancel(options, &cancel);
    pthread_mutex_lock(&lock);
    call->next = calls;
    calls = call;
    pthread_mutex_unlock(&lock);
    /* From here on the call may have ended: with an answer, or with the connection. */
    if (!wire_send_by(to, (Label){number, RUN}, frame)) {
        call = take_call(number);
        if (call != NULL)
            call_by_grpc(call);
    } else if (is_cancelled(number)) {
        /* Perhaps before it had left. */
        send_number(to, number, CANCEL);
    }
    part_was_begun(step);
}

/* 0: it has none. */
static int64_t step_of_clean_up(const void *request) {
    unsigned char text[MOST_OF_CLEAN_UP];
    uint64_t step = 0;
    size_t size = cpp.clean_up_request_size(request);
    if (size > sizeof text || !cpp.serialize(request, text, sizeof text) || size < 2 || text[0] != STEP_TAG)
        return 0;
    for (size_t i = 1; i < size; i++)
        step |= (uint64_t)(text[i] & 0x7f) << 7 * (i - 1);
    return (int64_t)step;
}

static void clean_up_remote(void *worker, const void *request, void *response, Function *done) {
    TF_Status *status;
    if (!end_begun(worker, step_of_clean_up(request))) {
        cpp.clean_up_remote(worker, request, response, done);
        return;
    }
    status = tf.new_status();
    done->invoke(done->functor, status);
    tf.delete_status(status);
}

static void take_answer(int64_t number, const char *from, size_t size) {
    Call *call = take_call(number);
    int64_t head[2] = {0, 0};
    char *text = NULL;
    size_t begin = sizeof head;
    if (call == NULL)
        return;
    if (size >= sizeof head) {
        memcpy(head, from, sizeof head);
        if ((size_t)head[1] <= size - sizeof head)
            text = strndup(from + sizeof head, (size_t)head[1]);
        begin += (size_t)head[1];
    }
    if (text == NULL || !cpp.parse(cpp.response_of(call->response), from + begin, (int)(size - begin)))
        end_call(call, INTERNAL_ERROR, UNREADABLE);
    else
        end_call(call, (int)head[0], text);
    free(text);
}

void call_has_come(Connection *from, Label label, TF_Tensor *tensor) {
    const char *data = tf.data(tensor);
    size_t size = tf.bytes(tensor);
    Call *call;
    switch (label.key) {
    case RUN:
        run_part(from, label.step, data, size);
        break;
    case CANCEL:
        cancel_parts(from, label.step);
        break;
    case ANSWER:
        take_answer(label.step, data, size);
        break;
    case REFUSED:
        call = take_call(label.step);
        unbind(from);
        if (call != NULL)
            call_by_grpc(call);
        break;
    }
    tf.delete_tensor(tensor);
}

void end_calls(const Connection *connection, const char *reason) {
    Call *ended = NULL;
    unbind(connection);
    forget_begun(connection);
    pthread_mutex_lock(&lock);
    for (Call **at = &calls; *at != NULL;) {
        Call *call = *at;
        if (call->to != connection) {
            at = &call->next;
            continue;
        }
        *at = call->next;
        call->next = ended;
        ended = call;
    }
    pthread_mutex_unlock(&lock);
    while (ended != NULL) {
        Call *call = ended;
        ended = call->next;
        end_call(call, UNAVAILABLE, reason);
    }
    cancel_parts(connection, 0);
}

void forget_calls(void) {
    channels = NULL;
    begun = NULL;
    calls = NULL;
    pthread_mutex_init(&lock, NULL);
    forget_parts();
    forget_order();
}

void take_run_calls(void) {
    /* Each needs those before it. */
    if (find_cpp() && take_parts() && replace(cpp.remote_worker, (Any *)cpp.clean_up_remote, (Any *)clean_up_remote) &&
        replace(cpp.remote_worker, (Any *)cpp.run_remote, (Any *)run_remote))
        take_turns();
}
