/* The functions of TensorFlow 2.21 by which its tasks begin and end the parts of a run in each other, and what replaces some of its own. It
 * has no C interface for these: they are C++ functions, found by their names (tensorflow_cpp.c). */
#ifndef PSCLUST_TENSORFLOW_CPP_H
#define PSCLUST_TENSORFLOW_CPP_H

#include "kernels.h"

enum { INTERNAL_ERROR = 13, UNAVAILABLE = 14 };

/* std::function of libstdc++, of one argument at most, by reference: an absl::Status is all that a TF_Status has in it. Passed by value, it
 * is a pointer to the caller's, from which it may be moved: `manage` is NULL then. */
typedef struct {
    const void *functor[2];
    int (*manage)(void *to, const void *from, int operation);
    void (*invoke)(const void *functor, TF_Status *);
} Function;

/* Of one that has a pointer. */
INTERNAL Function function_of(const void *pointer, void (*invoke)(const void *functor, TF_Status *));
INTERNAL Function copy_of(const Function *function);
INTERNAL void destroy(Function *function);

/* std::string. */
typedef struct {
    const char *text;
    size_t size;
} String;

typedef void RunGraph(void *worker, void *options, void *request, void *response, Function *done);
typedef void CallGraph(void *worker, const void *request, void *response, Function *done);

/* Messages are objects of protobuf, options of tsl::CallOptions. make_: at an address with room; new_message makes one `like` another.
 * request_here, request_sent: what a task's own worker is asked, by a session of its process and by another task; response_here,
 * response_sent: what it answers, with the error if there is one. */
typedef struct {
    /* Tables of virtual functions. */
    void **remote_worker, **local_worker, **request_wrapper, **response_wrapper;
    void **request_here, **request_sent, **response_here, **response_sent;
    RunGraph *run_remote, *run_here, *run_worker;
    CallGraph *clean_up_remote, *clean_up_here, *register_here;
    const void *(*request_of)(const void *wrapper);
    void *(*response_of)(void *wrapper);
    int64_t (*step_of)(const void *wrapper), (*step_of_here)(const void *wrapper), (*step_of_sent)(const void *wrapper);
    const String *(*session_of_here)(const void *wrapper), *(*graph_of_here)(const void *wrapper);
    const String *(*session_of_sent)(const void *wrapper), *(*graph_of_sent)(const void *wrapper);
    int (*code_of_here)(const void *wrapper), (*code_of_sent)(const void *wrapper);
    void (*set_cancel)(void *options, Function *cancel), (*clear_cancel)(void *options), (*cancel)(void *options);
    void (*make_options)(void *options);
    int64_t (*timeout)(void *options);
    int (*parse)(void *message, const void *from, int size), (*serialize)(const void *message, void *to, int size);
    size_t (*run_request_size)(const void *), (*run_response_size)(const void *), (*clean_up_request_size)(const void *);
    void *(*new_message)(const void *like, void *arena);
    void (*make_run_request)(void *, void *arena), (*make_run_response)(void *, void *arena);
    void (*make_clean_up_request)(void *, void *arena), (*make_clean_up_response)(void *, void *arena);
    void (*delete_run_request)(void *), (*delete_run_response)(void *);
    void (*delete_clean_up_request)(void *), (*delete_clean_up_response)(void *);
    const char *(*text)(const TF_Status *);
} Cpp;

extern INTERNAL Cpp cpp;

/* 0: TensorFlow has not all of them. */
INTERNAL int find_cpp(void);

/* Whether an object has this table, and not that of a class derived from it. */
INTERNAL int is_a(const void *object, void *const *table);

/* Of a tensorflow::GrpcRemoteWorker: its task, such as /job:ps/replica:0/task:0, and its channel, one for each task that a server calls. */
INTERNAL const String *task_of(const void *worker);
INTERNAL const void *channel_of(const void *worker);

typedef void Any(void);

/* In a table of virtual functions. 0: it could not be done. */
INTERNAL int replace(void **table, Any *function, Any *by);

/* In the table of tsl::Env::Default(), whose class has no name outside TensorFlow: the function in place of one of tsl::EnvWrapper's, whose
 * table has the same order. replaced: that function, which is set before it is replaced. library: libtensorflow_framework. 0: as above. */
INTERNAL int replace_in_env(void *library, const char *of_wrapper, Any *by, Any **replaced);

#endif
