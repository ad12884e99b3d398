/* TensorFlow ops for values that travel as int8 (replication/wire/eight_bits.py), each in one pass over memory, where TensorFlow's own ops
 * make five to seven. Loaded by TensorFlow as an op library; not a Python module.
 *
 * PsclustEncode(value, base: float32; block, difference) -> (message: int8, kept: float32): what to send, and what its sender keeps.
 *     difference false: value + base is sent, and what rounding takes from it is kept. true: value - base is sent, and base with what
 *     arrives of it is kept.
 * PsclustDecode(message: int8; count, block) -> values: float32 [count]
 * PsclustDecodeAdd(message: int8, base: float32; block) -> values: base with what the message says added
 *
 * A message is a byte for each value, the last block filled with zeros, then a float32 scale for each block of `block` values, at most 1024.
 * Written against TensorFlow's C interface (tensorflow/c/kernels.h, ops.h), which is the same for every compiler, and which is looked up when
 * the library is loaded: it is built without TensorFlow.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define FASTEST __attribute__((target_clones("avx2", "default")))
#else
#define FASTEST
#endif

enum { MOST = 1024, FLOAT = 1, INT8 = 6, INVALID_ARGUMENT = 3 };

/* Added to a number of a magnitude below 2^22 and taken off again, it leaves the nearest whole number, halves to even. */
static const float ROUNDER = 12582912.0f;
static const float LARGEST = 127.0f, SMALLEST = 1e-37f; /* 1 / scale has to be finite */

typedef struct {
    int64_t count;
    int block;
    int difference;
} Shape;

/* The scale of a block; not finite if one of its values is not. As bits, magnitudes are ordered, and NaN is above infinity. */
FASTEST static float scale_of(const float *values, int count) {
    int32_t bits[MOST], largest = 0;
    float magnitude;
    memcpy(bits, values, (size_t)count * sizeof *values);
    for (int i = 0; i < count; i++) {
        int32_t each = bits[i] & 0x7fffffff;
        largest = largest > each ? largest : each;
    }
    memcpy(&magnitude, &largest, sizeof magnitude);
    return magnitude < LARGEST * SMALLEST ? 0.0f : magnitude / LARGEST;
}

FASTEST static void encode(const float *value, const float *base, Shape shape, int8_t *message, float *kept) {
    int64_t rows = (shape.count + shape.block - 1) / shape.block;
    int8_t *scales = message + rows * shape.block;
    float total[MOST];
    for (int64_t row = 0; row < rows; row++) {
        int64_t at = row * shape.block;
        int count = shape.count - at < shape.block ? (int)(shape.count - at) : shape.block;
        const float *v = value + at, *b = base + at;
        int8_t *codes = message + at;
        float *k = kept + at; /* may be v */
        float scale, inverse;
        if (shape.difference)
            for (int i = 0; i < count; i++)
                total[i] = v[i] - b[i];
        else
            for (int i = 0; i < count; i++)
                total[i] = v[i] + b[i];
        scale = scale_of(total, count);
        memcpy(scales + row * (int64_t)sizeof scale, &scale, sizeof scale);
        memset(codes + count, 0, (size_t)(shape.block - count));
        if (!(scale - scale == 0.0f)) { /* all of the block arrives as a value that is not finite */
            memset(codes, 1, (size_t)count);
            for (int i = 0; i < count; i++)
                k[i] = scale;
            continue;
        }
        inverse = scale == 0.0f ? 0.0f : 1.0f / scale;
        if (shape.difference)
            for (int i = 0; i < count; i++) {
                float rounded = (total[i] * inverse + ROUNDER) - ROUNDER;
                codes[i] = (int8_t)(int32_t)rounded;
                k[i] = b[i] + rounded * scale;
            }
        else
            for (int i = 0; i < count; i++) {
                float rounded = (total[i] * inverse + ROUNDER) - ROUNDER;
                codes[i] = (int8_t)(int32_t)rounded;
                k[i] = total[i] - rounded * scale;
            }
    }
}

/* base: added; NULL: nothing is. */
FASTEST static void decode(const int8_t *message, const float *base, Shape shape, float *values) {
    int64_t rows = (shape.count + shape.block - 1) / shape.block;
    const int8_t *scales = message + rows * shape.block;
    for (int64_t row = 0; row < rows; row++) {
        int64_t at = row * shape.block;
        int count = shape.count - at < shape.block ? (int)(shape.count - at) : shape.block;
        const int8_t *codes = message + at;
        float *out = values + at;
        float scale;
        memcpy(&scale, scales + row * (int64_t)sizeof scale, sizeof scale);
        if (base == NULL)
            for (int i = 0; i < count; i++)
                out[i] = (float)codes[i] * scale;
        else
            for (int i = 0; i < count; i++)
                out[i] = base[at + i] + (float)codes[i] * scale;
    }
}

/* TensorFlow's C interface: what is used of it. */
typedef struct TF_Status TF_Status;
typedef struct TF_Tensor TF_Tensor;
typedef struct TF_OpKernelConstruction Construction;
typedef struct TF_OpKernelContext Context;
typedef struct TF_OpDefinitionBuilder OpBuilder;
typedef struct TF_KernelBuilder KernelBuilder;

static struct {
    TF_Status *(*new_status)(void);
    void (*delete_status)(TF_Status *);
    void (*set_status)(TF_Status *, int, const char *);
    int (*code)(const TF_Status *);
    OpBuilder *(*new_op)(const char *);
    void (*attribute)(OpBuilder *, const char *);
    void (*input)(OpBuilder *, const char *);
    void (*output)(OpBuilder *, const char *);
    void (*register_op)(OpBuilder *, TF_Status *);
    KernelBuilder *(*new_kernel)(const char *, const char *, void *(*)(Construction *), void (*)(void *, Context *), void (*)(void *));
    void (*register_kernel)(const char *, KernelBuilder *, TF_Status *);
    void (*integer)(Construction *, const char *, int64_t *, TF_Status *);
    void (*boolean)(Construction *, const char *, unsigned char *, TF_Status *);
    void (*construction_failed)(Construction *, TF_Status *);
    void (*failed)(Context *, TF_Status *);
    void (*get_input)(Context *, int, TF_Tensor **, TF_Status *);
    TF_Tensor *(*allocate)(Context *, int, int, const int64_t *, int, size_t, TF_Status *);
    TF_Tensor *(*forward)(Context *, const int *, int, int, const int64_t *, int, int *, TF_Status *);
    void *(*data)(const TF_Tensor *);
    int64_t (*elements)(const TF_Tensor *);
    void (*delete_tensor)(TF_Tensor *);
} tf;

static const struct {
    const char *name;
    size_t offset;
} FUNCTIONS[] = {
    {"TF_NewStatus", offsetof(__typeof__(tf), new_status)},
    {"TF_DeleteStatus", offsetof(__typeof__(tf), delete_status)},
    {"TF_SetStatus", offsetof(__typeof__(tf), set_status)},
    {"TF_GetCode", offsetof(__typeof__(tf), code)},
    {"TF_NewOpDefinitionBuilder", offsetof(__typeof__(tf), new_op)},
    {"TF_OpDefinitionBuilderAddAttr", offsetof(__typeof__(tf), attribute)},
    {"TF_OpDefinitionBuilderAddInput", offsetof(__typeof__(tf), input)},
    {"TF_OpDefinitionBuilderAddOutput", offsetof(__typeof__(tf), output)},
    {"TF_RegisterOpDefinition", offsetof(__typeof__(tf), register_op)},
    {"TF_NewKernelBuilder", offsetof(__typeof__(tf), new_kernel)},
    {"TF_RegisterKernelBuilder", offsetof(__typeof__(tf), register_kernel)},
    {"TF_OpKernelConstruction_GetAttrInt64", offsetof(__typeof__(tf), integer)},
    {"TF_OpKernelConstruction_GetAttrBool", offsetof(__typeof__(tf), boolean)},
    {"TF_OpKernelConstruction_Failure", offsetof(__typeof__(tf), construction_failed)},
    {"TF_OpKernelContext_Failure", offsetof(__typeof__(tf), failed)},
    {"TF_GetInput", offsetof(__typeof__(tf), get_input)},
    {"TF_AllocateOutput", offsetof(__typeof__(tf), allocate)},
    {"TF_ForwardInputOrAllocateOutput", offsetof(__typeof__(tf), forward)},
    {"TF_TensorData", offsetof(__typeof__(tf), data)},
    {"TF_TensorElementCount", offsetof(__typeof__(tf), elements)},
    {"TF_DeleteTensor", offsetof(__typeof__(tf), delete_tensor)},
};

static int64_t message_bytes(Shape shape) {
    return (shape.count + shape.block - 1) / shape.block * (shape.block + (int64_t)sizeof(float));
}

/* A kernel's state: the attributes; count is 0 where the input says it. */
static void *create(Construction *construction, int counts, int differs) {
    TF_Status *status = tf.new_status();
    Shape *shape = calloc(1, sizeof *shape);
    int64_t block = 0;
    unsigned char difference = 0;
    tf.integer(construction, "block", &block, status);
    if (tf.code(status) == 0 && counts)
        tf.integer(construction, "count", &shape->count, status);
    if (tf.code(status) == 0 && differs)
        tf.boolean(construction, "difference", &difference, status);
    if (tf.code(status) == 0 && (block < 1 || block > MOST || shape->count < 0))
        tf.set_status(status, INVALID_ARGUMENT, "block is not between 1 and 1024, or count is negative");
    shape->block = (int)block;
    shape->difference = difference;
    if (tf.code(status) != 0)
        tf.construction_failed(construction, status);
    tf.delete_status(status);
    return shape;
}

static void *create_encode(Construction *construction) {
    return create(construction, 0, 1);
}

static void *create_decode(Construction *construction) {
    return create(construction, 1, 0);
}

static void *create_decode_add(Construction *construction) {
    return create(construction, 0, 0);
}

static TF_Tensor *input(Context *context, int index, TF_Status *status) {
    TF_Tensor *tensor = NULL;
    if (tf.code(status) == 0)
        tf.get_input(context, index, &tensor, status);
    return tensor;
}

static TF_Tensor *output(Context *context, int index, int type, int64_t length, size_t bytes, TF_Status *status) {
    return tf.code(status) == 0 ? tf.allocate(context, index, type, &length, 1, bytes, status) : NULL;
}

static void end(Context *context, TF_Status *status, TF_Tensor *const *tensors, int count) {
    if (tf.code(status) != 0)
        tf.failed(context, status);
    for (int i = 0; i < count; i++)
        if (tensors[i] != NULL)
            tf.delete_tensor(tensors[i]);
    tf.delete_status(status);
}

static void compute_encode(void *kernel, Context *context) {
    Shape shape = *(const Shape *)kernel;
    TF_Status *status = tf.new_status();
    TF_Tensor *t[4] = {input(context, 0, status), input(context, 1, status), NULL, NULL};
    int first = 0;
    if (tf.code(status) == 0) {
        shape.count = tf.elements(t[0]);
        if (tf.elements(t[1]) != shape.count)
            tf.set_status(status, INVALID_ARGUMENT, "value and base differ in size");
    }
    t[2] = output(context, 0, INT8, message_bytes(shape), (size_t)message_bytes(shape), status);
    if (tf.code(status) == 0)
        t[3] = tf.forward(context, &first, 1, 1, &shape.count, 1, NULL, status);
    if (tf.code(status) == 0)
        encode(tf.data(t[0]), tf.data(t[1]), shape, tf.data(t[2]), tf.data(t[3]));
    end(context, status, t, 4);
}

static void decode_into(Context *context, Shape shape, int adds) {
    TF_Status *status = tf.new_status();
    TF_Tensor *t[3] = {input(context, 0, status), adds ? input(context, 1, status) : NULL, NULL};
    if (tf.code(status) == 0) {
        shape.count = adds ? tf.elements(t[1]) : shape.count;
        if (tf.elements(t[0]) != message_bytes(shape))
            tf.set_status(status, INVALID_ARGUMENT, "the message is not of so many values");
    }
    t[2] = output(context, 0, FLOAT, shape.count, (size_t)shape.count * sizeof(float), status);
    if (tf.code(status) == 0)
        decode(tf.data(t[0]), adds ? tf.data(t[1]) : NULL, shape, tf.data(t[2]));
    end(context, status, t, 3);
}

static void compute_decode(void *kernel, Context *context) {
    decode_into(context, *(const Shape *)kernel, 0);
}

static void compute_decode_add(void *kernel, Context *context) {
    decode_into(context, *(const Shape *)kernel, 1);
}

static void register_kernel(const char *op, void *(*make)(Construction *), void (*compute)(void *, Context *), TF_Status *status) {
    if (tf.code(status) == 0)
        tf.register_kernel(op, tf.new_kernel(op, "CPU", make, compute, free), status);
}

static void register_op(OpBuilder *op, const char *const *inputs, const char *const *outputs, const char *const *attributes, TF_Status *status) {
    for (; *inputs != NULL; inputs++)
        tf.input(op, *inputs);
    for (; *outputs != NULL; outputs++)
        tf.output(op, *outputs);
    for (; *attributes != NULL; attributes++)
        tf.attribute(op, *attributes);
    if (tf.code(status) == 0)
        tf.register_op(op, status);
}

/* Runs when the library is loaded. Without TensorFlow in the process, or with one that has not these functions, it registers nothing. */
__attribute__((constructor)) static void register_all(void) {
    void *library = dlopen("libtensorflow_framework.so.2", RTLD_LAZY | RTLD_NOLOAD);
    TF_Status *status;
    if (library == NULL)
        return;
    for (size_t i = 0; i < sizeof FUNCTIONS / sizeof *FUNCTIONS; i++) {
        void *function = dlsym(library, FUNCTIONS[i].name);
        if (function == NULL)
            return;
        memcpy((char *)&tf + FUNCTIONS[i].offset, &function, sizeof function);
    }
    status = tf.new_status();
    register_op(tf.new_op("PsclustEncode"), (const char *[]){"value: float", "base: float", NULL},
                (const char *[]){"message: int8", "kept: float", NULL}, (const char *[]){"block: int", "difference: bool", NULL}, status);
    register_op(tf.new_op("PsclustDecode"), (const char *[]){"message: int8", NULL}, (const char *[]){"values: float", NULL},
                (const char *[]){"count: int", "block: int", NULL}, status);
    register_op(tf.new_op("PsclustDecodeAdd"), (const char *[]){"message: int8", "base: float", NULL},
                (const char *[]){"values: float", NULL}, (const char *[]){"block: int", NULL}, status);
    register_kernel("PsclustEncode", create_encode, compute_encode, status);
    register_kernel("PsclustDecode", create_decode, compute_decode, status);
    register_kernel("PsclustDecodeAdd", create_decode_add, compute_decode_add, status);
    tf.delete_status(status);
}
