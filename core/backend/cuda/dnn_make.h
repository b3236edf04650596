/* Inside the builder of graphs: what its files share. A descriptor is made, set, finished; the
 * first failure is kept, and everything after it does nothing. One thread. */
#ifndef BST_BACKEND_CUDA_DNN_MAKE_H
#define BST_BACKEND_CUDA_DNN_MAKE_H

#include "core/backend/cuda/dnn_graph.h"

struct cuda_dnn_graph {
    cudnnBackendDescriptor_t *made; /* all descriptors, in the order they were made */
    int n_made, room_made;
    cudnnBackendDescriptor_t *tensors;
    int n_tensors, room_tensors;
    cudnnBackendDescriptor_t *ops;
    int n_ops, room_ops;
    struct bst_failure first;
};

cudnnBackendDescriptor_t cuda_dnn_make(struct cuda_dnn_graph *g, cudnnBackendDescriptorType_t type);
void cuda_dnn_set(struct cuda_dnn_graph *g, cudnnBackendDescriptor_t d,
                  cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t n,
                  const void *values, const char *what);
void cuda_dnn_set_tensor(struct cuda_dnn_graph *g, cudnnBackendDescriptor_t d,
                         cudnnBackendAttributeName_t name, int tensor, const char *what);
void cuda_dnn_finish(struct cuda_dnn_graph *g, cudnnBackendDescriptor_t d, const char *what);
/* And adds it to the graph's operations. */
void cuda_dnn_finish_op(struct cuda_dnn_graph *g, cudnnBackendDescriptor_t d, const char *what);

#define SET(d, name, type, n, values)                                                              \
    cuda_dnn_set(g, d, CUDNN_ATTR_##name, CUDNN_TYPE_##type, n, values, #name)
#define SET_TENSOR(d, name, tensor) cuda_dnn_set_tensor(g, d, CUDNN_ATTR_##name, tensor, #name)

#endif
