/* psclust's own TensorFlow ops, an op library: values as int8 and parts of a whole
 * (int8_kernels.c), the wire between tasks (wire_kernels.c). Loaded by TensorFlow; not a Python
 * module. Here: what they share. */
#define _GNU_SOURCE
#include "kernels.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

Interface tf;

/* Fills `tf`. 0: the library lacks one of the functions. */
static int find_interface(void *library) {
#define FIND(type, name, symbol, arguments)                                                        \
    if ((tf.name = dlsym(library, #symbol)) == NULL)                                               \
        return 0;
    INTERFACE(FIND)
#undef FIND
    return 1;
}

void fail(TF_Status *status, int code, const char *format, ...) {
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    tf.set_status(status, code, text);
}

static void text(Construction *construction, const char *name, char *to, size_t size,
                 TF_Status *status) {
    if (tf.code(status) == 0 && tf.has_attribute(construction, name, status))
        tf.string(construction, name, to, size - 1, status);
}

static void number(Construction *construction, const char *name, int64_t *to, int64_t least,
                   int64_t most, TF_Status *status) {
    if (tf.code(status) != 0 || !tf.has_attribute(construction, name, status))
        return;
    tf.integer(construction, name, to, status);
    if (*to < least || *to > most)
        fail(status, INVALID_ARGUMENT, "%s is not between %lld and %lld", name, (long long)least,
             (long long)most);
}

/* Makes the kernel of an op. */
static void *create(Construction *construction) {
    TF_Status *status = tf.new_status();
    Attributes *made = calloc(1, sizeof *made);
    text(construction, "own", made->pair.own, NAME, status);
    text(construction, "peer", made->pair.peer, NAME, status);
    text(construction, "host", made->host, HOST, status);
    number(construction, "key", &made->key, 0, INT64_MAX, status);
    number(construction, "at", &made->at, 0, INT64_MAX, status);
    number(construction, "count", &made->count, 0, INT64_MAX, status);
    number(construction, "block", &made->block, 1, MOST_OF_BLOCK, status);
    number(construction, "port", &made->port, 0, 65535, status);
    number(construction, "difference", &made->difference, 0, 1, status);
    if (tf.code(status) != 0)
        tf.construction_failed(construction, status);
    tf.delete_status(status);
    return made;
}

static void add_op(const Op *op, TF_Status *status) {
    OpBuilder *builder = tf.new_op(op->name);
    for (const char *const *each = op->inputs; *each != NULL; each++)
        tf.input(builder, *each);
    for (const char *const *each = op->outputs; *each != NULL; each++)
        tf.output(builder, *each);
    for (const char *const *each = op->attributes; *each != NULL; each++)
        tf.attribute(builder, *each);
    tf.stateful(builder, !op->pure);
    tf.register_op(builder, status);
    if (tf.code(status) == 0)
        tf.register_kernel(
            op->name,
            op->compute != NULL
                ? tf.new_kernel(op->name, "CPU", create, op->compute, free)
                : tf.new_late_kernel(op->name, "CPU", create, op->compute_later, free),
            status);
}

void add_ops(const Op *ops) {
    void *library = dlopen("libtensorflow_framework.so.2", RTLD_LAZY | RTLD_NOLOAD);
    TF_Status *status;
    if (library == NULL || !find_interface(library))
        return;
    status = tf.new_status();
    for (; ops->name != NULL && tf.code(status) == 0; ops++)
        add_op(ops, status);
    tf.delete_status(status);
}

TF_Tensor *input(Context *context, int index, TF_Status *status) {
    TF_Tensor *tensor = NULL;
    if (tf.code(status) == 0)
        tf.get_input(context, index, &tensor, status);
    return tensor;
}

void end(Context *context, TF_Status *status, TF_Tensor *const *tensors, int count) {
    if (tf.code(status) != 0)
        tf.failed(context, status);
    for (int i = 0; i < count; i++)
        if (tensors[i] != NULL)
            tf.delete_tensor(tensors[i]);
    tf.delete_status(status);
}
