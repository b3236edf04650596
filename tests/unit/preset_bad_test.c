/* Presets that must be refused: the whole text of what is said, and how long it takes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "core/run/preset.h"

static const char *const nets[] = {"resnet8", "resnet18", "resnet50", NULL};
static const char *const formats[] = {"idx", "cifar10", "imagefolder", "shapes", NULL};
static const char *const backends[] = {"cpu", "ref", "ref64", NULL};
static const unsigned precisions[] = {0, 0, 0};
static const struct bst_preset_env env = {
    .nets = nets, .formats = formats, .backends = backends, .precisions = precisions};

static struct bst_preset p;

static char *refuse(const char *yaml, size_t n, const char *const *sets, int n_sets)
{
    struct bst_preset_errors errs;
    bst_preset_errors_init(&errs);
    enum bst_err err = bst_preset_parse(&env, "p.yaml", yaml, n, sets, n_sets, &p, &errs);
    char *text = strdup(errs.text.data);
    if (!err)
        fail_msg("taken: %.*s", (int)(n < 200 ? n : 200), yaml);
    assert_int_equal(err, BST_E_PARSE);
    assert_true(errs.n > 0);
    assert_int_equal(strncmp(errs.text.data, bst_err_text(), strlen(bst_err_text())), 0);
    bst_preset_errors_fini(&errs);
    return text;
}

static const struct {
    const char *yaml, *said;
} files[] = {
    /* not YAML */
    {"a: [1\nb: 2",
     "p.yaml:2:2: error: did not find expected ',' or ']' (while parsing a flow sequence "
     "that began on line 1)\n"},
    {"a: \"x",
     "p.yaml:1:6: error: found unexpected end of stream (while scanning a quoted scalar that "
     "began on line 1)\n"},
    {"a: [",
     "p.yaml:1:5: error: did not find expected node content (while parsing a flow node that "
     "began on line 1)\n"},
    {"a: [\n\n  \n",
     "p.yaml:1:5: error: did not find expected node content (while parsing a flow node that "
     "began on line 1)\n"},
    {"seed: 1\na: {b: \xc3\xa4\n",
     "p.yaml:2:9: error: did not find expected ',' or '}' (while parsing a flow mapping that "
     "began on line 2)\n"},
    {"a: \"x\n",
     "p.yaml:1:6: error: found unexpected end of stream (while scanning a quoted scalar that "
     "began on line 1)\n"},
    {"\tname: x\n",
     "p.yaml:1:1: error: found character that cannot start any token (while scanning for "
     "the next token that began on line 1)\n"},
    {"name: x\n  y: 2\n", "p.yaml:2:4: error: mapping values are not allowed in this context\n"},
    {"name: \xff\n", "p.yaml:1:7: error: byte 0xff is not UTF-8\n"},
    {"seed: 1\nname: \xed\xa0\x80\n", "p.yaml:2:7: error: byte 0xed is not UTF-8\n"},
    {"name: \033]52;c;x\a\n", "p.yaml:1:7: error: control character 0x1b\n"},
    {"name: \xc2\x9b"
     "1m\n",
     "p.yaml:1:7: error: control character 0x9b\n"},
    /* YAML, but not a preset */
    {"just text", "p.yaml:1:1: error: a preset is a mapping of keys to values\n"},
    {"- 1\n- 2\n", "p.yaml:1:1: error: a preset is a mapping of keys to values\n"},
    {"seed: 1\n---\nseed: 2\n", "p.yaml:2:1: error: a second document; one is all there may be\n"},
    {"[a]: 1\n", "p.yaml:1:1: error: a key must be a word, not a list or a mapping\n"},
    {"*a : 1\n", "p.yaml:1:1: error: aliases (*name) are not allowed\n"},
    {"name: &a x\n", "p.yaml:1:7: error: anchors (&name) are not allowed\n"},
    {"name: &a x\nabout: *a\n", "p.yaml:1:7: error: anchors (&name) are not allowed\n"
                                "p.yaml:2:8: error: aliases (*name) are not allowed\n"},
    {"lr_groups: &a [*a]\n", "p.yaml:1:12: error: anchors (&name) are not allowed\n"
                             "p.yaml:1:16: error: aliases (*name) are not allowed\n"},
    {"seed: !!int 3\n", "p.yaml:1:7: error: tags (!name) are not allowed\n"},
    {"<<: {seed: 1}\n", "p.yaml:1:1: error: unknown key '<<'\n"},
    {"name: \"a\\0b\"\n", "p.yaml:1:7: error: a value has a NUL character in it\n"},
    /* keys */
    {"warmup_stpes: 5\n",
     "p.yaml:1:1: error: unknown key 'warmup_stpes'; did you mean 'warmup_steps'?\n"},
    {"model: {nmae: x}\n",
     "p.yaml:1:9: error: unknown key 'nmae' in model; did you mean 'name'?\n"},
    {"width: 3\n", "p.yaml:1:1: error: unknown key 'width'; did you mean 'model.width'?\n"},
    /* what other programs call it */
    {"epochs: 5\nlr: 0.1\nbatch_size: 64\nwd: 0\n",
     "p.yaml:1:1: error: unknown key 'epochs'; did you mean 'max_epochs'?\n"
     "p.yaml:2:1: error: unknown key 'lr'; did you mean 'learning_rate'?\n"
     "p.yaml:3:1: error: unknown key 'batch_size'; did you mean 'global_batch_size'?\n"
     "p.yaml:4:1: error: unknown key 'wd'; did you mean 'weight_decay'?\n"},
    {"optim: sgd\nscheduler: cosine\nnum_workers: 2\n",
     "p.yaml:1:1: error: unknown key 'optim'; did you mean 'optimizer'?\n"
     "p.yaml:2:1: error: unknown key 'scheduler'; did you mean 'lr_scheduler'?\n"
     "p.yaml:3:1: error: unknown key 'num_workers'; did you mean 'data.threads'?\n"},
    {"data: {num_workers: 2}\nmodel: {lr: 1, depth: 3}\n",
     "p.yaml:1:8: error: unknown key 'num_workers' in data; did you mean 'threads'?\n"
     "p.yaml:2:9: error: unknown key 'lr' in model; did you mean 'learning_rate'?\n"
     "p.yaml:2:16: error: unknown key 'depth' in model; did you mean 'layers'?\n"},
    {"model: resnet18\n", "p.yaml:1:8: error: model: must be a mapping, as in {name: resnet8}\n"},
    {"model.width: 3\n",
     "p.yaml:1:1: error: key 'model.width' is written as 'width' under 'model'\n"},
    {"devices: 4\n", "p.yaml:1:10: error: devices: must be a mapping, as in {backend: auto}\n"},
    {"\"\\e]52;c;x\": 1\n", "p.yaml:1:1: error: unknown key '\\x1b]52;c;x'\n"},
    {"seed: 1\nseed: 1\n", "p.yaml:2:1: error: key 'seed' is given twice; first on line 1\n"},
    {"model: {width: 8, width: 9}\n",
     "p.yaml:1:19: error: key 'width' is given twice; first on line 1\n"},
    /* types */
    {"momentum: fast\n",
     "p.yaml:1:11: error: momentum: 'fast' is not a number from 0 to below 1\n"},
    {"momentum: '0.9'\n",
     "p.yaml:1:11: error: momentum: '0.9' is not a number from 0 to below 1\n"},
    {"momentum: .nan\n",
     "p.yaml:1:11: error: momentum: '.nan' is not a number from 0 to below 1\n"},
    {"learning_rate: .inf\n",
     "p.yaml:1:16: error: learning_rate: '.inf' is not a number above 0 up to 1000\n"},
    {"learning_rate: 0x1p-3\n",
     "p.yaml:1:16: error: learning_rate: '0x1p-3' is not a number above 0 up to 1000\n"},
    {"learning_rate: 0,1\n",
     "p.yaml:1:16: error: learning_rate: '0,1' is not a number above 0 up to 1000\n"},
    {"learning_rate: [0.1]\n",
     "p.yaml:1:16: error: learning_rate: a list is not a number above 0 up to 1000\n"},
    {"learning_rate:\n",
     "p.yaml:1:15: error: learning_rate: nothing is not a number above 0 up to 1000\n"},
    {"seed: 010\n",
     "p.yaml:1:7: error: seed: '010' is not a whole number from 0 to 9007199254740992\n"},
    {"seed: 1.0\n",
     "p.yaml:1:7: error: seed: '1.0' is not a whole number from 0 to 9007199254740992\n"},
    {"seed: 99999999999999999999\n",
     "p.yaml:1:7: error: seed: '99999999999999999999' is not a whole "
     "number from 0 to 9007199254740992\n"},
    {"shuffle: yes\n", "p.yaml:1:10: error: shuffle: 'yes' is not true or false\n"},
    {"shuffle: 'true'\n", "p.yaml:1:10: error: shuffle: 'true' is not true or false\n"},
    {"shuffle: True\n", "p.yaml:1:10: error: shuffle: 'True' is not true or false\n"},
    {"name: [a]\n", "p.yaml:1:7: error: name: a list is not text\n"},
    {"name:\n", "p.yaml:1:6: error: name: nothing is not text\n"},
    {"name: \"\\e]52;c;eA\\a\"\n",
     "p.yaml:1:7: error: name: '\\x1b]52;c;eA\\x07' holds a control or an "
     "invisible character\n"},
    {"name: \"a\\nb\"\n",
     "p.yaml:1:7: error: name: 'a\\nb' holds a control or an invisible character\n"},
    {"name: \"a\\u202eb\"\n",
     "p.yaml:1:7: error: name: 'a\\u{202e}b' holds a control or an invisible character\n"},
    {"name: "
     "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\n",
     "p.yaml:1:7: error: name: 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa…' is "
     "90 bytes "
     "long; at most 79 are possible\n"},
    {"eval_interval: 5\n",
     "p.yaml:1:16: error: eval_interval: '5' is not never or a length such as 1ep, "
     "500st, 10000sa\n"},
    {"eval_interval: 10%\n",
     "p.yaml:1:16: error: eval_interval: '10%' is not never or a length such as "
     "1ep, 500st, 10000sa\n"},
    {"data: {mean: [a]}\n", "p.yaml:1:15: error: data.mean: 'a' is not a number from 0 to 1\n"},
    {"data: {mean: []}\n",
     "p.yaml:1:14: error: data.mean: an empty list is not a list of one to four "
     "numbers from 0 to 1\n"},
    {"data: {mean: [0,0,0,0,0]}\n",
     "p.yaml:1:14: error: data.mean: a longer list is not a list of one to "
     "four numbers from 0 to 1\n"},
    {"lr_milestones: 30\n",
     "p.yaml:1:16: error: lr_milestones: '30' is not a rising list of numbers from 0 to 1000000\n"},
    {"lr_milestones: [30, 30]\n",
     "p.yaml:1:16: error: lr_milestones: a list that does not rise is not a "
     "rising list of numbers from 0 to 1000000\n"},
    {"lr_groups: {match: x}\n",
     "p.yaml:1:12: error: lr_groups: a mapping is not a list of {match, factor, "
     "weight_decay}\n"},
    {"lr_groups: [{factor: 2}, 3, {mach: x, match: y}]\n",
     "p.yaml:1:13: error: lr_groups: a group without match\n"
     "p.yaml:1:26: error: lr_groups: '3' is not a mapping {match, factor, weight_decay}\n"
     "p.yaml:1:30: error: lr_groups: unknown key 'mach'; did you mean 'match'?\n"},
    {"changes: 3\n", "p.yaml:1:10: error: changes: must be a list of {at, command}\n"},
    {"changes: [{at: 1ep}, {command: lr *0.5}, 7, {at: 1ep, comand: undo}]\n",
     "p.yaml:1:11: error: changes: a change without command\n"
     "p.yaml:1:22: error: changes: a change without at\n"
     "p.yaml:1:42: error: changes: must be a mapping {at, command}\n"
     "p.yaml:1:45: error: changes: a change without command\n"
     "p.yaml:1:55: error: changes: unknown key 'comand'; at and command exist\n"},
    {"changes: [{at: soon, command: [undo]}, {at: 1ep, command: stop}]\n",
     "p.yaml:1:16: error: changes: at: 'soon' is not a length such as 1ep, 500st, "
     "10000sa or 10%\n"
     "p.yaml:1:31: error: changes: command is a list; it must be a text\n"
     "p.yaml:1:59: error: changes: command: 'stop' changes no setting\n"},
    {"changes: [{at: 1ep, command: batch}, {at: 1ep, command: undo --rewind}]\n",
     "p.yaml:1:30: error: changes: command: batch: needs +20%|-20%|=N|xK, as in `batch +20%`\n"
     "p.yaml:1:57: error: changes: command: a preset cannot rewind a run\n"},
    {"lr_groups: [{match: x, factor: -1}]\n",
     "p.yaml:1:32: error: lr_groups: factor: '-1' is not a number from 0 to 1000\n"},
    /* ranges */
    {"momentum: 1\n", "p.yaml:1:11: error: momentum: '1' is not a number from 0 to below 1\n"},
    {"learning_rate: 0\n",
     "p.yaml:1:16: error: learning_rate: '0' is not a number above 0 up to 1000\n"},
    {"global_batch_size: 0\n",
     "p.yaml:1:20: error: global_batch_size: '0' is not a whole number from 1 to 16777216\n"},
    {"micro_batch_size: -1\n", "p.yaml:1:19: error: micro_batch_size: '-1' is not auto or a whole "
                               "number from 1 to 1048576\n"},
    {"devices: {memory: 5}\n",
     "p.yaml:1:19: error: devices.memory: '5' is not auto or a size from 1.00 MiB to 1.00 PiB\n"},
    {"model: {width: 4097}\n",
     "p.yaml:1:16: error: model.width: '4097' is not auto or a whole number from 1 to 4096\n"},
    /* choices and names */
    {"lr_scheduler: cosin\n",
     "p.yaml:1:15: error: lr_scheduler: 'cosin' is not constant, cosine, linear, "
     "multistep, inverse-sqrt, noam or one-cycle; did you mean 'cosine'?\n"},
    {"precision: int8\n",
     "p.yaml:1:12: error: precision: 'int8' is not fp32, tf32, fp16 or bf16\n"},
    {"devices: {backend: ref}\nprecision: bf16\n",
     "p.yaml:2:1: error: precision: bf16 needs devices.backend: cuda; ref computes in fp32\n"},
    {"precision: fp16\n",
     "p.yaml:1:1: error: precision: fp16 needs devices.backend: cuda; cpu computes in fp32\n"},
    {"model: {name: resnet5}\n",
     "p.yaml:1:9: error: model.name: 'resnet5' is not resnet8, resnet18 or "
     "resnet50; did you mean 'resnet8'?\n"},
    {"data:\n  format: mnist\n",
     "p.yaml:2:3: error: data.format: 'mnist' is not idx, cifar10, imagefolder or shapes\n"},
    {"devices: {backend: cpu, list: \"0,0\"}\n",
     "p.yaml:1:25: error: devices.list: not a list like 0,2,3 or GPU-8f3c,GPU-77aa: at most 16 "
     "numbers or beginnings of UUIDs, each once\n"
     "p.yaml:1:25: error: devices.list: names GPUs, but devices.backend is cpu\n"},
    {"devices: {backend: cuda}\n",
     "p.yaml:1:11: error: devices.backend: 'cuda' is not cpu, ref or ref64\n"},
    /* contradictions */
    {"warmup_epochs: 1\nwarmup_steps: 2\n",
     "p.yaml:2:1: error: warmup_steps and warmup_epochs exclude each other\n"},
    {"max_steps: 1\nmax_epochs: 2\n",
     "p.yaml:2:1: error: max_epochs and max_steps exclude each other\n"},
    {"global_batch_size: 3\ndevices: {count: 4}\n",
     "p.yaml:1:1: error: global_batch_size: 3 samples cannot be divided among 4 devices\n"},
    {"global_batch_size: 1024\nmicro_batch_size: 100\ngradient_accumulation_steps: 8\n",
     "p.yaml:3:1: error: gradient_accumulation_steps: 1024 samples over 1 devices and 8 steps are "
     "128 a "
     "micro-batch, but micro_batch_size allows 100\n"},
    {"global_batch_size: 4\ngradient_accumulation_steps: 8\n",
     "p.yaml:2:1: error: gradient_accumulation_steps: 4 samples are fewer than 1 devices x 8 "
     "steps\n"},
    {"lr_scaling: sqrt-accumulate\n",
     "p.yaml:1:1: error: lr_scaling: sqrt-accumulate needs micro_batch_size or "
     "gradient_accumulation_steps, since memory must not decide the rate\n"},
    {"warmup_epochs: 1\nwarmup_start_lr: 0.2\n",
     "p.yaml:2:1: error: warmup_start_lr: 0.2 is above the peak of 0.1 at a batch of 256\n"},
    {"warmup_epochs: 1\nwarmup_curve: exponential\n",
     "p.yaml:2:1: error: warmup_curve: an exponential warm-up cannot start at 0; set "
     "warmup_start_lr\n"},
    {"nesterov: true\nmomentum: 0\n", "p.yaml:1:1: error: nesterov: needs a momentum above 0\n"},
    {"lr_scheduler: noam\n", "p.yaml:1:1: error: lr_scheduler: noam needs a warm-up\n"},
    {"lr_scheduler: multistep\n",
     "p.yaml:1:1: error: lr_scheduler: multistep needs lr_milestones\n"},
    {"warmup_epochs: 10\n",
     "p.yaml:1:1: error: warmup_epochs: a warm-up of 10 in a run of 10 leaves nothing after it; "
     "shorten it, as with --set warmup_epochs=1\n"},
    {"warmup_steps: 30\nmax_steps: 25\n",
     "p.yaml:1:1: error: warmup_steps: a warm-up of 30 in a run of 25 leaves nothing after it; "
     "shorten it, as with --set warmup_steps=2\n"},
    {"data: {mean: [0,0,0], std: [1,1]}\n",
     "p.yaml:1:23: error: data.std: 2 numbers, but data.mean has 3\n"},
    {"model: {in_channels: 1}\ndata: {mean: [0,0,0]}\n",
     "p.yaml:2:8: error: data.mean: 3 numbers, but model.in_channels is 1\n"},
    {"data: {special_tokens: [0, 1, 2]}\n",
     "p.yaml:1:8: error: data.special_tokens: must be four whole numbers: padding, start, "
     "separator and mask\n"},
    {"data: {special_tokens: [0, 1, 2, 3.5]}\n",
     "p.yaml:1:8: error: data.special_tokens: must be four whole numbers: padding, start, "
     "separator and mask\n"},
    {"batch_unit: tokens\nlr_scaling: sqrt-accumulate\nmicro_batch_size: 8\n",
     "p.yaml:2:1: error: lr_scaling: sqrt-accumulate goes by samples, but batch_unit is tokens\n"},
    {"data: {token_bytes: 3}\n", "p.yaml:1:8: error: data.token_bytes: 3, expected 2 or 4\n"},
    {"data: {format: imagefolder}\n", "p.yaml:1:8: error: data.path: imagefolder needs the folder "
                                      "of the images: --set data.path=FOLDER\n"},
    {"recompute: true\n",
     "p.yaml:1:12: error: recompute: 'true' is not none, auto, {layers: [PATTERN, ...]} or {every: "
     "n} with n from 1 to 1000\n"},
    {"recompute: {every: 0}\n",
     "p.yaml:1:20: error: recompute: '0' is not none, auto, {layers: [PATTERN, ...]} or {every: n} "
     "with n from 1 to 1000\n"},
    {"recompute: {every: 1, layers: [x]}\n",
     "p.yaml:1:12: error: recompute: a mapping is not none, auto, {layers: [PATTERN, ...]} or "
     "{every: n} with n from 1 to 1000\n"},
    {"recompute: {layers: []}\n",
     "p.yaml:1:21: error: recompute: an empty list is not none, auto, {layers: [PATTERN, ...]} or "
     "{every: n} with n from 1 to 1000\n"},
    /* all at once, in the order of the file */
    {"nme: x\nmodel: {name: 3, width: 0}\nmomentum: 2\nmax_steps: 0\n",
     "p.yaml:1:1: error: unknown key 'nme'; did you mean 'name'?\n"
     "p.yaml:2:9: error: model.name: '3' is not resnet8, resnet18 or resnet50\n"
     "p.yaml:2:25: error: model.width: '0' is not auto or a whole number from 1 to 4096\n"
     "p.yaml:3:11: error: momentum: '2' is not a number from 0 to below 1\n"
     "p.yaml:4:12: error: max_steps: '0' is not a whole number from 1 to 1000000000000\n"},
    /* with names, lists and contradictions, as far as the values that those need are there */
    {"model: {name: resnet9, in_channels: 1}\ndata: {format: idy, mean: [0,0,0], std: [1,1]}\n"
     "seed: -1\nwarmup_epochs: 10\nnesterov: true\nmomentum: 2\nlr_scheduler: multistep\n"
     "lr_milestones: [x]\n",
     "p.yaml:1:9: error: model.name: 'resnet9' is not resnet8, resnet18 or resnet50; did you mean "
     "'resnet8'?\n"
     "p.yaml:2:8: error: data.format: 'idy' is not idx, cifar10, imagefolder or shapes; did you "
     "mean 'idx'?\n"
     "p.yaml:2:21: error: data.mean: 3 numbers, but model.in_channels is 1\n"
     "p.yaml:2:36: error: data.std: 2 numbers, but data.mean has 3\n"
     "p.yaml:2:36: error: data.std: 2 numbers, but model.in_channels is 1\n"
     "p.yaml:3:7: error: seed: '-1' is not a whole number from 0 to 9007199254740992\n"
     "p.yaml:4:1: error: warmup_epochs: a warm-up of 10 in a run of 10 leaves nothing after it; "
     "shorten it, as with --set warmup_epochs=1\n"
     "p.yaml:6:11: error: momentum: '2' is not a number from 0 to below 1\n"
     "p.yaml:8:17: error: lr_milestones: 'x' is not a number from 0 to 1000000\n"},
    /* nothing is said about a default that stands where another value was meant */
    {"warmup_epoch: 4\nlr_scheduler: noam\n",
     "p.yaml:1:1: error: unknown key 'warmup_epoch'; did you mean 'warmup_epochs'?\n"},
    {"lr_scheduler: noam\nseed: [\n",
     "p.yaml:2:8: error: did not find expected node content (while parsing a flow node "
     "that began on line 2)\n"},
};

static void every_bad_file_is_told_what_is_wrong(void **state)
{
    (void)state;
    int n_wrong = 0;
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        char *said = refuse(files[i].yaml, strlen(files[i].yaml), NULL, 0);
        if (strcmp(said, files[i].said) != 0) {
            fprintf(stderr, "row %zu: %s\n  said     %s  expected %s", i, files[i].yaml, said,
                    files[i].said);
            n_wrong++;
        }
        free(said);
    }
    assert_int_equal(n_wrong, 0);
}

static const struct {
    const char *set, *said;
} sets[] = {
    {"momentum", "--set momentum: error: must be key=value\n"},
    {"=3", "--set =3: error: must be key=value\n"},
    {"momentum=", "--set momentum=: error: momentum: nothing is not a number from 0 to below 1\n"},
    {"model.nam=x",
     "--set model.nam=x: error: unknown key 'model.nam'; did you mean 'model.name'?\n"},
    {"lr=0.1", "--set lr=0.1: error: unknown key 'lr'; did you mean 'learning_rate'?\n"},
    {"model.num_classes=3", "--set model.num_classes=3: error: unknown key 'model.num_classes'; "
                            "did you mean 'model.classes'?\n"},
    {"model=x", "--set model=x: error: 'model' is a mapping; set its keys one by one, as in "
                "model.name=…\n"},
    {"name=\033[2J", "--set name=\\x1b[2J: error: name: '\\x1b[2J' holds a control or an invisible "
                     "character\n"},
    {"seed=&a 1", "--set seed=&a 1: error: anchors (&name) are not allowed\n"},
    {"data.mean=[0.1", "--set data.mean=[0.1: error: did not find expected ',' or ']'\n"},
    {"momentum=\xff", "--set momentum=\\xff: error: byte 0xff is not UTF-8\n"},
};

static void every_bad_set_is_told_what_is_wrong(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof sets / sizeof sets[0]; i++) {
        char *said = refuse("", 0, &sets[i].set, 1);
        assert_string_equal(said, sets[i].said);
        free(said);
    }
    /* What contradicts the file is named, not what stands there. */
    const char *const one[] = {"max_epochs=1"};
    const char *text = "warmup_epochs: 1\n";
    char *told = refuse(text, strlen(text), one, 1);
    assert_string_equal(told,
                        "--set max_epochs=1: error: warmup_epochs: a warm-up of 1 in a run of "
                        "1 leaves nothing after it; shorten it, as with --set "
                        "warmup_epochs=0.1\n");
    free(told);
    /* After those of the file, in their own order. */
    const char *const two[] = {"momentum=7", "sed=1"};
    char *said = refuse("sead: 1\n", 8, two, 2);
    assert_string_equal(said,
                        "p.yaml:1:1: error: unknown key 'sead'; did you mean 'seed'?\n"
                        "--set momentum=7: error: momentum: '7' is not a number from 0 to below 1\n"
                        "--set sed=1: error: unknown key 'sed'; did you mean 'seed'?\n");
    free(said);
}

#ifdef __SANITIZE_ADDRESS__
enum { LIMIT_MS = 1000 };
#else
enum { LIMIT_MS = 50 };
#endif

static char *repeat(const char *head, const char *part, size_t times, size_t *n)
{
    size_t n_head = strlen(head), n_part = strlen(part);
    char *text = malloc(n_head + n_part * times + 1);
    memcpy(text, head, n_head);
    for (size_t i = 0; i < times; i++)
        memcpy(text + n_head + i * n_part, part, n_part);
    *n = n_head + n_part * times;
    text[*n] = '\0';
    return text;
}

/* CPU time, so that a busy machine does not matter; sanitizers cost their share. */
static double cpu_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static void bombs_are_cheap(void **state)
{
    (void)state;
    static const struct {
        const char *head, *part;
        size_t times;
        const char *said;
    } bombs[] = {
        {"", "[", 1000000, "p.yaml: error: 1000000 bytes; at most 262144 are possible\n"},
        {"", "[", 262144, "p.yaml:1:33: error: nested more than 32 deep\n"},
        {"", "{a: ", 60000, "p.yaml:1:129: error: nested more than 32 deep\n"},
        {"", "- ", 130000, "p.yaml:1:65: error: nested more than 32 deep\n"},
        {"lr_groups: [", "&a b,", 50000, NULL},
        {"lr_groups: [", "*a,", 80000, NULL},
        {"", "? ", 130000, NULL},
        {"", "a: 1\n", 50000, NULL},
        {"name: ", "x", 262000, "p.yaml:1:7: error: a value of 262000 bytes; 4096 is the limit\n"},
        {"name: \"", "\\", 262000, NULL},
        {"%TAG ! x\n", "%TAG !a! y\n", 20000, NULL},
    };
    for (size_t i = 0; i < sizeof bombs / sizeof bombs[0]; i++) {
        size_t n;
        char *text = repeat(bombs[i].head, bombs[i].part, bombs[i].times, &n);
        double before = cpu_ms();
        char *said = refuse(text, n, NULL, 0);
        double took = cpu_ms() - before;
        if (bombs[i].said)
            assert_string_equal(said, bombs[i].said);
        assert_true(strlen(said) < 16384);
        if (took > LIMIT_MS)
            fail_msg("bomb %zu took %.1f ms", i, took);
        free(said);
        free(text);
    }
}

static void many_errors_are_counted(void **state)
{
    (void)state;
    struct bst_sb text;
    bst_sb_init(&text, 65536);
    for (int i = 0; i < 120; i++)
        bst_sb_addf(&text, "zzzzzz%d: 1\n", i);
    char *said = refuse(text.data, text.len, NULL, 0);
    assert_non_null(
        strstr(said, "p.yaml:50:1: error: unknown key 'zzzzzz49'\n… and 70 errors more\n"));
    free(said);
    bst_sb_fini(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_bad_file_is_told_what_is_wrong),
        cmocka_unit_test(every_bad_set_is_told_what_is_wrong),
        cmocka_unit_test(bombs_are_cheap),
        cmocka_unit_test(many_errors_are_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
