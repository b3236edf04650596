/* Two parallel texts, line by line, a byte a token: train.en and train.de, for evaluation
 * valid.en and valid.de (or val, dev), else the last twentieth of the lines. */
#include "core/data/formats.h"

#include <stdio.h>
#include <string.h>

#include "core/base/alloc.h"
#include "core/base/io.h"
#include "core/data/sequence.h"
#include "core/data/textfile.h"

struct side {
    char *path;
    struct bst_textfile file;
    uint64_t *line; /* start of each, and one past the end */
    int64_t n;
};

struct pairs {
    struct side side[2][2]; /* by enum bst_part, then source and target; of evaluation unused when
                               it is the end of the training's files */
    int64_t first[2], n[2];
    bool one_file;
};

static void drop_side(struct side *s)
{
    bst_textfile_free(&s->file);
    bst_free(s->line);
    bst_free(s->path);
}

static void close_pairs(void *own)
{
    struct pairs *p = own;
    for (int i = 0; i < 4; i++)
        drop_side(&p->side[i / 2][i % 2]);
    bst_free(p);
}

/* Without the line feed, and what Windows puts before it. */
static int line_length(const struct side *s, int64_t i)
{
    uint64_t from = s->line[i], to = s->line[i + 1];
    to -= to > from && s->file.bytes[to - 1] == '\n';
    to -= to > from && s->file.bytes[to - 1] == '\r';
    return to - from > INT32_MAX / 2 ? INT32_MAX / 2 : (int)(to - from);
}

static enum bst_err cut_lines(struct side *s)
{
    size_t room = 1024;
    s->line = bst_xcalloc(room, sizeof *s->line);
    for (size_t at = 0; at < s->file.n; s->n++) {
        const uint8_t *end = memchr(s->file.bytes + at, '\n', s->file.n - at);
        if ((size_t)s->n + 2 > room)
            s->line = bst_xrealloc(s->line, room *= 2, sizeof *s->line);
        s->line[s->n] = at;
        at = end ? (size_t)(end - s->file.bytes) + 1 : s->file.n;
        s->line[s->n + 1] = at;
    }
    for (int64_t i = 0; i < s->n; i++)
        if (!line_length(s, i))
            return bst_fail(BST_E_CORRUPT, "%s:%lld: an empty line", s->path, (long long)i + 1);
    return BST_OK;
}

static enum bst_err read_side(struct side *s, const char *dir, const char *stem, const char *ending,
                              int n_ending)
{
    s->path = bst_xasprintf("%s/%s.%.*s", dir, stem, n_ending, ending);
    BST_TRY(bst_textfile_read(s->path, &s->file));
    return cut_lines(s);
}

static enum bst_err check_lines(const struct side side[2], enum bst_net_input o, int length)
{
    char where[1200];
    const struct side *a = &side[0], *b = &side[1];
    if (a->n != b->n)
        return bst_fail(BST_E_CORRUPT, "%s has %lld lines, %s %lld", a->path, (long long)a->n,
                        b->path, (long long)b->n);
    for (int64_t i = 0; i < a->n; i++) {
        int n = line_length(a, i), m = line_length(b, i);
        if (n + m + 1 <= length)
            continue;
        snprintf(where, sizeof where, "%s:%lld", a->path, (long long)i + 1);
        BST_TRY(bst_sequences_check_pair(o, length, n, m, where));
    }
    return BST_OK;
}

/* Where the two languages' endings lie in "en-de". */
static enum bst_err read_part(struct pairs *p, const struct bst_data_cfg *cfg, enum bst_part part,
                              const char *stem, int length)
{
    const char *dash = strchr(cfg->languages, '-');
    BST_TRY(read_side(&p->side[part][0], cfg->path, stem, cfg->languages,
                      (int)(dash - cfg->languages)));
    BST_TRY(read_side(&p->side[part][1], cfg->path, stem, dash + 1, (int)strlen(dash + 1)));
    BST_TRY(check_lines(p->side[part], cfg->input, length));
    p->n[part] = p->side[part][0].n;
    return BST_OK;
}

/* The name that both languages' files for evaluation have; NULL: there are none. */
static const char *eval_stem(const struct bst_data_cfg *cfg)
{
    static const char *const stems[] = {"valid", "val", "dev"};
    int n = (int)(strchr(cfg->languages, '-') - cfg->languages);
    for (int i = 0; i < 3; i++) {
        char *path = bst_xasprintf("%s/%s.%.*s", cfg->path, stems[i], n, cfg->languages);
        bool there = bst_io_exists(path);
        bst_free(path);
        if (there)
            return stems[i];
    }
    return NULL;
}

static enum bst_err read_pairs(struct pairs *p, const struct bst_data_cfg *cfg, int length)
{
    const char *stem = eval_stem(cfg);
    BST_TRY(read_part(p, cfg, BST_TRAIN, "train", length));
    if (stem)
        return read_part(p, cfg, BST_EVAL, stem, length);
    int64_t n = p->n[BST_TRAIN], eval = (n + 19) / 20;
    if (n < 2)
        return bst_fail(BST_E_RANGE, "%s: one line leaves nothing for evaluation",
                        p->side[BST_TRAIN][0].path);
    p->one_file = true;
    p->n[BST_EVAL] = eval;
    p->first[BST_EVAL] = p->n[BST_TRAIN] = n - eval;
    return BST_OK;
}

static const struct side *sides(const struct pairs *p, enum bst_part part)
{
    return p->side[p->one_file ? BST_TRAIN : part];
}

static void lengths(void *own, enum bst_part part, int64_t index, int *source, int *target)
{
    const struct pairs *p = own;
    const struct side *s = sides(p, part);
    *source = line_length(&s[0], p->first[part] + index);
    *target = line_length(&s[1], p->first[part] + index);
}

static void copy_line(const struct side *s, int64_t i, int32_t *out)
{
    const uint8_t *from = s->file.bytes + s->line[i];
    for (int k = 0, n = line_length(s, i); k < n; k++)
        out[k] = from[k];
}

static enum bst_err pair(void *own, enum bst_part part, int64_t index, int32_t *source,
                         int32_t *target)
{
    const struct pairs *p = own;
    const struct side *s = sides(p, part);
    copy_line(&s[0], p->first[part] + index, source);
    copy_line(&s[1], p->first[part] + index, target);
    return BST_OK;
}

static const struct bst_token_source source = {
    .name = "pairs", .pair_lengths = lengths, .pair = pair, .close = close_pairs};

static enum bst_err check_cfg(const struct bst_data_cfg *cfg)
{
    const char *dash = cfg->languages ? strchr(cfg->languages, '-') : NULL;
    if (!cfg->path)
        return bst_fail(
            BST_E_ARG,
            "pairs needs data.path, the folder of train.en and train.de: --set data.path=FOLDER");
    if (!dash || dash == cfg->languages || !dash[1] || strchr(cfg->languages, '/'))
        return bst_fail(
            BST_E_ARG,
            "pairs needs data.languages, the endings of its files: --set data.languages=en-de");
    if (cfg->classes && cfg->classes < BST_BYTE_VOCAB)
        return bst_fail(BST_E_RANGE, "pairs: a vocabulary of %d; bytes need %d", cfg->classes,
                        BST_BYTE_VOCAB);
    return BST_OK;
}

static enum bst_err open_pairs(const struct bst_data_cfg *cfg, void **state,
                               struct bst_data_info *info)
{
    int length = cfg->length ? cfg->length : BST_LENGTH_OWN;
    BST_TRY(bst_sequences_check(&source, cfg, length));
    BST_TRY(check_cfg(cfg));
    struct pairs *p = bst_xalloc(sizeof *p);
    enum bst_err err = read_pairs(p, cfg, length);
    if (err) {
        close_pairs(p);
        return err;
    }
    const struct bst_sequences s = {
        .source = &source,
        .own = p,
        .input = cfg->input,
        .length = length,
        .vocab = cfg->classes ? cfg->classes : BST_BYTE_VOCAB,
        .special = {BST_BYTE_PAD, BST_BYTE_START, BST_BYTE_END, BST_BYTE_MASK},
        .n = {p->n[BST_TRAIN], p->n[BST_EVAL]},
    };
    *state = bst_sequences_new(&s, info);
    return BST_OK;
}

static enum bst_err usual_pairs(const struct bst_data_cfg *cfg, struct bst_data_info *info)
{
    return bst_sequences_shape(&source, cfg, BST_BYTE_VOCAB, info);
}

const struct bst_data_format bst_data_pairs = {
    .name = "pairs",
    .about = "two parallel UTF-8 texts, line by line, a byte a token",
    .open = open_pairs,
    .close = bst_sequences_close,
    .get_tokens = bst_sequences_get,
    .measure = bst_sequences_measure,
    .usual = usual_pairs,
};
