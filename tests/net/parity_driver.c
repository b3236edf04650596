/* The trainer for tests/net/parity.py and seq_runs.py, which compare it with PyTorch. Reads
 * commands from standard input, a line each; every line is answered on standard output.
 *
 *   case NET WIDTH STEM BATCH MICRO LR MOMENTUM DECAY SMOOTHING CLIP NESTEROV [PATTERN FACTOR]…
 *   sequences NET WIDTH LAYERS HEADS HIDDEN POSITIONS VOCABULARY NORM_FIRST FORMAT LENGTH BATCH
 * MICRO OPTIMIZER LR DECAY EPSILON SMOOTHING CLIP CLIP_INTERVAL open BACKEND RANKS    load|save
 * WEIGHTS MOMENTA (a file, or -)    update N    gradient N gradients FILE    samples N    close
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/alloc.h"
#include "core/data/augment.h"
#include "core/data/dataset.h"
#include "tests/net/parity.h"

#define MAX_WORDS 32

static int split(char *line, char **words)
{
    int n = 0;
    for (char *w = strtok(line, " \n"); w && n < MAX_WORDS; w = strtok(NULL, " \n"))
        words[n++] = w;
    return n;
}

static int int_of(const char *word)
{
    return (int)strtol(word, NULL, 10);
}

static enum bst_stem stem_of(const char *s)
{
    return !strcmp(s, "cifar") ? BST_STEM_CIFAR : BST_STEM_IMAGENET;
}

static void set_case(struct parity_case *c, char **w, int n)
{
    *c = (struct parity_case){
        .net = bst_xstrdup(w[1]),
        .width = int_of(w[2]),
        .stem = stem_of(w[3]),
        .batch = int_of(w[4]),
        .micro_batches = int_of(w[5]),
        .lr = strtod(w[6], NULL),
        .momentum = strtod(w[7], NULL),
        .weight_decay = strtod(w[8], NULL),
        .smoothing = strtod(w[9], NULL),
        .max_grad_norm = strtod(w[10], NULL),
        .nesterov = !strcmp(w[11], "1"),
    };
    for (int i = 12; i + 1 < n && c->n_groups < PARITY_MAX_GROUPS; i += 2) {
        c->groups[c->n_groups++] =
            (struct bst_lr_group){bst_xstrdup(w[i]), strtod(w[i + 1], NULL), -1};
    }
}

static enum bst_optimizer optimizer_of(const char *word)
{
    int o = 0;
    while (o < BST_N_OPTIMIZERS - 1 &&
           strcmp(bst_optimizer_info((enum bst_optimizer)o)->name, word))
        o++;
    return (enum bst_optimizer)o;
}

static void set_sequences(struct parity_case *c, char **w)
{
    *c = (struct parity_case){
        .net = bst_xstrdup(w[1]),
        .width = int_of(w[2]),
        .batch = int_of(w[11]),
        .micro_batches = int_of(w[12]),
        .lr = strtod(w[14], NULL),
        .weight_decay = strtod(w[15], NULL),
        .smoothing = strtod(w[17], NULL),
        .max_grad_norm = strtod(w[18], NULL),
        .seq = {.layers = int_of(w[3]),
                .heads = int_of(w[4]),
                .hidden = int_of(w[5]),
                .positions = int_of(w[6]),
                .vocabulary = int_of(w[7]),
                .norm_first = int_of(w[8]),
                .format = bst_xstrdup(w[9]),
                .length = int_of(w[10]),
                .optimizer = optimizer_of(w[13]),
                .epsilon = strtod(w[16], NULL),
                .clip_interval = int_of(w[19])},
    };
}

static void print_tokens(const int32_t *x, int n)
{
    for (int i = 0; i < n; i++)
        printf("%d ", (int)x[i]);
}

/* The first n samples as the trainer sees them, each as its streams, labels, the first stream's
 * length and the pair's label. */
static void print_samples(const struct parity_case *c, int n)
{
    struct bst_data_cfg cfg = parity_data(c);
    struct bst_dataset *ds = NULL;
    parity_must(bst_dataset_open(&cfg, &ds), c->seq.format);
    const struct bst_data_info *info = bst_dataset_info(ds);
    int32_t length[BST_DATA_STREAMS], pair, *row[BST_DATA_STREAMS + 1];
    for (int s = 0; s <= BST_DATA_STREAMS; s++)
        row[s] = bst_xcalloc((size_t)c->seq.length, sizeof **row);
    const struct bst_token_sample out = {{row[0], row[1]}, {&length[0], &length[1]}, row[2], &pair};
    for (int i = 0; i < n; i++) {
        uint64_t key = bst_augment_key(1, 0, i);
        parity_must(bst_dataset_get_tokens(ds, BST_TRAIN, i, key, &out), c->seq.format);
        for (int s = 0; s < info->streams; s++)
            print_tokens(row[s], c->seq.length);
        print_tokens(row[BST_DATA_STREAMS], c->seq.length);
        printf("%d %d ", (int)length[0], (int)pair);
    }
    putchar('\n');
    for (int s = 0; s <= BST_DATA_STREAMS; s++)
        bst_free(row[s]);
    bst_dataset_close(ds);
}

static const char *file_of(const char *word)
{
    return strcmp(word, "-") ? word : NULL;
}

static int obey(struct parity *p, struct parity_case *c, char **w, int n)
{
    if (n >= 12 && !strcmp(w[0], "case")) {
        set_case(c, w, n);
    } else if (n == 20 && !strcmp(w[0], "sequences")) {
        set_sequences(c, w);
    } else if (n == 2 && !strcmp(w[0], "samples")) {
        print_samples(c, int_of(w[1]));
        return 0;
    } else if (n == 2 && !strcmp(w[0], "gradients")) {
        parity_save_gradient(p, w[1]);
    } else if (n == 3 && !strcmp(w[0], "open")) {
        parity_open(p, c, w[1], int_of(w[2]));
    } else if (n == 3 && !strcmp(w[0], "load")) {
        parity_load(p, file_of(w[1]), file_of(w[2]));
    } else if (n == 3 && !strcmp(w[0], "save")) {
        parity_save(p, file_of(w[1]), file_of(w[2]));
    } else if (n == 2 && !strcmp(w[0], "gradient")) {
        parity_gradient(p, int_of(w[1]));
    } else if (n == 2 && !strcmp(w[0], "update")) {
        struct bst_update_result r = parity_update(p, int_of(w[1]));
        printf("%.17g %.17g\n", r.loss, r.grad_norm);
        return 0;
    } else if (n == 1 && !strcmp(w[0], "close")) {
        parity_close(p);
    } else {
        fprintf(stderr, "parity_driver: what is '%s' with %d words?\n", n ? w[0] : "", n);
        return 2;
    }
    puts("ok");
    return 0;
}

int main(void)
{
    char line[4096], *words[MAX_WORDS];
    struct parity p = {0};
    struct parity_case c = {0};
    while (fgets(line, sizeof line, stdin)) {
        int rc = obey(&p, &c, words, split(line, words));
        if (rc)
            return rc;
        fflush(stdout);
    }
    return 0;
}
