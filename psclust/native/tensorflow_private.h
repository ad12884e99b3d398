/* The only place that uses parts of TensorFlow without a C interface: whether a run is cancelled,
 * and the callback of an asynchronous op. TensorFlow's C interface cannot ask the first, and passes
 * the second as an opaque std::function. PSCLUST_LAYOUT has the layout of this build, as
 * psclust/spec/tensorflow_builds.py or a self-test knows it. */
#ifndef PSCLUST_TENSORFLOW_PRIVATE_H
#define PSCLUST_TENSORFLOW_PRIVATE_H

#include "kernels.h"

/* std::function<void()> of libstdc++. */
typedef struct {
    const void *functor[2];
    int (*manage)(void *to, const void *from, int operation);
    void (*invoke)(const void *functor);
} Done;

/* Before the others. 0: what is used of this process's TensorFlow is not known. */
INTERNAL int find_private(void);

/* Whether the layout of this run is the expected one. */
INTERNAL int is_known(Context *context);

/* Only if `is_known`. */
INTERNAL int is_cancelled(Context *context);

/* Of the callback that an asynchronous op is given, which does not outlive the call. */
INTERNAL Done copy_of(const void *done);

/* Tells TensorFlow that the op is done, and frees `done`. */
INTERNAL void say(Done *done);

#endif
