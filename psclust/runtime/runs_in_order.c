/* The parts of a graph's runs in this task, one after another, so that a client may begin a run while another is under way: each task goes on
 * with its part of the next as soon as it has ended that of the one before, and waits for no word of the client.
 *
 *     PsclustInOrder(; number) -> in_order: bool: the parts of all later runs of the graph that it is in, in this task; false: they are not
 *
 * They begin in the order in which the client has begun them in this task. It has to be the same in all tasks: `await_parts` says when all
 * parts of a run have been begun, of the graph of that number. A part that is cancelled while it waits ends when it is its turn. If a part
 * fails, so do those that wait for it: what they would go on from is not there.
 *
 * A virtual function of TensorFlow's is replaced (tensorflow_cpp.h), by which a task begins its part of a run, whoever has called.
 */
#define _GNU_SOURCE
#include "run_calls.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Room for the names of a session and of a graph, which are of 16 digits each. */
enum { HANDLES = 64, LATEST = 16 };

/* Of one graph in this task. number: of a training's. begun: how many parts of its runs a client of this process has begun, in all tasks. */
typedef struct Graph {
    struct Graph *next;
    char handles[HANDLES];
    int64_t number, begun;
} Graph;

/* A part that runs, or waits for its turn. */
typedef struct Turn {
    struct Turn *next;
    char handles[HANDLES];
    int64_t step;
    int runs, cancelled;
    void *worker, *options, *request, *response;
    Function done;
} Turn;

/* One that a client of this process makes. graph: NULL: its part here is not in order, as far as is known. */
typedef struct {
    int64_t step, parts;
    Graph *graph;
} Run;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t parts_begun = PTHREAD_COND_INITIALIZER;
static Graph *in_order;
static Turn *turns, **last_turn = &turns;
static Run runs[LATEST];
static unsigned next_run;

/* graph: NULL: it is not known from this part. */
static void count_part(int64_t step, Graph *graph) {
    Run *run = runs;
    pthread_mutex_lock(&lock);
    while (run < runs + LATEST && run->step != step)
        run++;
    if (run == runs + LATEST) {
        run = &runs[next_run++ % LATEST];
        *run = (Run){step, 0, NULL};
    }
    run->parts++;
    if (run->graph != NULL) {
        run->graph->begun++;
    } else if (graph != NULL) {
        run->graph = graph;
        graph->begun += run->parts;
    }
    pthread_cond_broadcast(&parts_begun);
    pthread_mutex_unlock(&lock);
}

void part_was_begun(int64_t step) { count_part(step, NULL); }

/* With `lock`. */
static int64_t begun_of(int64_t number) {
    int64_t count = 0;
    for (const Graph *at = in_order; at != NULL; at = at->next)
        if (at->number == number)
            count += at->begun;
    return count;
}

/* For Python: waits for up to `ms` until clients of this process have begun `count` parts of runs of the graph of that number, and returns
 * how many they have. */
int64_t psclust_await_parts(int64_t number, int64_t count, int64_t ms) {
    struct timespec end;
    int64_t found;
    int late = 0;
    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec += ms / 1000;
    end.tv_nsec += ms % 1000 * 1000000;
    if (end.tv_nsec >= 1000000000) {
        end.tv_nsec -= 1000000000;
        end.tv_sec++;
    }
    pthread_mutex_lock(&lock);
    while (begun_of(number) < count && late != ETIMEDOUT)
        late = pthread_cond_timedwait(&parts_begun, &lock, &end);
    found = begun_of(number);
    pthread_mutex_unlock(&lock);
    return found;
}

/* With `lock`. NULL: its parts are not in order. */
static Graph *graph_of(const char *handles) {
    Graph *at = in_order;
    while (at != NULL && strcmp(at->handles, handles) != 0)
        at = at->next;
    return at;
}

/* With `lock`. The first of a graph, that runs or not; NULL: none. */
static Turn *first_of(const char *handles) {
    Turn *at = turns;
    while (at != NULL && strcmp(at->handles, handles) != 0)
        at = at->next;
    return at;
}

/* With `lock`. */
static void take_out(const Turn *turn) {
    Turn **at = &turns;
    while (*at != turn)
        at = &(*at)->next;
    *at = turn->next;
    if (*at == NULL)
        last_turn = at;
}

/* Takes the turn of a part that has ended; the one of the next then runs. NULL: there is none. */
static Turn *next_turn(const Turn *ended) {
    Turn *next;
    pthread_mutex_lock(&lock);
    take_out(ended);
    next = graph_of(ended->handles) != NULL ? first_of(ended->handles) : NULL;
    if (next != NULL && next->runs)
        next = NULL;
    if (next != NULL)
        next->runs = 1;
    pthread_mutex_unlock(&lock);
    return next;
}

static void end_turn(Turn *turn, TF_Status *status) {
    turn->done.invoke(turn->done.functor, status);
    destroy(&turn->done);
    free(turn);
}

static void has_ended(const void *functor, TF_Status *status);

static void begin_turn(Turn *turn) {
    Function done = function_of(turn, has_ended);
    cpp.run_worker(turn->worker, turn->options, turn->request, turn->response, &done);
}

/* Whether it has been cancelled while it waited. From here on it is TensorFlow that is told. */
static int was_cancelled(Turn *turn) {
    cpp.clear_cancel(turn->options);
    return turn->cancelled;
}

/* An error goes with the response, if the client can read it there. */
static int has_failed(const Turn *turn, const TF_Status *status) {
    if (tf.code(status) != 0)
        return 1;
    if (is_a(turn->response, cpp.response_here))
        return cpp.code_of_here(turn->response) != 0;
    return is_a(turn->response, cpp.response_sent) && cpp.code_of_sent(turn->response) != 0;
}

static void has_ended(const void *functor, TF_Status *status) {
    Turn *turn = *(Turn *const *)functor, *next = next_turn(turn);
    int failed = has_failed(turn, status);
    while (next != NULL && (was_cancelled(next) || failed)) {
        TF_Status *cancelled = tf.new_status();
        Turn *after = next_turn(next);
        tf.set_status(cancelled, CANCELLED, failed ? "the run before it has failed" : "the run was cancelled before it began");
        end_turn(next, cancelled);
        tf.delete_status(cancelled);
        next = after;
    }
    if (next != NULL)
        begin_turn(next);
    end_turn(turn, status);
}

/* By whoever cancels, with the lock of the options. */
static void cancel_turn(const void *functor, TF_Status *unused) {
    Turn *turn = *(Turn *const *)functor;
    (void)unused;
    turn->cancelled = 1;
}

/* Of the graph, and the step. 0: they are not known. */
static int read_request(const void *request, Turn *turn) {
    int here = is_a(request, cpp.request_here);
    const String *session, *graph;
    if (!here && !is_a(request, cpp.request_sent))
        return 0;
    session = (here ? cpp.session_of_here : cpp.session_of_sent)(request);
    graph = (here ? cpp.graph_of_here : cpp.graph_of_sent)(request);
    if (session->size + graph->size >= HANDLES)
        return 0;
    memcpy(turn->handles, session->text, session->size);
    memcpy(turn->handles + session->size, graph->text, graph->size);
    turn->step = (here ? cpp.step_of_here : cpp.step_of_sent)(request);
    return 1;
}

static Graph *graph_in_order(const Turn *turn) {
    Graph *found;
    pthread_mutex_lock(&lock);
    found = graph_of(turn->handles);
    pthread_mutex_unlock(&lock);
    return found;
}

/* Whether it may run at once. */
static int line_up(Turn *turn) {
    int runs;
    pthread_mutex_lock(&lock);
    runs = turn->runs = graph_of(turn->handles) == NULL || first_of(turn->handles) == NULL;
    *last_turn = turn;
    last_turn = &turn->next;
    pthread_mutex_unlock(&lock);
    return runs;
}

static void run_part_in_turn(void *worker, void *options, void *request, void *response, Function *done) {
    int from_here = is_a(request, cpp.request_here);
    int64_t step = 0;
    Graph *graph = NULL;
    Turn *turn = calloc(1, sizeof *turn);
    Function cancel = function_of(turn, cancel_turn);
    if (turn == NULL)
        abort();
    if (!read_request(request, turn)) {
        free(turn);
        cpp.run_worker(worker, options, request, response, done);
    } else {
        turn->worker = worker;
        turn->options = options;
        turn->request = request;
        turn->response = response;
        turn->done = *done;
        done->manage = NULL; /* it is the turn's */
        step = turn->step;
        graph = graph_in_order(turn);
        if (graph != NULL)
            cpp.set_cancel(options, &cancel);
        if (line_up(turn)) {
            cpp.clear_cancel(options);
            begin_turn(turn);
        }
    }
    if (from_here)
        count_part(step, graph);
}

static void put_in_order(void *kernel, Context *context) {
    TF_Status *status = tf.new_status();
    TF_Tensor *output = tf.allocate(context, 0, BOOL, NULL, 0, 1, status);
    const Turn *at;
    pthread_mutex_lock(&lock);
    for (at = turns; at != NULL && at->step != tf.step(context);)
        at = at->next;
    if (at != NULL && graph_of(at->handles) == NULL) {
        Graph *made = calloc(1, sizeof *made);
        if (made == NULL)
            abort();
        made->next = in_order;
        made->number = *(const int64_t *)kernel;
        memcpy(made->handles, at->handles, HANDLES);
        in_order = made;
    }
    pthread_mutex_unlock(&lock);
    if (output != NULL)
        *(unsigned char *)tf.data(output) = at != NULL;
    end(context, status, &output, 1);
}

static void *create(Construction *construction) {
    TF_Status *status = tf.new_status();
    int64_t *number = calloc(1, sizeof *number);
    tf.integer(construction, "number", number, status);
    if (tf.code(status) != 0)
        tf.construction_failed(construction, status);
    tf.delete_status(status);
    return number;
}

void add_order_op(TF_Status *status) {
    static const char *const none[] = {NULL}, *const answer[] = {"in_order: bool", NULL}, *const number[] = {"number: int", NULL};
    add_op(&(Op){"PsclustInOrder", none, answer, number, create, put_in_order, .stateful = 1}, status);
}

void forget_order(void) {
    in_order = NULL;
    memset(runs, 0, sizeof runs);
    turns = NULL;
    last_turn = &turns;
    pthread_mutex_init(&lock, NULL);
    pthread_cond_init(&parts_begun, NULL);
}

int take_turns(void) { return replace(cpp.local_worker, (Any *)cpp.run_worker, (Any *)run_part_in_turn); }
