/* devprop: the properties of device 0 as cuDNN writes them, for `bstune mem --device FILE`. With it
 * presets/devices can be held against a real card. */
#include <stdio.h>

#include "core/backend/cuda/dnn_graph.h"
#include "core/base/alloc.h"

int main(void)
{
    cudnnHandle_t handle = NULL;
    cudnnBackendDescriptor_t device = NULL;
    char *text = NULL;
    enum bst_err err = cuda_dnn_fail(cudnnCreate(&handle), "opening cuDNN");

    if (!err)
        err = cuda_dnn_device_of(handle, &device);
    if (!err)
        err = cuda_dnn_device_json(device, &text);
    if (err)
        fprintf(stderr, "devprop: %s\n", bst_err_text());
    else
        printf("%s\n", text);
    bst_free(text);
    cuda_dnn_device_free(device);
    if (handle)
        cudnnDestroy(handle);
    return err ? 1 : 0;
}
