/* Copies. Page-locked memory is read and written when the copy runs; other host memory as the real
 * runtime treats it: read before the call returns, or waited for. */
#include <stdlib.h>
#include <string.h>

#include "tests/fakes/runtime.h"

struct copy {
    char *dst;
    const char *src; /* NULL: a fill */
    size_t width, height, dst_pitch, src_pitch;
    int value;
    void *staged; /* owned */
};

static void run_copy(void *args)
{
    struct copy *c = args;
    for (size_t row = 0; row < c->height; row++) {
        if (c->src)
            memmove(c->dst + row * c->dst_pitch, c->src + row * c->src_pitch, c->width);
        else
            memset(c->dst + row * c->dst_pitch, c->value, c->width);
    }
}

static void fini_copy(void *args)
{
    free(((struct copy *)args)->staged);
}

static size_t span(size_t width, size_t height, size_t pitch)
{
    return height ? (height - 1) * pitch + width : 0;
}

/* The host side may be any memory; the device side has to be a live block's. */
static cudaError_t check(const struct copy *c, enum cudaMemcpyKind kind)
{
    size_t dst_bytes = span(c->width, c->height, c->dst_pitch);
    size_t src_bytes = span(c->width, c->height, c->src_pitch);
    bool dst_on = fake_device_of(c->dst) >= 0;
    bool src_on = fake_device_of(c->src) >= 0;
    if ((dst_on && !fake_inside(c->dst, dst_bytes)) ||
        (src_on && !fake_inside(c->src, src_bytes))) {
        fake_report("copy of %zu bytes leaves its block", dst_bytes);
        return cudaErrorInvalidValue;
    }
    bool to = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
    bool from = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
    if (kind != cudaMemcpyDefault && (to != dst_on || from != src_on)) {
        fake_report("copy's kind %d does not match its pointers (from %s, to %s)", (int)kind,
                    src_on ? "device" : "host", dst_on ? "device" : "host");
        return cudaErrorInvalidValue;
    }
    return cudaSuccess;
}

static bool stream_idle(void *stream)
{
    return !((struct CUstream_st *)stream)->head;
}

/* About 2 TB/s within a device and 50 GB/s over the bus, 2 µs to start with. */
static uint64_t cost_ns(const struct copy *c, bool bus)
{
    return 2000 + c->width * c->height / (bus ? 50 : 2000);
}

static cudaError_t enqueue(const char *name, struct copy *c, enum cudaMemcpyKind kind,
                           cudaStream_t stream)
{
    int device = fake_stream_device(stream);
    if (device < 0)
        return cudaErrorInvalidResourceHandle;
    if (!c->width || !c->height)
        return cudaSuccess;
    cudaError_t e = check(c, kind);
    if (e)
        return e;
    bool dst_on = fake_device_of(c->dst) >= 0;
    bool src_on = fake_device_of(c->src) >= 0;
    size_t src_bytes = span(c->width, c->height, c->src_pitch);
    bool captures = fake_stream_captures(stream);
    if (dst_on && !src_on && !captures && !fake_is_pinned(c->src, src_bytes)) {
        c->staged = malloc(src_bytes);
        c->src = memcpy(c->staged, c->src, src_bytes);
    }
    bool wait = !dst_on && src_on && !captures &&
                !fake_is_pinned(c->dst, span(c->width, c->height, c->dst_pitch));
    if (c->staged || wait)
        fake_count_call(FAKE_PAGEABLE_COPY, device);
    struct fake_call call = {.name = name,
                             .run = run_copy,
                             .fini = fini_copy,
                             .cost_ns = cost_ns(c, dst_on != src_on),
                             .all_devices = true,
                             .verdict = fake_verdict_now()};
    e = fake_enqueue(stream, &call, c, sizeof *c);
    return !e && wait ? fake_drain(stream_idle, stream_of(stream), device) : e;
}

cudaError_t cudaMemcpyAsync(void *dst, const void *src, size_t bytes, enum cudaMemcpyKind kind,
                            cudaStream_t stream)
{
    FAKE_API(fake_stream_device(stream));
    struct copy c = {.dst = dst,
                     .src = src,
                     .width = bytes,
                     .height = 1,
                     .dst_pitch = bytes,
                     .src_pitch = bytes};
    cudaError_t e = !src || !dst ? cudaErrorInvalidValue : enqueue(__func__, &c, kind, stream);
    return fake_return(bytes ? e : cudaSuccess, fake_stream_device(stream));
}

cudaError_t cudaMemcpy2DAsync(void *dst, size_t dst_pitch, const void *src, size_t src_pitch,
                              size_t width, size_t height, enum cudaMemcpyKind kind,
                              cudaStream_t stream)
{
    FAKE_API(fake_stream_device(stream));
    struct copy c = {.dst = dst,
                     .src = src,
                     .width = width,
                     .height = height,
                     .dst_pitch = dst_pitch,
                     .src_pitch = src_pitch};
    cudaError_t e = cudaErrorInvalidValue;
    if (src && dst && width <= dst_pitch && width <= src_pitch)
        e = enqueue(__func__, &c, kind, stream);
    return fake_return(e, fake_stream_device(stream));
}

cudaError_t cudaMemcpyPeerAsync(void *dst, int dst_device, const void *src, int src_device,
                                size_t bytes, cudaStream_t stream)
{
    FAKE_API(fake_stream_device(stream));
    struct copy c = {.dst = dst,
                     .src = src,
                     .width = bytes,
                     .height = 1,
                     .dst_pitch = bytes,
                     .src_pitch = bytes};
    cudaError_t e = cudaErrorInvalidValue;
    if (fake_device_of(dst) == dst_device && fake_device_of(src) == src_device)
        e = enqueue(__func__, &c, cudaMemcpyDeviceToDevice, stream);
    return fake_return(e, fake_stream_device(stream));
}

cudaError_t cudaMemsetAsync(void *p, int value, size_t bytes, cudaStream_t stream)
{
    FAKE_API(fake_stream_device(stream));
    int device = fake_stream_device(stream);
    cudaError_t e = cudaSuccess;
    if (bytes && !fake_inside(p, bytes)) {
        fake_report("fill of %zu bytes leaves its block", bytes);
        e = cudaErrorInvalidValue;
    }
    struct copy c = {.dst = p, .width = bytes, .height = 1, .value = value};
    struct fake_call call = {.name = __func__,
                             .run = run_copy,
                             .cost_ns = cost_ns(&c, false),
                             .all_devices = true,
                             .verdict = fake_verdict_now()};
    if (!e && bytes)
        e = fake_enqueue(stream, &call, &c, sizeof c);
    return fake_return(e, device);
}

cudaError_t cudaMemcpy(void *dst, const void *src, size_t bytes, enum cudaMemcpyKind kind)
{
    FAKE_API(-1);
    cudaError_t e = capture_forbids_thread();
    if (!e)
        e = cudaMemcpyAsync(dst, src, bytes, kind, NULL);
    if (!e)
        e = cudaStreamSynchronize(NULL);
    return fake_return(e, -1);
}

cudaError_t cudaMemset(void *p, int value, size_t bytes)
{
    FAKE_API(-1);
    cudaError_t e = capture_forbids_thread();
    if (!e)
        e = cudaMemsetAsync(p, value, bytes, NULL);
    return fake_return(e, -1);
}
