/* What only the net itself, or a start, shows of a preset. */
#include "core/run/preset_impl.h"

#include <fnmatch.h>
#include <string.h>

#include "core/graph/compile.h"
#include "core/graph/net.h"
#include "core/run/start.h"

static enum bst_err usual_sequences(const struct bst_preset *p, enum bst_net_input input,
                                    struct bst_net_cfg *cfg)
{
    struct bst_data_cfg data = bst_start_data_cfg(p);
    struct bst_data_info info;
    data.input = input;
    BST_TRY(bst_dataset_usual(&data, &info));
    for (int i = 0; i < BST_MAX_STREAMS; i++)
        cfg->length[i] = info.length[i];
    cfg->classes = info.classes;
    return BST_OK;
}

enum bst_err bst_preset_usual_shape(const struct bst_preset *p, enum bst_net_input input,
                                    struct bst_net_cfg *cfg)
{
    if (input != BST_INPUT_IMAGES)
        return usual_sequences(p, input, cfg);
    static const struct {
        const char *format;
        int size, channels, classes;
    } usual[] = {{"idx", 28, 1, 10},
                 {"cifar10", 32, 3, 10},
                 {"imagefolder", 224, 3, 1000},
                 {"shapes", 28, 1, 10}};
    int i = 0;
    while (i < 3 && strcmp(usual[i].format, p->data.format) != 0)
        i++;
    cfg->height = cfg->width = p->data.image_size ? (int)p->data.image_size : usual[i].size;
    cfg->in_channels = p->model.in_channels ? (int)p->model.in_channels : usual[i].channels;
    cfg->classes = p->model.classes ? (int)p->model.classes : usual[i].classes;
    return BST_OK;
}

void bst_preset_net_cfg(const struct bst_preset *p, struct bst_net_cfg *cfg)
{
    *cfg = (struct bst_net_cfg){.name = p->model.name,
                                .base_width = (int)p->model.width,
                                .classes = (int)p->model.classes,
                                .in_channels = (int)p->model.in_channels,
                                .stem = (enum bst_stem)p->model.stem,
                                .layers = (int)p->model.layers,
                                .heads = (int)p->model.heads,
                                .hidden = (int)p->model.hidden,
                                .positions = (int)p->model.positions,
                                .dropout = p->model.dropout,
                                .norm_first = p->model.norm_first};
    for (int i = 0; i < 4; i++) {
        int mean = p->data.mean.n, std = p->data.std.n;
        cfg->mean[i] = (float)p->data.mean.v[i < mean ? i : mean - 1];
        cfg->std[i] = (float)p->data.std.v[i < std ? i : std - 1];
    }
}

void bst_preset_recompute(const struct bst_preset *p, const char *layers[BST_PRESET_LAYERS],
                          struct bst_recompute *out)
{
    for (int i = 0; i < p->recompute.n_layers; i++)
        layers[i] = p->recompute.layers[i];
    *out = (struct bst_recompute){.kind = (enum bst_recompute_kind)p->recompute.kind,
                                  .every = p->recompute.every,
                                  .layers = layers,
                                  .n_layers = p->recompute.n_layers};
}

static bool fits_any(const char *pattern, const struct bst_graph *g)
{
    for (int i = 0; i < g->n_params; i++)
        if (BST_PARAM_IS_TRAINED(g->params[i].kind) && fnmatch(pattern, g->params[i].name, 0) == 0)
            return true;
    return false;
}

void bst_preset_check_net(const struct bst_preset_read *r, const struct bst_net_table *nets,
                          struct bst_complaints *c)
{
    struct bst_net_cfg cfg;
    const struct bst_preset *p = r->p;
    const struct bst_net *net = bst_net_find(nets, p->model.name);
    if (!net)
        return; /* complained of by name */
    if (bst_dataset_is_sequences(p->data.format) != (net->input != BST_INPUT_IMAGES)) {
        bst_complain(c, bst_preset_place(r, BST_PARAM_data_format, BST_PARAM_model_name),
                     net->input == BST_INPUT_IMAGES
                         ? "data.format: %s is a set of sequences, %s takes images"
                         : "data.format: %s is a set of images, %s takes sequences",
                     p->data.format, p->model.name);
        return;
    }
    bst_preset_net_cfg(p, &cfg);
    if (bst_preset_usual_shape(p, net->input, &cfg)) {
        bst_complain(c, bst_preset_place(r, BST_PARAM_data_format, BST_PARAM_data_length),
                     "data: %s", bst_err_text());
        return;
    }
    struct bst_graph *g = bst_graph_new(1);
    bool built = !net->build(&cfg, g);
    if (!built)
        bst_complain(c, bst_preset_place(r, BST_PARAM_model_name, BST_PARAM_model_width),
                     "model: %s", bst_err_text());
    for (int i = 0; built && !r->unknown[BST_PARAM_lr_groups] && i < p->lr_groups.n; i++)
        if (!fits_any(p->lr_groups.v[i].match, g))
            bst_complain(c, r->groups[i], "lr_groups: no parameter of %s is called '%s'",
                         p->model.name, p->lr_groups.v[i].match);
    struct bst_recompute again;
    const char *layers[BST_PRESET_LAYERS];
    bst_preset_recompute(p, layers, &again);
    if (built && !r->unknown[BST_PARAM_recompute] && bst_recompute_check(g, &again))
        bst_complain(c, bst_preset_place(r, BST_PARAM_recompute, BST_PARAM_recompute), "%s",
                     bst_err_text());
    bst_graph_free(g);
}

enum bst_err bst_preset_check_start(const struct bst_preset *p, const char *label,
                                    struct bst_preset_errors *errs)
{
    static const char why[] = "init: this preset starts from pretrained weights; give them with "
                              "--init FILE";
    if (strcmp(p->init, "required") != 0)
        return BST_OK;
    bst_sb_addf(&errs->text, "%s: error: %s\n", label, why);
    errs->n++;
    return bst_fail(BST_E_PARSE, "%s: error: %s", label, why);
}
