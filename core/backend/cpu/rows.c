/* Linear layers over many rows, as sequences have them. The library's plain product packs both
 * operands at every call and loses half its speed where a row is a power of two long; here the
 * weight is packed once, and blocks of rows are dealt out, each a kernel's work on one thread. What
 * follows a product, bias and GELU, is done while a block is in cache. The weight's gradient is cut
 * into tiles, which copy their operands side by side, some rows at a time. A large team gets
 * smaller pieces; no bit of a forward result depends on that. */
#include <omp.h>
#include <string.h>

#include "core/backend/cpu/be.h"

enum {
    LEAST = 256, /* rows that are worth a packed weight */
    BLOCK = 128, /* rows of a block */
    CHUNK = 256, /* rows of a tile's operands at a time; whole groups of columns_sum()'s */
    PAD = 16,    /* reals between rows, which then begin in other sets of the cache */
    TILE_ROWS = 512,
    TILE_COLUMNS = 256,
    TILE_LEAST = 32, /* columns */
};

static size_t lines(size_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

bool cpu_rows_fit(int64_t rows, int64_t in, int64_t out)
{
    return rows >= LEAST && in % 8 == 0 && out % 8 == 0;
}

static int64_t pieces(int64_t n, int64_t size)
{
    return (n + size - 1) / size;
}

static enum bst_err make_prims(struct bst_be *be, const struct cpu_rows *r, struct cpu_handle *h)
{
    for (h->block = BLOCK; pieces(r->rows, h->block) < be->threads && h->block > BLOCK / 4;)
        h->block /= 2;
    struct shim_rows how = {
        .rows = h->block, .in = r->in, .out = r->out, .bias = r->bias, .lanes = be->threads};
    uint32_t packed, rest_packed;

    BST_TRY(shim_rows_new(be->shim, &how, &h->prim, &packed));
    BST_TRY(shim_rows_pack_new(be->shim, &how, r->in_out, packed, &h->pack));
    how.rows = r->rows % h->block;
    if (!how.rows)
        return BST_OK;
    BST_TRY(shim_rows_new(be->shim, &how, &h->rest, &rest_packed));
    if (rest_packed != packed)
        return bst_fail(BST_E_UNSUPPORTED, "oneDNN: the last rows want another weight");
    return BST_OK;
}

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

enum bst_err cpu_rows_describe(struct bst_be *be, const struct cpu_rows *r, struct cpu_handle *h,
                               struct bst_wants *w)
{
    enum bst_err err = make_prims(be, r, h);

    if (err) {
        shim_prim_free(h->prim);
        shim_prim_free(h->rest);
        shim_prim_free(h->pack);
        h->prim = h->rest = h->pack = NULL;
        return err;
    }
    h->prim_scratch = shim_prim_scratch(h->prim);
    if (h->rest)
        h->prim_scratch = larger(h->prim_scratch, shim_prim_scratch(h->rest));
    h->prim_scratch = lines(h->prim_scratch);
    h->packed = lines((size_t)r->in * (size_t)r->out * sizeof(float));
    w->scratch_bytes = h->packed + larger((size_t)be->threads * h->prim_scratch,
                                          lines(shim_prim_scratch(h->pack)));
    return BST_OK;
}

/* One block, from row `first` on; n of them. */
static enum bst_err run_block(struct bst_be *be, struct cpu_handle *h, const struct cpu_rows *r,
                              const struct cpu_rows_data *d, int64_t first, int64_t n)
{
    int lane = omp_get_thread_num();
    char *room = (char *)d->scratch + h->packed + (size_t)lane * h->prim_scratch;
    float *y = d->y + first * r->out, *u = d->u ? d->u + first * r->out : y;
    void *const at[SHIM_N_ROLES] = {[SHIM_SRC] = d->x + first * r->in,
                                    [SHIM_WEIGHT] = d->scratch,
                                    [SHIM_BIAS] = d->bias,
                                    [SHIM_DST] = u};

    BST_TRY(shim_prim_run_lane(n == h->block ? h->prim : h->rest, lane, at, room));
    if (d->gelu)
        be->seq->bias_gelu(y, u, NULL, (size_t)(n * r->out), d->by_tanh);
    return BST_OK;
}

enum bst_err cpu_rows_run(struct bst_be *be, struct cpu_handle *h, const struct cpu_rows *r,
                          const struct cpu_rows_data *d)
{
    void *const at[SHIM_N_ROLES] = {[SHIM_SRC] = d->w, [SHIM_DST] = d->scratch};
    int64_t n = pieces(r->rows, h->block);
    int failed = 0;

    BST_TRY(shim_prim_run(h->pack, at, (char *)d->scratch + h->packed));
#pragma omp parallel for num_threads(be->threads) schedule(dynamic)
    for (int64_t i = 0; i < n; i++) {
        int64_t first = i * h->block, left = r->rows - first;

        if (run_block(be, h, r, d, first, left < h->block ? left : h->block)) {
#pragma omp atomic write
            failed = 1;
        }
    }
    return failed ? bst_fail(BST_E_LIBRARY, "oneDNN: a block of rows") : BST_OK;
}

bool cpu_rows_grad_fit(const struct cpu_rows_grad *g)
{
    return g->rows >= LEAST;
}

/* Reals of a tile's operands. */
static size_t tile_room(int64_t m, int64_t n)
{
    size_t rows = (size_t)(m < TILE_ROWS ? m : TILE_ROWS);
    size_t columns = (size_t)(n < TILE_COLUMNS ? n : TILE_COLUMNS);

    return lines(CHUNK * (rows + columns + 2 * PAD) * sizeof(float)) / sizeof(float);
}

size_t cpu_rows_grad_scratch(const struct bst_be *be, const struct cpu_rows_grad *g)
{
    return (size_t)be->threads * tile_room(g->m, g->n) * sizeof(float);
}

/* Columns [from, from + width) of n rows of x. */
static void gather(float *to, const float *x, int64_t row, int64_t from, int64_t width, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        memcpy(to + i * (width + PAD), x + i * row + from, (size_t)width * sizeof *to);
}

static void add_columns(const struct bst_be *be, double *sums, const float *x, int64_t width,
                        int64_t n)
{
    for (int64_t j = 0; j < width; j += CPU_COLUMNS)
        be->seq->columns_sum(sums + j, x + j, (size_t)(width + PAD), (size_t)n,
                             (size_t)(width - j < CPU_COLUMNS ? width - j : CPU_COLUMNS));
}

struct tile {
    int64_t i, j, m, n; /* where it lies in the gradient */
};

/* The tiles at one edge of the gradient also sum the columns of dy, whichever operand that is. */
static enum bst_err run_tile(const struct bst_be *be, const struct cpu_rows_grad *g,
                             const struct tile *t, float *room)
{
    float *a = room, *b = room + CHUNK * (t->m + PAD);
    bool sums_a = g->bias && !g->in_out && t->j == 0, sums_b = g->bias && g->in_out && t->i == 0;
    double sums[TILE_ROWS + TILE_COLUMNS] = {0};

    for (int64_t r = 0; r < g->rows; r += CHUNK) {
        int64_t n = g->rows - r < CHUNK ? g->rows - r : CHUNK;
        struct shim_gemm product = {.a = a,
                                    .b = b,
                                    .c = g->dw + t->i * g->n + t->j,
                                    .m = t->m,
                                    .n = t->n,
                                    .k = n,
                                    .lda = t->m + PAD,
                                    .ldb = t->n + PAD,
                                    .ldc = g->n,
                                    .turn_a = true,
                                    .add = r > 0 || g->add};

        gather(a, g->a + r * g->m, g->m, t->i, t->m, n);
        gather(b, g->b + r * g->n, g->n, t->j, t->n, n);
        BST_TRY(shim_gemm(&product));
        if (sums_a)
            add_columns(be, sums, a, t->m, n);
        if (sums_b)
            add_columns(be, sums, b, t->n, n);
    }
    if (sums_a)
        cpu_put_sums(g->bias + t->i, sums, (size_t)t->m, g->add_bias);
    if (sums_b)
        cpu_put_sums(g->bias + t->j, sums, (size_t)t->n, g->add_bias);
    return BST_OK;
}

enum bst_err cpu_rows_grad_run(struct bst_be *be, const struct cpu_rows_grad *g, void *scratch)
{
    int64_t rows = TILE_ROWS, columns = TILE_COLUMNS;
    while (pieces(g->m, rows) * pieces(g->n, columns) < be->threads && columns > TILE_LEAST) {
        columns /= 2;
        if (rows > 2 * columns)
            rows /= 2;
    }
    int64_t across = pieces(g->n, columns), n = pieces(g->m, rows) * across;
    size_t room = tile_room(g->m, g->n);
    int failed = 0;

#pragma omp parallel for num_threads(be->threads) schedule(dynamic)
    for (int64_t i = 0; i < n; i++) {
        struct tile t = {.i = i / across * rows, .j = i % across * columns};

        t.m = g->m - t.i < rows ? g->m - t.i : rows;
        t.n = g->n - t.j < columns ? g->n - t.j : columns;
        if (run_tile(be, g, &t, (float *)scratch + (size_t)omp_get_thread_num() * room)) {
#pragma omp atomic write
            failed = 1;
        }
    }
    return failed ? bst_fail(BST_E_LIBRARY, "oneDNN: a tile of a gradient") : BST_OK;
}
