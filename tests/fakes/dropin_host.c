/* The test kernel's host version, as a library that BST_FAKE_KERNELS names. */
#include "tests/fakes/fake.h"

struct axpb {
    float *y;
    const float *x;
    size_t n;
    float a, b;
};

static void axpb(dim3 grid, dim3 block, void *const *args)
{
    (void)grid;
    (void)block;
    const struct axpb *k = args[0];
    const int *times = args[1];
    for (int t = 0; t < *times; t++) {
        for (size_t i = 0; i < k->n; i++)
            k->y[i] = k->a * k->x[i] + k->b;
    }
}

__attribute__((visibility("default"))) const struct fake_kernel fake_kernels[] = {
    {"dropin_axpb", axpb, 2, {sizeof(struct axpb), sizeof(int)}}, {0}};
