#include "core/data/dataset.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "core/base/alloc.h"
#include "core/data/distort.h"
#include "core/data/formats.h"

/* Reasons kept for the screen; the count goes on beyond. */
enum { BAD_KEPT = 64 };

struct bst_dataset {
    const struct bst_data_format *format;
    void *state;
    struct bst_data_info info;
    size_t sample_bytes;
    bool distort, bucket;

    pthread_mutex_t lock; /* guards what follows */
    struct bst_data_bad bad[BAD_KEPT];
    int64_t n_bad[2];
    uint8_t *bad_bits[2]; /* one bit a sample, so that each is counted once */
};

static const struct bst_data_format *find_format(const char *name)
{
    for (int i = 0; bst_data_formats[i]; i++)
        if (!strcmp(bst_data_formats[i]->name, name))
            return bst_data_formats[i];
    return NULL;
}

static int64_t limit(int64_t n, int64_t most)
{
    return most > 0 && most < n ? most : n;
}

/* The generated set takes the place of files that are not there, in the shape the files would have.
 */
static enum bst_err open_stand_in(struct bst_dataset *ds, const struct bst_data_cfg *cfg)
{
    struct bst_data_cfg own = *cfg;
    const char *wanted = ds->format->name;
    ds->format = find_format(ds->format->stand_in);
    BST_ASSERT(ds->format);
    own.format = ds->format->name;
    memset(&ds->info, 0, sizeof ds->info);
    BST_TRY(ds->format->open(&own, &ds->state, &ds->info));
    snprintf(ds->info.note, sizeof ds->info.note,
             "generated shapes stand in for %s: install dataset-fashion-mnist or set data.path",
             wanted);
    ds->info.diagnostic = "BST-501";
    return BST_OK;
}

static enum bst_err open_format(struct bst_dataset *ds, const struct bst_data_cfg *cfg)
{
    enum bst_err err = ds->format->open(cfg, &ds->state, &ds->info);
    if (err == BST_E_NOTFOUND && !cfg->path && ds->format->stand_in)
        err = open_stand_in(ds, cfg);
    if (err)
        return err;
    struct bst_data_info *info = &ds->info;
    info->n[BST_TRAIN] = limit(info->n[BST_TRAIN], cfg->train_count);
    info->n[BST_EVAL] = limit(info->n[BST_EVAL], cfg->eval_count);
    if (!info->streams)
        info->n_labels = 1;
    ds->sample_bytes = (size_t)info->height * (size_t)info->width * (size_t)info->channels;
    return BST_OK;
}

enum bst_err bst_dataset_open_format(const struct bst_data_format *format,
                                     const struct bst_data_cfg *cfg, struct bst_dataset **out)
{
    *out = NULL;
    struct bst_dataset *ds = bst_xalloc(sizeof *ds);
    ds->format = format;
    ds->distort = cfg->distort;
    ds->bucket = cfg->bucket;
    enum bst_err err = open_format(ds, cfg);
    if (err) {
        bst_free(ds);
        return err;
    }
    pthread_mutex_init(&ds->lock, NULL);
    *out = ds;
    return BST_OK;
}

enum bst_err bst_dataset_open(const struct bst_data_cfg *cfg, struct bst_dataset **out)
{
    *out = NULL;
    const struct bst_data_format *format = find_format(cfg->format);
    if (!format)
        return bst_fail(BST_E_ARG, "data format \"%s\" is not known", cfg->format);
    return bst_dataset_open_format(format, cfg, out);
}

bool bst_dataset_is_sequences(const char *format)
{
    const struct bst_data_format *f = find_format(format);
    return f && f->get_tokens;
}

enum bst_err bst_dataset_usual(const struct bst_data_cfg *cfg, struct bst_data_info *out)
{
    const struct bst_data_format *f = find_format(cfg->format);
    void *state = NULL;
    *out = (struct bst_data_info){0};
    if (!f || !f->get_tokens)
        return bst_fail(BST_E_ARG, "%s is no set of sequences", cfg->format);
    if (f->usual)
        return f->usual(cfg, out);
    BST_TRY(f->open(cfg, &state, out));
    f->close(state);
    return BST_OK;
}

void bst_dataset_close(struct bst_dataset *ds)
{
    if (!ds)
        return;
    ds->format->close(ds->state);
    pthread_mutex_destroy(&ds->lock);
    bst_free(ds->bad_bits[BST_TRAIN]);
    bst_free(ds->bad_bits[BST_EVAL]);
    bst_free(ds);
}

const struct bst_data_info *bst_dataset_info(const struct bst_dataset *ds)
{
    return &ds->info;
}

const char *bst_dataset_class(const struct bst_dataset *ds, int label)
{
    if (!ds->format->class_name || label < 0 || label >= ds->info.classes)
        return NULL;
    return ds->format->class_name(ds->state, label);
}

enum bst_err bst_dataset_get(const struct bst_dataset *ds, enum bst_part part, int64_t index,
                             uint64_t key, uint8_t *out, int32_t *label)
{
    BST_ASSERT(index >= 0 && index < ds->info.n[part]);
    enum bst_err err = ds->format->get(ds->state, part, index, key, out, label);
    if (err) {
        memset(out, 0, ds->sample_bytes);
        *label = 0;
    } else if (ds->distort && part == BST_TRAIN) {
        bst_distort(out, ds->info.height, ds->info.width, ds->info.channels, key);
    }
    return err;
}

enum bst_err bst_dataset_get_tokens(const struct bst_dataset *ds, enum bst_part part, int64_t index,
                                    uint64_t key, const struct bst_token_sample *out)
{
    BST_ASSERT(index >= 0 && index < ds->info.n[part]);
    return ds->format->get_tokens(ds->state, part, index, key, out);
}

struct bst_token_count bst_dataset_count(const struct bst_dataset *ds, enum bst_part part,
                                         int64_t index)
{
    struct bst_token_count c = ds->info.each;
    if (ds->format->measure)
        ds->format->measure(ds->state, part, index, &c);
    return c;
}

bool bst_dataset_buckets(const struct bst_dataset *ds)
{
    return ds->bucket && ds->format->measure;
}

bool bst_dataset_is_bad_sample(enum bst_err err)
{
    return err == BST_E_CORRUPT || err == BST_E_IO || err == BST_E_NOTFOUND ||
           err == BST_E_UNSUPPORTED || err == BST_E_RANGE;
}

enum bst_err bst_dataset_note_bad(struct bst_dataset *ds, enum bst_part part, int64_t index,
                                  const char *reason)
{
    int64_t n = ds->info.n[part];
    pthread_mutex_lock(&ds->lock);
    if (!ds->bad_bits[part])
        ds->bad_bits[part] = bst_xalloc((size_t)(n + 7) / 8);
    uint8_t *byte = ds->bad_bits[part] + index / 8, bit = (uint8_t)(1u << index % 8);
    if (!(*byte & bit)) {
        *byte |= bit;
        int64_t kept = ds->n_bad[0] + ds->n_bad[1];
        if (kept < BAD_KEPT) {
            ds->bad[kept].part = part;
            ds->bad[kept].index = index;
            snprintf(ds->bad[kept].reason, sizeof ds->bad[kept].reason, "%s", reason);
        }
        ds->n_bad[part]++;
    }
    int64_t n_bad = ds->n_bad[part];
    pthread_mutex_unlock(&ds->lock);
    if (n_bad * 100 > n)
        return bst_fail(BST_E_CORRUPT,
                        "BST-503: %" PRId64 " of %" PRId64
                        " samples cannot be read, more than 1 %%; the "
                        "last: %s",
                        n_bad, n, reason);
    return BST_OK;
}

int64_t bst_dataset_n_bad(struct bst_dataset *ds)
{
    pthread_mutex_lock(&ds->lock);
    int64_t n = ds->n_bad[0] + ds->n_bad[1];
    pthread_mutex_unlock(&ds->lock);
    return n;
}

bool bst_dataset_bad(struct bst_dataset *ds, int64_t i, struct bst_data_bad *out)
{
    pthread_mutex_lock(&ds->lock);
    bool kept = i >= 0 && i < ds->n_bad[0] + ds->n_bad[1] && i < BAD_KEPT;
    if (kept)
        *out = ds->bad[i];
    pthread_mutex_unlock(&ds->lock);
    return kept;
}
