/* The parts of other tasks' runs that are begun by psclust's wire (run_calls.c), and run by this task's TensorFlow. */
#define _GNU_SOURCE
#include "run_calls.h"

#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

typedef struct Part {
    struct Part *next, *also; /* also: of those that are being cancelled */
    int64_t number;
    Connection *from;
    void *request, *response, *options;
    int users; /* the run, and who cancels it */
} Part;

/* One of each message, of which TensorFlow makes others: their sizes are not known. */
static struct {
    _Alignas(16) char run_request[2048], run_response[2048], clean_up_request[512], clean_up_response[512];
} like;

enum { OPTIONS = 512 }; /* room for a tsl::CallOptions */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static Part *parts;

/* Whose parts are run here. Once a process has several, no part is begun so: which one is meant only gRPC knows. */
static void *own_worker;
static int has_several;

static void register_here(void *worker, const void *request, void *response, Function *done) {
    pthread_mutex_lock(&lock);
    has_several |= own_worker != NULL && own_worker != worker;
    if (own_worker == NULL)
        own_worker = worker;
    pthread_mutex_unlock(&lock);
    cpp.register_here(worker, request, response, done);
}

/* The one whose parts are run here; NULL: none. */
static void *worker_of_parts(int new_ones) {
    void *found;
    pthread_mutex_lock(&lock);
    found = new_ones && has_several ? NULL : own_worker;
    pthread_mutex_unlock(&lock);
    return found;
}

static void leave_part(Part *part) {
    int users;
    pthread_mutex_lock(&lock);
    users = --part->users;
    pthread_mutex_unlock(&lock);
    if (users > 0)
        return;
    cpp.delete_run_request(part->request);
    cpp.delete_run_response(part->response);
    free(part->options);
    free(part);
}

static void answer(Part *part, const TF_Status *status) {
    size_t response = cpp.run_response_size(part->response), size;
    const char *text = response <= INT_MAX ? cpp.text(status) : "what a run fetches from another task has two gigabytes at most";
    int64_t head[2] = {response <= INT_MAX ? tf.code(status) : INVALID_ARGUMENT, (int64_t)strlen(text)};
    TF_Tensor *frame;
    char *to;
    response = response <= INT_MAX ? response : 0;
    size = sizeof head + (size_t)head[1];
    frame = new_frame(size + response, &to);
    memcpy(to, head, sizeof head);
    memcpy(to + sizeof head, text, (size_t)head[1]);
    cpp.serialize(part->response, to + size, (int)response);
    wire_send_by(part->from, (Label){part->number, ANSWER}, frame);
}

static void part_has_ended(const void *functor, TF_Status *status) {
    Part *part = *(Part *const *)functor, **at = &parts;
    pthread_mutex_lock(&lock);
    while (*at != part)
        at = &(*at)->next;
    *at = part->next;
    pthread_mutex_unlock(&lock);
    answer(part, status);
    leave_part(part);
}

static void has_cleaned_up(const void *functor, TF_Status *status) {
    (void)functor;
    (void)status;
}

static void clean_up(void *worker, int64_t step) {
    unsigned char text[MOST_OF_CLEAN_UP] = {STEP_TAG};
    void *message = cpp.new_message(like.clean_up_request, NULL), *response = cpp.new_message(like.clean_up_response, NULL);
    Function done = function_of(NULL, has_cleaned_up);
    uint64_t left = (uint64_t)step;
    int size = 1;
    for (; left > 0x7f; left >>= 7)
        text[size++] = (unsigned char)(left | 0x80);
    text[size++] = (unsigned char)left;
    if (cpp.parse(message, text, size))
        cpp.clean_up_here(worker, message, response, &done);
    cpp.delete_clean_up_request(message);
    cpp.delete_clean_up_response(response);
}

/* Reads the steps before a request, cleans up after them, and returns their bytes; 0: they are not readable. */
static size_t clean_up_before(const char *from, size_t size) {
    void *worker = worker_of_parts(0);
    int64_t count, step;
    if (size < sizeof count)
        return 0;
    memcpy(&count, from, sizeof count);
    if (count < 0 || count > MOST_STEPS || size < (size_t)(1 + count) * sizeof step)
        return 0;
    for (int64_t i = 1; i <= count && worker != NULL; i++) {
        memcpy(&step, from + (size_t)i * sizeof step, sizeof step);
        clean_up(worker, step);
    }
    return (size_t)(1 + count) * sizeof step;
}

void run_part(Connection *from, int64_t number, const char *call, size_t size) {
    size_t head = clean_up_before(call, size);
    void *worker = worker_of_parts(1);
    Part *part = calloc(1, sizeof *part);
    Function done = function_of(part, part_has_ended);
    if (part == NULL)
        abort();
    *part = (Part){.number = number, .from = from, .options = calloc(1, OPTIONS), .users = 1};
    part->request = cpp.new_message(like.run_request, NULL);
    part->response = cpp.new_message(like.run_response, NULL);
    if (worker == NULL || head == 0 || !cpp.parse(part->request, call + head, (int)(size - head))) {
        send_number(from, number, REFUSED);
        leave_part(part);
        return;
    }
    cpp.make_options(part->options);
    pthread_mutex_lock(&lock);
    part->next = parts;
    parts = part;
    pthread_mutex_unlock(&lock);
    cpp.run_here(worker, part->options, part->request, part->response, &done);
}

/* By the thread that reads. */
void cancel_parts(const Connection *from, int64_t number) {
    Part *found = NULL;
    pthread_mutex_lock(&lock);
    for (Part *at = parts; at != NULL; at = at->next)
        if (at->from == from && (number == 0 || at->number == number)) {
            at->users++;
            at->also = found;
            found = at;
        }
    pthread_mutex_unlock(&lock);
    while (found != NULL) {
        Part *part = found;
        found = part->also;
        cpp.cancel(part->options);
        leave_part(part);
    }
}

int take_parts(void) {
    cpp.make_run_request(like.run_request, NULL);
    cpp.make_run_response(like.run_response, NULL);
    cpp.make_clean_up_request(like.clean_up_request, NULL);
    cpp.make_clean_up_response(like.clean_up_response, NULL);
    return replace(cpp.local_worker, (Any *)cpp.register_here, (Any *)register_here);
}

void forget_parts(void) {
    parts = NULL;
    own_worker = NULL;
    has_several = 0;
    pthread_mutex_init(&lock, NULL);
}
