/* The environment variables that psclust's libraries read.
 *
 * A program may set variables at any time (`os.environ[...] = ...`). With glibc before 2.41, getenv
 * in another thread may meanwhile read memory that was freed, and end the process. So all are
 * copied once, when the first is asked for. */
#ifndef PSCLUST_VARIABLES_H
#define PSCLUST_VARIABLES_H

#define VARIABLES(X)                                                                               \
    X(PSCLUST_ADMIT)                                                                               \
    X(PSCLUST_BIND)                                                                                \
    X(PSCLUST_CLUSTER)                                                                             \
    X(PSCLUST_FORWARDER)                                                                           \
    X(PSCLUST_PEER_TIMEOUT)                                                                        \
    X(PSCLUST_PORT)                                                                                \
    X(PSCLUST_PORTS)                                                                               \
    X(PSCLUST_STRANGERS)

#define MEMBER(name) name,
typedef enum { VARIABLES(MEMBER) COUNT_OF_VARIABLES } Variable;
#undef MEMBER

/* As it was when this process first asked for any, and not before it was forked. NULL: not set. */
__attribute__((visibility("hidden"))) const char *variable(Variable which);

#endif
