/* How many threads a kernel gets. Grids depend on shapes alone, never on the device. */
#include "core/backend/cuda/kern.h"

enum {
    MOST_BLOCKS = 2048,  /* of a loop over all elements: several waves on any device */
    REDUCE_BLOCKS = 512, /* of a sum over rows */
    ROWS_PER_CHUNK_LEAST = 32,
};

static unsigned blocks_for(int64_t items)
{
    const int64_t blocks = (items + KERN_THREADS - 1) / KERN_THREADS;

    return (unsigned)(blocks < 1 ? 1 : blocks > MOST_BLOCKS ? MOST_BLOCKS : blocks);
}

static dim3 line(unsigned n)
{
    return (dim3){n, 1, 1};
}

/* One thread for each of `items`, or a loop where there are more than MOST_BLOCKS hold. */
static cudaError_t start_flat(enum kern_id id, enum kern_type type, int64_t items, const void *a,
                              cudaStream_t stream)
{
    return kern_start(id, type, line(blocks_for(items)), line(KERN_THREADS), a, stream);
}

/* Eight channels a thread where they come in eights, next to each other across a warp. */
static dim3 reduce_block(int c)
{
    const int groups = c % KERN_GROUP ? c : c / KERN_GROUP;
    unsigned x = 1;

    while (x < 32 && (int)x < groups)
        x *= 2;
    return (dim3){x, KERN_THREADS / x, 1};
}

static unsigned reduce_tiles(int c)
{
    const unsigned groups = (unsigned)(c % KERN_GROUP ? c : c / KERN_GROUP);
    const unsigned x = reduce_block(c).x;

    return (groups + x - 1) / x;
}

int kern_chunks(int64_t rows, int c)
{
    const int64_t most = (rows + ROWS_PER_CHUNK_LEAST - 1) / ROWS_PER_CHUNK_LEAST;
    const int64_t want = REDUCE_BLOCKS / (int64_t)reduce_tiles(c);
    const int64_t chunks = want < most ? want : most;

    return (int)(chunks < 1 ? 1 : chunks);
}

static cudaError_t start_reduce(enum kern_id id, enum kern_type type, int c, int chunks,
                                const void *a, cudaStream_t stream)
{
    const dim3 grid = {reduce_tiles(c), (unsigned)chunks, 1};

    return kern_start(id, type, grid, reduce_block(c), a, stream);
}

static int64_t groups(int64_t elements)
{
    return (elements + KERN_GROUP - 1) / KERN_GROUP;
}

#define FLAT(name, items)                                                                          \
    cudaError_t kern_run_##name(cudaStream_t stream, enum kern_type type,                          \
                                const struct kern_##name *a)                                       \
    {                                                                                              \
        return start_flat(KERN_ID_##name, type, items, a, stream);                                 \
    }
#define REDUCE(name)                                                                               \
    cudaError_t kern_run_##name(cudaStream_t stream, enum kern_type type,                          \
                                const struct kern_##name *a)                                       \
    {                                                                                              \
        return start_reduce(KERN_ID_##name, type, a->c, a->chunks, a, stream);                     \
    }
#define BLOCKS(name, n_blocks)                                                                     \
    cudaError_t kern_run_##name(cudaStream_t stream, enum kern_type type,                          \
                                const struct kern_##name *a)                                       \
    {                                                                                              \
        return kern_start(KERN_ID_##name, type, line(n_blocks), line(KERN_THREADS), a, stream);    \
    }

FLAT(image, a->pixels)
REDUCE(bn_stats)
FLAT(bn_finish, a->c)
FLAT(bn_apply, groups(a->rows * a->c))
REDUCE(bn_bwd_sums)
FLAT(bn_bwd_finish, a->c)
FLAT(bn_bwd_apply, groups(a->rows * a->c))
FLAT(pointwise, groups(a->count))
FLAT(max_pool, a->w.n * a->w.oh * a->w.ow * a->w.c)
FLAT(max_pool_bwd, a->w.n * a->w.ih * a->w.iw * a->w.c)
FLAT(avg_pool, a->n * a->c)
FLAT(avg_pool_bwd, a->n * a->pixels * a->c)
FLAT(cast, groups(a->count))
BLOCKS(softmax, (unsigned)a->n)
BLOCKS(loss_sum, 1)
FLAT(reorder, a->n * a->pixels * a->c_dst)
FLAT(sgd, a->count)
FLAT(keep, a->count)
BLOCKS(decide, 1)
BLOCKS(sum_doubles, (unsigned)a->n)
FLAT(scale, a->count)
FLAT(accumulate, a->count)

cudaError_t kern_run_grad_squares(cudaStream_t stream, enum kern_type type,
                                  const struct kern_grad_squares *a)
{
    const dim3 grid = {KERN_SQUARES_BLOCKS, (unsigned)a->n, 1};

    return kern_start(KERN_ID_grad_squares, type, grid, line(KERN_THREADS), a, stream);
}

/* --- of sequences --- */

/* Threads for elements in rows of `width`: kern_seq.cuh's by_rows(). */
static int64_t in_rows(int64_t count, int64_t width)
{
    return width % KERN_GROUP ? count : count / KERN_GROUP;
}

static int64_t warps(int64_t rows)
{
    enum { WARP = 32 };
    return rows * WARP;
}

FLAT(embed, in_rows(a->rows * a->width, a->width))
FLAT(position, in_rows(a->count, a->per_sample))
FLAT(position_bwd, in_rows(a->count, a->count % KERN_GROUP ? 1 : a->per_sample))
FLAT(sinusoid, (int64_t)a->length * a->width)
FLAT(ln, warps(a->rows))
FLAT(ln_bwd, warps(a->rows))
REDUCE(ln_sums)
REDUCE(col_sums)
FLAT(col_finish, a->c)
FLAT(curve, groups(a->count))
BLOCKS(draw, 1)
FLAT(dropout, a->n *(a->per_sample % KERN_GROUP ? (a->per_sample + 3) / 4 : groups(a->per_sample)))
FLAT(first, a->n * a->width)
FLAT(first_bwd, a->n * a->length * a->width)

/* --- of attention --- */

/* A packed chunk of heads by groups. */
static int64_t packed(const struct kern_attn_heads *h, int64_t rows, int dim)
{
    return h->n * rows * (dim / KERN_GROUP);
}

/* A row of scores a warp, no warp several. */
static unsigned rows_of_scores(const struct kern_attn_tile *t)
{
    const int64_t each = KERN_THREADS / 32;

    return (unsigned)((t->heads.n * t->rows + each - 1) / each);
}

FLAT(attn_keys, a->n)
FLAT(attn_pack, packed(&a->heads, a->rows, a->dim))
FLAT(attn_unpack, packed(&a->heads, a->rows, a->dim))
FLAT(attn_delta, a->heads.n * a->rows)
BLOCKS(attn_softmax, rows_of_scores(&a->tile))
BLOCKS(attn_grad, rows_of_scores(&a->tile))
FLAT(attn_left, a->heads.n * a->tq * ((a->tk + KERN_ATTN_GROUP - 1) / KERN_ATTN_GROUP))
FLAT(attn_settle, a->n * a->rows * (a->width / KERN_GROUP))

/* A piece a block, of as many warps as its features keep busy. */
cudaError_t kern_run_embed_bwd(cudaStream_t stream, enum kern_type type,
                               const struct kern_embed_bwd *a)
{
    const int64_t items = in_rows(a->width, a->width), most = KERN_THREADS;
    const unsigned threads = (unsigned)((items < most ? items + 31 : most) / 32 * 32);

    return kern_start(KERN_ID_embed_bwd, type, line((unsigned)a->n), line(threads), a, stream);
}

/* Norms have as many partial sums as blocks. */
cudaError_t kern_run_optim(cudaStream_t stream, enum kern_type type, const struct kern_optim *a)
{
    const dim3 grid = {a->sweep == KERN_SWEEP_NORMS ? KERN_SQUARES_BLOCKS : blocks_for(a->most),
                       (unsigned)a->n, 1};

    return kern_start(KERN_ID_optim, type, grid, line(KERN_THREADS), a, stream);
}

cudaError_t kern_run_sum_squares(cudaStream_t stream, enum kern_type type,
                                 const struct kern_sum_squares *a)
{
    const dim3 grid = {KERN_SQUARES_BLOCKS, (unsigned)a->n, 1};

    return kern_start(KERN_ID_sum_squares, type, grid, line(KERN_THREADS), a, stream);
}
