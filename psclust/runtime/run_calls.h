/* The calls by which a run begins and ends its parts in other tasks, by psclust's wire: those of this task (run_calls.c), and what others
 * ask of it (run_parts.c). */
#ifndef PSCLUST_RUN_CALLS_H
#define PSCLUST_RUN_CALLS_H

#include "messages.h"
#include "tensorflow_cpp.h"

/* Keys of frames; those of ops are not negative. Their step is the number of the call. MOST_STEPS: that one call cleans up. */
enum { RUN = -1, CANCEL = -2, ANSWER = -3, REFUSED = -4, MOST_STEPS = 64 };

/* Of a CleanupGraphRequest, as it is encoded: its only field is the step, a varint. */
enum { STEP_TAG = 1 << 3, MOST_OF_CLEAN_UP = 11 };

/* Has TensorFlow make its calls so, if it is one that can. */
INTERNAL void take_run_calls(void);

/* For a run of number `step` that has connected a pair: the sessions of its server make their calls of the peer so from now on. */
INTERNAL void call_by_wire(int64_t step, const Pair *pair);

/* What has come with a key that is none of an op; the tensor is then the callee's. */
INTERNAL void call_has_come(Connection *from, Label label, TF_Tensor *tensor);

/* For a connection that has ended: its calls fail, and the parts that were begun by it are cancelled. */
INTERNAL void end_calls(const Connection *connection, const char *reason);

/* In the child of a process that has forked. */
INTERNAL void forget_calls(void);

/* A frame of `size` bytes at `to`. */
INTERNAL TF_Tensor *new_frame(size_t size, char **to);

/* A frame without bytes; 0: the connection has ended. */
INTERNAL int send_number(Connection *to, int64_t number, int key);

/* Of run_parts.c: its part of each of the above, and what it does about RUN and CANCEL; number 0: of all of a connection. */
INTERNAL int take_parts(void);
INTERNAL void run_part(Connection *from, int64_t number, const char *call, size_t size);
INTERNAL void cancel_parts(const Connection *from, int64_t number);
INTERNAL void forget_parts(void);

/* Of runs_in_order.c: that the parts of a graph's runs are run one after another; that a part of a run of this process has been
 * begun in another task. */
INTERNAL int take_turns(void);
INTERNAL void part_was_begun(int64_t step);
INTERNAL void forget_order(void);

#endif
