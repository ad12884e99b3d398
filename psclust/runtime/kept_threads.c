/* Threads for what TensorFlow runs beside its pools, such as every run of a session. It starts a thread for each, which then ends; here one
 * that has done its work waits for the next. As there, each gets a thread at once, so that one may wait for another.
 *
 * A virtual function of tsl::Env is replaced (tensorflow_cpp.h). Where that is not possible, all is as it was.
 */
#include "tensorflow_cpp.h"

#include <pthread.h>
#include <stdlib.h>

enum { MOST_IDLE = 8 };

/* absl::AnyInvocable<void()>, lts_20250814. Passed by value, it is a pointer to the caller's, from which it may be moved. */
enum { RELOCATE, DISPOSE };
typedef struct {
    _Alignas(16) char state[16];
    void (*manage)(unsigned char operation, void *from, void *to);
    void (*invoke)(void *state);
} Closure;

/* next: of those that are idle. */
typedef struct Thread {
    struct Thread *next;
    pthread_cond_t begins;
    int has_work;
    Closure work;
} Thread;

typedef void SchedClosure(void *env, Closure *closure);

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static Thread *idle;
static int idle_count;
static Any *start_new;

static void empty(unsigned char operation, void *from, void *to) {
    (void)operation;
    (void)from;
    (void)to;
}

static void move(Closure *from, Closure *to) {
    from->manage(RELOCATE, from->state, to->state);
    to->manage = from->manage;
    to->invoke = from->invoke;
    from->manage = empty;
    from->invoke = NULL;
}

/* 0: there are enough already. */
static int wait_for_work(Thread *thread) {
    int stays;
    pthread_mutex_lock(&lock);
    stays = idle_count < MOST_IDLE;
    if (stays) {
        thread->has_work = 0;
        thread->next = idle;
        idle = thread;
        idle_count++;
        while (!thread->has_work)
            pthread_cond_wait(&thread->begins, &lock);
    }
    pthread_mutex_unlock(&lock);
    return stays;
}

static void *work(void *argument) {
    Thread *thread = argument;
    do {
        thread->work.invoke(thread->work.state);
        thread->work.manage(DISPOSE, thread->work.state, thread->work.state);
    } while (wait_for_work(thread));
    pthread_cond_destroy(&thread->begins);
    free(thread);
    return NULL;
}

/* 0: no thread can be started. */
static int start(Closure *closure) {
    Thread *made = malloc(sizeof *made);
    pthread_t unused;
    if (made == NULL)
        return 0;
    pthread_cond_init(&made->begins, NULL);
    move(closure, &made->work);
    if (pthread_create(&unused, NULL, work, made) == 0) {
        pthread_detach(unused);
        return 1;
    }
    move(&made->work, closure);
    pthread_cond_destroy(&made->begins);
    free(made);
    return 0;
}

static void run_closure(void *env, Closure *closure) {
    Thread *found;
    pthread_mutex_lock(&lock);
    found = idle;
    if (found != NULL) {
        idle = found->next;
        idle_count--;
        move(closure, &found->work);
        found->has_work = 1;
        pthread_cond_signal(&found->begins);
    }
    pthread_mutex_unlock(&lock);
    /* What there is to say about too many threads, TensorFlow says. */
    if (found == NULL && !start(closure))
        ((SchedClosure *)start_new)(env, closure);
}

/* In the child of a process that has forked: the threads are the parent's. */
static void forget(void) {
    idle = NULL;
    idle_count = 0;
    pthread_mutex_init(&lock, NULL);
}

void keep_threads(void *library) {
    const char *of_wrapper = "_ZN3tsl10EnvWrapper12SchedClosureEN4absl12lts_2025081412AnyInvocableIFvvEEE";
    if (pthread_atfork(NULL, NULL, forget) == 0)
        replace_in_env(library, of_wrapper, (Any *)run_closure, &start_new);
}
