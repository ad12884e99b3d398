/* All that psclust's ops use of TensorFlow without a C interface: of a run, whether it is
 * cancelled, and how an op that waits says that it is done. The layouts are those of the builds
 * that psclust/runtime/kernel_library.py lists. */
#ifndef PSCLUST_TENSORFLOW_PRIVATE_H
#define PSCLUST_TENSORFLOW_PRIVATE_H

#include "kernels.h"

/* std::function<void()> of libstdc++. */
typedef struct {
    const void *functor[2];
    int (*manage)(void *to, const void *from, int operation);
    void (*invoke)(const void *functor);
} Done;

/* library: libtensorflow_framework. */
INTERNAL void find_private(void *library);

/* Whether TensorFlow keeps a run as the functions here expect it. */
INTERNAL int is_known(Context *context);

/* Of a run that is known. */
INTERNAL int is_cancelled(Context *context);

/* Of what an op that computes later is given, which is the caller's and ends with the call. */
INTERNAL Done copy_of(const void *done);

/* Says that the op is done; `done` is then no more. */
INTERNAL void say(Done *done);

#endif
