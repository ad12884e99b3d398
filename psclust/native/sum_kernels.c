/* TensorFlow ops for gradients of several workers, on a ps, each in one pass over memory and by one
 * thread, where TensorFlow's own ops make two or three, and wake other threads for each.
 *
 * PsclustScaledSum(values: N * float32; factor: float32 []) -> result: the sum of all values times
 * factor PsclustDescent(values: N * float32; factor: float32 []; base: float32) -> result: base
 * minus that
 *
 * All values, base and the result are of one shape; the result takes the memory of the first values
 * if nothing else uses it.
 */
#include "kernels.h"

#include <stdlib.h>
#include <string.h>

enum { BLOCK = 2048 }; /* values that fit into the nearest cache */

typedef struct {
    const float *const *values;
    int count;
    float factor;
    const float *base; /* NULL: none */
} Sum;

/* result may be values[0]. */
FASTEST static void sum_block(Sum sum, int64_t at, int length, float *result) {
    float total[BLOCK];
    memcpy(total, sum.values[0] + at, (size_t)length * sizeof *total);
    for (int j = 1; j < sum.count; j++) {
        const float *each = sum.values[j] + at;
        for (int i = 0; i < length; i++)
            total[i] += each[i];
    }
    if (sum.base == NULL)
        for (int i = 0; i < length; i++)
            result[at + i] = total[i] * sum.factor;
    else
        for (int i = 0; i < length; i++)
            result[at + i] = sum.base[at + i] - total[i] * sum.factor;
}

static void compute_all(Context *context, int has_base) {
    TF_Status *status = tf.new_status();
    int inputs = tf.inputs(context), count = inputs - 1 - has_base;
    TF_Tensor **t = calloc((size_t)inputs + 1, sizeof *t);
    const float **values = calloc((size_t)count, sizeof *values);
    int64_t elements = 0;
    t[inputs] = output_like(context, 0, 0, status);
    if (t[inputs] != NULL)
        elements = tf.elements(t[inputs]);
    for (int i = 0; i < inputs; i++) {
        t[i] = input(context, i, status);
        if (t[i] != NULL && tf.elements(t[i]) != (i == count ? 1 : elements))
            tf.set_status(status, INVALID_ARGUMENT,
                          "values differ in size, or factor is not one value");
        if (t[i] != NULL && i < count)
            values[i] = tf.data(t[i]);
    }
    if (tf.code(status) == 0) {
        Sum sum = {values, count, *(const float *)tf.data(t[count]),
                   has_base ? tf.data(t[count + 1]) : NULL};
        float *result = tf.data(t[inputs]);
        for (int64_t at = 0; at < elements; at += BLOCK)
            sum_block(sum, at, elements - at < BLOCK ? (int)(elements - at) : BLOCK, result);
    }
    end(context, status, t, inputs + 1);
    free(values);
    free(t);
}

static void compute_sum(void *kernel, Context *context) {
    (void)kernel;
    compute_all(context, 0);
}

static void compute_descent(void *kernel, Context *context) {
    (void)kernel;
    compute_all(context, 1);
}

static void *create(Construction *construction) {
    (void)construction;
    return NULL;
}

void add_sum_ops(TF_Status *status) {
    static const char *const attributes[] = {"N: int >= 1", NULL}, *const outputs[] = {
                                                                       "result: float", NULL};
    static const char *const of_sum[] = {"values: N * float", "factor: float", NULL};
    static const char *const of_descent[] = {"values: N * float", "factor: float", "base: float",
                                             NULL};
    add_op(&(Op){"PsclustScaledSum", of_sum, outputs, attributes, create, .compute = compute_sum},
           status);
    add_op(&(Op){"PsclustDescent", of_descent, outputs, attributes, create,
                 .compute = compute_descent},
           status);
}
