/* IDX, the format of MNIST and its kin (Y. LeCun, "The MNIST database"): two zero bytes, a type
 * byte, the number of dimensions, each dimension as 32 bits big-endian, then the values. */
#include "core/data/formats.h"

#include <inttypes.h>
#include <string.h>

#include "core/base/alloc.h"
#include "core/data/inmem.h"
#include "core/data/reader.h"

/* Where Debian's package dataset-fashion-mnist puts its files. */
const char *bst_data_idx_place = "/usr/share/datasets/fashion-mnist";

enum { TYPE_U8 = 0x08, SIDE_MOST = 4096 };

struct idx {
    struct bst_inmem set;
    int classes;
    bool is_fashion;
};

/* The set as it is published, and as it is named once unpacked by common tools. */
static const char *const file_names[2][2][2] = {
    [BST_TRAIN] = {{"train-images-idx3-ubyte", "train-images.idx3-ubyte"},
                   {"train-labels-idx1-ubyte", "train-labels.idx1-ubyte"}},
    [BST_EVAL] = {{"t10k-images-idx3-ubyte", "t10k-images.idx3-ubyte"},
                  {"t10k-labels-idx1-ubyte", "t10k-labels.idx1-ubyte"}},
};

static enum bst_err open_either(const char *dir, const char *const names[2],
                                struct bst_reader **out)
{
    enum bst_err err = bst_reader_open(dir, names[1], out);
    return err == BST_E_NOTFOUND ? bst_reader_open(dir, names[0], out) : err;
}

static enum bst_err read_header(struct bst_reader *r, int n_dims, uint32_t dims[])
{
    uint8_t b[4];
    BST_TRY(bst_reader_read(r, b, 4));
    if (b[0] || b[1] || b[2] != TYPE_U8 || b[3] != n_dims)
        return bst_fail(BST_E_CORRUPT,
                        "%s: offset 0: found %02x %02x %02x %02x, expected 00 00 08 %02x (IDX, "
                        "bytes, %d dimension%s)",
                        bst_reader_path(r), b[0], b[1], b[2], b[3], (unsigned)n_dims, n_dims,
                        n_dims == 1 ? "" : "s");
    for (int i = 0; i < n_dims; i++) {
        BST_TRY(bst_reader_read(r, b, 4));
        dims[i] = (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
    }
    return BST_OK;
}

/* Takes the images' size from the first file of a set; every later one must have the same. */
static enum bst_err check_size(struct bst_inmem *set, struct bst_reader *r, const uint32_t dims[3])
{
    const char *path = bst_reader_path(r);
    if (!dims[0])
        return bst_fail(BST_E_CORRUPT, "%s: offset 4: found 0 images, expected at least 1", path);
    if (!dims[1] || !dims[2] || dims[1] > SIDE_MOST || dims[2] > SIDE_MOST)
        return bst_fail(BST_E_CORRUPT,
                        "%s: offset 8: found images of %" PRIu32 " × %" PRIu32
                        ", expected sides of 1 to %d",
                        path, dims[1], dims[2], SIDE_MOST);
    if (set->height && (dims[1] != (uint32_t)set->height || dims[2] != (uint32_t)set->width))
        return bst_fail(BST_E_CORRUPT,
                        "%s: offset 8: found images of %" PRIu32 " × %" PRIu32
                        ", expected %d × %d as in the training part",
                        path, dims[1], dims[2], set->height, set->width);
    set->height = (int)dims[1];
    set->width = (int)dims[2];
    set->channels = 1;
    return BST_OK;
}

static enum bst_err read_images(struct bst_inmem *set, enum bst_part part, struct bst_reader *r)
{
    uint32_t dims[3] = {0};
    uint64_t bytes = 0;
    BST_TRY(read_header(r, 3, dims));
    BST_TRY(check_size(set, r, dims));
    /* At most 2^32 · 2^24. */
    bytes = (uint64_t)dims[0] * dims[1] * dims[2];
    BST_TRY(bst_reader_expect(r, bytes, "its header asks for"));
    BST_TRY(bst_inmem_reserve(set, part, dims[0]));
    BST_TRY(bst_reader_read(r, set->part[part].images, (size_t)bytes));
    return bst_reader_end(r);
}

static enum bst_err read_labels(struct bst_inmem *set, enum bst_part part, struct bst_reader *r)
{
    struct bst_inmem_part *p = &set->part[part];
    uint32_t n = 0;
    BST_TRY(read_header(r, 1, &n));
    if (n != p->n)
        return bst_fail(BST_E_CORRUPT,
                        "%s: offset 4: found %" PRIu32 " labels, expected %" PRId64
                        ", one for each image",
                        bst_reader_path(r), n, p->n);
    BST_TRY(bst_reader_expect(r, n, "its header asks for"));
    BST_TRY(bst_reader_read(r, p->labels, n));
    return bst_reader_end(r);
}

/* The training part says how many classes there are, unless the configuration does. */
static enum bst_err check_labels(struct idx *x, enum bst_part part, const char *path, int classes)
{
    const struct bst_inmem_part *p = &x->set.part[part];
    if (part == BST_TRAIN) {
        x->classes = classes;
        for (int64_t i = 0; i < p->n && !classes; i++)
            x->classes = p->labels[i] < x->classes ? x->classes : p->labels[i] + 1;
    }
    for (int64_t i = 0; i < p->n; i++)
        if (p->labels[i] >= x->classes)
            return bst_fail(
                BST_E_CORRUPT, "%s: offset %" PRId64 ": found label %d, expected 0 to %d%s", path,
                i + 8, p->labels[i], x->classes - 1, classes ? "" : " as in the training part");
    return BST_OK;
}

/* Some files of a set without the others are a fault to be told, not a set that is absent. */
static enum bst_err half_a_set(enum bst_err err)
{
    return err == BST_E_NOTFOUND ? bst_fail(BST_E_IO, "%s", bst_err_text()) : err;
}

static enum bst_err read_part(struct idx *x, const char *dir, enum bst_part part, int classes)
{
    struct bst_reader *images = NULL, *labels = NULL;
    enum bst_err err = open_either(dir, file_names[part][0], &images);
    if (err)
        goto out;
    if ((err = half_a_set(open_either(dir, file_names[part][1], &labels))))
        goto out;
    if ((err = read_images(&x->set, part, images)))
        goto out;
    if ((err = read_labels(&x->set, part, labels)))
        goto out;
    err = check_labels(x, part, bst_reader_path(labels), classes);
out:
    bst_reader_close(images);
    bst_reader_close(labels);
    return err;
}

static void close_idx(void *state)
{
    struct idx *x = state;
    bst_inmem_free(&x->set);
    bst_free(x);
}

static enum bst_err open_idx(const struct bst_data_cfg *cfg, void **state,
                             struct bst_data_info *info)
{
    const char *dir = cfg->path ? cfg->path : bst_data_idx_place;
    struct idx *x = bst_xalloc(sizeof *x);
    x->set.augment = cfg->augment;
    x->is_fashion = !cfg->path;
    enum bst_err err = read_part(x, dir, BST_TRAIN, cfg->classes);
    if (!err)
        err = half_a_set(read_part(x, dir, BST_EVAL, cfg->classes));
    if (err) {
        close_idx(x);
        return err;
    }
    info->n[BST_TRAIN] = x->set.part[BST_TRAIN].n;
    info->n[BST_EVAL] = x->set.part[BST_EVAL].n;
    info->height = x->set.height;
    info->width = x->set.width;
    info->channels = 1;
    info->classes = x->classes;
    *state = x;
    return BST_OK;
}

static enum bst_err get_idx(void *state, enum bst_part part, int64_t index, uint64_t key,
                            uint8_t *out, int32_t *label)
{
    const struct idx *x = state;
    bst_inmem_get(&x->set, part, index, key, out, label);
    return BST_OK;
}

static const char *idx_class(void *state, int label)
{
    static const char *const fashion[] = {"t-shirt", "trouser", "pullover", "dress", "coat",
                                          "sandal",  "shirt",   "sneaker",  "bag",   "ankle boot"};
    const struct idx *x = state;
    int n = (int)(sizeof fashion / sizeof fashion[0]);
    return x->is_fashion && label < n ? fashion[label] : NULL;
}

const struct bst_data_format bst_data_idx = {
    .name = "idx",
    .about = "MNIST and Fashion-MNIST files, plain or gzipped",
    .open = open_idx,
    .close = close_idx,
    .get = get_idx,
    .class_name = idx_class,
    .stand_in = "shapes",
};
