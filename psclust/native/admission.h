/* Which peers a server of a task talks to. */
#ifndef PSCLUST_ADMISSION_H
#define PSCLUST_ADMISSION_H

#include "peer_owner.h"

/* Whether the peer of an accepted connection may stay: it is at an address of PSCLUST_ADMIT, or a
 * process here of this user or of root, who may do anything anyway. Counts all others. */
HIDDEN int is_admitted(int fd);

#endif
