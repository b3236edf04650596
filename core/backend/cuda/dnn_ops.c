/* The operations of graphs: convolutions and their sums, element by element, products, reductions.
 */
#include "core/backend/cuda/dnn_make.h"

static cudnnBackendDescriptor_t convolution(struct cuda_dnn_graph *g, struct cuda_dnn_window w)
{
    const int64_t dims = 2, pad[2] = {w.pad, w.pad}, stride[2] = {w.stride, w.stride};
    const int64_t dilation[2] = {1, 1};
    const cudnnDataType_t type = CUDNN_DATA_FLOAT;
    const cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
    cudnnBackendDescriptor_t d = cuda_dnn_make(g, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);

    SET(d, CONVOLUTION_SPATIAL_DIMS, INT64, 1, &dims);
    SET(d, CONVOLUTION_COMP_TYPE, DATA_TYPE, 1, &type);
    SET(d, CONVOLUTION_CONV_MODE, CONVOLUTION_MODE, 1, &mode);
    SET(d, CONVOLUTION_PRE_PADDINGS, INT64, 2, pad);
    SET(d, CONVOLUTION_POST_PADDINGS, INT64, 2, pad);
    SET(d, CONVOLUTION_FILTER_STRIDES, INT64, 2, stride);
    SET(d, CONVOLUTION_DILATIONS, INT64, 2, dilation);
    cuda_dnn_finish(g, d, "convolution");
    return d;
}

void cuda_dnn_conv_fwd(struct cuda_dnn_graph *g, int x, int filter, int y, struct cuda_dnn_window w)
{
    const float one = 1, zero = 0;
    cudnnBackendDescriptor_t conv = convolution(g, w);
    cudnnBackendDescriptor_t d =
        cuda_dnn_make(g, CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR);

    SET_TENSOR(d, OPERATION_CONVOLUTION_FORWARD_X, x);
    SET_TENSOR(d, OPERATION_CONVOLUTION_FORWARD_W, filter);
    SET_TENSOR(d, OPERATION_CONVOLUTION_FORWARD_Y, y);
    SET(d, OPERATION_CONVOLUTION_FORWARD_CONV_DESC, BACKEND_DESCRIPTOR, 1, &conv);
    SET(d, OPERATION_CONVOLUTION_FORWARD_ALPHA, FLOAT, 1, &one);
    SET(d, OPERATION_CONVOLUTION_FORWARD_BETA, FLOAT, 1, &zero);
    cuda_dnn_finish_op(g, d, "convolution forward");
}

void cuda_dnn_conv_bwd_data(struct cuda_dnn_graph *g, int dy, int filter, int dx,
                            struct cuda_dnn_window w, float beta)
{
    const float one = 1;
    cudnnBackendDescriptor_t conv = convolution(g, w);
    cudnnBackendDescriptor_t d =
        cuda_dnn_make(g, CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR);

    SET_TENSOR(d, OPERATION_CONVOLUTION_BWD_DATA_DX, dx);
    SET_TENSOR(d, OPERATION_CONVOLUTION_BWD_DATA_W, filter);
    SET_TENSOR(d, OPERATION_CONVOLUTION_BWD_DATA_DY, dy);
    SET(d, OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC, BACKEND_DESCRIPTOR, 1, &conv);
    SET(d, OPERATION_CONVOLUTION_BWD_DATA_ALPHA, FLOAT, 1, &one);
    SET(d, OPERATION_CONVOLUTION_BWD_DATA_BETA, FLOAT, 1, &beta);
    cuda_dnn_finish_op(g, d, "convolution backward by data");
}

void cuda_dnn_conv_bwd_filter(struct cuda_dnn_graph *g, int x, int dy, int dfilter,
                              struct cuda_dnn_window w, float beta)
{
    const float one = 1;
    cudnnBackendDescriptor_t conv = convolution(g, w);
    cudnnBackendDescriptor_t d =
        cuda_dnn_make(g, CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR);

    SET_TENSOR(d, OPERATION_CONVOLUTION_BWD_FILTER_X, x);
    SET_TENSOR(d, OPERATION_CONVOLUTION_BWD_FILTER_DW, dfilter);
    SET_TENSOR(d, OPERATION_CONVOLUTION_BWD_FILTER_DY, dy);
    SET(d, OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC, BACKEND_DESCRIPTOR, 1, &conv);
    SET(d, OPERATION_CONVOLUTION_BWD_FILTER_ALPHA, FLOAT, 1, &one);
    SET(d, OPERATION_CONVOLUTION_BWD_FILTER_BETA, FLOAT, 1, &beta);
    cuda_dnn_finish_op(g, d, "convolution backward by filter");
}

void cuda_dnn_genstats(struct cuda_dnn_graph *g, int x, int sum, int squares)
{
    const cudnnGenStatsMode_t mode = CUDNN_GENSTATS_SUM_SQSUM;
    const cudnnDataType_t type = CUDNN_DATA_FLOAT;
    cudnnBackendDescriptor_t d = cuda_dnn_make(g, CUDNN_BACKEND_OPERATION_GEN_STATS_DESCRIPTOR);

    SET(d, OPERATION_GENSTATS_MODE, GENSTATS_MODE, 1, &mode);
    SET(d, OPERATION_GENSTATS_MATH_PREC, DATA_TYPE, 1, &type);
    SET_TENSOR(d, OPERATION_GENSTATS_XDESC, x);
    SET_TENSOR(d, OPERATION_GENSTATS_SUMDESC, sum);
    SET_TENSOR(d, OPERATION_GENSTATS_SQSUMDESC, squares);
    cuda_dnn_finish_op(g, d, "statistics");
}

/* Computed in `type`; axis < 0: it has none. */
static cudnnBackendDescriptor_t pointwise_how(struct cuda_dnn_graph *g, cudnnPointwiseMode_t mode,
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

static cudnnBackendDescriptor_t pointwise(struct cuda_dnn_graph *g, cudnnPointwiseMode_t mode)
{
    /* The modes from CMP_EQ on give truth values. */
    const bool logical = mode >= CUDNN_POINTWISE_CMP_EQ && mode <= CUDNN_POINTWISE_LOGICAL_NOT;

    return pointwise_how(g, mode, logical ? CUDNN_DATA_BOOLEAN : CUDNN_DATA_FLOAT, -1);
}

void cuda_dnn_pointwise(struct cuda_dnn_graph *g, cudnnPointwiseMode_t mode, int x, int b, int y)
{
    cudnnBackendDescriptor_t how = pointwise(g, mode);
    cudnnBackendDescriptor_t d = cuda_dnn_make(g, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);

    SET(d, OPERATION_POINTWISE_PW_DESCRIPTOR, BACKEND_DESCRIPTOR, 1, &how);
    SET_TENSOR(d, OPERATION_POINTWISE_XDESC, x);
    if (b >= 0)
        SET_TENSOR(d, OPERATION_POINTWISE_BDESC, b);
    SET_TENSOR(d, OPERATION_POINTWISE_YDESC, y);
    cuda_dnn_finish_op(g, d, "pointwise operation");
}

void cuda_dnn_pointwise_bwd(struct cuda_dnn_graph *g, cudnnPointwiseMode_t mode, int dy, int x,
                            int dx)
{
    cudnnBackendDescriptor_t how = pointwise(g, mode);
    cudnnBackendDescriptor_t d = cuda_dnn_make(g, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);

    SET(d, OPERATION_POINTWISE_PW_DESCRIPTOR, BACKEND_DESCRIPTOR, 1, &how);
    SET_TENSOR(d, OPERATION_POINTWISE_DYDESC, dy);
    SET_TENSOR(d, OPERATION_POINTWISE_XDESC, x);
    SET_TENSOR(d, OPERATION_POINTWISE_DXDESC, dx);
    cuda_dnn_finish_op(g, d, "pointwise operation backward");
}

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

void cuda_dnn_select(struct cuda_dnn_graph *g, int x, int b, int which, int y)
{
    cudnnBackendDescriptor_t how =
        pointwise_how(g, CUDNN_POINTWISE_BINARY_SELECT, CUDNN_DATA_FLOAT, -1);
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
        pointwise_how(g, CUDNN_POINTWISE_GEN_INDEX, CUDNN_DATA_INT32, dimension);
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
