/* Attention by the backend's own way at every size, in tiles so small that heads come in chunks and
 * their queries in several tiles. Put in by the linker, in a test's place for a bound of megabytes.
 */
#include "core/backend/cuda/attention.h"

enum { TILE_BYTES = 16 << 10 };

enum bst_err __real_cuda_open(const struct bst_be_cfg *cfg, struct bst_be **out);
enum bst_err __wrap_cuda_open(const struct bst_be_cfg *cfg, struct bst_be **out);
enum bst_err __wrap_cuda_attn_fused_describe(struct bst_be *be, const struct bst_instr *in,
                                             struct cuda_attn *at, struct cuda_attn_room *room);

enum bst_err __wrap_cuda_open(const struct bst_be_cfg *cfg, struct bst_be **out)
{
    cuda_attn_tile_most = TILE_BYTES;
    return __real_cuda_open(cfg, out);
}

enum bst_err __wrap_cuda_attn_fused_describe(struct bst_be *be, const struct bst_instr *in,
                                             struct cuda_attn *at, struct cuda_attn_room *room)
{
    (void)be;
    (void)in;
    (void)at;
    (void)room;
    return bst_fail(BST_E_UNSUPPORTED, "no plan of cuDNN's here");
}
