#include <locale.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/run/preset.h"

static const char *const shipped[] = {"presets", NULL};
static const struct bst_preset_env env = {.dirs = shipped};

static struct bst_preset p, q;
static struct bst_preset_errors errs;

static enum bst_err parse(const char *yaml, const char *const *sets, int n_sets,
                          struct bst_preset *out)
{
    bst_preset_errors_fini(&errs);
    bst_preset_errors_init(&errs);
    return bst_preset_parse(&env, "t.yaml", yaml, strlen(yaml), sets, n_sets, out, &errs);
}

static enum bst_err load(const char *name, const char *const *sets, int n_sets,
                         struct bst_preset *out)
{
    bst_preset_errors_fini(&errs);
    bst_preset_errors_init(&errs);
    return bst_preset_load(&env, name, sets, n_sets, out, &errs);
}

static void must(enum bst_err err)
{
    if (err)
        fail_msg("%s", errs.text.data);
}

static void an_empty_file_is_the_defaults(void **state)
{
    (void)state;
    must(parse("", NULL, 0, &p));
    bst_preset_default(&q);
    assert_memory_equal(&p, &q, sizeof p);
    assert_string_equal(p.model.name, "resnet8");
    assert_int_equal(p.global_batch_size, 256);
    assert_int_equal(p.micro_batch_size, 0);
    assert_true(p.momentum == 0.9 && p.weight_decay == 1e-4 && p.shuffle);
    assert_int_equal(p.lr_scaling, BST_LR_RULE_LINEAR);
    assert_int_equal(p.lr_scheduler, BST_SCHEDULE_COSINE);
    assert_int_equal(p.data.mean.n, 1);
    assert_int_equal(p.eval_interval.unit, BST_UNIT_EPOCHS);
    must(parse("# nothing but a remark\n", NULL, 0, &p));
    must(parse("---\n", NULL, 0, &p));
}

static void every_kind_of_value_is_read(void **state)
{
    (void)state;
    must(parse("name: \"a \\\"b\\\" \\xd7 c\"\n"
               "about: |\n  two\n  lines\n"
               "model: {name: resnet50, width: 8, stem: imagenet}\n"
               "data:\n  mean: 0.25\n  std: [0.1, 0.2, 0.3]\n  path: ./x y\n"
               "devices: {memory: 8GiB, backend: cpu}\n"
               "learning_rate: 1e-4\nmomentum: .5\nweight_decay: 0\nnesterov: true\n"
               "lr_scaling: sqrt\nwarmup_curve: logarithmic\nlr_scheduler: one-cycle\n"
               "lr_milestones: [1, 2.5]\neval_interval: 500st\ncheckpoint_interval: never\n"
               "lr_groups: [{match: 'conv1.*', factor: 0.1}, {match: '*', weight_decay: 0}]\n"
               "changes: [{at: 1.5ep, command: 'batch   +20%'}, {at: 10%, command: lr x0.5}]\n"
               "seed: 9007199254740992\n",
               NULL, 0, &p));
    assert_string_equal(p.name, "a \"b\" × c");
    assert_string_equal(p.about, "two\nlines\n");
    assert_int_equal(p.model.width, 8);
    assert_int_equal(p.model.stem, 1);
    assert_int_equal(p.data.mean.n, 1);
    assert_true(p.data.mean.v[0] == 0.25 && p.data.std.n == 3 && p.data.std.v[2] == 0.3);
    assert_string_equal(p.data.path, "./x y");
    assert_true(p.devices.memory == (uint64_t)8 << 30);
    assert_true(p.learning_rate == 1e-4 && p.momentum == 0.5 && p.weight_decay == 0 && p.nesterov);
    assert_int_equal(p.lr_scaling, BST_LR_RULE_SQRT);
    assert_int_equal(p.warmup_curve, BST_WARMUP_LOGARITHMIC);
    assert_int_equal(p.lr_scheduler, BST_SCHEDULE_ONE_CYCLE);
    assert_true(p.lr_milestones.n == 2 && p.lr_milestones.v[1] == 2.5);
    assert_true(p.eval_interval.value == 500 && p.eval_interval.unit == BST_UNIT_STEPS);
    assert_true(p.checkpoint_interval.value == 0);
    assert_int_equal(p.changes.n, 2);
    assert_true(p.changes.v[0].at.value == 1.5 && p.changes.v[0].at.unit == BST_UNIT_EPOCHS);
    assert_string_equal(p.changes.v[0].command, "batch +20%");
    assert_true(p.changes.v[1].at.value == 0.1 && p.changes.v[1].at.unit == BST_UNIT_RATIO);
    assert_string_equal(p.changes.v[1].command, "lr *0.5");
    assert_int_equal(p.lr_groups.n, 2);
    assert_string_equal(p.lr_groups.v[0].match, "conv1.*");
    assert_true(p.lr_groups.v[0].factor == 0.1 && p.lr_groups.v[0].weight_decay == -1);
    assert_true(p.lr_groups.v[1].factor == 1 && p.lr_groups.v[1].weight_decay == 0);
    assert_true(p.seed == INT64_C(9007199254740992));
}

static void set_wins_and_says_where_it_came_from(void **state)
{
    (void)state;
    const char *const sets[] = {"model.name=resnet14",
                                "momentum=0.8",
                                "momentum=0.7",
                                "name=a: [b",
                                "data.mean=[0.1, 0.2, 0.3]",
                                "lr_groups=[{match: fc.*, factor: 2}]"};
    must(parse("momentum: 0.9\nweight_decay: 0.1\n", sets, 6, &p));
    assert_string_equal(p.model.name, "resnet14");
    assert_true(p.momentum == 0.7);
    assert_string_equal(p.name, "a: [b");
    assert_int_equal(p.data.mean.n, 3);
    assert_int_equal(p.lr_groups.n, 1);
    assert_int_equal(p.origin[BST_PARAM_momentum], BST_ORIGIN_SET);
    assert_int_equal(p.origin[BST_PARAM_weight_decay], BST_ORIGIN_FILE);
    assert_int_equal(p.origin[BST_PARAM_learning_rate], BST_ORIGIN_DEFAULT);
}

static void one_of_a_group_replaces_the_others(void **state)
{
    (void)state;
    must(parse("", NULL, 0, &p));
    assert_true(bst_preset_warmup(&p).unit == BST_UNIT_EPOCHS && bst_preset_warmup(&p).value == 0);
    must(parse("warmup_ratio: 0.05\nmax_steps: 700\n", NULL, 0, &p));
    assert_true(bst_preset_warmup(&p).unit == BST_UNIT_RATIO &&
                bst_preset_warmup(&p).value == 0.05);
    assert_true(bst_preset_length(&p).unit == BST_UNIT_STEPS && bst_preset_length(&p).value == 700);
    const char *const sets[] = {"warmup_epochs=2", "max_epochs=3", "warmup_steps=10"};
    must(parse("warmup_ratio: 0.05\nmax_steps: 700\n", sets, 2, &p));
    assert_true(bst_preset_warmup(&p).unit == BST_UNIT_EPOCHS && bst_preset_warmup(&p).value == 2);
    assert_true(bst_preset_length(&p).unit == BST_UNIT_EPOCHS && bst_preset_length(&p).value == 3);
    must(parse("warmup_ratio: 0.05\nmax_steps: 700\n", sets, 3, &p));
    assert_true(bst_preset_warmup(&p).unit == BST_UNIT_STEPS && bst_preset_warmup(&p).value == 10);
    assert_false(bst_preset_in_force(&p, BST_PARAM_warmup_epochs));
}

/* What the other optimizers have is neither written nor compared, and the rate's rule follows the
 * kind unless it is given. */
static void an_optimizer_has_its_own_keys(void **state)
{
    static const struct {
        const char *yaml;
        int rule;
        bool momentum, betas, trust;
    } rows[] = {
        {"", BST_LR_RULE_LINEAR, true, false, false},
        {"optimizer: adamw\n", BST_LR_RULE_SQRT, false, true, false},
        {"optimizer: lamb\nbeta2: 0.98\nmomentum: 0.5\n", BST_LR_RULE_SQRT, false, true, false},
        {"optimizer: lars\nnesterov: true\n", BST_LR_RULE_LINEAR, true, false, true},
        {"optimizer: adamw\nlr_scaling: linear\n", BST_LR_RULE_LINEAR, false, true, false},
        {"optimizer: adamw\nmomentum: 0\nnesterov: true\n", BST_LR_RULE_SQRT, false, true, false},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct bst_sb text;
        bst_sb_init(&text, 1 << 20);
        must(parse(rows[i].yaml, NULL, 0, &p));
        assert_int_equal(p.lr_scaling, rows[i].rule);
        bst_preset_write(&p, &text);
        assert_int_equal(strstr(text.data, "\nmomentum:") != NULL, rows[i].momentum);
        assert_int_equal(strstr(text.data, "\nnesterov:") != NULL, rows[i].momentum);
        assert_int_equal(strstr(text.data, "\nbeta1:") != NULL, rows[i].betas);
        assert_int_equal(strstr(text.data, "\nbeta2:") != NULL, rows[i].betas);
        assert_int_equal(strstr(text.data, "\nepsilon:") != NULL, rows[i].betas);
        assert_int_equal(strstr(text.data, "\ntrust_coefficient:") != NULL, rows[i].trust);
        must(parse(text.data, NULL, 0, &q));
        struct bst_preset_difference diff[BST_N_PARAMS];
        assert_int_equal(bst_preset_diff(&p, &q, diff), 0);
        bst_sb_fini(&text);
    }
    must(parse("batch_unit: tokens\nglobal_batch_size: 5000\n", NULL, 0, &p));
    assert_int_equal(p.lr_base_batch_size, 5000);
    const char *const set = "optimizer=lamb";
    must(parse("", &set, 1, &p));
    assert_int_equal(p.lr_scaling, BST_LR_RULE_SQRT);
}

static void recompute_is_a_word_or_a_mapping(void **state)
{
    static const struct {
        const char *yaml, *set, *written;
    } rows[] = {
        {"", NULL, "\nrecompute: none\n"},
        {"recompute: false\n", NULL, "\nrecompute: none\n"},
        {"recompute: auto\n", NULL, "\nrecompute: auto\n"},
        {"recompute:\n  every: 2\n", NULL, "\nrecompute: {every: 2}\n"},
        {"recompute: {layers: [layer1.*, '*bn?']}\n", NULL,
         "\nrecompute: {layers: [\"layer1.*\", \"*bn?\"]}\n"},
        {"recompute: auto\n", "recompute=none", "\nrecompute: none\n"},
        {"", "recompute.every=3", "\nrecompute: {every: 3}\n"},
        {"", "recompute={layers: [fc]}", "\nrecompute: {layers: [fc]}\n"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct bst_sb text;
        bst_sb_init(&text, 1 << 20);
        must(parse(rows[i].yaml, &rows[i].set, rows[i].set ? 1 : 0, &p));
        bst_preset_write(&p, &text);
        assert_non_null(strstr(text.data, rows[i].written));
        must(parse(text.data, NULL, 0, &q));
        assert_memory_equal(&p.recompute, &q.recompute, sizeof p.recompute);
        bst_sb_fini(&text);
    }
}

/* What is written is read back as the same values, also under a locale with a decimal comma. */
static void written_text_is_the_same_preset(void **state)
{
    (void)state;
    const char *const sets[] = {"lr_groups=[{match: \"a\\\"b*\", factor: 0.1, weight_decay: 1e-5}]",
                                "learning_rate=0.1234567890123456789",
                                "devices.memory=1000000001",
                                "warmup_ratio=0.05",
                                "max_steps=12",
                                "eval_interval=2.5ep",
                                "checkpoint_interval=never",
                                "name=no",
                                "about=x\ny \"z\" \\ é",
                                "min_lr_ratio=1e-5"};
    bool comma = setlocale(LC_ALL, "de_DE.UTF-8") || setlocale(LC_ALL, "fr_FR.UTF-8");
    must(load("resnet50-1024-layerwise", sets, 10, &p));
    struct bst_sb first, again;
    bst_sb_init(&first, 1 << 20);
    bst_sb_init(&again, 1 << 20);
    bst_preset_write(&p, &first);
    must(parse(first.data, NULL, 0, &q));
    bst_preset_write(&q, &again);
    setlocale(LC_ALL, "C");
    assert_string_equal(first.data, again.data);
    assert_true(q.learning_rate == p.learning_rate);
    assert_true(q.devices.memory == 1000000001);
    assert_string_equal(q.about, p.about);
    assert_string_equal(q.name, "no");
    assert_non_null(strstr(first.data, "\nmin_lr_ratio: 1.0e-05\n"));
    assert_null(strstr(first.data, "warmup_epochs"));
    struct bst_preset_difference diff[BST_N_PARAMS];
    assert_int_equal(bst_preset_diff(&p, &q, diff), 0);
    bst_sb_fini(&first);
    bst_sb_fini(&again);
    (void)comma;
}

static void difference_names_live_and_fixed(void **state)
{
    (void)state;
    must(load("quickstart", NULL, 0, &p));
    const char *const sets[] = {"warmup_steps=9", "global_batch_size=64", "seed=2"};
    must(load("quickstart", sets, 3, &q));
    struct bst_preset_difference d[BST_N_PARAMS];
    assert_int_equal(bst_preset_diff(&p, &q, d), 4);
    assert_int_equal(d[0].id, BST_PARAM_global_batch_size);
    assert_string_equal(d[0].before, "128");
    assert_string_equal(d[0].after, "64");
    assert_int_equal(bst_param_at(d[0].id)->live, BST_PARAM_LIVE);
    assert_int_equal(d[1].id, BST_PARAM_warmup_epochs);
    assert_string_equal(d[1].after, "—");
    assert_int_equal(d[2].id, BST_PARAM_warmup_steps);
    assert_string_equal(d[2].before, "—");
    assert_string_equal(d[2].after, "9");
    assert_int_equal(d[3].id, BST_PARAM_seed);
    assert_int_equal(bst_param_at(d[3].id)->live, BST_PARAM_FIXED);
}

static void long_values_are_cut_between_characters(void **state)
{
    (void)state;
    must(parse("", NULL, 0, &p));
    must(parse("data: {path: "
               "ééééééééééééééééééééééééééééééééééééééééééééééééééééééééééé}\n",
               NULL, 0, &q));
    struct bst_preset_difference d[BST_N_PARAMS];
    assert_int_equal(bst_preset_diff(&p, &q, d), 1);
    size_t n = strlen(d[0].after);
    assert_true(n < sizeof d[0].after);
    uint32_t point;
    for (size_t i = 0; i < n;) {
        size_t len = bst_text_utf8(d[0].after + i, n - i, &point);
        assert_true(len > 0);
        i += len;
    }
    assert_int_equal(point, 0x2026);
}

static void live_keys_are_taken_over(void **state)
{
    (void)state;
    must(load("quickstart", NULL, 0, &p));
    must(load("accumulate8-1024", NULL, 0, &q));
    struct bst_preset was = p;
    bst_preset_copy_live(&p, &q, false);
    assert_int_equal(p.global_batch_size, 1024);
    assert_int_equal(p.gradient_accumulation_steps, 8);
    assert_int_equal(p.lr_scheduler, BST_SCHEDULE_MULTISTEP);
    assert_int_equal(p.lr_milestones.n, 3);
    assert_string_equal(p.name, q.name);
    assert_string_equal(p.model.name, was.model.name);
    assert_true(p.max_epochs == was.max_epochs && p.seed == was.seed);
    assert_string_equal(p.data.format, was.data.format);
    bst_preset_copy_live(&p, &q, true);
    assert_true(p.max_epochs == 90);
}

static void names_files_and_paths_are_found(void **state)
{
    (void)state;
    static const char *const names[] = {"a100x4-ddp-2048", "A100×4 DDP 2048", "A100x4 DDP 2048",
                                        "a100x4 ddp 2048", "presets/a100x4-ddp-2048.yaml"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        must(load(names[i], NULL, 0, &p));
        assert_string_equal(p.name, "A100×4 DDP 2048");
        assert_string_equal(p.id, "a100x4-ddp-2048");
        assert_int_equal(p.devices.count, 4);
    }
    assert_int_equal(load("quickstrat", NULL, 0, &p), BST_E_NOTFOUND);
    assert_string_equal(errs.text.data,
                        "error: no preset is called 'quickstrat'; did you mean 'quickstart'?\n");
    assert_int_equal(load("../presets/quickstart", NULL, 0, &p), BST_E_NOTFOUND);
    assert_int_equal(load("nowhere.yaml", NULL, 0, &p), BST_E_NOTFOUND);
    assert_int_equal(load("presets/", NULL, 0, &p), BST_E_IO);
    assert_int_equal(load("nowhere.yaml", NULL, 0, &p), BST_E_NOTFOUND);
    assert_string_equal(errs.text.data, "nowhere.yaml: error: No such file or directory\n");
}

/* So that a run of a run's preset is not called "preset". */
static void a_runs_preset_is_called_by_its_name(void **state)
{
    static const struct {
        const char *name, *id;
    } rows[] = {{"Quickstart", "quickstart"},
                {"A100×4 DDP 2048", "a100x4-ddp-2048"},
                {"Fine-tune, whole net", "fine-tune-whole-net"},
                {"é", "preset"},
                {"", "preset"}};
    char dir[] = "/tmp/bstune-preset-XXXXXX", path[64];
    (void)state;
    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/preset.yaml", dir);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        FILE *f = fopen(path, "w");
        assert_non_null(f);
        fprintf(f, "name: \"%s\"\n", rows[i].name);
        fclose(f);
        must(load(path, NULL, 0, &p));
        assert_string_equal(p.id, rows[i].id);
    }
    unlink(path);
    rmdir(dir);
}

static void the_first_folder_wins(void **state)
{
    (void)state;
    char dir[] = "/tmp/bstune-preset-XXXXXX", path[64];
    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/quickstart.yaml", dir);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs("name: Mine\nmomentum: 2\n", f);
    fclose(f);
    const char *const dirs[] = {"/does/not/exist", dir, "presets", NULL};
    const struct bst_preset_env mine = {.dirs = dirs};
    struct bst_preset_entry *list;
    int n, n_quick = 0;
    assert_int_equal(bst_preset_list(&mine, &list, &n), BST_OK);
    assert_int_equal(n, 14);
    for (int i = 0; i < n; i++) {
        if (i)
            assert_true(strcmp(list[i - 1].id, list[i].id) < 0);
        if (strcmp(list[i].id, "quickstart") == 0) {
            assert_string_equal(list[i].path, path);
            assert_string_equal(list[i].name, "Mine");
            assert_int_equal(list[i].n_errors, 1);
            n_quick++;
        } else {
            assert_int_equal(list[i].n_errors, 0);
            assert_true(strlen(list[i].about) > 100);
        }
    }
    assert_int_equal(n_quick, 1);
    bst_preset_list_free(list, n);
    unlink(path);
    rmdir(dir);
}

/* The numbers that people look for. Warm-ups as they are given: epochs, updates or a share. */
static void shipped_presets_have_their_numbers(void **state)
{
    (void)state;
    static const struct {
        const char *id, *name;
        int batch, devices;
        double peak, warmup;
        int scheduler;
    } rows[] = {
        {"quickstart", "resnet8", 128, 1, 0.05, 1, BST_SCHEDULE_COSINE},
        {"rtx3090-128", "resnet50", 128, 1, 0.05, 5, BST_SCHEDULE_COSINE},
        {"a100x4-ddp-2048", "resnet50", 2048, 4, 0.4, 10, BST_SCHEDULE_LINEAR},
        {"accumulate8-1024", "resnet50", 1024, 1, 0.2, 8, BST_SCHEDULE_MULTISTEP},
        {"resnet50-256", "resnet50", 256, 1, 0.1, 5, BST_SCHEDULE_COSINE},
        {"resnet50-384", "resnet50", 384, 1, 0.15, 5, BST_SCHEDULE_COSINE},
        {"resnet50-1024-layerwise", "resnet50", 1024, 1, 0.4, 5, BST_SCHEDULE_COSINE},
        {"transformer-noam", "transformer", 50000, 1, 6.987712429686843e-4, 4000,
         BST_SCHEDULE_NOAM},
        {"bert-8192", "bert", 8192, 1, 4e-4, 10000, BST_SCHEDULE_INVERSE_SQRT},
        {"gpt2-124m", "gpt", 524288, 1, 6e-4, 700, BST_SCHEDULE_COSINE},
        {"quickstart-text", "gpt", 2048, 1, 0.002, 0.05, BST_SCHEDULE_COSINE},
        {"quickstart-addition", "gpt", 256, 1, 0.002, 0.05, BST_SCHEDULE_COSINE},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        must(load(rows[i].id, NULL, 0, &p));
        double peak = p.learning_rate * bst_lr_rule_factor((enum bst_lr_rule)p.lr_scaling,
                                                           (uint64_t)p.global_batch_size,
                                                           (uint64_t)p.lr_base_batch_size);
        assert_string_equal(p.model.name, rows[i].name);
        assert_int_equal(p.global_batch_size, rows[i].batch);
        assert_int_equal(p.devices.count, rows[i].devices);
        assert_true(peak > rows[i].peak * (1 - 1e-12) && peak < rows[i].peak * (1 + 1e-12));
        assert_true(bst_preset_warmup(&p).value == rows[i].warmup);
        assert_int_equal(p.lr_scheduler, rows[i].scheduler);
    }
}

static void base_of_sqrt_accumulate_is_the_presets_own(void **state)
{
    (void)state;
    const char *const sets[] = {"lr_scaling=sqrt-accumulate", "gradient_accumulation_steps=4",
                                "devices.count=2", "global_batch_size=1024",
                                "micro_batch_size=128"};
    must(parse("", sets, 4, &p));
    assert_int_equal(bst_preset_accumulate_base(&p), 256);
    must(parse("", sets, 5, &p));
    assert_int_equal(bst_preset_accumulate_base(&p), 256);
}

/* What other programs call a key leads to that one, and is none here. */
static void other_names_are_hints_alone(void **state)
{
    static const struct {
        const char *key, *names;
    } rows[] = {
#define BST_PARAM(...)
#define BST_PARAM_IN(...)
#define BST_SECTION(...)
#define BST_SECTION_END(...)
#define BST_ELSEWHERE(key, names) {key, names},
#include "core/run/params.def"
    };
    enum bst_param_id want, got;
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char names[400], *save = NULL;
        if (!bst_param_by_key(rows[i].key, &want))
            fail_msg("no key %s", rows[i].key);
        assert_true(strlen(rows[i].names) < sizeof names);
        memcpy(names, rows[i].names, strlen(rows[i].names) + 1);
        for (char *n = strtok_r(names, " ", &save); n; n = strtok_r(NULL, " ", &save)) {
            if (!bst_param_by_other_name(n, &got) || got != want)
                fail_msg("%s leads to %s too", n, bst_param_at(got)->key);
            for (int k = 0; k < BST_N_PARAMS; k++) {
                const char *key = bst_param_at((enum bst_param_id)k)->key, *dot = strchr(key, '.');
                if (!strcmp(dot ? dot + 1 : key, n))
                    fail_msg("%s is a key", n);
            }
        }
    }
    assert_false(bst_param_by_other_name("", &got));
    assert_false(bst_param_by_other_name("max", &got));
}

int main(void)
{
    bst_preset_errors_init(&errs);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_empty_file_is_the_defaults),
        cmocka_unit_test(every_kind_of_value_is_read),
        cmocka_unit_test(set_wins_and_says_where_it_came_from),
        cmocka_unit_test(one_of_a_group_replaces_the_others),
        cmocka_unit_test(an_optimizer_has_its_own_keys),
        cmocka_unit_test(recompute_is_a_word_or_a_mapping),
        cmocka_unit_test(written_text_is_the_same_preset),
        cmocka_unit_test(difference_names_live_and_fixed),
        cmocka_unit_test(long_values_are_cut_between_characters),
        cmocka_unit_test(live_keys_are_taken_over),
        cmocka_unit_test(names_files_and_paths_are_found),
        cmocka_unit_test(a_runs_preset_is_called_by_its_name),
        cmocka_unit_test(the_first_folder_wins),
        cmocka_unit_test(shipped_presets_have_their_numbers),
        cmocka_unit_test(other_names_are_hints_alone),
        cmocka_unit_test(base_of_sqrt_accumulate_is_the_presets_own),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    bst_preset_errors_fini(&errs);
    return failed;
}
