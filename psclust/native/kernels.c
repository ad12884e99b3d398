/* What psclust's ops share: TensorFlow's C interface, inputs, outputs, attributes, registration. */
#define _GNU_SOURCE
#include "kernels.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

Interface tf;

static const struct {
    const char *name;
    size_t offset;
} FUNCTIONS[] = {
#define FUNCTION(type, name, symbol, arguments) {#symbol, offsetof(Interface, name)},
    INTERFACE(FUNCTION)
#undef FUNCTION
};

TF_Tensor *input(Context *context, int index, TF_Status *status) {
    TF_Tensor *tensor = NULL;
    if (tf.code(status) == 0)
        tf.get_input(context, index, &tensor, status);
    return tensor;
}

TF_Tensor *output_like(Context *context, int index, int like, TF_Status *status) {
    enum { MOST = 254 }; /* of TensorFlow's */
    int64_t shape[MOST];
    TF_Tensor *tensor = input(context, like, status);
    int rank;
    if (tensor == NULL)
        return NULL;
    rank = tf.dimensions(tensor);
    for (int i = 0; i < rank; i++)
        shape[i] = tf.dimension(tensor, i);
    tf.delete_tensor(tensor);
    return tf.forward(context, &like, 1, index, shape, rank, NULL, status);
}

void end(Context *context, TF_Status *status, TF_Tensor *const *tensors, int count) {
    if (tf.code(status) != 0)
        tf.failed(context, status);
    for (int i = 0; i < count; i++)
        if (tensors[i] != NULL)
            tf.delete_tensor(tensors[i]);
    tf.delete_status(status);
}

int64_t natural(Construction *construction, const char *name, TF_Status *status) {
    char reason[64];
    int64_t value = 0;
    if (tf.code(status) == 0)
        tf.integer(construction, name, &value, status);
    if (value >= 0)
        return value;
    snprintf(reason, sizeof reason, "%s is negative", name);
    tf.set_status(status, INVALID_ARGUMENT, reason);
    return 0;
}

int block_of(Construction *construction, TF_Status *status) {
    int64_t block = natural(construction, "block", status);
    if (tf.code(status) == 0 && (block < 1 || block > MOST_OF_BLOCK))
        tf.set_status(status, INVALID_ARGUMENT, "block is not between 1 and 1024");
    return (int)block;
}

void *created(Construction *construction, TF_Status *status, void *kernel) {
    if (tf.code(status) != 0)
        tf.construction_failed(construction, status);
    tf.delete_status(status);
    return kernel;
}

void add_op(const Op *op, TF_Status *status) {
    OpBuilder *builder = tf.new_op(op->name);
    for (const char *const *each = op->inputs; *each != NULL; each++)
        tf.input(builder, *each);
    for (const char *const *each = op->outputs; *each != NULL; each++)
        tf.output(builder, *each);
    for (const char *const *each = op->attributes; *each != NULL; each++)
        tf.attribute(builder, *each);
    tf.stateful(builder, (unsigned char)op->stateful);
    if (tf.code(status) == 0)
        tf.register_op(builder, status);
    if (tf.code(status) == 0)
        tf.register_kernel(
            op->name,
            op->compute_later != NULL
                ? tf.new_late_kernel(op->name, "CPU", op->create, op->compute_later, free)
                : tf.new_kernel(op->name, "CPU", op->create, op->compute, free),
            status);
}

int find_interface(void *library) {
    for (size_t i = 0; i < sizeof FUNCTIONS / sizeof *FUNCTIONS; i++) {
        void *function = dlsym(library, FUNCTIONS[i].name);
        if (function == NULL)
            return 0;
        memcpy((char *)&tf + FUNCTIONS[i].offset, &function, sizeof function);
    }
    return 1;
}
