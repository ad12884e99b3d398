/* TensorFlow ops for values that travel as int8 (replication/wire/eight_bits.py), each in one pass
 * over memory: TensorFlow's own ops make five to seven, and take three times the CPU. And one that
 * writes a shard into its place in a larger tensor as it has arrived from a ps
 * (replication/wire/whole.py), so that no copy of its values is made before.
 *
 * PsclustEncode(value, base: float32; block, difference) -> (message: int8, kept: float32): what to
 * send, and what its sender keeps. difference false: value + base is sent, and what rounding takes
 * from it is kept. true: value - base is sent, and base with what arrives of it is kept.
 * PsclustDecode(message: int8, base: M * float32; count, block) -> values: float32 [count]: what
 * the message says, added to base if there is one
 * PsclustPlace(whole: float32; value: T; base: M * float32; at, count, block):
 *     whole[at : at + count] = the values. T float32 or bfloat16: value has them. int8: value is a
 *     message, and they are added to base, if there is one. It writes in place and has no output,
 *     so nothing else may read `whole` yet.
 *
 * A message is a byte for each value, the last block filled with zeros, then a float32 scale for
 * each block of `block` values, at most 1024.
 */
#include "kernels.h"

#include <string.h>

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define FASTEST __attribute__((target_clones("avx2", "default")))
#else
#define FASTEST
#endif

/* Added to a number of a magnitude below 2^22 and taken off again, it leaves the nearest whole
 * number, halves to even. */
static const float ROUNDER = 12582912.0f;
static const float LARGEST = 127.0f, SMALLEST = 1e-37f; /* 1 / scale has to be finite */

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

/* sign: of base in what is sent. */
FASTEST static void encode(const float *value, const float *base, float sign, int64_t all,
                           int block, int8_t *message, float *kept) {
    int64_t rows = (all + block - 1) / block;
    int8_t *scales = message + rows * block;
    float total[MOST_OF_BLOCK];
    for (int64_t row = 0; row < rows; row++) {
        int64_t at = row * block;
        int count = all - at < block ? (int)(all - at) : block;
        const float *v = value + at, *b = base + at;
        int8_t *codes = message + at;
        float *k = kept + at; /* may be v */
        float scale, inverse;
        for (int i = 0; i < count; i++)
            total[i] = v[i] + sign * b[i];
        scale = scale_of(total, count);
        memcpy(scales + row * (int64_t)sizeof scale, &scale, sizeof scale);
        memset(codes + count, 0, (size_t)(block - count));
        if (!(scale - scale == 0.0f)) { /* all of the block arrives as a value that is not finite */
            for (int i = 0; i < count; i++) {
                codes[i] = 1;
                k[i] = scale;
            }
            continue;
        }
        inverse = scale == 0.0f ? 0.0f : 1.0f / scale;
        for (int i = 0; i < count; i++) {
            float rounded = (total[i] * inverse + ROUNDER) - ROUNDER;
            codes[i] = (int8_t)(int32_t)rounded;
            k[i] = (sign < 0 ? b[i] : total[i]) - sign * (rounded * scale);
        }
    }
}

/* base: added; NULL: nothing is. */
FASTEST static void decode(const int8_t *message, const float *base, int64_t all, int block,
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

FASTEST static void widen(const uint16_t *halves, int64_t count, float *values) {
    for (int64_t i = 0; i < count; i++) {
        uint32_t bits = (uint32_t)halves[i] << 16;
        memcpy(values + i, &bits, sizeof bits);
    }
}

static int64_t message_bytes(int64_t count, int64_t block) {
    return (count + block - 1) / block * (block + (int64_t)sizeof(float));
}

static TF_Tensor *output(Context *context, int type, int64_t length, size_t size,
                         TF_Status *status) {
    size_t bytes = (size_t)length * size;
    return tf.code(status) == 0 ? tf.allocate(context, 0, type, &length, 1, bytes, status) : NULL;
}

static void compute_encode(void *kernel, Context *context) {
    const Attributes *given = kernel;
    float sign = given->difference ? -1.0f : 1.0f;
    TF_Status *status = tf.new_status();
    TF_Tensor *t[4] = {input(context, 0, status)};
    int first = 0;
    int64_t count = 0;
    if (tf.code(status) == 0) {
        count = tf.elements(t[0]);
        /* What is kept gets the memory of value, if nothing else uses that, as `t` does. */
        tf.delete_tensor(t[0]);
        t[0] = tf.forward(context, &first, 1, 1, &count, 1, NULL, status);
    }
    t[1] = input(context, 0, status);
    t[2] = input(context, 1, status);
    if (tf.code(status) == 0 && tf.elements(t[2]) != count)
        fail(status, INVALID_ARGUMENT, "value and base differ in size");
    t[3] = output(context, INT8, message_bytes(count, given->block), sizeof(int8_t), status);
    if (tf.code(status) == 0)
        encode(tf.data(t[1]), tf.data(t[2]), sign, count, (int)given->block, tf.data(t[3]),
               tf.data(t[0]));
    end(context, status, t, 4);
}

/* Writes the values of input `first`, added to the next one if there is one, into `whole`. */
static void put(Context *context, const Attributes *given, TF_Tensor *whole, int first,
                TF_Status *status) {
    int64_t count = given->count;
    int block = (int)given->block, adds = tf.inputs(context) > first + 1;
    TF_Tensor *t[3] = {whole, input(context, first, status),
                       adds ? input(context, first + 1, status) : NULL};
    int type = tf.code(status) == 0 ? tf.type(t[1]) : 0;
    if (tf.code(status) == 0 &&
        (count > tf.elements(whole) - given->at || (adds && tf.elements(t[2]) != count) ||
         tf.elements(t[1]) != (type == INT8 ? message_bytes(count, block) : count)))
        fail(status, INVALID_ARGUMENT, "value, base and their place differ in size");
    else if (tf.code(status) == 0 && adds && type != INT8)
        fail(status, INVALID_ARGUMENT, "only what an int8 message says is added to a base");
    if (tf.code(status) == 0) {
        float *values = (float *)tf.data(whole) + given->at;
        if (type == INT8)
            decode(tf.data(t[1]), adds ? tf.data(t[2]) : NULL, count, block, values);
        else if (type == BFLOAT16)
            widen(tf.data(t[1]), count, values);
        else
            memcpy(values, tf.data(t[1]), (size_t)count * sizeof *values);
    }
    end(context, status, t, 3);
}

static void compute_decode(void *kernel, Context *context) {
    const Attributes *given = kernel;
    TF_Status *status = tf.new_status();
    put(context, given, output(context, FLOAT, given->count, sizeof(float), status), 0, status);
}

static void compute_place(void *kernel, Context *context) {
    TF_Status *status = tf.new_status();
    put(context, kernel, input(context, 0, status), 1, status);
}

static const Op OPS[] = {
    {.name = "PsclustEncode",
     .pure = 1,
     .inputs = {"value: float", "base: float"},
     .outputs = {"message: int8", "kept: float"},
     .attributes = {"block: int", "difference: int"},
     .compute = compute_encode},
    {.name = "PsclustDecode",
     .pure = 1,
     .inputs = {"message: int8", "base: M * float"},
     .outputs = {"values: float"},
     .attributes = {"M: int >= 0", "count: int", "block: int"},
     .compute = compute_decode},
    {.name = "PsclustPlace",
     .inputs = {"whole: float", "value: T", "base: M * float"},
     .attributes = {"T: {float, bfloat16, int8}", "M: int >= 0", "at: int", "count: int",
                    "block: int"},
     .compute = compute_place},
    {.name = NULL},
};

__attribute__((constructor)) static void add(void) {
    add_ops(OPS);
}
