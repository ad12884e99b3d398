/* What has come by one connection of psclust's wire, and what ops wait for. */
#ifndef PSCLUST_MESSAGES_H
#define PSCLUST_MESSAGES_H

#include "kernels.h"

#include <pthread.h>

enum { BUCKETS = 256, MOST_DIMENSIONS = 8 };

/* A message is for one op of one run: TensorFlow gives a run the same step number in all tasks.
 * key: not negative. */
typedef struct {
    int64_t step, key;
} Label;

/* Either `come` or `failed` is called, once, from any thread. */
typedef struct Waiter {
    /* The tensor is then the callee's. */
    void (*come)(struct Waiter *, TF_Tensor *);
    void (*failed)(struct Waiter *, int code, const char *reason);
    /* Whether its run was cancelled; called ten times a second. */
    int (*unwanted)(struct Waiter *);
} Waiter;

/* What comes before the values. */
typedef struct {
    Label label;
    int64_t bytes, dimension[MOST_DIMENSIONS];
    int32_t type, dimensions;
} Header;

/* Begins as zeros. */
typedef struct {
    pthread_mutex_t lock; /* guards the rest */
    struct Entry *entries[BUCKETS];
    int ended;
} Messages;

/* A tensor for a message that begins to come. NULL: its header is not of this wire, there is no
 * memory, or too much is held that no op asks for. */
INTERNAL TF_Tensor *make_room(Messages *messages, const Header *header);

/* Of `make_room`, for a message that does not come. */
INTERNAL void leave_room(TF_Tensor *tensor);

/* The tensor, of `make_room`, is then the callee's. 0: there is no memory. */
INTERNAL int message_has_come(Messages *messages, Label label, TF_Tensor *tensor);

INTERNAL void await_message(Messages *messages, Label label, Waiter *waiter);

/* Fails waiters and drops what has come: all, for a connection that has ended, also waiters to
 * come; or what nobody asks for, and waits in runs that were cancelled here or by another task. */
INTERNAL void end_messages(Messages *messages, int all, const char *reason);

/* In the child of a process that has forked. */
INTERNAL void forget_messages(void);

#endif
