#include "nets/seq.h"

#include <stdio.h>

enum { MAX_WIDTH = 1 << 16 };

const char *net_name(struct net_maker *m, const char *part)
{
    snprintf(m->name, sizeof m->name, "%.30s.%d.%.47s", m->blocks, m->block, part);
    return m->name;
}

static void take(int *own, int given)
{
    if (given)
        *own = given;
}

enum bst_err net_sizes_read(const struct bst_net_cfg *cfg, int n_streams, struct net_sizes *s)
{
    take(&s->vocabulary, cfg->classes);
    take(&s->positions, cfg->positions);
    take(&s->width, cfg->base_width);
    take(&s->layers, cfg->layers);
    take(&s->heads, cfg->heads);
    take(&s->hidden, cfg->hidden);
    s->dropout = cfg->dropout;
    s->norm_first = cfg->norm_first;
    if (!s->hidden && s->width <= MAX_WIDTH)
        s->hidden = 4 * s->width;
    const struct {
        const char *what;
        int n, most;
    } sizes[] = {{"width", s->width, MAX_WIDTH},
                 {"layers", s->layers, 1000},
                 {"heads", s->heads, 1024},
                 {"hidden", s->hidden, 4 * MAX_WIDTH},
                 {"positions", s->positions, 1 << 24},
                 {"classes", s->vocabulary, 1 << 24}};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        if (sizes[i].n < 1 || sizes[i].n > sizes[i].most)
            return bst_fail(BST_E_RANGE, "%s: %s %d, 1 to %d are possible", cfg->name,
                            sizes[i].what, sizes[i].n, sizes[i].most);
    }
    if (cfg->stem != BST_STEM_DEFAULT)
        return bst_fail(BST_E_ARG, "%s: a stem is that of a net over images", cfg->name);
    for (int i = 0; i < n_streams; i++) {
        if (cfg->length[i] < 1)
            return bst_fail(BST_E_ARG, "%s: reads sequences of tokens, and the data have none",
                            cfg->name);
    }
    return BST_OK;
}
