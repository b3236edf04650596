/* Tokens made elsewhere: a .bin file, of which the last tenth is for evaluation, or a folder of
 * them, nanoGPT's train.bin and val.bin or llm.c's shards. Read where they lie: a set may be larger
 * than memory. */
#include "core/data/formats.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

#include "core/base/alloc.h"
#include "core/data/bin.h"
#include "core/data/files.h"
#include "core/data/sequence.h"

/* Tokens looked at before training starts; what is behind them is checked as it is read. */
#define SCAN_MOST ((uint64_t)1 << 29)

/* A part of a file whose windows belong to one part of the set. */
struct piece {
    struct bst_bin *bin;
    uint64_t at;
    int64_t first, n; /* windows before it; its own */
};

struct tokens {
    struct bst_bin *bins;
    int n_bins;
    struct piece *pieces[2];
    int n_pieces[2];
    int stride, need;
    int32_t vocab;
};

static bool is_bin(int dir_fd, const char *name)
{
    size_t n = strlen(name);
    (void)dir_fd;
    return n > 4 && !strcmp(name + n - 4, ".bin");
}

static const char *base_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* Windows in `n` tokens. */
static int64_t windows(const struct tokens *k, uint64_t n)
{
    uint64_t need = (uint64_t)k->need, stride = (uint64_t)k->stride;
    return n < need ? 0 : (int64_t)((n - need) / stride + 1);
}

static int64_t n_windows(const struct tokens *k, enum bst_part part)
{
    int n = k->n_pieces[part];
    return n ? k->pieces[part][n - 1].first + k->pieces[part][n - 1].n : 0;
}

static void add_piece(struct tokens *k, enum bst_part part, struct bst_bin *b, uint64_t at,
                      uint64_t n)
{
    int64_t before = n_windows(k, part);
    int i = k->n_pieces[part]++;
    k->pieces[part] = bst_xrealloc(k->pieces[part], (size_t)i + 1, sizeof **k->pieces);
    k->pieces[part][i] = (struct piece){b, at, before, windows(k, n)};
}

static enum bst_err open_file(struct tokens *k, const char *path, int width)
{
    struct bst_bin *b = &k->bins[k->n_bins];
    BST_TRY(bst_bin_open(path, width, b));
    k->n_bins++;
    uint64_t eval = b->shape.n / 10;
    add_piece(k, BST_TRAIN, b, 0, b->shape.n - eval);
    add_piece(k, BST_EVAL, b, b->shape.n - eval, eval);
    return BST_OK;
}

static enum bst_err open_folder(struct tokens *k, const struct bst_files *files, int width)
{
    k->bins = bst_xcalloc((size_t)files->n, sizeof *k->bins);
    for (int i = 0; i < files->n; i++) {
        const char *path = files->path[i], *name = base_of(path);
        bool eval = strstr(name, "val") || strstr(name, "test");
        if (!eval && !strstr(name, "train"))
            return bst_fail(BST_E_ARG,
                            "%s: neither train nor val is in its name; put it elsewhere, or give "
                            "one file as data.path",
                            path);
        struct bst_bin *b = &k->bins[k->n_bins];
        BST_TRY(bst_bin_open(path, width, b));
        k->n_bins++;
        add_piece(k, eval ? BST_EVAL : BST_TRAIN, b, 0, b->shape.n);
    }
    return BST_OK;
}

static enum bst_err open_files(struct tokens *k, const struct bst_data_cfg *cfg)
{
    struct stat st;
    struct bst_files files;
    if (!cfg->path)
        return bst_fail(
            BST_E_ARG,
            "tokens needs data.path, a .bin file or a folder of them: --set data.path=FILE");
    if (stat(cfg->path, &st))
        return bst_fail(errno == ENOENT ? BST_E_NOTFOUND : BST_E_IO, "%s: %s", cfg->path,
                        strerror(errno));
    if (!S_ISDIR(st.st_mode)) {
        k->bins = bst_xcalloc(1, sizeof *k->bins);
        return open_file(k, cfg->path, cfg->token_bytes);
    }
    BST_TRY(bst_files_list(cfg->path, ".bin file", is_bin, &files));
    enum bst_err err = open_folder(k, &files, cfg->token_bytes);
    bst_files_fini(&files);
    return err;
}

/* Every token is below the vocabulary, which is the one asked for or what the files need. */
static enum bst_err find_vocabulary(struct tokens *k, int asked)
{
    uint64_t left = SCAN_MOST;
    int32_t largest = 0;
    for (int i = 0; i < k->n_bins; i++) {
        uint64_t n = k->bins[i].shape.n < left ? k->bins[i].shape.n : left;
        if (!asked && n < k->bins[i].shape.n)
            return bst_fail(BST_E_ARG,
                            "%s: too many tokens to find the vocabulary in; set model.classes",
                            k->bins[i].path);
        BST_TRY(bst_bin_scan(&k->bins[i], n, asked ? asked : INT32_MAX, &largest));
        left -= n;
    }
    k->vocab = asked ? asked : largest < 1 ? 2 : largest + 1;
    return BST_OK;
}

static enum bst_err check_parts(const struct tokens *k, const char *path)
{
    static const char *const names[] = {"training", "evaluation"};
    for (int p = 0; p < 2; p++)
        if (!k->n_pieces[p] || !n_windows(k, (enum bst_part)p))
            return bst_fail(BST_E_RANGE, "%s: %s for %s: a sample takes %d tokens; set data.length",
                            path, k->n_pieces[p] ? "too few tokens" : "no file", names[p], k->need);
    return BST_OK;
}

static enum bst_err check_special(const struct bst_special *s, int32_t vocab)
{
    const int32_t all[] = {s->pad, s->start, s->end, s->mask};
    for (int i = 0; i < 4; i++)
        if (all[i] < 0 || all[i] >= vocab)
            return bst_fail(BST_E_RANGE,
                            "data.special_tokens: %" PRId32 " is not in a vocabulary of %" PRId32,
                            all[i], vocab);
    return BST_OK;
}

static void close_tokens(void *own)
{
    struct tokens *k = own;
    for (int i = 0; i < k->n_bins; i++)
        bst_bin_close(&k->bins[i]);
    bst_free(k->bins);
    bst_free(k->pieces[0]);
    bst_free(k->pieces[1]);
    bst_free(k);
}

static enum bst_err run(void *own, enum bst_part part, int64_t index, int skip, int n, int32_t *out)
{
    const struct tokens *k = own;
    const struct piece *p = k->pieces[part];
    int low = 0, high = k->n_pieces[part];
    while (high - low > 1) {
        int mid = low + (high - low) / 2;
        *(p[mid].first <= index ? &low : &high) = mid;
    }
    uint64_t at = p[low].at + (uint64_t)(index - p[low].first) * (uint64_t)k->stride;
    return bst_bin_read(p[low].bin, at + (uint64_t)skip, n, k->vocab, out);
}

static const struct bst_token_source source = {.name = "tokens", .run = run, .close = close_tokens};

static enum bst_err open_all(struct tokens *k, const struct bst_data_cfg *cfg,
                             struct bst_special *special)
{
    static const struct bst_special bert = {0, 101, 102, 103};
    const struct bst_special *s = &cfg->special;
    bool given = s->pad || s->start || s->end || s->mask;
    BST_TRY(open_files(k, cfg));
    BST_TRY(find_vocabulary(k, cfg->classes));
    BST_TRY(check_parts(k, cfg->path));
    *special = given ? *s : bert;
    return cfg->input == BST_INPUT_MASKED ? check_special(special, k->vocab) : BST_OK;
}

static enum bst_err open_tokens(const struct bst_data_cfg *cfg, void **state,
                                struct bst_data_info *info)
{
    struct bst_special special;
    int length = cfg->length ? cfg->length : BST_LENGTH_OWN;
    BST_TRY(bst_sequences_check(&source, cfg, length));
    struct tokens *k = bst_xalloc(sizeof *k);
    k->stride = bst_window_stride(cfg->input, length);
    k->need = bst_window_need(cfg->input, length);
    enum bst_err err = open_all(k, cfg, &special);
    if (err) {
        close_tokens(k);
        return err;
    }
    const struct bst_sequences s = {
        .source = &source,
        .own = k,
        .input = cfg->input,
        .length = length,
        .vocab = k->vocab,
        .special = special,
        .n = {n_windows(k, BST_TRAIN), n_windows(k, BST_EVAL)},
    };
    *state = bst_sequences_new(&s, info);
    return BST_OK;
}

static enum bst_err usual_tokens(const struct bst_data_cfg *cfg, struct bst_data_info *info)
{
    enum { GPT2 = 50257, BERT = 30522 };
    return bst_sequences_shape(&source, cfg, cfg->input == BST_INPUT_MASKED ? BERT : GPT2, info);
}

const struct bst_data_format bst_data_tokens = {
    .name = "tokens",
    .about = "files of uint16 or uint32 tokens, as nanoGPT and llm.c write them",
    .open = open_tokens,
    .close = bst_sequences_close,
    .get_tokens = bst_sequences_get,
    .usual = usual_tokens,
};
