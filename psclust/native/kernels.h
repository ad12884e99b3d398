/* The part of TensorFlow's C interface (tensorflow/c/kernels.h, ops.h) that psclust's ops use. Its
 * functions are looked up when the library is loaded, so that it can be built without TensorFlow
 * and by any compiler. */
#ifndef PSCLUST_KERNELS_H
#define PSCLUST_KERNELS_H

#include <stddef.h>
#include <stdint.h>

#define INTERNAL __attribute__((visibility("hidden")))

enum { FLOAT = 1, INT8 = 6, INT64 = 9, BFLOAT16 = 14 };
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
    X(unsigned char, has_attribute, TF_OpKernelConstruction_HasAttr,                               \
      (Construction *, const char *, TF_Status *))                                                 \
    X(void, integer, TF_OpKernelConstruction_GetAttrInt64,                                         \
      (Construction *, const char *, int64_t *, TF_Status *))                                      \
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
    X(size_t, size_of, TF_DataTypeSize, (int))                                                     \
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

/* NAME: bytes of a task's name, such as ps:0, with the zero at its end. */
enum { NAME = 64, HOST = 256, MOST_OF_BLOCK = 1024 };

/* Two tasks, as one of them sees it. There may be several tasks in one process. */
typedef struct {
    char own[NAME], peer[NAME];
} Pair;

/* Of an op, which is its kernel; zeros are those that it does not have. No number is negative, and
 * block is 1 to MOST_OF_BLOCK. */
typedef struct {
    Pair pair;
    char host[HOST];
    int64_t key, at, count, block, difference, port;
} Attributes;

/* inputs, outputs, attributes: "name: type" each. The kernel of both functions is `Attributes`.
 * compute_later: used in place of `compute`; calls its last argument, a std::function, when the op
 * is done. stateful: TensorFlow neither drops the op nor merges it with equal ones. */
typedef struct {
    const char *name;
    int pure;
    const char *inputs[4], *outputs[3], *attributes[6];
    void (*compute)(void *kernel, Context *);
    void (*compute_later)(void *kernel, Context *, void *done);
} Op;

/* Registers ops, when the library is loaded; the last one has no name. Does nothing in a process
 * without TensorFlow, or with one that lacks a function of INTERFACE. */
INTERNAL void add_ops(const Op *ops);

INTERNAL TF_Tensor *input(Context *context, int index, TF_Status *status);

/* Sets status, to a text as printf makes it. */
INTERNAL void fail(TF_Status *status, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Ends an op: it fails if status says so. Deletes status and tensors. */
INTERNAL void end(Context *context, TF_Status *status, TF_Tensor *const *tensors, int count);

#endif
