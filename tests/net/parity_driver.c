/* The trainer for tests/net/parity.py, which compares it with PyTorch. Reads commands from standard
 * input, a line each; every line is answered on standard output.
 *
 *   case NET WIDTH STEM BATCH MICRO LR MOMENTUM DECAY SMOOTHING CLIP NESTEROV [PATTERN FACTOR]…
 *   open BACKEND RANKS    load|save WEIGHTS MOMENTA (a file, or -)    update N    gradient N close
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/alloc.h"
#include "tests/net/parity.h"

#define MAX_WORDS 32

static int split(char *line, char **words)
{
    int n = 0;
    for (char *w = strtok(line, " \n"); w && n < MAX_WORDS; w = strtok(NULL, " \n"))
        words[n++] = w;
    return n;
}

static enum bst_stem stem_of(const char *s)
{
    return !strcmp(s, "cifar") ? BST_STEM_CIFAR : BST_STEM_IMAGENET;
}

static void set_case(struct parity_case *c, char **w, int n)
{
    *c = (struct parity_case){
        .net = bst_xstrdup(w[1]),
        .width = (int)strtol(w[2], NULL, 10),
        .stem = stem_of(w[3]),
        .batch = (int)strtol(w[4], NULL, 10),
        .micro_batches = (int)strtol(w[5], NULL, 10),
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

static const char *file_of(const char *word)
{
    return strcmp(word, "-") ? word : NULL;
}

static int obey(struct parity *p, struct parity_case *c, char **w, int n)
{
    if (n >= 12 && !strcmp(w[0], "case")) {
        set_case(c, w, n);
    } else if (n == 3 && !strcmp(w[0], "open")) {
        parity_open(p, c, w[1], (int)strtol(w[2], NULL, 10));
    } else if (n == 3 && !strcmp(w[0], "load")) {
        parity_load(p, file_of(w[1]), file_of(w[2]));
    } else if (n == 3 && !strcmp(w[0], "save")) {
        parity_save(p, file_of(w[1]), file_of(w[2]));
    } else if (n == 2 && !strcmp(w[0], "gradient")) {
        parity_gradient(p, (int)strtol(w[1], NULL, 10));
    } else if (n == 2 && !strcmp(w[0], "update")) {
        struct bst_update_result r = parity_update(p, (int)strtol(w[1], NULL, 10));
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
