/* TensorFlow's C interface (tensorflow/c/kernels.h, ops.h), as far as psclust's own ops use it. It
 * is the same for every compiler, and is looked up when the library is loaded (kernels.c): the
 * library is built without TensorFlow. */
#ifndef PSCLUST_KERNELS_H
#define PSCLUST_KERNELS_H

#include <stddef.h>
#include <stdint.h>

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define FASTEST __attribute__((target_clones("avx2", "default")))
#else
#define FASTEST
#endif

#define INTERNAL __attribute__((visibility("hidden")))

enum {
    FLOAT = 1,
    DOUBLE = 2,
    INT32 = 3,
    UINT8 = 4,
    INT16 = 5,
    INT8 = 6,
    INT64 = 9,
    BOOL = 10,
    BFLOAT16 = 14,
    HALF = 19
};
enum { CANCELLED = 1, INVALID_ARGUMENT = 3, ABORTED = 10, UNIMPLEMENTED = 12 };

typedef struct TF_Status TF_Status;
typedef struct TF_Tensor TF_Tensor;
typedef struct TF_OpKernelConstruction Construction;
typedef struct TF_OpKernelContext Context;
typedef struct TF_OpDefinitionBuilder OpBuilder;
typedef struct TF_KernelBuilder KernelBuilder;

typedef struct {
    TF_Status *(*new_status)(void);
    void (*delete_status)(TF_Status *);
    void (*set_status)(TF_Status *, int, const char *);
    int (*code)(const TF_Status *);
    OpBuilder *(*new_op)(const char *);
    void (*attribute)(OpBuilder *, const char *);
    void (*input)(OpBuilder *, const char *);
    void (*output)(OpBuilder *, const char *);
    void (*stateful)(OpBuilder *, unsigned char);
    void (*register_op)(OpBuilder *, TF_Status *);
    KernelBuilder *(*new_kernel)(const char *, const char *, void *(*)(Construction *),
                                 void (*)(void *, Context *), void (*)(void *));
    KernelBuilder *(*new_late_kernel)(const char *, const char *, void *(*)(Construction *),
                                      void (*)(void *, Context *, void *), void (*)(void *));
    void (*register_kernel)(const char *, KernelBuilder *, TF_Status *);
    void (*integer)(Construction *, const char *, int64_t *, TF_Status *);
    void (*boolean)(Construction *, const char *, unsigned char *, TF_Status *);
    void (*string)(Construction *, const char *, char *, size_t, TF_Status *);
    void (*construction_failed)(Construction *, TF_Status *);
    void (*failed)(Context *, TF_Status *);
    int64_t (*step)(Context *);
    int (*inputs)(Context *);
    void (*get_input)(Context *, int, TF_Tensor **, TF_Status *);
    TF_Tensor *(*allocate)(Context *, int, int, const int64_t *, int, size_t, TF_Status *);
    TF_Tensor *(*forward)(Context *, const int *, int, int, const int64_t *, int, int *,
                          TF_Status *);
    void (*set_output)(Context *, int, const TF_Tensor *, TF_Status *);
    TF_Tensor *(*new_tensor)(int, const int64_t *, int, size_t);
    void *(*data)(const TF_Tensor *);
    size_t (*bytes)(const TF_Tensor *);
    int (*type)(const TF_Tensor *);
    int64_t (*elements)(const TF_Tensor *);
    int (*dimensions)(const TF_Tensor *);
    int64_t (*dimension)(const TF_Tensor *, int);
    void (*delete_tensor)(TF_Tensor *);
} Interface;

extern INTERNAL Interface tf;

/* Fills `tf`. library: libtensorflow_framework. 0: it lacks one of the functions. */
INTERNAL int find_interface(void *library);

/* For one op, whose names of inputs, outputs and attributes end with NULL; all are with types.
 * compute_later: in place of `compute`, calls its last argument, a std::function, when the op is
 * done. stateful: TensorFlow neither leaves it out nor runs it once for several that are alike. */
typedef struct {
    const char *name;
    const char *const *inputs, *const *outputs, *const *attributes;
    void *(*create)(Construction *);
    void (*compute)(void *, Context *);
    void (*compute_later)(void *, Context *, void *);
    int stateful;
} Op;

INTERNAL void add_op(const Op *op, TF_Status *status);

INTERNAL TF_Tensor *input(Context *context, int index, TF_Status *status);

/* An output of the shape of input `like`, in its memory if nothing else uses that. To be called
 * before `input(like)`, which uses it. */
INTERNAL TF_Tensor *output_like(Context *context, int index, int like, TF_Status *status);

/* Deletes status and tensors; the op fails with status. */
INTERNAL void end(Context *context, TF_Status *status, TF_Tensor *const *tensors, int count);

/* An attribute; 0, with the reason in status, if it is negative or status is not good. */
INTERNAL int64_t natural(Construction *construction, const char *name, TF_Status *status);

/* The attribute `block` of an op for messages, as `natural`. */
INTERNAL int block_of(Construction *construction, TF_Status *status);

/* Ends the making of a kernel, which it returns; deletes status. */
INTERNAL void *created(Construction *construction, TF_Status *status, void *kernel);

/* Values as int8 (int8_kernels.c), in blocks of MOST_OF_BLOCK at most. */
enum { MOST_OF_BLOCK = 1024 };

/* The bytes of a message of `count` values in blocks of `block`. */
INTERNAL int64_t message_bytes(int64_t count, int block);

/* base: added; NULL: nothing is. */
INTERNAL void decode(const int8_t *message, const float *base, int64_t count, int block,
                     float *values);

/* Of the other files. */
INTERNAL void add_int8_ops(TF_Status *status);
INTERNAL void add_place_op(TF_Status *status);
INTERNAL void add_wire_ops(void *library, TF_Status *status);

#endif
