/* TensorFlow ops for values that travel as int8 (replication/wire/eight_bits.py), each in one pass
 * over memory: TensorFlow's own ops make five to seven, and take three times the CPU.
 *
 * PsclustEncode(value, base: float32; block, difference) -> (message: int8, kept: float32): what to
 * send, and what its sender keeps. difference false: value + base is sent, and what rounding takes
 * from it is kept. true: value - base is sent, and base with what arrives of it is kept.
 * PsclustDecode(message: int8, base: M * float32; count, block) -> values: float32 [count]: what
 * the message says, added to base if there is one
 *
 * A message is a byte for each value, the last block filled with zeros, then a float32 scale for
 * each block of `block` values, at most 1024.
 */
#include "kernels.h"

#include <stdlib.h>
#include <string.h>

/* Added to a number of a magnitude below 2^22 and taken off again, it leaves the nearest whole
 * number, halves to even. */
static const float ROUNDER = 12582912.0f;
static const float LARGEST = 127.0f, SMALLEST = 1e-37f; /* 1 / scale has to be finite */

typedef struct {
    int64_t count;
    int block;
    int difference;
} Shape;

/* The scale of a block; not finite if one of its values is not. As bits, magnitudes are ordered,
 * and NaN is above infinity. */
FASTEST static float scale_of(const float *values, int count) {
    int32_t bits[MOST_OF_BLOCK], largest = 0;
    float magnitude;
    memcpy(bits, values, (size_t)count * sizeof *values);
    for (int i = 0; i < count; i++) {
        int32_t each = bits[i] & 0x7fffffff;
        largest = largest > each ? largest : each;
    }
    memcpy(&magnitude, &largest, sizeof magnitude);
    return magnitude < LARGEST * SMALLEST ? 0.0f : magnitude / LARGEST;
}

FASTEST static void encode(const float *value, const float *base, Shape shape, int8_t *message,
                           float *kept) {
    int64_t rows = (shape.count + shape.block - 1) / shape.block;
    int8_t *scales = message + rows * shape.block;
    float total[MOST_OF_BLOCK];
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

FASTEST void decode(const int8_t *message, const float *base, int64_t all, int block,
                    float *values) {
    int64_t rows = (all + block - 1) / block;
    const int8_t *scales = message + rows * block;
    for (int64_t row = 0; row < rows; row++) {
        int64_t at = row * block;
        int count = all - at < block ? (int)(all - at) : block;
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

int64_t message_bytes(int64_t count, int block) {
    return (count + block - 1) / block * (block + (int64_t)sizeof(float));
}

static void *create_encode(Construction *construction) {
    TF_Status *status = tf.new_status();
    Shape *shape = calloc(1, sizeof *shape);
    unsigned char difference = 0;
    shape->block = block_of(construction, status);
    if (tf.code(status) == 0)
        tf.boolean(construction, "difference", &difference, status);
    shape->difference = difference;
    return created(construction, status, shape);
}

static void *create_decode(Construction *construction) {
    TF_Status *status = tf.new_status();
    Shape *shape = calloc(1, sizeof *shape);
    shape->block = block_of(construction, status);
    shape->count = natural(construction, "count", status);
    return created(construction, status, shape);
}

static TF_Tensor *output(Context *context, int index, int type, int64_t length, size_t bytes,
                         TF_Status *status) {
    return tf.code(status) == 0 ? tf.allocate(context, index, type, &length, 1, bytes, status)
                                : NULL;
}

static void compute_encode(void *kernel, Context *context) {
    Shape shape = *(const Shape *)kernel;
    TF_Status *status = tf.new_status();
    int64_t bytes;
    /* Before the inputs, which then are in use. */
    TF_Tensor *kept = output_like(context, 1, 0, status),
              *t[4] = {kept, input(context, 0, status), input(context, 1, status), NULL};
    if (tf.code(status) == 0) {
        shape.count = tf.elements(kept);
        if (tf.elements(t[2]) != shape.count)
            tf.set_status(status, INVALID_ARGUMENT, "value and base differ in size");
    }
    bytes = message_bytes(shape.count, shape.block);
    t[3] = output(context, 0, INT8, bytes, (size_t)bytes, status);
    if (tf.code(status) == 0)
        encode(tf.data(t[1]), tf.data(t[2]), shape, tf.data(t[3]), tf.data(kept));
    end(context, status, t, 4);
}

static void compute_decode(void *kernel, Context *context) {
    const Shape *shape = kernel;
    TF_Status *status = tf.new_status();
    int adds = tf.inputs(context) > 1;
    TF_Tensor *t[3] = {input(context, 0, status), adds ? input(context, 1, status) : NULL, NULL};
    if (tf.code(status) == 0 && (tf.elements(t[0]) != message_bytes(shape->count, shape->block) ||
                                 (adds && tf.elements(t[1]) != shape->count)))
        tf.set_status(status, INVALID_ARGUMENT, "the message is not of so many values");
    t[2] = output(context, 0, FLOAT, shape->count, (size_t)shape->count * sizeof(float), status);
    if (tf.code(status) == 0)
        decode(tf.data(t[0]), adds ? tf.data(t[1]) : NULL, shape->count, shape->block,
               tf.data(t[2]));
    end(context, status, t, 3);
}

void add_int8_ops(TF_Status *status) {
    static const char *const pair[] = {"value: float", "base: float", NULL};
    static const char *const encoded[] = {"message: int8", "kept: float", NULL};
    static const char *const encodes[] = {"block: int", "difference: bool", NULL};
    static const char *const message[] = {"message: int8", "base: M * float", NULL};
    static const char *const decoded[] = {"values: float", NULL};
    static const char *const decodes[] = {"M: int >= 0", "count: int", "block: int", NULL};
    add_op(&(Op){"PsclustEncode", pair, encoded, encodes, create_encode, .compute = compute_encode},
           status);
    add_op(
        &(Op){"PsclustDecode", message, decoded, decodes, create_decode, .compute = compute_decode},
        status);
}
