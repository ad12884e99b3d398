/* See tensorflow_cpp.h. */
#define _GNU_SOURCE
#include "tensorflow_cpp.h"

#include <dlfcn.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { CLONE = 2, DESTROY = 3 };

/* Of tensorflow::GrpcRemoteWorker. */
enum { CHANNEL_AT = 8, TASK_AT = 0x240 };

/* What an object points to follows two entries of its table. MOST_FUNCTIONS: that are looked at. */
enum { FIRST = 2, MOST_FUNCTIONS = 64 };

Cpp cpp;

#define DONE "St8functionIFvRKN4absl12lts_202508146StatusEEE"
#define RUN "13RunGraphAsyncEPN3tsl11CallOptions"
#define CLEAN_UP "17CleanupGraphAsyncEPKNS_19CleanupGraphRequestEPNS_20CleanupGraphResponseE"
#define LITE "6google8protobuf11MessageLite"
#define ARENA "PN6google8protobuf5ArenaE"

static const struct {
    const char *name;
    void *to;
} NAMES[] = {
    {"_ZTVN10tensorflow16GrpcRemoteWorkerE", &cpp.remote_worker},
    {"_ZTVN10tensorflow10GrpcWorkerE", &cpp.local_worker},
    {"_ZTVN10tensorflow27MutableProtoRunGraphRequestE", &cpp.request_wrapper},
    {"_ZTVN10tensorflow26OwnedProtoRunGraphResponseE", &cpp.response_wrapper},
    {"_ZTVN10tensorflow23InMemoryRunGraphRequestE", &cpp.request_here},
    {"_ZTVN10tensorflow20ProtoRunGraphRequestE", &cpp.request_sent},
    {"_ZTVN10tensorflow24InMemoryRunGraphResponseE", &cpp.response_here},
    {"_ZTVN10tensorflow29NonOwnedProtoRunGraphResponseE", &cpp.response_sent},
    {"_ZN10tensorflow16GrpcRemoteWorker" RUN "EPNS_22RunGraphRequestWrapperEPNS_30MutableRunGraphResponseWrapperE" DONE, &cpp.run_remote},
    {"_ZN10tensorflow15WorkerInterface" RUN "EPKNS_15RunGraphRequestEPNS_16RunGraphResponseE" DONE, &cpp.run_here},
    {"_ZN10tensorflow6Worker" RUN "EPNS_22RunGraphRequestWrapperEPNS_30MutableRunGraphResponseWrapperE" DONE, &cpp.run_worker},
    {"_ZN10tensorflow16GrpcRemoteWorker" CLEAN_UP DONE, &cpp.clean_up_remote},
    {"_ZN10tensorflow10GrpcWorker" CLEAN_UP DONE, &cpp.clean_up_here},
    {"_ZN10tensorflow6Worker18RegisterGraphAsyncEPKNS_20RegisterGraphRequestEPNS_21RegisterGraphResponseE" DONE, &cpp.register_here},
    {"_ZNK10tensorflow27MutableProtoRunGraphRequest7ToProtoEv", &cpp.request_of},
    {"_ZNK10tensorflow27MutableProtoRunGraphRequest7step_idEv", &cpp.step_of},
    {"_ZNK10tensorflow23InMemoryRunGraphRequest14session_handleB5cxx11Ev", &cpp.session_of_here},
    {"_ZNK10tensorflow23InMemoryRunGraphRequest12graph_handleB5cxx11Ev", &cpp.graph_of_here},
    {"_ZNK10tensorflow23InMemoryRunGraphRequest7step_idEv", &cpp.step_of_here},
    {"_ZNK10tensorflow20ProtoRunGraphRequest14session_handleB5cxx11Ev", &cpp.session_of_sent},
    {"_ZNK10tensorflow20ProtoRunGraphRequest12graph_handleB5cxx11Ev", &cpp.graph_of_sent},
    {"_ZNK10tensorflow20ProtoRunGraphRequest7step_idEv", &cpp.step_of_sent},
    {"_ZNK10tensorflow24InMemoryRunGraphResponse11status_codeEv", &cpp.code_of_here},
    {"_ZNK10tensorflow29NonOwnedProtoRunGraphResponse11status_codeEv", &cpp.code_of_sent},
    {"_ZN10tensorflow26OwnedProtoRunGraphResponse9get_protoEv", &cpp.response_of},
    {"_ZN3tsl11CallOptions17SetCancelCallbackESt8functionIFvvEE", &cpp.set_cancel},
    {"_ZN3tsl11CallOptions19ClearCancelCallbackEv", &cpp.clear_cancel},
    {"_ZN3tsl11CallOptions11StartCancelEv", &cpp.cancel},
    {"_ZN3tsl11CallOptionsC1Ev", &cpp.make_options},
    {"_ZN3tsl11CallOptions10GetTimeoutEv", &cpp.timeout},
    {"_ZN" LITE "14ParseFromArrayEPKvi", &cpp.parse},
    {"_ZNK" LITE "16SerializeToArrayEPvi", &cpp.serialize},
    {"_ZNK10tensorflow15RunGraphRequest12ByteSizeLongEv", &cpp.run_request_size},
    {"_ZNK10tensorflow16RunGraphResponse12ByteSizeLongEv", &cpp.run_response_size},
    {"_ZNK10tensorflow19CleanupGraphRequest12ByteSizeLongEv", &cpp.clean_up_request_size},
    {"_ZNK" LITE "3NewEPNS0_5ArenaE", &cpp.new_message},
    {"_ZN10tensorflow15RunGraphRequestC1E" ARENA, &cpp.make_run_request},
    {"_ZN10tensorflow16RunGraphResponseC1E" ARENA, &cpp.make_run_response},
    {"_ZN10tensorflow19CleanupGraphRequestC1E" ARENA, &cpp.make_clean_up_request},
    {"_ZN10tensorflow20CleanupGraphResponseC1E" ARENA, &cpp.make_clean_up_response},
    {"_ZN10tensorflow15RunGraphRequestD0Ev", &cpp.delete_run_request},
    {"_ZN10tensorflow16RunGraphResponseD0Ev", &cpp.delete_run_response},
    {"_ZN10tensorflow19CleanupGraphRequestD0Ev", &cpp.delete_clean_up_request},
    {"_ZN10tensorflow20CleanupGraphResponseD0Ev", &cpp.delete_clean_up_response},
    {"TF_Message", &cpp.text},
};

int find_cpp(void) {
    void *library = dlopen("libtensorflow_cc.so.2", RTLD_LAZY | RTLD_NOLOAD);
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++) {
        void *found = library != NULL ? dlsym(library, NAMES[i].name) : NULL;
        if (found == NULL)
            return 0;
        memcpy(NAMES[i].to, &found, sizeof found);
    }
    return 1;
}

static int manage_pointer(void *to, const void *from, int operation) {
    if (operation == CLONE)
        memcpy(to, from, sizeof(void *));
    return 0;
}

Function function_of(const void *pointer, void (*invoke)(const void *functor, TF_Status *)) {
    return (Function){{pointer, NULL}, manage_pointer, invoke};
}

Function copy_of(const Function *function) {
    Function made = *function;
    if (made.manage != NULL)
        made.manage(made.functor, function->functor, CLONE);
    return made;
}

void destroy(Function *function) {
    if (function->manage != NULL)
        function->manage(function->functor, function->functor, DESTROY);
}

int is_a(const void *object, void *const *table) { return *(void *const *const *)object == table + FIRST; }

const String *task_of(const void *worker) { return (const void *)((const char *)worker + TASK_AT); }

const void *channel_of(const void *worker) { return *(void *const *)((const char *)worker + CHANNEL_AT); }

int replace(void **table, Any *function, Any *by) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    void *begin;
    int at = FIRST;
    while (at < MOST_FUNCTIONS && memcmp(&table[at], &function, sizeof function) != 0)
        at++;
    /* Tables are read-only once TensorFlow is loaded. */
    begin = (void *)((uintptr_t)(table + at) & ~(uintptr_t)(page - 1));
    if (at == MOST_FUNCTIONS || mprotect(begin, page, PROT_READ | PROT_WRITE) != 0)
        return 0;
    memcpy(&table[at], &by, sizeof by);
    return mprotect(begin, page, PROT_READ) == 0;
}

int replace_in_env(void *library, const char *of_wrapper, Any *by, Any **replaced) {
    void **wrapper = dlsym(library, "_ZTVN3tsl10EnvWrapperE"), *function = dlsym(library, of_wrapper);
    void *symbol = dlsym(library, "_ZN3tsl3Env7DefaultEv"), **table;
    void *(*find_default)(void);
    int at = FIRST;
    if (wrapper == NULL || function == NULL || symbol == NULL)
        return 0;
    memcpy(&find_default, &symbol, sizeof symbol);
    table = *(void ***)find_default() - FIRST;
    while (at < MOST_FUNCTIONS && wrapper[at] != function)
        at++;
    if (at == MOST_FUNCTIONS)
        return 0;
    memcpy(replaced, &table[at], sizeof *replaced);
    return replace(table, *replaced, by);
}
