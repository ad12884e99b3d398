/* What has come by psclust's wire, and what ops wait for. A connection is only an identity here. */
#ifndef PSCLUST_MESSAGES_H
#define PSCLUST_MESSAGES_H

#include "wire.h"

/* What comes before the values. */
typedef struct {
    Label label;
    int64_t bytes, dimension[MOST_DIMENSIONS];
    int32_t type, dimensions;
} Header;

/* A tensor for a message that begins to come. NULL: its header is not of this wire, there is no
 * memory, or too much is held that no op asks for. */
INTERNAL TF_Tensor *make_room(const Header *header);

/* Of `make_room`, for a message that does not come. */
INTERNAL void leave_room(TF_Tensor *tensor);

/* The waiter for a message that begins to come, if it has a place for so many bytes; it is then the
 * caller's to end. NULL: none. */
INTERNAL Waiter *place_for_message(const Header *header);

/* The tensor, of `make_room`, is then the callee's. 0: there is no memory. */
INTERNAL int message_has_come(const Connection *from, Label label, TF_Tensor *tensor);

INTERNAL void await_message(const Connection *from, Label label, Waiter *waiter);

/* For a connection that has ended: its waiters fail, and what has come is dropped. NULL: of those
 * that wait for no connection. */
INTERNAL void end_messages(const Connection *from, const char *reason);

/* Of runs that were cancelled, and what nobody has asked for. */
INTERNAL void end_unwanted_messages(void);

/* In the child of a process that has forked. */
INTERNAL void forget_messages(void);

#endif
