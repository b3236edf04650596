/* Operations of graphs that are no convolution's: products, reductions, selections. */
#include "core/backend/cuda/dnn_make.h"

void cuda_dnn_matmul(struct cuda_dnn_graph *g, int a, int b, int c, struct cuda_dnn_limits l)
{
    const cudnnDataType_t type = CUDNN_DATA_FLOAT;
    cudnnBackendDescriptor_t how = cuda_dnn_make(g, CUDNN_BACKEND_MATMUL_DESCRIPTOR);
    SET(how, MATMUL_COMP_TYPE, DATA_TYPE, 1, &type);
    cuda_dnn_finish(g, how, "product");
    cudnnBackendDescriptor_t d = cuda_dnn_make(g, CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);

    SET(d, OPERATION_MATMUL_DESC, BACKEND_DESCRIPTOR, 1, &how);
    SET_TENSOR(d, OPERATION_MATMUL_ADESC, a);
    SET_TENSOR(d, OPERATION_MATMUL_BDESC, b);
    SET_TENSOR(d, OPERATION_MATMUL_CDESC, c);
    if (l.m >= 0)
        SET_TENSOR(d, OPERATION_MATMUL_GEMM_M_OVERRIDE_DESC, l.m);
    if (l.n >= 0)
        SET_TENSOR(d, OPERATION_MATMUL_GEMM_N_OVERRIDE_DESC, l.n);
    if (l.k >= 0)
        SET_TENSOR(d, OPERATION_MATMUL_GEMM_K_OVERRIDE_DESC, l.k);
    cuda_dnn_finish_op(g, d, "product operation");
}

void cuda_dnn_reduce(struct cuda_dnn_graph *g, cudnnReduceTensorOp_t op, int x, int y)
{
    const cudnnDataType_t type = CUDNN_DATA_FLOAT;
    cudnnBackendDescriptor_t how = cuda_dnn_make(g, CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
    SET(how, REDUCTION_OPERATOR, REDUCTION_OPERATOR_TYPE, 1, &op);
    SET(how, REDUCTION_COMP_TYPE, DATA_TYPE, 1, &type);
    cuda_dnn_finish(g, how, "reduction");
    cudnnBackendDescriptor_t d = cuda_dnn_make(g, CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);

    SET(d, OPERATION_REDUCTION_DESC, BACKEND_DESCRIPTOR, 1, &how);
    SET_TENSOR(d, OPERATION_REDUCTION_XDESC, x);
    SET_TENSOR(d, OPERATION_REDUCTION_YDESC, y);
    cuda_dnn_finish_op(g, d, "reduction operation");
}

cudnnBackendDescriptor_t cuda_dnn_pointwise_how(struct cuda_dnn_graph *g, cudnnPointwiseMode_t mode,
                                                cudnnDataType_t type, int64_t axis)
{
    cudnnBackendDescriptor_t d = cuda_dnn_make(g, CUDNN_BACKEND_POINTWISE_DESCRIPTOR);

    SET(d, POINTWISE_MODE, POINTWISE_MODE, 1, &mode);
    SET(d, POINTWISE_MATH_PREC, DATA_TYPE, 1, &type);
    if (axis >= 0)
        SET(d, POINTWISE_AXIS, INT64, 1, &axis);
    cuda_dnn_finish(g, d, "pointwise");
    return d;
}

void cuda_dnn_select(struct cuda_dnn_graph *g, int x, int b, int which, int y)
{
    cudnnBackendDescriptor_t how =
        cuda_dnn_pointwise_how(g, CUDNN_POINTWISE_BINARY_SELECT, CUDNN_DATA_FLOAT, -1);
    cudnnBackendDescriptor_t d = cuda_dnn_make(g, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);

    SET(d, OPERATION_POINTWISE_PW_DESCRIPTOR, BACKEND_DESCRIPTOR, 1, &how);
    SET_TENSOR(d, OPERATION_POINTWISE_XDESC, x);
    SET_TENSOR(d, OPERATION_POINTWISE_BDESC, b);
    SET_TENSOR(d, OPERATION_POINTWISE_TDESC, which);
    SET_TENSOR(d, OPERATION_POINTWISE_YDESC, y);
    cuda_dnn_finish_op(g, d, "selection");
}

void cuda_dnn_index(struct cuda_dnn_graph *g, int x, int dimension, int y)
{
    cudnnBackendDescriptor_t how =
        cuda_dnn_pointwise_how(g, CUDNN_POINTWISE_GEN_INDEX, CUDNN_DATA_INT32, dimension);
    cudnnBackendDescriptor_t d = cuda_dnn_make(g, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);

    SET(d, OPERATION_POINTWISE_PW_DESCRIPTOR, BACKEND_DESCRIPTOR, 1, &how);
    SET_TENSOR(d, OPERATION_POINTWISE_XDESC, x);
    SET_TENSOR(d, OPERATION_POINTWISE_YDESC, y);
    cuda_dnn_finish_op(g, d, "index");
}

void cuda_dnn_reshape(struct cuda_dnn_graph *g, int x, int y)
{
    cudnnBackendDescriptor_t d = cuda_dnn_make(g, CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);

    SET_TENSOR(d, OPERATION_RESHAPE_XDESC, x);
    SET_TENSOR(d, OPERATION_RESHAPE_YDESC, y);
    cuda_dnn_finish_op(g, d, "reshape");
}
