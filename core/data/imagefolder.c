/* A tree of JPEG files in class folders, as ImageNet is laid out: PATH/train/CLASS and
 * PATH/val/CLASS. Crops as torchvision does (transforms.RandomResizedCrop; Resize and CenterCrop),
 * so that rates and batches that are published for it hold here. */
#include "core/data/formats.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/alloc.h"
#include "core/base/rng.h"
#include "core/data/crop.h"
#include "core/data/folder_list.h"
#include "core/data/jpeg.h"
#include "core/data/resample.h"

enum { SIZE_OWN = 224, SIZE_LEAST = 8, SIZE_MOST = 2048, FILE_MOST = 256 << 20 };

/* What one thread needs to decode; kept in a pool, as many as there were threads at once. */
struct decoder {
    struct decoder *next;
    struct bst_jpeg *jpeg;
    struct bst_resampler resampler;
    struct bst_block file;
};

struct folder {
    char *root[2]; /* by enum bst_part */
    struct bst_folder_list list[2];
    int size;
    bool augment;
    pthread_mutex_t lock;
    struct decoder *idle;
};

static void free_decoder(struct decoder *d)
{
    bst_jpeg_free(d->jpeg);
    bst_resampler_fini(&d->resampler);
    bst_block_free(&d->file);
    bst_free(d);
}

static struct decoder *borrow_decoder(struct folder *f)
{
    pthread_mutex_lock(&f->lock);
    struct decoder *d = f->idle;
    if (d)
        f->idle = d->next;
    pthread_mutex_unlock(&f->lock);
    if (!d) {
        d = bst_xalloc(sizeof *d);
        d->jpeg = bst_jpeg_new();
    }
    return d;
}

static void return_decoder(struct folder *f, struct decoder *d)
{
    pthread_mutex_lock(&f->lock);
    d->next = f->idle;
    f->idle = d;
    pthread_mutex_unlock(&f->lock);
}

/* Read, not mapped: a file that is cut while mapped would end the process. */
static enum bst_err read_open(int fd, struct bst_block *file, size_t *n)
{
    struct stat st;
    if (fstat(fd, &st))
        return bst_fail(BST_E_IO, "%s", strerror(errno));
    if (!S_ISREG(st.st_mode))
        return bst_fail(BST_E_UNSUPPORTED, "not a regular file");
    if (st.st_size > FILE_MOST)
        return bst_fail(BST_E_UNSUPPORTED, "%lld bytes, at most %d allowed", (long long)st.st_size,
                        FILE_MOST);
    size_t bytes = (size_t)st.st_size;
    BST_TRY(bst_block_reserve(file, bytes + 1));
    for (*n = 0; *n < bytes;) {
        ssize_t did = read(fd, (uint8_t *)file->p + *n, bytes - *n);
        if (did < 0 && errno == EINTR)
            continue;
        if (did < 0)
            return bst_fail(BST_E_IO, "%s", strerror(errno));
        if (!did)
            return bst_fail(BST_E_CORRUPT, "shrank to %zu bytes while it was read", *n);
        *n += (size_t)did;
    }
    return BST_OK;
}

static enum bst_err read_file(const char *path, struct bst_block *file, size_t *n)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return bst_fail(BST_E_IO, "%s", strerror(errno));
    enum bst_err err = read_open(fd, file, n);
    close(fd);
    return err;
}

static enum bst_err decode(struct decoder *d, const struct bst_crop *crop, uint8_t *out)
{
    struct bst_jpeg_view view;
    struct bst_resample_axis x, y;
    int denominator = bst_crop_denominator(crop);
    BST_TRY(bst_jpeg_decode(d->jpeg, crop->part, denominator, &view));
    bst_crop_axes(crop, &view, &x, &y);
    const uint8_t *first = view.pixels + (size_t)(y.low - view.part.y) * view.stride +
                           (size_t)(x.low - view.part.x) * 3;
    return bst_resample(&d->resampler, first, view.stride, &x, &y, out);
}

static enum bst_err get_with(struct folder *f, struct decoder *d, enum bst_part part,
                             const char *path, uint64_t key, uint8_t *out)
{
    size_t n = 0;
    int width, height;
    struct bst_crop crop;
    BST_TRY(read_file(path, &d->file, &n));
    BST_TRY(bst_jpeg_header(d->jpeg, d->file.p, n, &width, &height));
    if (part == BST_TRAIN && f->augment)
        bst_crop_random(&crop, width, height, f->size, key);
    else
        bst_crop_centre(&crop, width, height, f->size);
    return decode(d, &crop, out);
}

static enum bst_err get_folder(void *state, enum bst_part part, int64_t index, uint64_t key,
                               uint8_t *out, int32_t *label)
{
    struct folder *f = state;
    struct decoder *d = borrow_decoder(f);
    char *path = bst_xasprintf("%s/%s", f->root[part], bst_folder_list_path(&f->list[part], index));
    enum bst_err err = get_with(f, d, part, path, key, out);
    if (err)
        err = bst_fail_in(err, "%s", path);
    *label = bst_folder_list_label(&f->list[part], index);
    bst_free(path);
    return_decoder(f, d);
    return err;
}

static void close_folder(void *state)
{
    struct folder *f = state;
    for (struct decoder *d = f->idle; d;) {
        struct decoder *next = d->next;
        free_decoder(d);
        d = next;
    }
    for (int part = 0; part < 2; part++) {
        bst_folder_list_fini(&f->list[part]);
        bst_free(f->root[part]);
    }
    pthread_mutex_destroy(&f->lock);
    bst_free(f);
}

static enum bst_err read_lists(struct folder *f, const char *path)
{
    static const char layout[] =
        "imagefolder expects PATH/train/CLASS/*.jpg and PATH/val/CLASS/*.jpg";
    f->root[BST_TRAIN] = bst_xasprintf("%s/train", path);
    f->root[BST_EVAL] = bst_xasprintf("%s/val", path);
    enum bst_err err = bst_folder_list_read(&f->list[BST_TRAIN], f->root[BST_TRAIN], NULL);
    if (!err)
        err = bst_folder_list_read(&f->list[BST_EVAL], f->root[BST_EVAL], &f->list[BST_TRAIN]);
    return err == BST_E_NOTFOUND ? bst_fail(err, "%s; %s", bst_err_text(), layout) : err;
}

static void describe(const struct folder *f, int classes, struct bst_data_info *info)
{
    int64_t ignored = f->list[BST_TRAIN].n_ignored + f->list[BST_EVAL].n_ignored;
    info->n[BST_TRAIN] = f->list[BST_TRAIN].n;
    info->n[BST_EVAL] = f->list[BST_EVAL].n;
    info->height = info->width = f->size;
    info->channels = 3;
    info->classes = classes;
    info->decodes = true;
    if (ignored)
        snprintf(info->note, sizeof info->note,
                 "%" PRId64 " files without .jpg or .jpeg in their name are not used", ignored);
}

static enum bst_err open_folder(const struct bst_data_cfg *cfg, void **state,
                                struct bst_data_info *info)
{
    if (!cfg->path)
        return bst_fail(BST_E_ARG, "imagefolder needs data.path: the folder of train and val");
    int size = cfg->image_size ? cfg->image_size : SIZE_OWN;
    if (size < SIZE_LEAST || size > SIZE_MOST)
        return bst_fail(BST_E_RANGE, "imagefolder: image size %d, expected %d to %d", size,
                        SIZE_LEAST, SIZE_MOST);
    struct folder *f = bst_xalloc(sizeof *f);
    pthread_mutex_init(&f->lock, NULL);
    f->size = size;
    f->augment = cfg->augment;
    enum bst_err err = read_lists(f, cfg->path);
    int found = f->list[BST_TRAIN].n_classes;
    if (!err && cfg->classes && cfg->classes < found)
        err = bst_fail(BST_E_RANGE, "%s: %d class folders, but %d classes", f->root[BST_TRAIN],
                       found, cfg->classes);
    if (err) {
        close_folder(f);
        return err;
    }
    describe(f, cfg->classes ? cfg->classes : found, info);
    *state = f;
    return BST_OK;
}

static const char *folder_class(void *state, int label)
{
    const struct folder *f = state;
    const struct bst_folder_list *l = &f->list[BST_TRAIN];
    return label < l->n_classes ? l->classes[label] : NULL;
}

const struct bst_data_format bst_data_imagefolder = {
    .name = "imagefolder",
    .about = "JPEG files in class folders, as ImageNet is laid out",
    .open = open_folder,
    .close = close_folder,
    .get = get_folder,
    .class_name = folder_class,
};
