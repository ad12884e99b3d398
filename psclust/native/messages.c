/* Pairs each message with the op that waits for it, by label; either may be there first. A task may
 * send what no op of this one ever asks for, because its run was cancelled here or because it lies,
 * so what is held for nobody has a limit, and ends. */
#define _GNU_SOURCE
#include "messages.h"
#include "cancelled.h"
#include "clock.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

/* DROPPED_S: a run that has asked for nothing that long was cancelled before it began here. */
enum { DROPPED_S = 600 };

/* Of messages of all connections that are coming, or held for nobody. A training needs its values
 * twice, so it never has half of the memory under way. */
#ifndef MOST_HELD_BYTES /* tests have less */
#define MOST_HELD_BYTES (memory() / 2)
#endif
/* MOST_ALIKE: entries of one bucket, so that no choice of labels makes the search long. */
enum { MOST_HELD = 1 << 17, MOST_ALIKE = 1024 };

typedef struct Entry {
    struct Entry *next;
    Label label;
    TF_Tensor *tensor; /* NULL: waited for */
    Waiter *waiter;
    int64_t since_ms;
} Entry;

static atomic_llong held_bytes, held;

static int64_t memory(void) {
    return (int64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGE_SIZE);
}

/* Whether a frame of this wire begins like that, of no more bytes than this machine's memory. */
static int is_sound(const Header *header) {
    int64_t bytes = (int64_t)tf.size_of(header->type); /* 0: it does not travel */
    if (bytes == 0 || header->label.key < 0 || header->dimensions < 0 ||
        header->dimensions > MOST_DIMENSIONS)
        return 0;
    for (int i = 0; i < header->dimensions; i++)
        if (header->dimension[i] < 0 || __builtin_mul_overflow(bytes, header->dimension[i], &bytes))
            return 0;
    return header->bytes == bytes && bytes <= memory();
}

/* Where the first entry of the label is that waits, or that has come, or else the end of its
 * bucket. passed: how many of the bucket are before it. With the lock. */
static Entry **find(Messages *messages, Label label, int waits, int *passed) {
    uint64_t hash = ((uint64_t)label.step * 31 + (uint64_t)label.key) * 0x9E3779B97F4A7C15u;
    Entry **at = &messages->entries[(hash >> 32) % BUCKETS];
    *passed = 0;
    while (*at != NULL && ((*at)->label.step != label.step || (*at)->label.key != label.key ||
                           ((*at)->tensor == NULL) != waits)) {
        at = &(*at)->next;
        ++*passed;
    }
    return at;
}

static int is_awaited(Messages *messages, Label label) {
    int found, passed;
    pthread_mutex_lock(&messages->lock);
    found = *find(messages, label, 1, &passed) != NULL;
    pthread_mutex_unlock(&messages->lock);
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

TF_Tensor *make_room(Messages *messages, const Header *header) {
    size_t bytes = (size_t)header->bytes;
    TF_Tensor *tensor;
    if (!is_sound(header))
        return NULL;
    if ((held_bytes + header->bytes > MOST_HELD_BYTES || held >= MOST_HELD) &&
        !is_awaited(messages, header->label))
        return NULL;
    tensor = tf.new_tensor(header->type, header->dimension, header->dimensions, bytes);
    if (tensor == NULL)
        return NULL;
    if (bytes > 0 && tf.data(tensor) == NULL) {
        tf.delete_tensor(tensor);
        return NULL;
    }
    held_bytes += header->bytes;
    held++;
    return tensor;
}

/* Puts one of `tensor` and `waiter` in, unless the other is there: returns that one's entry, taken
 * out, to be freed. kept: whether it was put in. */
static Entry *meet(Messages *messages, Label label, TF_Tensor *tensor, Waiter *waiter, int *kept) {
    Entry *made = malloc(sizeof *made), *met, **at;
    int passed;
    pthread_mutex_lock(&messages->lock);
    at = find(messages, label, tensor != NULL, &passed);
    met = *at;
    *kept =
        met == NULL && made != NULL && !messages->ended && (tensor == NULL || passed < MOST_ALIKE);
    if (met != NULL) {
        *at = met->next;
    } else if (*kept) {
        *made = (Entry){NULL, label, tensor, waiter, now_ms()};
        *at = made;
    }
    pthread_mutex_unlock(&messages->lock);
    if (!*kept)
        free(made);
    return met;
}

int message_has_come(Messages *messages, Label label, TF_Tensor *tensor) {
    int kept;
    Entry *met = meet(messages, label, tensor, NULL, &kept);
    if (met != NULL) {
        hold_no_more(tensor);
        met->waiter->come(met->waiter, tensor);
        free(met);
    } else if (!kept) {
        leave_room(tensor);
        return 0;
    }
    return 1;
}

void await_message(Messages *messages, Label label, Waiter *waiter) {
    int kept;
    Entry *met;
    if (was_cancelled(label.step)) {
        waiter->failed(waiter, CANCELLED, "the step was cancelled");
        return;
    }
    met = meet(messages, label, NULL, waiter, &kept);
    if (met != NULL) {
        hold_no_more(met->tensor);
        waiter->come(waiter, met->tensor);
        free(met);
    } else if (!kept) {
        waiter->failed(waiter, ABORTED,
                       "there is no connection to the task that sends, or no memory");
    }
}

/* Whether nobody asks for it any more. */
static int is_over(Entry *entry, int64_t late) {
    if (entry->tensor != NULL)
        return entry->since_ms < late;
    if (!entry->waiter->unwanted(entry->waiter))
        return was_cancelled(entry->label.step);
    note_cancelled(entry->label.step, 1);
    return 1;
}

void end_messages(Messages *messages, int all, const char *reason) {
    Entry *ended = NULL;
    int64_t late = now_ms() - DROPPED_S * 1000;
    pthread_mutex_lock(&messages->lock);
    messages->ended |= all;
    for (int i = 0; i < BUCKETS; i++)
        for (Entry **at = &messages->entries[i]; *at != NULL;) {
            Entry *entry = *at;
            if (all || is_over(entry, late)) {
                *at = entry->next;
                entry->next = ended;
                ended = entry;
            } else {
                at = &entry->next;
            }
        }
    pthread_mutex_unlock(&messages->lock);
    while (ended != NULL) {
        Entry *entry = ended;
        ended = entry->next;
        if (entry->tensor != NULL)
            leave_room(entry->tensor);
        else
            entry->waiter->failed(entry->waiter, all ? ABORTED : CANCELLED, reason);
        free(entry);
    }
}

void forget_messages(void) {
    held = held_bytes = 0;
}
