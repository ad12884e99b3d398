/* psclust's own TensorFlow ops, an op library: values as int8 (int8_kernels.c), parts of a whole
 * (place_kernels.c), the wire between tasks (wire_kernels.c).
 * Loaded by TensorFlow; not a Python module. Here: their registration when it is loaded. */
#define _GNU_SOURCE
#include "tensorflow_private.h"

#include <dlfcn.h>

/* Registers nothing in a process without TensorFlow, or with one that lacks a function; no wire with one of a
 * layout that is not known. */
__attribute__((constructor)) static void register_all(void) {
    void *library = dlopen("libtensorflow_framework.so.2", RTLD_LAZY | RTLD_NOLOAD);
    TF_Status *status;
    if (library == NULL || !find_interface(library))
        return;
    status = tf.new_status();
    add_int8_ops(status);
    add_place_op(status);
    if (find_private(library))
        add_wire_ops(status);
    tf.delete_status(status);
}
