/* Text as it is, a byte a token. Of every file the last tenth, cut between characters, is for
 * evaluation; the rest, one file behind the other, is the text to train on. */
#include "core/data/formats.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "core/base/alloc.h"
#include "core/data/files.h"
#include "core/data/sequence.h"
#include "core/data/textfile.h"

/* Licences: what every Debian system has. */
static const char place[] = "/usr/share/common-licenses";

struct text {
    uint8_t *bytes; /* of all files: what is trained on from the front, evaluation from the back */
    size_t room;
    size_t n[2]; /* by enum bst_part */
    int stride;
};

/* The folder's own files: a link's text would come twice. */
static bool is_own_file(int dir_fd, const char *name)
{
    struct stat st;
    return !fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) && S_ISREG(st.st_mode);
}

static enum bst_err add_up(const char *path, const struct bst_files *f, size_t *total)
{
    *total = 0;
    for (int i = 0; i < f->n; i++) {
        struct stat st;
        if (stat(f->path[i], &st))
            return bst_fail(BST_E_IO, "%s: %s", f->path[i], strerror(errno));
        if (!bst_add_size(*total, (size_t)st.st_size, total))
            return bst_fail(BST_E_NOMEM, "%s: more text than memory can hold", path);
    }
    return BST_OK;
}

static void add(struct text *t, const struct bst_textfile *f)
{
    size_t head = f->n - f->n / 10;
    while (head > 0 && head < f->n && (f->bytes[head] & 0xC0) == 0x80)
        head--;
    size_t tail = f->n - head;
    memcpy(t->bytes + t->n[BST_TRAIN], f->bytes, head);
    t->n[BST_TRAIN] += head;
    t->n[BST_EVAL] += tail;
    memcpy(t->bytes + t->room - t->n[BST_EVAL], f->bytes + head, tail);
}

static enum bst_err read_files(struct text *t, const char *path, const struct bst_files *f)
{
    void *p = NULL;
    BST_TRY(add_up(path, f, &t->room));
    BST_TRY(bst_alloc(t->room, &p));
    t->bytes = p;
    for (int i = 0; i < f->n; i++) {
        struct bst_textfile file;
        BST_TRY(bst_textfile_read(f->path[i], &file));
        bool fits = file.n <= t->room - t->n[BST_TRAIN] - t->n[BST_EVAL];
        if (fits)
            add(t, &file);
        bst_textfile_free(&file);
        if (!fits)
            return bst_fail(BST_E_CORRUPT, "%s: grew while it was read", f->path[i]);
    }
    return BST_OK;
}

static void close_text(void *own)
{
    struct text *t = own;
    if (t->bytes)
        bst_alloc_free(t->bytes, t->room);
    bst_free(t);
}

static enum bst_err run(void *own, enum bst_part part, int64_t index, int skip, int n, int32_t *out)
{
    const struct text *t = own;
    const uint8_t *from = part == BST_TRAIN ? t->bytes : t->bytes + t->room - t->n[BST_EVAL];
    from += (size_t)index * (size_t)t->stride + (size_t)skip;
    for (int i = 0; i < n; i++)
        out[i] = from[i];
    return BST_OK;
}

static const struct bst_token_source source = {.name = "text", .run = run, .close = close_text};

static enum bst_err read_text(struct text *t, const char *path)
{
    struct stat st;
    struct bst_files files;
    if (stat(path, &st))
        return bst_fail(errno == ENOENT ? BST_E_NOTFOUND : BST_E_IO, "%s: %s", path,
                        strerror(errno));
    if (S_ISDIR(st.st_mode))
        BST_TRY(bst_files_list(path, "text file", is_own_file, &files));
    else
        bst_files_one(path, &files);
    enum bst_err err = read_files(t, path, &files);
    bst_files_fini(&files);
    return err;
}

static enum bst_err count(const struct text *t, const char *path, int need, int64_t n[2])
{
    for (int p = 0; p < 2; p++) {
        if (t->n[p] < (size_t)need)
            return bst_fail(BST_E_RANGE,
                            "%s: %zu bytes for %s are too few, a sample takes %d; set data.length",
                            path, t->n[p], p ? "evaluation" : "training", need);
        n[p] = (int64_t)((t->n[p] - (size_t)need) / (size_t)t->stride + 1);
    }
    return BST_OK;
}

/* Bytes are all there is to predict; hiding some takes the tokens that stand for no text. */
static int own_vocabulary(enum bst_net_input o)
{
    return o == BST_INPUT_NEXT ? BST_BYTES : BST_BYTE_VOCAB;
}

static enum bst_err check_vocabulary(const struct bst_data_cfg *cfg)
{
    int own = own_vocabulary(cfg->input);
    if (cfg->classes && cfg->classes < own)
        return bst_fail(BST_E_RANGE, "text: a vocabulary of %d; bytes need %d", cfg->classes, own);
    return BST_OK;
}

static enum bst_err open_text(const struct bst_data_cfg *cfg, void **state,
                              struct bst_data_info *info)
{
    const char *path = cfg->path ? cfg->path : place;
    int length = cfg->length ? cfg->length : BST_LENGTH_OWN;
    BST_TRY(bst_sequences_check(&source, cfg, length));
    BST_TRY(check_vocabulary(cfg));
    struct text *t = bst_xalloc(sizeof *t);
    struct bst_sequences s = {
        .source = &source,
        .own = t,
        .input = cfg->input,
        .length = length,
        .vocab = cfg->classes ? cfg->classes : own_vocabulary(cfg->input),
        .special = {BST_BYTE_PAD, BST_BYTE_START, BST_BYTE_END, BST_BYTE_MASK},
    };
    t->stride = bst_window_stride(cfg->input, length);
    enum bst_err err = read_text(t, path);
    if (!err)
        err = count(t, path, bst_window_need(cfg->input, length), s.n);
    if (err)
        close_text(t);
    else
        *state = bst_sequences_new(&s, info);
    return err;
}

static enum bst_err usual_text(const struct bst_data_cfg *cfg, struct bst_data_info *info)
{
    return bst_sequences_shape(&source, cfg, own_vocabulary(cfg->input), info);
}

const struct bst_data_format bst_data_text = {
    .name = "text",
    .about = "UTF-8 text, a byte a token",
    .open = open_text,
    .close = bst_sequences_close,
    .get_tokens = bst_sequences_get,
    .usual = usual_text,
};
