/* The safetensors reader: any bytes are tensors that tile the file, or an error; what is listed can
 * be read in full. */
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/base/alloc.h"
#include "core/base/io.h"
#include "core/base/safetensors.h"
#include "tests/fuzz/fuzz.h"

static void read_all(struct bst_tensors *r, size_t size)
{
    uint64_t sum = 0;
    for (int i = 0; i < bst_tensors_count(r); i++) {
        const struct bst_tensor *t = bst_tensors_at(r, i);
        BST_ASSERT(t->count >= 0 && t->rank >= 0 && t->rank <= BST_TENSOR_MAX_RANK);
        BST_ASSERT((uint64_t)t->count * bst_dtype_bytes(t->dtype) == t->bytes);
        BST_ASSERT(bst_tensors_find(r, t->name) == t);
        sum += t->bytes;
        BST_ASSERT(sum <= size);
        double *values = bst_xcalloc((size_t)t->count, sizeof *values);
        enum bst_err err = bst_tensors_read(r, t, values);
        BST_ASSERT(t->dtype > BST_DT_BF16 ? err == BST_E_UNSUPPORTED : !err);
        bst_free(values);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bst_tensors *r = NULL;
    int fd = memfd_create("fuzz", MFD_CLOEXEC);
    BST_ASSERT(fd >= 0 && !bst_io_write_full(fd, data, size, "memfd"));
    if (!bst_tensors_open_fd(fd, "fuzz", &r)) {
        read_all(r, size);
        bst_tensors_close(r);
    }
    close(fd);
    return 0;
}
