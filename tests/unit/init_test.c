/* Weights to start from, in files under Hugging Face's names. The headers are those that its own
 * save_pretrained wrote (init_headers.py); the values are the place in the file, so that what
 * arrived where can be told. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/alloc.h"
#include "core/base/io.h"
#include "core/base/safetensors.h"
#include "core/base/sb.h"
#include "nets/nets.h"
#include "train_support.h"

enum { ROOM = 1 << 16 };

static char folder[] = "/tmp/bstune-init-XXXXXX";
static char path[64], saved[64];

static struct bst_trainer *open_net(const char *net)
{
    bool bert = !strcmp(net, "bert");
    struct bst_train_cfg cfg = train_cfg(bst_net_find(&net_table, net), "ref");
    cfg.net_cfg = (struct bst_net_cfg){.name = net,
                                       .base_width = 6,
                                       .classes = 17,
                                       .layers = bert ? 1 : 2,
                                       .heads = 2,
                                       .hidden = bert ? 10 : 0,
                                       .positions = 12};
    cfg.data = (struct bst_data_cfg){
        .format = "random", .length = 8, .classes = 17, .train_count = 40, .eval_count = 8};
    return train_open(&cfg);
}

static json_t *read_header(const char *net)
{
    char name[64];
    json_error_t why;
    snprintf(name, sizeof name, "tests/unit/init_%s.json", !strcmp(net, "gpt") ? "gpt2" : net);
    json_t *all = json_load_file(name, 0, &why);
    if (!all)
        fail_msg("%s: %s", name, why.text);
    return all;
}

static size_t offset(const json_t *tensor, size_t which)
{
    json_t *at = json_object_get(tensor, "data_offsets");
    return (size_t)json_integer_value(json_array_get(at, which));
}

static size_t end_of(const json_t *header)
{
    size_t end = 0;
    const char *name;
    json_t *t;
    json_object_foreach((json_t *)header, name, t)
    {
        if (json_object_get(t, "data_offsets") && offset(t, 1) > end)
            end = offset(t, 1);
    }
    return end;
}

/* A tensor of floats behind the others. */
static void add(json_t *header, const char *name, int rank, const int *shape)
{
    size_t at = end_of(header), n = 4;
    json_t *d = json_array();
    for (int i = 0; i < rank; i++) {
        json_array_append_new(d, json_integer(shape[i]));
        n *= (size_t)shape[i];
    }
    json_object_set_new(header, name,
                        json_pack("{s:s, s:o, s:[I, I]}", "dtype", "F32", "shape", d,
                                  "data_offsets", (json_int_t)at, (json_int_t)(at + n)));
}

static void rename_to(json_t *header, const char *from, const char *to)
{
    json_t *t = json_incref(json_object_get(header, from));
    assert_non_null(t);
    json_object_del(header, from);
    json_object_set_new(header, to, t);
}

static void drop_prefix(json_t *header, const char *prefix)
{
    const char *name;
    json_t *t;
    void *next;
    json_object_foreach_safe(header, next, name, t)
    {
        char own[256];
        snprintf(own, sizeof own, "%s", name);
        if (!strncmp(own, prefix, strlen(prefix)))
            rename_to(header, own, own + strlen(prefix));
    }
}

/* Everything whose name begins so goes; what is behind moves up. */
static void drop(json_t *header, const char *beginning)
{
    const char *name, *other;
    json_t *t, *o;
    void *next;
    json_object_foreach_safe(header, next, name, t)
    {
        if (strncmp(name, beginning, strlen(beginning)) != 0)
            continue;
        size_t from = offset(t, 0), n = offset(t, 1) - from;
        json_object_foreach(header, other, o)
        {
            json_t *at = json_object_get(o, "data_offsets");
            if (!at || offset(o, 0) < from || o == t)
                continue;
            json_array_set_new(at, 0, json_integer((json_int_t)(offset(o, 0) - n)));
            json_array_set_new(at, 1, json_integer((json_int_t)(offset(o, 1) - n)));
        }
        json_object_del(header, name);
    }
}

/* `copy`'s bytes become those of `of`, where both are there. */
static void write_file(const json_t *header, const char *copy, const char *of)
{
    char *text = json_dumps(header, JSON_COMPACT | JSON_PRESERVE_ORDER);
    size_t n = end_of(header) / 4;
    uint64_t bytes = strlen(text);
    float *x = bst_xcalloc(n, sizeof *x);
    for (size_t i = 0; i < n; i++)
        x[i] = (float)i;
    if (copy) {
        const json_t *a = json_object_get(header, copy), *b = json_object_get(header, of);
        memcpy((char *)x + offset(a, 0), (char *)x + offset(b, 0), offset(b, 1) - offset(b, 0));
    }
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(&bytes, 8, 1, f), 1);
    assert_int_equal(fwrite(text, bytes, 1, f), 1);
    assert_int_equal(fwrite(x, 4, n, f), n);
    fclose(f);
    bst_free(x);
    free(text);
}

static double first_number(struct bst_tensors *r, const struct bst_tensor *t)
{
    double *x = bst_xcalloc((size_t)t->count, sizeof *x);
    ok(bst_tensors_read(r, t, x));
    double first = x[0];
    for (int64_t i = 1; i < t->count; i++)
        assert_true(x[i] == first + (double)i);
    bst_free(x);
    return first;
}

/* Every tensor of the net came from the tensor that the original header calls so, or as it was
 * renamed: its numbers are the places there. `anew`: those that did not come from the file. */
static void check_arrived(struct bst_trainer *t, const json_t *header, const char *prefix,
                          const char *const *anew)
{
    struct bst_tensors *r = NULL;
    ok(bst_trainer_save(t, BST_STATE_WEIGHTS, saved));
    ok(bst_tensors_open(saved, &r));
    for (int i = 0; i < bst_tensors_count(r); i++) {
        const struct bst_tensor *own = bst_tensors_at(r, i);
        const json_t *from = json_object_get(header, own->name);
        bool is_new = false;
        for (int k = 0; anew && anew[k]; k++)
            is_new = is_new || !strncmp(own->name, anew[k], strlen(anew[k]));
        if (is_new)
            continue;
        if (!from && !strncmp(own->name, prefix, strlen(prefix)))
            from = json_object_get(header, own->name + strlen(prefix));
        if (!from)
            fail_msg("%s is not in the file", own->name);
        assert_true(first_number(r, own) == (double)offset(from, 0) / 4);
    }
    bst_tensors_close(r);
}

static enum bst_err load(struct bst_trainer *t, char note[200])
{
    return bst_trainer_load(t, BST_STATE_WEIGHTS, path, true, note, 200);
}

static void must_load(const char *net, const json_t *header, const char *prefix)
{
    char note[200];
    struct bst_trainer *t = open_net(net);
    ok(load(t, note));
    assert_string_equal(note, "");
    check_arrived(t, header, prefix, NULL);
    bst_trainer_close(t);
}

static void must_refuse(const char *net, const char *words)
{
    char note[200];
    uint32_t before = 0, after = 1;
    struct bst_trainer *t = open_net(net);
    before = train_hash(t);
    if (!load(t, note))
        fail_msg("taken, where '%s' was expected", words);
    if (!strstr(bst_err_text(), words))
        fail_msg("'%s' is not in '%s'", words, bst_err_text());
    after = train_hash(t);
    assert_int_equal(before, after);
    bst_trainer_close(t);
}

static void files_of_save_pretrained_are_read(void **state)
{
    static const char *const nets[] = {"gpt", "bert"};
    (void)state;
    for (int i = 0; i < 2; i++) {
        json_t *h = read_header(nets[i]);
        write_file(h, NULL, NULL);
        must_load(nets[i], h, "");
        json_decref(h);
    }
}

/* As the files on the hub are: GPT-2's of the body alone, with the masks of its day. */
static void gpt_without_its_prefix(void **state)
{
    (void)state;
    json_t *h = read_header("gpt");
    drop_prefix(h, "transformer.");
    add(h, "h.0.attn.bias", 4, (const int[]){1, 1, 12, 12});
    add(h, "h.1.attn.bias", 4, (const int[]){1, 1, 12, 12});
    add(h, "h.1.attn.masked_bias", 0, NULL);
    write_file(h, NULL, NULL);
    must_load("gpt", h, "transformer.");
    json_decref(h);
}

static void a_tied_head_is_the_table(void **state)
{
    static const int shape[] = {17, 6};
    (void)state;
    json_t *h = read_header("gpt");
    add(h, "lm_head.weight", 2, shape);
    write_file(h, "lm_head.weight", "transformer.wte.weight");
    must_load("gpt", h, "");
    write_file(h, NULL, NULL);
    must_refuse("gpt", "\"lm_head.weight\" is not \"transformer.wte.weight\", and the net has one "
                       "parameter for both");
    /* The other of the two names alone. */
    json_decref(h);
    h = read_header("gpt");
    rename_to(h, "transformer.wte.weight", "lm_head.weight");
    write_file(h, NULL, NULL);
    json_object_set(h, "transformer.wte.weight", json_object_get(h, "lm_head.weight"));
    must_load("gpt", h, "");
    json_decref(h);
}

/* BERT's on the hub: TensorFlow's words, positions as numbers, the decoder beside the table. */
static void bert_of_old(void **state)
{
    char note[200];
    static const int ids[] = {1, 12}, decoder[] = {17, 6};
    (void)state;
    json_t *h = read_header("bert"), *own = json_deep_copy(h);
    rename_to(h, "bert.embeddings.LayerNorm.weight", "bert.embeddings.LayerNorm.gamma");
    rename_to(h, "bert.embeddings.LayerNorm.bias", "bert.embeddings.LayerNorm.beta");
    rename_to(h, "cls.predictions.transform.LayerNorm.bias",
              "cls.predictions.transform.LayerNorm.beta");
    add(h, "bert.embeddings.position_ids", 2, ids);
    add(h, "cls.predictions.decoder.weight", 2, decoder);
    write_file(h, "cls.predictions.decoder.weight", "bert.embeddings.word_embeddings.weight");
    struct bst_trainer *t = open_net("bert");
    ok(load(t, note));
    check_arrived(t, own, "", NULL);
    bst_trainer_close(t);
    json_decref(h);
    json_decref(own);
}

/* The body of BertModel: its heads start anew and it is said. */
static void a_body_without_heads(void **state)
{
    static const char *const anew[] = {"cls.", NULL};
    char note[200];
    (void)state;
    json_t *h = read_header("bert");
    drop(h, "cls.");
    drop_prefix(h, "bert.");
    write_file(h, NULL, NULL);
    struct bst_trainer *t = open_net("bert");
    ok(load(t, note));
    assert_non_null(strstr(note, "starts anew"));
    assert_non_null(strstr(note, " more"));
    check_arrived(t, h, "bert.", anew);
    bst_trainer_close(t);
    json_decref(h);
}

static void what_is_not_this_net_is_told(void **state)
{
    (void)state;
    json_t *h = read_header("gpt");
    drop(h, "transformer.h.1.ln_2.bias");
    write_file(h, NULL, NULL);
    must_refuse("gpt", "no tensor \"transformer.h.1.ln_2.bias\"");
    json_decref(h);

    h = read_header("gpt");
    add(h, "transformer.h.2.ln_1.weight", 1, (const int[]){6});
    write_file(h, NULL, NULL);
    must_refuse("gpt", "tensor \"transformer.h.2.ln_1.weight\" belongs to no parameter of the net");
    json_decref(h);

    h = read_header("gpt");
    add(h, "wte.weight", 2, (const int[]){17, 6});
    write_file(h, NULL, NULL);
    must_refuse("gpt", "are the same parameter");
    json_decref(h);

    h = read_header("gpt");
    drop(h, "transformer.wpe.weight");
    add(h, "transformer.wpe.weight", 2, (const int[]){13, 6});
    write_file(h, NULL, NULL);
    must_refuse("gpt", "tensor \"transformer.wpe.weight\" is [13, 6], the net has [12, 6]");
    must_refuse("bert", "belongs to no parameter of the net");
    json_decref(h);
}

static int set_up(void **state)
{
    (void)state;
    if (!mkdtemp(folder))
        return 1;
    snprintf(path, sizeof path, "%s/model.safetensors", folder);
    snprintf(saved, sizeof saved, "%s/saved.safetensors", folder);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    return bst_io_remove_tree(folder) != BST_OK;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_of_save_pretrained_are_read),
        cmocka_unit_test(gpt_without_its_prefix),
        cmocka_unit_test(a_tied_head_is_the_table),
        cmocka_unit_test(bert_of_old),
        cmocka_unit_test(a_body_without_heads),
        cmocka_unit_test(what_is_not_this_net_is_told),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
