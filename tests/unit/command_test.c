#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/alloc.h"
#include "core/base/rng.h"
#include "core/tune/command.h"

/* text as typed → canonical text; what is canonical already is its own answer. */
static const struct {
    const char *text, *canonical;
} accepted[] = {
    {"batch +20%", "batch +20%"},
    {"batch -20%", "batch -20%"},
    {"batch -- -20%", "batch -20%"},
    {"  batch\t+20%^3 ", "batch +20%^3"},
    {"batch -20%^2", "batch -20%^2"},
    {"batch +12.5%", "batch +12.5%"},
    {"batch =512", "batch =512"},
    {"batch 512", "batch =512"},
    {"batch x2", "batch *2"},
    {"batch *0.5", "batch *0.5"},
    {"batch /2", "batch /2"},
    {"batch +20%^1", "batch +20%"},
    {"batch 2147483647", "batch =2147483647"},
    {"warmup +1ep", "warmup +1ep"},
    {"warmup =500st", "warmup =500st"},
    {"warmup 500st", "warmup =500st"},
    {"warmup -10000sa", "warmup -10000sa"},
    {"warmup =10%", "warmup =10%"},
    {"warmup =7%", "warmup =7%"},
    {"warmup 10%", "warmup =10%"},
    {"warmup +10%", "warmup +10%"},
    {"warmup -10%^4", "warmup -10%^4"},
    {"warmup x1.5", "warmup *1.5"},
    {"warmup =0st", "warmup =0st"},
    {"warmup --jump +0.5ep", "warmup +0.5ep --jump"},
    {"warmup +1ep --jump", "warmup +1ep --jump"},
    {"lr *0.5", "lr *0.5"},
    {"lr x0.5", "lr *0.5"},
    {"lr /1.1^3", "lr /1.1^3"},
    {"lr =0.1", "lr =0.1"},
    {"lr 0.1", "lr =0.1"},
    {"lr 1e-4", "lr =0.0001"},
    {"lr =1e-5", "lr =1.0e-05"},
    {"lr +10%", "lr +10%"},
    {"decay cosine", "decay cosine"},
    {"decay one-cycle", "decay one-cycle"},
    {"decay linear =0.01", "decay linear =0.01"},
    {"decay linear 0.01", "decay linear =0.01"},
    {"length =20ep", "length =20ep"},
    {"length +1ep", "length +1ep"},
    {"length -500st", "length -500st"},
    {"accumulate =4", "accumulate =4"},
    {"accumulate 4", "accumulate =4"},
    {"accumulate auto", "accumulate auto"},
    {"accumulate =auto", "accumulate auto"},
    {"clip 1.0", "clip =1"},
    {"clip 1.5", "clip =1.5"},
    {"clip off", "clip off"},
    {"clip =0", "clip off"},
    {"weight-decay =5e-4", "weight-decay =0.0005"},
    {"weight-decay x2", "weight-decay *2"},
    {"momentum 0.9", "momentum =0.9"},
    {"label-smoothing =0.1", "label-smoothing =0.1"},
    {"preset a100x4-ddp-2048", "preset a100x4-ddp-2048"},
    {"preset --with-length quickstart", "preset quickstart --with-length"},
    {"pause", "pause"},
    {"resume", "resume"},
    {"eval", "eval"},
    {"checkpoint", "checkpoint"},
    {"undo", "undo"},
    {"undo --rewind", "undo --rewind"},
    {"redo", "redo"},
    {"stop", "stop"},
    {"fit", "fit"},
    {"fit 512", "fit 512"},
    {"lrfind", "lrfind"},
    {"lrfind 200", "lrfind 200"},
    {"lrfind 200 3", "lrfind 200 3"},
    {"trial 200 batch   +20%", "trial 200 batch +20%"},
    {"  trial 48 warmup +1ep --jump", "trial 48 warmup +1ep --jump"},
    {"trial 500 preset quick --with-length", "trial 500 preset quick --with-length"},
    {"cancel", "cancel"},
};

static void check_text(const char *text, const char *canonical)
{
    struct bst_command cmd, again;
    struct bst_sb sb;
    bst_sb_init(&sb, 1000);
    if (bst_command_parse(text, &cmd))
        fail_msg("'%s': %s", text, bst_err_text());
    bst_command_format(&cmd, &sb);
    assert_string_equal(sb.data, canonical);
    if (bst_command_parse(sb.data, &again))
        fail_msg("'%s': %s", sb.data, bst_err_text());
    bst_sb_clear(&sb);
    bst_command_format(&again, &sb);
    assert_string_equal(sb.data, canonical);
    assert_int_equal(cmd.kind, again.kind);
    assert_int_equal(cmd.op, again.op);
    assert_true(cmd.value == again.value);
    assert_int_equal(cmd.presses, again.presses);
    assert_true(cmd.interval.value == again.interval.value);
    assert_true(cmd.count == again.count && cmd.repeats == again.repeats);
    bst_sb_fini(&sb);
}

static void every_form_has_one_canonical_text(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof accepted / sizeof accepted[0]; i++)
        check_text(accepted[i].text, accepted[i].canonical);
}

static const struct {
    const char *text, *error;
} refused[] = {
    {"", "no command given"},
    {"fit 0", "fit: '0' is out of range: 1 to 1048576"},
    {"fit +5", "fit: '+5' is not a whole number"},
    {"fit 5 5", "fit: '5' is too much"},
    {"trial", "trial: needs UPDATES COMMAND, as in `trial 200 batch +20%`"},
    {"trial 200", "trial: needs UPDATES COMMAND, as in `trial 200 batch +20%`"},
    {"trial 47 undo", "trial: '47' is out of range: 48 to 100000"},
    {"trial batch +20%", "trial: 'batch' is not a whole number"},
    {"trial 200 undo", "trial: undo is nothing that can be tried"},
    {"trial 200 trial 200 lr x2", "trial: trial is nothing that can be tried"},
    {"trial 200 lr", "lr: needs *K|/K|=V, as in `lr x0.5`"},
    {"lrfind 19", "lrfind: '19' is out of range: 20 to 1000"},
    {"lrfind 100 6", "lrfind: '6' is out of range: 1 to 5"},
    {"lrfind 1e2", "lrfind: '1e2' is not a whole number"},
    {"lrfind 100 2 2", "lrfind: '2' is too much"},
    {"cancel now", "cancel: 'now' is too much"},
    {"  \n", "no command given"},
    {"bacth +20%", "no command 'bacth'; did you mean 'batch'?"},
    {"frobnicate", "no command 'frobnicate'"},
    {"learning_rate 0.1", "no command 'learning_rate'; did you mean 'lr'?"},
    {"bs", "no command 'bs'; did you mean 'batch'?"},
    {"epochs +1", "no command 'epochs'; did you mean 'length'?"},
    {"save", "no command 'save'; did you mean 'checkpoint'?"},
    {"batch", "batch: needs +20%|-20%|=N|xK, as in `batch +20%`"},
    {"batch +20", "batch: '+20' is not +20%|-20%|=N|xK; did you mean '+20%'?"},
    {"batch 20%", "batch: '20%' is not +20%|-20%|=N|xK; did you mean '+20%'?"},
    {"weight-decay +5", "weight-decay: '+5' is not =V|*K; did you mean '+5%'?"},
    {"batch =1.5", "batch: '=1.5' is not a whole number"},
    {"batch =0", "batch: '=0' is out of range: 1 to 2147483647"},
    {"batch =-5", "batch: '=-5' is not +20%|-20%|=N|xK, as in `batch +20%`"},
    {"batch =2147483648", "batch: '=2147483648' is out of range: 1 to 2147483647"},
    {"batch =nan", "batch: '=nan' is not +20%|-20%|=N|xK, as in `batch +20%`"},
    {"batch x0", "batch: 'x0' is out of range: a factor above 0"},
    {"batch -100%", "batch: '-100%' is out of range: above 0% and below 100% less"},
    {"batch +1001%", "batch: '+1001%' is out of range: above 0% and up to 1000% more"},
    {"momentum 2", "momentum: '2' is out of range: 0 to below 1"},
    {"weight-decay =1.5", "weight-decay: '=1.5' is out of range: 0 to 1"},
    {"batch +20%^0", "batch: '+20%^0' is not +20%|-20%|=N|xK, as in `batch +20%`"},
    {"batch +20%^38", "batch: '+20%^38' is not +20%|-20%|=N|xK, as in `batch +20%`"},
    {"batch +20%^-1", "batch: '+20%^-1' is not +20%|-20%|=N|xK, as in `batch +20%`"},
    {"batch =512^2", "batch: '=512^2' is not +20%|-20%|=N|xK, as in `batch +20%`"},
    {"batch +20% +20%", "batch: '+20%' is too much"},
    {"batch --jump +20%", "batch: no option '--jump'"},
    {"warmup 500", "warmup: '500' has no unit: ep (epochs), st (updates), sa (samples) or %"},
    {"warmup =500min", "warmup: 'min' is no unit: ep (epochs), st (updates), sa (samples) or %"},
    {"warmup +", "warmup: '' is not a length such as 1ep, 500st, 10000sa or 10%"},
    {"warmup +0ep", "warmup: '+0ep' changes nothing"},
    {"warmup =1e5st", "warmup: 'e5st' is no unit: ep (epochs), st (updates), sa (samples) or %"},
    {"lr =0", "lr: '=0' is out of range: above 0, up to 1000"},
    {"lr =1001", "lr: '=1001' is out of range: above 0, up to 1000"},
    {"lr -0.1", "lr: '-0.1' is not *K|/K|=V, as in `lr x0.5`"},
    {"lr *inf", "lr: '*inf' is not *K|/K|=V, as in `lr x0.5`"},
    {"decay cosin", "decay: no kind 'cosin'; did you mean 'cosine'?"},
    {"decay cosine 2", "decay: '2' is not an end ratio, 0 to 1"},
    {"decay noam 0.1", "decay: noam takes no end ratio"},
    {"length =10%", "length: '=10%' is not +1ep|=20ep|=5000st, as in `length +1ep`"},
    {"accumulate x2", "accumulate: 'x2' is not =K|auto, as in `accumulate 4`"},
    {"accumulate =1.5", "accumulate: '=1.5' is not a whole number"},
    {"clip -1", "clip: '-1' is not =V|off, as in `clip 1.0`"},
    {"preset ../x", "preset: '../x' is not a preset's name"},
    {"preset Quickstart text",
     "preset: takes a name without blanks, as in `preset a100x4-ddp-2048`; `bstune preset list` "
     "shows them"},
    {"preset", "preset: needs NAME [--with-length], as in `preset a100x4-ddp-2048`"},
    {"undo 3", "undo: '3' is too much"},
    {"undo --jump", "undo: no option '--jump'"},
    {"a b c d e f g", "a command has at most 6 words"},
};

static void every_error_says_what_is_allowed(void **state)
{
    (void)state;
    struct bst_command cmd;
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        if (!bst_command_parse(refused[i].text, &cmd))
            fail_msg("'%s' was accepted", refused[i].text);
        assert_string_equal(bst_err_text(), refused[i].error);
    }
    char longest[400];
    memset(longest, 'x', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    assert_int_equal(bst_command_parse(longest, &cmd), BST_E_PARSE);
    memcpy(longest, "batch ", 6);
    longest[255] = '\0';
    assert_int_equal(bst_command_parse(longest, &cmd), BST_E_PARSE);
}

static void values_arrive(void **state)
{
    (void)state;
    struct bst_command cmd;
    assert_int_equal(bst_command_parse("batch -20%^2", &cmd), BST_OK);
    assert_int_equal(cmd.op, BST_OPERAND_PERCENT);
    assert_int_equal(cmd.presses, -2);
    assert_true(cmd.value == 20);
    assert_int_equal(bst_command_parse("lr /1.1", &cmd), BST_OK);
    assert_int_equal(cmd.op, BST_OPERAND_TIMES);
    assert_int_equal(cmd.presses, -1);
    assert_int_equal(bst_command_parse("warmup =10%", &cmd), BST_OK);
    assert_int_equal(cmd.op, BST_OPERAND_SET);
    assert_int_equal(cmd.interval.unit, BST_UNIT_RATIO);
    assert_true(cmd.interval.value == 0.1);
    assert_int_equal(bst_command_parse("warmup +10%", &cmd), BST_OK);
    assert_int_equal(cmd.op, BST_OPERAND_PERCENT);
    assert_int_equal(bst_command_parse("warmup -1ep", &cmd), BST_OK);
    assert_int_equal(cmd.op, BST_OPERAND_TAKE);
}

/* Whatever the bytes: an answer, and what is accepted has a canonical text that is accepted too. */
static void random_words_never_break_it(void **state)
{
    (void)state;
    static const char *const bits[] = {
        "batch", "warmup", "lr",       "decay", "length", " ",      " ",      "+",
        "-",     "20%",    "=",        "x",     "*",      "/",      "^",      "3",
        "1",     "0.5",    "ep",       "st",    "--",     "--jump", "cosine", "e9",
        "%",     "undo",   "--rewind", "auto",  "off",    "clip",   "preset", "a"};
    struct bst_rng r;
    bst_rng_init(&r, 11, BST_RNG_TEST, 0);
    int n_accepted = 0;
    for (int i = 0; i < 30000; i++) {
        char text[400] = "";
        for (int n = 1 + (int)bst_rng_below(&r, 7); n > 0; n--)
            strcat(text, bits[bst_rng_below(&r, sizeof bits / sizeof bits[0])]);
        struct bst_command cmd;
        if (bst_command_parse(text, &cmd))
            continue;
        n_accepted++;
        struct bst_sb sb;
        bst_sb_init(&sb, 1000);
        bst_command_format(&cmd, &sb);
        check_text(sb.data, sb.data);
        bst_sb_fini(&sb);
    }
    assert_true(n_accepted > 100);
}

static void what_was_likely_meant(void **state)
{
    (void)state;
    assert_string_equal(bst_command_near("warmup_epochs"), "warmup");
    assert_string_equal(bst_command_near("wd"), "weight-decay");
    assert_string_equal(bst_command_near("bacth"), "batch");
    assert_null(bst_command_near("frobnicate"));
    assert_null(bst_command_near(""));
    /* A part of a word is not the word. */
    assert_null(bst_command_near("max_"));
}

static void every_command_has_its_help(void **state)
{
    (void)state;
    for (int i = 0; i < BST_N_COMMANDS; i++) {
        enum bst_command_kind kind = (enum bst_command_kind)i;
        assert_true(strlen(bst_command_word(kind)) > 0);
        assert_non_null(bst_command_operand(kind));
        assert_true(strlen(bst_command_help(kind)) > 10);
        /* An example is one, and of this command. */
        struct bst_command cmd;
        assert_int_equal(bst_command_parse(bst_command_example(kind), &cmd), BST_OK);
        assert_int_equal(cmd.kind, kind);
        assert_null(strpbrk(bst_command_example(kind), "*=?<>|"));
    }
    assert_true(bst_command_is_change(BST_COMMAND_BATCH));
    assert_true(bst_command_is_change(BST_COMMAND_UNDO));
    assert_false(bst_command_is_change(BST_COMMAND_PAUSE));
    assert_false(bst_command_is_change(BST_COMMAND_STOP));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_form_has_one_canonical_text),
        cmocka_unit_test(every_error_says_what_is_allowed),
        cmocka_unit_test(values_arrive),
        cmocka_unit_test(random_words_never_break_it),
        cmocka_unit_test(what_was_likely_meant),
        cmocka_unit_test(every_command_has_its_help),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
