/* Loads images of a folder for tests/bench/jpeg.py. Reads lines "PART AUGMENT FLOAT COUNT" from
 * standard input, answers each with "CPU-SECONDS SECONDS" of loading so many, over all threads.
 * FLOAT 1 adds what a trainer does next: to normalised floats. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "core/base/alloc.h"
#include "core/base/clock.h"
#include "core/data/data.h"

enum { BATCH = 50 };

static double cpu_seconds(void)
{
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
           1e-6 * (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
}

static void normalise(const uint8_t *in, float *out, size_t pixels)
{
    static const float mean[3] = {0.485f, 0.456f, 0.406f}, deviation[3] = {0.229f, 0.224f, 0.225f};
    float scale[3], shift[3];
    for (int c = 0; c < 3; c++) {
        scale[c] = 1 / (255 * deviation[c]);
        shift[c] = -mean[c] / deviation[c];
    }
    for (size_t i = 0; i < pixels; i++)
        for (size_t c = 0; c < 3; c++)
            out[3 * i + c] = (float)in[3 * i + c] * scale[c] + shift[c];
}

static enum bst_err load(struct bst_loader *l, uint64_t n_part, int count, bool train, float *out,
                         size_t pixels)
{
    static uint64_t at;
    for (int done = 0; done < count; done += BATCH, at += BATCH) {
        struct bst_batch b;
        /* The training part has no end; the other is gone round. */
        uint64_t first = train ? at : at % (n_part / BATCH * BATCH);
        BST_TRY(bst_loader_take(l, first, BATCH, NULL, &b));
        bst_loader_ask(l, train ? first + BATCH : (at + BATCH) % (n_part / BATCH * BATCH), BATCH);
        if (out)
            normalise(b.images, out, BATCH * pixels);
        bst_loader_give_back(l, &b);
    }
    return BST_OK;
}

static enum bst_err serve_one(const char *path, int threads, int part, int augment, int to_float,
                              int count)
{
    struct bst_dataset *ds = NULL;
    struct bst_loader *l = NULL;
    void *out = NULL;
    struct bst_data_cfg cfg = {.format = "imagefolder", .path = path, .augment = augment};
    BST_TRY(bst_dataset_open(&cfg, &ds));
    const struct bst_data_info *info = bst_dataset_info(ds);
    size_t pixels = (size_t)info->height * (size_t)info->width;
    size_t bytes = BATCH * pixels * 3 * sizeof(float);
    struct bst_loader_cfg lc = {.ds = ds,
                                .part = part ? BST_EVAL : BST_TRAIN,
                                .shuffle = true,
                                .seed = 1,
                                .max_batch = BATCH,
                                .slots = 2,
                                .threads = threads};
    enum bst_err err = bst_loader_new(&lc, &l);
    if (!err && to_float)
        err = bst_alloc(bytes, &out);
    if (!err)
        err = load(l, (uint64_t)info->n[lc.part], 2 * BATCH, !part, out, pixels);
    double cpu = cpu_seconds(), wall = bst_clock_now();
    if (!err)
        err = load(l, (uint64_t)info->n[lc.part], count, !part, out, pixels);
    if (!err)
        printf("%.6f %.6f\n", cpu_seconds() - cpu, bst_clock_now() - wall);
    bst_loader_free(l);
    bst_alloc_free(out, bytes);
    bst_dataset_close(ds);
    return err;
}

int main(int argc, char **argv)
{
    char line[128];
    if (argc != 3) {
        fprintf(stderr, "usage: bench_jpeg FOLDER THREADS\n");
        return 2;
    }
    while (fgets(line, sizeof line, stdin)) {
        int part, augment, to_float, count;
        if (sscanf(line, "%d %d %d %d", &part, &augment, &to_float, &count) != 4 || count < BATCH)
            return 2;
        if (serve_one(argv[1], (int)strtol(argv[2], NULL, 10), part, augment, to_float, count)) {
            fprintf(stderr, "bench_jpeg: %s\n", bst_err_text());
            return 1;
        }
        fflush(stdout);
    }
    return 0;
}
