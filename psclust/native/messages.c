/* What has come by psclust's wire, and what ops wait for (messages.h): by label, whichever is there
 * first. */
#define _GNU_SOURCE
#include "messages.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* DROPPED_S: a run that has asked for nothing that long was cancelled before it began here. */
enum { BUCKETS = 1024, DROPPED_S = 600 };

typedef struct Entry {
    struct Entry *next;
    Label label;
    const Connection *from;
    TF_Tensor *tensor; /* NULL: waited for */
    Waiter *waiter;
    int64_t since_ms;
} Entry;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static Entry *entries[BUCKETS];
static int count;

static int64_t now_ms(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &time);
    return time.tv_sec * 1000 + time.tv_nsec / 1000000;
}

static Entry **bucket(Label label) {
    return &entries[((uint64_t)label.step * 31 + (uint64_t)label.key) * 0x9E3779B97F4A7C15u >> 54];
}

/* Takes out the one at `at`. With `lock`. */
static Entry *take_out(Entry **at) {
    Entry *entry = *at;
    *at = entry->next;
    count--;
    return entry;
}

static int matches(const Entry *entry, Label label, int waits) {
    return entry->label.step == label.step && entry->label.key == label.key &&
           (entry->tensor == NULL) == waits;
}

/* Takes out the first of this label that is waited for, or that has come; if there is none, puts
 * the other in. found: NULL: there was none. 0: there is no
 * memory. */
static int meet(const Connection *from, Label label, TF_Tensor *tensor, Waiter *waiter,
                Entry **found) {
    Entry **at = bucket(label), *entry = NULL;
    *found = NULL;
    pthread_mutex_lock(&lock);
    while (*at != NULL && !matches(*at, label, tensor != NULL))
        at = &(*at)->next;
    if (*at != NULL) {
        *found = take_out(at);
    } else if ((entry = malloc(sizeof *entry)) != NULL) {
        *entry = (Entry){NULL, label, from, tensor, waiter, now_ms()};
        *at = entry;
        count++;
    }
    pthread_mutex_unlock(&lock);
    return *found != NULL || entry != NULL;
}

int message_has_come(const Connection *from, Label label, TF_Tensor *tensor) {
    Entry *found;
    int met = meet(from, label, tensor, NULL, &found);
    if (found != NULL)
        found->waiter->come(found->waiter, tensor);
    else if (!met)
        tf.delete_tensor(tensor);
    free(found);
    return met;
}

Waiter *place_for_message(Label label, size_t bytes) {
    Entry **at = bucket(label), *found = NULL;
    Waiter *waiter;
    pthread_mutex_lock(&lock);
    while (*at != NULL && !matches(*at, label, 1))
        at = &(*at)->next;
    if (*at != NULL && (*at)->waiter->place != NULL && (*at)->waiter->bytes == bytes)
        found = take_out(at);
    pthread_mutex_unlock(&lock);
    waiter = found != NULL ? found->waiter : NULL;
    free(found);
    return waiter;
}

void await_message(const Connection *from, Label label, Waiter *waiter) {
    Entry *found;
    int met = meet(from, label, NULL, waiter, &found);
    if (found != NULL)
        waiter->come(waiter, found->tensor);
    else if (!met)
        waiter->failed(waiter, ABORTED, "there is no memory");
    free(found);
}

/* Takes out those that are `chosen`, ends the waiters and drops what has come. */
static void end_entries(int (*chosen)(const Entry *, const void *), const void *by, int code,
                        const char *reason) {
    Entry *ended = NULL;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < BUCKETS && count > 0; i++)
        for (Entry **at = &entries[i]; *at != NULL;)
            if (chosen(*at, by)) {
                Entry *entry = take_out(at);
                entry->next = ended;
                ended = entry;
            } else {
                at = &(*at)->next;
            }
    pthread_mutex_unlock(&lock);
    while (ended != NULL) {
        Entry *entry = ended;
        ended = entry->next;
        if (entry->tensor != NULL)
            tf.delete_tensor(entry->tensor);
        else
            entry->waiter->failed(entry->waiter, code, reason);
        free(entry);
    }
}

static int is_from(const Entry *entry, const void *from) {
    return entry->from == from;
}

static int is_unwanted(const Entry *entry, const void *now) {
    return entry->tensor == NULL ? entry->waiter->unwanted(entry->waiter)
                                 : *(const int64_t *)now - entry->since_ms > DROPPED_S * 1000;
}

void end_messages(const Connection *from, const char *reason) {
    end_entries(is_from, from, ABORTED, reason);
}

void end_unwanted_messages(void) {
    int64_t now = now_ms();
    end_entries(is_unwanted, &now, CANCELLED, "the step was cancelled");
}

void forget_messages(void) {
    memset(entries, 0, sizeof entries);
    count = 0;
    pthread_mutex_init(&lock, NULL);
}
