/* Writes the native stack of a thread that crashes, and then lets the handler act that was there
 * before: Python's knows only threads that run Python. */
#define _GNU_SOURCE
#include <execinfo.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

enum { FRAMES = 48 };

static const int SIGNALS[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT};
static struct sigaction earlier[NSIG];
static int to;

static void tell(int number) {
    static const char HEAD[] = "native stack of the thread that crashed:\n";
    void *frames[FRAMES];
    sigaction(number, &earlier[number], NULL);
    if (write(to, HEAD, strlen(HEAD)) > 0)
        backtrace_symbols_fd(frames, backtrace(frames, FRAMES), to);
    raise(number);
}

/* In the file descriptor `fd`. */
void tell_native_stacks(int fd) {
    struct sigaction action = {.sa_handler = tell, .sa_flags = SA_NODEFER | SA_ONSTACK};
    void *first[1];
    to = fd;
    backtrace(first, 1); /* loads what it needs, which no handler may */
    for (size_t i = 0; i < sizeof SIGNALS / sizeof *SIGNALS; i++)
        sigaction(SIGNALS[i], &action, &earlier[SIGNALS[i]]);
}
