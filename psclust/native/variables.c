#define _GNU_SOURCE
#include "variables.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define NAME(name) #name,
static const char *const NAMES[] = {VARIABLES(NAME)};
#undef NAME

static char **_Atomic known; /* NULL: nobody has asked */

/* In the child of a process that has forked: it may get others before it asks. */
static void forget(void) {
    known = NULL;
}

static char **copied(void) {
    static atomic_flag watches = ATOMIC_FLAG_INIT;
    char **made = calloc(COUNT_OF_VARIABLES, sizeof *made), **others = NULL;
    if (made == NULL)
        abort();
    for (int i = 0; i < COUNT_OF_VARIABLES; i++) {
        const char *value = getenv(NAMES[i]);
        made[i] = value != NULL ? strdup(value) : NULL;
    }
    if (!atomic_flag_test_and_set(&watches))
        pthread_atfork(NULL, NULL, forget);
    if (atomic_compare_exchange_strong(&known, &others, made))
        return made;
    for (int i = 0; i < COUNT_OF_VARIABLES; i++)
        free(made[i]);
    free(made);
    return others;
}

const char *variable(Variable which) {
    char **values = known;
    return (values != NULL ? values : copied())[which];
}
