/* Each rule with a series that triggers it, and a real healthy run that triggers none. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/rng.h"
#include "core/tune/advisor.h"
#include "core/tune/command.h"

enum { PER_EPOCH = 100, BATCH = 128 };

static struct bst_advice_settings usual(void)
{
    return (struct bst_advice_settings){.batch = BATCH,
                                        .base_batch = 256,
                                        .micro = BATCH,
                                        .ranks = 1,
                                        .accumulate = 1,
                                        .epochs = 10,
                                        .warmup_epochs = 1,
                                        .dataset = PER_EPOCH * BATCH,
                                        .band = {0.1, 10}};
}

struct run {
    struct bst_advisor a;
    struct bst_watch watch;
    struct bst_advice_update u;
    uint64_t update;
    struct bst_rng rng;
};

static void begin(struct run *r, struct bst_advice_settings set)
{
    memset(r, 0, sizeof *r);
    bst_advisor_init(&r->a);
    bst_advisor_settings(&r->a, &set);
    bst_watch_init(&r->watch, set.band);
    bst_rng_init(&r->rng, 1, BST_RNG_TEST, 0);
}

/* An update as a healthy run would have it; callers bend one thing. */
static void step(struct run *r, double loss, double norm)
{
    enum bst_diag codes[BST_N_WATCH_RULES];
    struct bst_watch_update seen = {.grad_norm = norm, .seconds = 0.1, .data_wait_seconds = 0.001};
    r->u.update = ++r->update;
    r->u.epoch = (double)r->update / PER_EPOCH;
    r->u.samples = r->a.set.batch;
    r->u.loss = loss;
    r->u.grad_norm = norm;
    int n = bst_watch_add(&r->watch, &seen, codes);
    r->u.grad_ratio = r->watch.norm.ratio;
    for (int i = 0; i < n; i++) {
        char text[128];
        bst_watch_text(&r->watch, codes[i], text);
        bst_advisor_remark(&r->a, codes[i], text);
    }
    bst_advisor_update(&r->a, &r->u);
}

static double healthy_loss(struct run *r)
{
    double epoch = (double)r->update / PER_EPOCH;
    return (0.3 + 2 * exp(-1.5 * epoch)) * (1 + 0.1 * bst_rng_normal(&r->rng));
}

static void healthy(struct run *r, double epochs)
{
    for (int i = 0; i < epochs * PER_EPOCH; i++)
        step(r, healthy_loss(r), 1 + 0.2 * bst_rng_uniform(&r->rng));
}

static void assert_only(struct run *r, enum bst_diag code, const char *change)
{
    const struct bst_advice *got = bst_advisor_take(&r->a);
    if (!got)
        fail_msg("no advice; BST-%d was due", (int)code);
    assert_int_equal(got->code, code);
    assert_string_equal(got->change, change);
    assert_true(got->why[0] && got->effect[0] && got->statistic > got->threshold);
    struct bst_command cmd;
    if (change[0]) {
        assert_int_equal(bst_command_parse(change, &cmd), BST_OK);
        assert_true(bst_command_is_change(cmd.kind));
    }
    assert_non_null(bst_diag_find((int)code));
    got = bst_advisor_take(&r->a);
    if (got)
        fail_msg("BST-%d too: %s", (int)got->code, got->why);
}

static void assert_none(struct run *r)
{
    const struct bst_advice *got = bst_advisor_take(&r->a);
    if (got)
        fail_msg("BST-%d at epoch %g: %s", (int)got->code, got->epoch, got->why);
}

static void a_made_up_healthy_run_gets_none(void **state)
{
    (void)state;
    struct run r;
    begin(&r, usual());
    for (int e = 0; e < 10; e++) {
        healthy(&r, 1);
        bst_advisor_eval(&r.a, 0.92 - 0.4 * exp(-0.7 * e));
    }
    assert_none(&r);
}

/* Ten epochs of resnet8 on 6,000 images of Fashion-MNIST, as its metrics.jsonl had them. */
static void a_real_healthy_run_gets_none(void **state)
{
    (void)state;
    struct run r;
    struct bst_advice_settings set = usual();
    char line[256];
    int n_updates = 0, n_evals = 0;
    FILE *f = fopen("tests/unit/advisor_healthy.txt", "r");
    assert_non_null(f);
    set.batch = set.micro = 64;
    set.dataset = 6000;
    begin(&r, set);
    while (fgets(line, sizeof line, f)) {
        unsigned long long update, samples;
        double epoch, loss, norm, lr, seconds, wait, accuracy;
        if (sscanf(line, "u %llu %llu %lf %lf %lf %lf %lf %lf", &update, &samples, &epoch, &loss,
                   &norm, &lr, &seconds, &wait) == 8) {
            enum bst_diag codes[BST_N_WATCH_RULES];
            struct bst_watch_update seen = {norm, seconds, wait, 0};
            int n = bst_watch_add(&r.watch, &seen, codes);
            for (int i = 0; i < n; i++)
                bst_advisor_remark(&r.a, codes[i], "");
            r.u = (struct bst_advice_update){
                .update = update, .epoch = epoch, .samples = 64, .loss = loss, .grad_norm = norm};
            bst_advisor_update(&r.a, &r.u);
            n_updates++;
        } else if (sscanf(line, "e %llu %lf %lf", &samples, &epoch, &accuracy) == 3) {
            bst_advisor_eval(&r.a, accuracy);
            n_evals++;
        }
        assert_none(&r);
    }
    fclose(f);
    assert_true(n_updates > 900 && n_evals == 10);
}

static void early_oscillation(void **state)
{
    (void)state;
    struct run r;
    begin(&r, usual());
    /* Still warming up: a longer warm-up. Blocks are of 1024 samples, eight updates. */
    for (int i = 0; i < 40; i++)
        step(&r, i / 8 % 2 ? 1.2 : 2.2, 1);
    assert_only(&r, BST_DIAG_EARLY_OSCILLATION, "warmup x1.5");
    /* Longer than a tenth of the run then, which is no reason to take it back. */
    struct bst_advice_settings longer = usual();
    longer.warmup_epochs *= 1.5;
    bst_advisor_settings(&r.a, &longer);
    step(&r, 1.8, 1);
    assert_none(&r);
    /* After it, the rate; and again once the rest is over, not before. */
    begin(&r, usual());
    healthy(&r, 1.2);
    assert_none(&r);
    for (int i = 0; i < 75; i++)
        step(&r, i / 8 % 2 ? 1.2 : 2.2, 1);
    int n = 0;
    for (const struct bst_advice *got; (got = bst_advisor_take(&r.a)) != NULL; n++) {
        assert_int_equal(got->code, BST_DIAG_EARLY_OSCILLATION);
        assert_string_equal(got->change, "lr *0.5");
    }
    assert_true(n == 2 || n == 3);
    /* Past the third epoch it is not early any more. */
    begin(&r, usual());
    healthy(&r, 4);
    for (int i = 0; i < 80; i++)
        step(&r, i / 8 % 2 ? 0.8 : 0.35, 1);
    assert_none(&r);
}

static void loss_above_start(void **state)
{
    (void)state;
    struct run r;
    begin(&r, usual());
    healthy(&r, 3.5);
    for (int i = 0; i < 16; i++)
        step(&r, 3.5, 1);
    assert_only(&r, BST_DIAG_LOSS_ABOVE_START, "lr *0.3");
    /* What was thrown back and falls slowly does not want a higher rate. */
    for (int i = 0; i < 130; i++)
        step(&r, 2, 1);
    assert_none(&r);
}

/* A rate so high that the first block's mean is no start: what the first updates said is. */
static void thrown_up_at_once(void **state)
{
    (void)state;
    struct run r;
    struct bst_advice_settings set = usual();
    set.warmup_epochs = 0;
    begin(&r, set);
    for (int i = 0; i < 8; i++)
        step(&r, i < 2 ? 2.3 : 40, 1);
    for (int i = 0; i < 8; i++)
        step(&r, 8, 1);
    assert_only(&r, BST_DIAG_LOSS_ABOVE_START, "lr *0.3");
    /* A first update that is easy by chance is not the start of a small batch. */
    set.batch = set.micro = 8;
    set.dataset = PER_EPOCH * 8;
    begin(&r, set);
    for (int i = 0; i < 256; i++)
        step(&r, i == 0 ? 1 : 2.3, 1);
    assert_none(&r);
}

/* A resumed run has not started where it goes on: what it was at first nobody knows. */
static void a_resume_is_no_start(void **state)
{
    (void)state;
    struct run r;
    begin(&r, usual());
    r.update = 350;
    healthy(&r, 0.5);
    for (int i = 0; i < 16; i++)
        step(&r, 3.5, 1);
    assert_none(&r);
}

static void slow_fall(void **state)
{
    (void)state;
    struct run r;
    begin(&r, usual());
    for (int i = 0; i < 3 * PER_EPOCH; i++) {
        bst_advisor_step(&r.a, 1e-5);
        step(&r, 2.3 - 0.0005 * i, 1);
    }
    const struct bst_advice *got = bst_advisor_take(&r.a);
    assert_non_null(got);
    assert_int_equal(got->code, BST_DIAG_SLOW_FALL);
    assert_string_equal(got->change, "lr *2");
    assert_true(got->epoch > 2 && got->epoch < 2.5);
    /* As slow with large steps: more of them would not help. */
    begin(&r, usual());
    for (int i = 0; i < 3 * PER_EPOCH; i++) {
        bst_advisor_step(&r.a, 2e-3);
        step(&r, 2.3 - 0.0005 * i, 1);
    }
    assert_none(&r);
}

static void step_large(void **state)
{
    (void)state;
    struct run r;
    for (int hot = 0; hot <= 1; hot++) {
        begin(&r, usual());
        for (int i = 0; i < 3 * PER_EPOCH / 2; i++) {
            /* one look in three is far out: an accident of one batch is no rule */
            if (i % 50 == 0)
                bst_advisor_step(&r.a, hot ? 8e-3 : i % 150 ? 1e-3 : 7e-3);
            step(&r, healthy_loss(&r), 1);
        }
        if (hot)
            assert_only(&r, BST_DIAG_STEP_LARGE, "lr *0.5");
        else
            assert_none(&r);
    }
}

static void eval_stalls(void **state)
{
    (void)state;
    static const double accuracies[] = {0.8, 0.85, 0.851, 0.8515, 0.85};
    struct run r;
    begin(&r, usual());
    for (size_t i = 0; i < sizeof accuracies / sizeof accuracies[0]; i++) {
        healthy(&r, 1);
        bst_advisor_eval(&r.a, accuracies[i]);
        healthy(&r, 0.02);
    }
    assert_only(&r, BST_DIAG_EVAL_STALLS, "batch -20%");
    /* Near the end of the run nothing is left to find. */
    begin(&r, usual());
    healthy(&r, 7.5);
    for (int i = 0; i < 5; i++) {
        bst_advisor_eval(&r.a, 0.9);
        healthy(&r, 0.4);
    }
    assert_none(&r);
}

static void layers(void **state)
{
    (void)state;
    struct run r;
    for (int dead = 0; dead <= 1; dead++) {
        begin(&r, usual());
        for (int i = 0; i < 120; i++) {
            bst_advisor_layer(&r.a, "conv1.weight", 0.1, 4);
            bst_advisor_layer(&r.a, "bn1.bias", 0.1, 0); /* starts at 0: says nothing */
            bst_advisor_layer(&r.a, "layer3.0.conv1.weight", dead ? 1e-8 : 100, 5);
            step(&r, healthy_loss(&r), 1);
        }
        const struct bst_advice *got = &r.a.given[0];
        assert_non_null(strstr(got->why, "layer3.0.conv1.weight"));
        if (dead)
            assert_only(&r, BST_DIAG_LAYER_VANISHES, "");
        else
            assert_int_equal(bst_advisor_take(&r.a)->code, BST_DIAG_LAYER_EXPLODES);
    }
}

static void nonfinite_repeated(void **state)
{
    (void)state;
    struct run r;
    begin(&r, usual());
    healthy(&r, 2);
    for (int i = 0; i < 150; i++) {
        r.u.nonfinite = i == 10 || i == 140; /* 130 apart */
        step(&r, r.u.nonfinite ? NAN : 0.5, 1);
    }
    assert_none(&r);
    r.u.nonfinite = true;
    r.u.first_nonfinite = "layer2.0.bn1.weight";
    step(&r, NAN, 1);
    assert_non_null(strstr(r.a.given[0].why, "layer2.0.bn1.weight"));
    assert_only(&r, BST_DIAG_NONFINITE_REPEATED, "lr *0.5");
    /* The rate was cut for those two; only new ones ask for more, though they are of late. */
    struct bst_advice_settings set = usual();
    set.peak = 0.05;
    bst_advisor_settings(&r.a, &set);
    for (int i = 0; i < 60; i++) {
        r.u.nonfinite = i == 40;
        step(&r, r.u.nonfinite ? NAN : 0.5, 1);
    }
    assert_none(&r);
    r.u.nonfinite = true;
    step(&r, NAN, 1);
    assert_only(&r, BST_DIAG_NONFINITE_REPEATED, "lr *0.5");
}

static void settings_that_ask_for_it(void **state)
{
    (void)state;
    struct run r;
    struct bst_advice_settings set = usual();
    set.unscaled = true;
    set.batch = 4096;
    begin(&r, set);
    step(&r, 2.3, 1);
    assert_only(&r, BST_DIAG_BATCH_ABOVE_2048, "lr *4");
    set.unscaled = false;
    begin(&r, set);
    step(&r, 2.3, 1);
    assert_none(&r);

    set = usual();
    set.warmup_epochs = 0.1;
    begin(&r, set);
    step(&r, 2.3, 1);
    assert_only(&r, BST_DIAG_WARMUP_SHARE, "warmup =5%");
    assert_false(r.a.given[0].saves_time);
    set.warmup_epochs = 4;
    begin(&r, set);
    step(&r, 2.3, 1);
    assert_only(&r, BST_DIAG_WARMUP_SHARE, "warmup =10%");
    assert_true(r.a.given[0].saves_time);
    set.warmup_epochs = 0.5;
    begin(&r, set);
    step(&r, 2.3, 1);
    assert_none(&r);

    set = usual();
    set.micro = 2;
    set.accumulate = 64;
    begin(&r, set);
    step(&r, 2.3, 1);
    assert_only(&r, BST_DIAG_BN_MICRO_SMALL, "accumulate =16");
}

/* A tenth more than a warm-up of a tenth of the run is said before it is made, and then no more. */
static void what_a_change_brings_is_foreseen(void **state)
{
    enum bst_diag codes[BST_N_ADVICE_RULES];
    struct bst_advice_settings set = usual(), next;
    struct run r;
    (void)state;
    set.warmup_epochs = 0.1 * set.epochs;
    begin(&r, set);
    step(&r, 2, 1);
    assert_none(&r);
    next = set;
    assert_int_equal(bst_advisor_foresee(&r.a, &next, codes), 0);
    next.warmup_epochs = 0.11 * set.epochs;
    assert_int_equal(bst_advisor_foresee(&r.a, &next, codes), 1);
    assert_int_equal(codes[0], BST_DIAG_WARMUP_SHARE);
    bst_advisor_told(&r.a, codes[0]);
    bst_advisor_settings(&r.a, &next);
    step(&r, 2, 1);
    assert_none(&r);
    /* What makes it better is not remarked on, though it is outside still; what makes it worse is.
     */
    set = next;
    next.warmup_epochs = 0.108 * set.epochs;
    assert_int_equal(bst_advisor_foresee(&r.a, &next, codes), 0);
    next.warmup_epochs = 0.12 * set.epochs;
    assert_int_equal(bst_advisor_foresee(&r.a, &next, codes), 1);
    /* And nobody was told of what settings were from the start. */
    begin(&r, set);
    step(&r, 2, 1);
    assert_only(&r, BST_DIAG_WARMUP_SHARE, "warmup =10%");
}

static void batch_far_from_the_noise(void **state)
{
    (void)state;
    struct run r;
    struct bst_noise_answer n = {.state = BST_NOISE_KNOWN, .scale = 20, .low = 15, .high = 25};
    begin(&r, usual());
    bst_advisor_noise(&r.a, &n);
    healthy(&r, 1);
    assert_only(&r, BST_DIAG_BATCH_FAR_FROM_NOISE, "batch =40");
    n = (struct bst_noise_answer){.state = BST_NOISE_KNOWN, .scale = 2000, .low = 900, .high = 4e3};
    begin(&r, usual());
    bst_advisor_noise(&r.a, &n);
    healthy(&r, 1);
    assert_only(&r, BST_DIAG_BATCH_FAR_FROM_NOISE, "batch =1000");
    n.state = BST_NOISE_WIDE;
    begin(&r, usual());
    bst_advisor_noise(&r.a, &n);
    healthy(&r, 1);
    assert_none(&r);
}

static void devices_unequal(void **state)
{
    (void)state;
    struct run r;
    struct bst_advice_settings set = usual();
    set.ranks = 4;
    begin(&r, set);
    r.u.busy_mean = 0.1;
    r.u.busy_most = 0.11;
    healthy(&r, 1.5);
    assert_none(&r);
    r.u.busy_most = 0.15;
    healthy(&r, 1.5);
    assert_only(&r, BST_DIAG_DEVICES_UNEQUAL, "");
}

/* The watch decides when; the advisor says what to do. */
static void remarks_get_a_change(void **state)
{
    (void)state;
    struct run r;
    begin(&r, usual());
    healthy(&r, 1.2);
    for (int i = 0; i < BST_WATCH_LASTS; i++)
        step(&r, healthy_loss(&r), 12);
    const struct bst_advice *got = bst_advisor_take(&r.a);
    while (got && got->code == BST_DIAG_GRADIENT_SPIKE)
        got = bst_advisor_take(&r.a);
    assert_non_null(got);
    assert_int_equal(got->code, BST_DIAG_GRADIENT_HIGH);
    assert_string_equal(got->change, "lr *0.7");
    begin(&r, usual());
    healthy(&r, 1.2);
    step(&r, healthy_loss(&r), 50);
    assert_only(&r, BST_DIAG_GRADIENT_SPIKE, "clip =2.2"); /* twice the usual */
    struct bst_advice_settings narrow = usual();
    narrow.band.high = 1.5;
    begin(&r, narrow);
    healthy(&r, 1.2);
    step(&r, healthy_loss(&r), 50);
    assert_only(&r, BST_DIAG_GRADIENT_SPIKE, "clip =1.5");
    begin(&r, usual());
    healthy(&r, 1.2);
    for (int i = 0; i < BST_WATCH_LASTS; i++)
        step(&r, healthy_loss(&r), 0.01);
    assert_only(&r, BST_DIAG_GRADIENT_LOW, "lr *1.4");
    static const enum bst_diag others[] = {BST_DIAG_LAYER_WITHOUT_GRADIENT, BST_DIAG_LOADER_SLOW};
    for (int i = 0; i < 2; i++) {
        begin(&r, usual());
        bst_advisor_remark(&r.a, others[i], "so it is");
        step(&r, 1, 1);
        assert_string_equal(r.a.given[0].why, "so it is");
        assert_int_equal(bst_advisor_take(&r.a)->code, others[i]);
    }
}

static void advice_is_scored(void **state)
{
    (void)state;
    struct run r;
    for (int better = 0; better <= 1; better++) {
        begin(&r, usual());
        for (int i = 0; i < 48; i++) /* whole blocks */
            step(&r, i / 8 % 2 ? 1.2 : 2.2, 1);
        assert_int_equal(r.a.n_given, 1);
        assert_false(r.a.given[0].scored);
        for (int i = 0; i < 130; i++)
            step(&r, better ? 1.0 : i / 8 % 2 ? 0.3 : 2.2, 1);
        assert_true(r.a.given[0].scored);
        assert_int_equal(r.a.given[0].improved, better);
    }
}

/* Advice that nobody takes comes back less and less often; a change of settings starts it anew. */
static void rests_grow(void **state)
{
    (void)state;
    struct run r;
    struct bst_advice_settings set = usual();
    set.epochs = 1000;
    set.warmup_epochs = 50;
    begin(&r, set);
    healthy(&r, 50);
    for (int e = 0; e < 300; e++) {
        bst_advisor_eval(&r.a, 0.9);
        healthy(&r, 1);
    }
    double last = 0, gap = 0;
    for (int i = 0; i < r.a.n_given; i++) {
        const struct bst_advice *g = &r.a.given[i];
        assert_int_equal(g->code, BST_DIAG_EVAL_STALLS);
        if (i > 1)
            assert_true(g->epoch - last > 1.9 * gap);
        gap = g->epoch - last;
        last = g->epoch;
    }
    assert_in_range(r.a.n_given, 6, 7); /* rests of 3, 6, … 96 and 192 epochs */
    set.peak = 0.05;
    bst_advisor_settings(&r.a, &set);
    int before = r.a.n_given;
    while (r.a.n_given == before && r.u.epoch < 650) {
        bst_advisor_eval(&r.a, 0.9);
        healthy(&r, 1);
    }
    double again = r.u.epoch;
    while (r.a.n_given == before + 1 && r.u.epoch < 650) {
        bst_advisor_eval(&r.a, 0.9);
        healthy(&r, 1);
    }
    assert_true(r.u.epoch - again < 5);
}

/* However bad a run, the list is bounded, and a change gives a run time to show what it does. */
static void a_hopeless_run_is_bounded(void **state)
{
    (void)state;
    struct run r;
    begin(&r, usual());
    for (int i = 0; i < 20000; i++) {
        r.u.nonfinite = i % 3 == 0;
        step(&r, i % 2 ? NAN : 5, i % 5 ? 1e4 : INFINITY);
    }
    assert_in_range(r.a.n_given, 8, 32);
    for (int i = 0; i < 20000; i++) { /* every change starts the rests anew */
        struct bst_advice_settings set = usual();
        set.peak = 1 + i / 100;
        bst_advisor_settings(&r.a, &set);
        r.u.nonfinite = i % 3 == 0;
        step(&r, i % 2 ? NAN : 5, i % 5 ? 1e4 : INFINITY);
    }
    assert_int_equal(r.a.n_given, BST_ADVICE_MOST);
    begin(&r, usual());
    healthy(&r, 1.2);
    for (int i = 0; i < 40; i++)
        step(&r, i / 8 % 2 ? 1.2 : 2.2, 1);
    int before = r.a.n_given;
    assert_true(before > 0);
    struct bst_advice_settings set = usual();
    set.peak = 0.05;
    bst_advisor_settings(&r.a, &set);
    for (int i = 0; i < 30; i++)
        step(&r, i / 8 % 2 ? 1.2 : 2.2, 1);
    assert_int_equal(r.a.n_given, before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_made_up_healthy_run_gets_none),
        cmocka_unit_test(a_real_healthy_run_gets_none),
        cmocka_unit_test(early_oscillation),
        cmocka_unit_test(loss_above_start),
        cmocka_unit_test(thrown_up_at_once),
        cmocka_unit_test(a_resume_is_no_start),
        cmocka_unit_test(slow_fall),
        cmocka_unit_test(step_large),
        cmocka_unit_test(eval_stalls),
        cmocka_unit_test(layers),
        cmocka_unit_test(nonfinite_repeated),
        cmocka_unit_test(settings_that_ask_for_it),
        cmocka_unit_test(what_a_change_brings_is_foreseen),
        cmocka_unit_test(batch_far_from_the_noise),
        cmocka_unit_test(devices_unequal),
        cmocka_unit_test(remarks_get_a_change),
        cmocka_unit_test(advice_is_scored),
        cmocka_unit_test(rests_grow),
        cmocka_unit_test(a_hopeless_run_is_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
