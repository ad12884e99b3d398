/* A TensorFlow op that writes a shard into its place in a larger tensor as it has arrived from a ps
 * (replication/wire/whole.py), so that no copy of its values is made before.
 *
 * PsclustPlace(whole: float32; value: T; base: M * float32; at, count, block):
 *     whole[at : at + count] = the values. T float32 or bfloat16: value has them. int8: value is a
 *     message of PsclustEncode, and they are added to base, if there is one.
 *
 * It writes in place and has no output, so nothing else may read `whole` yet. */
#include "kernels.h"

#include <stdlib.h>
#include <string.h>

typedef struct {
    int64_t at, count;
    int block;
} Place;

FASTEST static void widen(const uint16_t *halves, int64_t count, float *values) {
    for (int64_t i = 0; i < count; i++) {
        uint32_t bits = (uint32_t)halves[i] << 16;
        memcpy(values + i, &bits, sizeof bits);
    }
}

static int64_t length_of(int type, Place place) {
    return type == INT8 ? message_bytes(place.count, place.block) : place.count;
}

static void compute(void *kernel, Context *context) {
    Place place = *(const Place *)kernel;
    TF_Status *status = tf.new_status();
    int has_base = tf.inputs(context) > 2, type;
    TF_Tensor *t[3] = {input(context, 0, status), input(context, 1, status),
                       has_base ? input(context, 2, status) : NULL};
    if (tf.code(status) == 0) {
        const float *base = has_base ? tf.data(t[2]) : NULL;
        float *values = (float *)tf.data(t[0]) + place.at;
        type = tf.type(t[1]);
        if (place.at + place.count > tf.elements(t[0]) ||
            (has_base && tf.elements(t[2]) != place.count) ||
            tf.elements(t[1]) != length_of(type, place))
            tf.set_status(status, INVALID_ARGUMENT, "value, base and their place differ in size");
        else if (has_base && type != INT8)
            tf.set_status(status, INVALID_ARGUMENT,
                          "only what an int8 message says is added to a base");
        else if (type == INT8)
            decode(tf.data(t[1]), base, place.count, place.block, values);
        else if (type == BFLOAT16)
            widen(tf.data(t[1]), place.count, values);
        else
            memcpy(values, tf.data(t[1]), (size_t)place.count * sizeof *values);
    }
    end(context, status, t, 3);
}

static void *create(Construction *construction) {
    TF_Status *status = tf.new_status();
    Place *place = calloc(1, sizeof *place);
    place->at = natural(construction, "at", status);
    place->count = natural(construction, "count", status);
    place->block = block_of(construction, status);
    return created(construction, status, place);
}

void add_place_op(TF_Status *status) {
    static const char *const inputs[] = {"whole: float", "value: T", "base: M * float", NULL},
                             *const outputs[] = {NULL};
    static const char *const attributes[] = {
        "T: {float, bfloat16, int8}", "M: int >= 0", "at: int", "count: int", "block: int", NULL,
    };
    add_op(&(Op){"PsclustPlace", inputs, outputs, attributes, create, compute, .stateful = 1},
           status);
}
