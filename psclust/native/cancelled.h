/* Runs that were cancelled. TensorFlow may forget to cancel the part of a run in the process that
 * began it, if another part fails before this one has begun; what that part waits for never comes,
 * as the others were cancelled. So tasks tell each other. */
#ifndef PSCLUST_CANCELLED_H
#define PSCLUST_CANCELLED_H

#include "kernels.h"

/* own: by TensorFlow, here, so that others are to be told. */
INTERNAL void note_cancelled(int64_t step, int own);

/* Of the last ones. */
INTERNAL int was_cancelled(int64_t step);

/* Takes one that others are to be told of by now; 0: there is none. */
INTERNAL int take_untold(int64_t *step);

#endif
