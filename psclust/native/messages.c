/* Pairs each message with the op that waits for it, by label; either may be there first. A task may
 * send what no op of this one ever asks for, because its run was cancelled here or because it lies,
 * so what is held for nobody has a limit, and ends. */
#define _GNU_SOURCE
#include "messages.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* DROPPED_S: a run that has asked for nothing that long was cancelled before it began here. */
enum { BUCKETS = 4096, DROPPED_S = 600 };

/* Of messages that are coming, or held for nobody. A training needs its values twice, so it never
 * has half of the memory under way. */
#ifndef MOST_HELD_BYTES /* tests have less */
#define MOST_HELD_BYTES (memory() / 2)
#endif
/* MOST_ALIKE: entries of one bucket, so that no choice of labels makes the search long. */
enum { MOST_HELD = 1 << 17, MOST_ALIKE = 1024 };

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
static atomic_llong held_bytes, held;

static int64_t now_ms(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &time);
    return time.tv_sec * 1000 + time.tv_nsec / 1000000;
}

static int64_t memory(void) {
    return (int64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGE_SIZE);
}

/* 0: no tensor of this type travels. */
static int64_t bytes_of(int type) {
    static const int64_t sizes[] = {[FLOAT] = 4,    [DOUBLE] = 8, [INT32] = 4, [UINT8] = 1,
                                    [INT16] = 2,    [INT8] = 1,   [INT64] = 8, [BOOL] = 1,
                                    [BFLOAT16] = 2, [HALF] = 2};
    return type < 0 || type > HALF ? 0 : sizes[type];
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
    return header->bytes == bytes && bytes <= memory();
}

static Entry **bucket(Label label) {
    return &entries[((uint64_t)label.step * 31 + (uint64_t)label.key) * 0x9E3779B97F4A7C15u >> 52];
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

/* Where the entry is, or would be. passed: how many of its bucket are before it. With `lock`. */
static Entry **find(Label label, int waits, int *passed) {
    Entry **at = bucket(label);
    *passed = 0;
    while (*at != NULL && !matches(*at, label, waits)) {
        at = &(*at)->next;
        ++*passed;
    }
    return at;
}

static int is_awaited(Label label) {
    int found, passed;
    pthread_mutex_lock(&lock);
    found = *find(label, 1, &passed) != NULL;
    pthread_mutex_unlock(&lock);
    return found;
}

/* For a message that is given to an op, or dropped. */
static void hold_no_more(const TF_Tensor *tensor) {
    held_bytes -= (int64_t)tf.bytes(tensor);
    held--;
}

void leave_room(TF_Tensor *tensor) {
    hold_no_more(tensor);
    tf.delete_tensor(tensor);
}

TF_Tensor *make_room(const Header *header) {
    TF_Tensor *tensor;
    if (!is_sound(header))
        return NULL;
    if ((held_bytes + header->bytes > MOST_HELD_BYTES || held >= MOST_HELD) &&
        !is_awaited(header->label))
        return NULL;
    tensor =
        tf.new_tensor(header->type, header->dimension, header->dimensions, (size_t)header->bytes);
    if (tensor == NULL)
        return NULL;
    if (header->bytes > 0 && tf.data(tensor) == NULL) {
        tf.delete_tensor(tensor);
        return NULL;
    }
    held_bytes += header->bytes;
    held++;
    return tensor;
}

/* Takes out the first of this label that is waited for, or that has come; if there is none, puts
 * the other in. found: NULL: there was none. 0: there is no room. */
static int meet(const Connection *from, Label label, TF_Tensor *tensor, Waiter *waiter,
                Entry **found) {
    Entry **at, *entry = NULL;
    int passed;
    *found = NULL;
    pthread_mutex_lock(&lock);
    at = find(label, tensor != NULL, &passed);
    if (*at != NULL) {
        *found = take_out(at);
    } else if ((tensor == NULL || passed < MOST_ALIKE) && (entry = malloc(sizeof *entry)) != NULL) {
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
    if (found != NULL) {
        hold_no_more(tensor);
        found->waiter->come(found->waiter, tensor);
    } else if (!met) {
        leave_room(tensor);
    }
    free(found);
    return met;
}

Waiter *place_for_message(const Header *header) {
    Entry **at, *found = NULL;
    Waiter *waiter;
    int passed;
    if (!is_sound(header))
        return NULL;
    pthread_mutex_lock(&lock);
    at = find(header->label, 1, &passed);
    if (*at != NULL && (*at)->waiter->place != NULL &&
        (*at)->waiter->bytes == (size_t)header->bytes)
        found = take_out(at);
    pthread_mutex_unlock(&lock);
    waiter = found != NULL ? found->waiter : NULL;
    free(found);
    return waiter;
}

void await_message(const Connection *from, Label label, Waiter *waiter) {
    Entry *found;
    int met = meet(from, label, NULL, waiter, &found);
    if (found != NULL) {
        hold_no_more(found->tensor);
        waiter->come(waiter, found->tensor);
    } else if (!met) {
        waiter->failed(waiter, ABORTED, "there is no memory");
    }
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
            leave_room(entry->tensor);
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
    held = held_bytes = 0;
    pthread_mutex_init(&lock, NULL);
}
