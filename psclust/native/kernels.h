/* The part of TensorFlow's C interface (tensorflow/c/kernels.h, ops.h) that psclust's ops use. Its
 * functions are looked up when the library is loaded, so that it can be built without TensorFlow
 * and by any compiler. */
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

/* X(what it returns, its name here, its name there, what it takes) */
#define INTERFACE(X)                                                                               \
    X(TF_Status *, new_status, TF_NewStatus, (void))                                               \
    X(void, delete_status, TF_DeleteStatus, (TF_Status *))                                         \
    X(void, set_status, TF_SetStatus, (TF_Status *, int, const char *))                            \
    X(int, code, TF_GetCode, (const TF_Status *))                                                  \
    X(OpBuilder *, new_op, TF_NewOpDefinitionBuilder, (const char *))                              \
    X(void, attribute, TF_OpDefinitionBuilderAddAttr, (OpBuilder *, const char *))                 \
    X(void, input, TF_OpDefinitionBuilderAddInput, (OpBuilder *, const char *))                    \
    X(void, output, TF_OpDefinitionBuilderAddOutput, (OpBuilder *, const char *))                  \
    X(void, stateful, TF_OpDefinitionBuilderSetIsStateful, (OpBuilder *, unsigned char))           \
    X(void, register_op, TF_RegisterOpDefinition, (OpBuilder *, TF_Status *))                      \
    X(KernelBuilder *, new_kernel, TF_NewKernelBuilder,                                            \
      (const char *, const char *, void *(*)(Construction *), void (*)(void *, Context *),         \
       void (*)(void *)))                                                                          \
    X(KernelBuilder *, new_late_kernel, TF_NewAsyncKernelBuilder,                                  \
      (const char *, const char *, void *(*)(Construction *), void (*)(void *, Context *, void *), \
       void (*)(void *)))                                                                          \
    X(void, register_kernel, TF_RegisterKernelBuilder,                                             \
      (const char *, KernelBuilder *, TF_Status *))                                                \
    X(void, integer, TF_OpKernelConstruction_GetAttrInt64,                                         \
      (Construction *, const char *, int64_t *, TF_Status *))                                      \
    X(void, boolean, TF_OpKernelConstruction_GetAttrBool,                                          \
      (Construction *, const char *, unsigned char *, TF_Status *))                                \
    X(void, string, TF_OpKernelConstruction_GetAttrString,                                         \
      (Construction *, const char *, char *, size_t, TF_Status *))                                 \
    X(void, construction_failed, TF_OpKernelConstruction_Failure, (Construction *, TF_Status *))   \
    X(void, failed, TF_OpKernelContext_Failure, (Context *, TF_Status *))                          \
    X(int64_t, step, TF_GetStepId, (Context *))                                                    \
    X(int, inputs, TF_NumInputs, (Context *))                                                      \
    X(void, get_input, TF_GetInput, (Context *, int, TF_Tensor **, TF_Status *))                   \
    X(TF_Tensor *, allocate, TF_AllocateOutput,                                                    \
      (Context *, int, int, const int64_t *, int, size_t, TF_Status *))                            \
    X(TF_Tensor *, forward, TF_ForwardInputOrAllocateOutput,                                       \
      (Context *, const int *, int, int, const int64_t *, int, int *, TF_Status *))                \
    X(void, set_output, TF_SetOutput, (Context *, int, const TF_Tensor *, TF_Status *))            \
    X(TF_Tensor *, new_tensor, TF_AllocateTensor, (int, const int64_t *, int, size_t))             \
    X(void *, data, TF_TensorData, (const TF_Tensor *))                                            \
    X(int, type, TF_TensorType, (const TF_Tensor *))                                               \
    X(size_t, bytes, TF_TensorByteSize, (const TF_Tensor *))                                       \
    X(int64_t, elements, TF_TensorElementCount, (const TF_Tensor *))                               \
    X(int, dimensions, TF_NumDims, (const TF_Tensor *))                                            \
    X(int64_t, dimension, TF_Dim, (const TF_Tensor *, int))                                        \
    X(void, delete_tensor, TF_DeleteTensor, (TF_Tensor *))

typedef struct {
#define MEMBER(type, name, symbol, arguments) type(*name) arguments;
    INTERFACE(MEMBER)
#undef MEMBER
} Interface;

extern INTERNAL Interface tf;

/* Fills `tf`. library: libtensorflow_framework. 0: it lacks one of the functions. */
INTERNAL int find_interface(void *library);

/* inputs, outputs, attributes: "name: type" each, NULL at the end. compute_later: used in place of
 * `compute`; calls its last argument, a std::function, when the op is done. stateful: TensorFlow
 * neither drops the op nor merges it with equal ones. */
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

/* An output with the shape of input `like`, in its memory if nothing else uses that. Call it before
 * `input(like)`, which counts as a use. */
INTERNAL TF_Tensor *output_like(Context *context, int index, int like, TF_Status *status);

/* Ends an op: it fails if status says so. Deletes status and tensors. */
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

/* Register the ops of the other files. */
INTERNAL void add_int8_ops(TF_Status *status);
INTERNAL void add_place_op(TF_Status *status);
INTERNAL void add_wire_ops(TF_Status *status);

#endif
