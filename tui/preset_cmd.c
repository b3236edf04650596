#include "tui/preset_cmd.h"

#include <string.h>

#include "core/base/alloc.h"
#include "core/base/json.h"
#include "core/run/preset.h"
#include "tui/print.h"

enum { EXIT_USAGE = 2, EXIT_PROBLEMS = 3, ARGS_MAX = 64 };

struct call {
    const struct bst_preset_env *env;
    const struct bst_net_table *nets;
    FILE *out, *err;
    bool json;
    const char *names[ARGS_MAX], *sets[ARGS_MAX];
    int n_names, n_sets;
};

static int list(struct call *c);
static int show(struct call *c);
static int check(struct call *c);
static int diff(struct call *c);

static const struct verb {
    const char *name, *usage;
    int (*run)(struct call *c);
    int least, most; /* names */
    bool takes_sets, takes_json;
} verbs[] = {
    {"list", "list [--json]", list, 0, 0, false, true},
    {"show", "show PRESET [--set KEY=VALUE]…", show, 1, 1, true, false},
    {"check", "check [PRESET]… [--set KEY=VALUE]…", check, 0, ARGS_MAX, true, false},
    {"diff", "diff PRESET PRESET [--json]", diff, 2, 2, false, true},
};
enum { N_VERBS = sizeof verbs / sizeof verbs[0] };

static int usage(FILE *err)
{
    for (int i = 0; i < N_VERBS; i++)
        fprintf(err, "%s bstune preset %s\n", i ? "      " : "usage:", verbs[i].usage);
    return EXIT_USAGE;
}

static int bad_argument(const struct call *c, const struct verb *v, const char *why,
                        const char *what)
{
    struct bst_sb clean;
    bst_sb_init(&clean, 1024);
    bst_text_clean(&clean, what, strlen(what));
    fprintf(c->err, "bstune preset %s: %s%s\nusage: bstune preset %s\n", v->name, why, clean.data,
            v->usage);
    bst_sb_fini(&clean);
    return EXIT_USAGE;
}

/* Options may stand anywhere; after -- everything is a name. */
static int read_arguments(struct call *c, const struct verb *v, int argc, char **argv)
{
    bool only_names = false;
    for (int i = 1; i < argc; i++) {
        const char *a = argv[i];
        if (!only_names && strcmp(a, "--") == 0) {
            only_names = true;
        } else if (!only_names && v->takes_json && strcmp(a, "--json") == 0) {
            c->json = true;
        } else if (!only_names && v->takes_sets && strncmp(a, "--set", 5) == 0 &&
                   (!a[5] || a[5] == '=')) {
            if (!a[5] && i + 1 == argc)
                return bad_argument(c, v, "--set needs KEY=VALUE", "");
            if (c->n_sets == ARGS_MAX)
                return bad_argument(c, v, "too many --set", "");
            c->sets[c->n_sets++] = a[5] ? a + 6 : argv[++i];
        } else if (!only_names && *a == '-' && a[1]) {
            return bad_argument(c, v, "unknown option ", a);
        } else if (c->n_names == v->most) {
            return bad_argument(c, v, "one name too many: ", a);
        } else {
            c->names[c->n_names++] = a;
        }
    }
    if (c->n_names < v->least)
        return bad_argument(c, v,
                            v->least == 1 ? "needs the name of a preset" : "needs two presets", "");
    return 0;
}

/* Loads or says on err why not. */
static bool load(struct call *c, const char *name, struct bst_preset *p)
{
    struct bst_preset_errors errs;
    bst_preset_errors_init(&errs);
    enum bst_err failed = bst_preset_load(c->env, name, c->sets, c->n_sets, p, &errs);
    if (failed)
        fputs(errs.text.data, c->err);
    bst_preset_errors_fini(&errs);
    return !failed;
}

/* A stop, a blank and a capital; "et al. 2017" goes on. */
static bool ends_sentence(const char *s)
{
    return s[0] == '.' && (!s[1] || (s[1] == ' ' && s[2] >= 'A' && s[2] <= 'Z'));
}

/* Bytes of `s` up to the end of its first sentence, at most `most` characters. */
static int first_sentence(const char *s, int most)
{
    int n = 0, chars = 0;
    while (s[n] && chars < most && !ends_sentence(s + n)) {
        do
            n++;
        while ((s[n] & 0xC0) == 0x80);
        chars++;
    }
    return n;
}

/* printf's padding counts bytes; names have × in them. */
static int bytes_for(const char *s, int columns)
{
    int extra = 0;
    for (; *s; s++)
        extra += (*s & 0xC0) == 0x80;
    return columns + extra;
}

/* A list of n objects, the i-th with what `put` says of it. */
static void print_list(struct call *c, int n, const void *all,
                       void (*put)(struct bst_json *j, const void *all, int i))
{
    struct bst_sb text;
    struct bst_json j;
    bst_sb_init(&text, 1 << 20);
    bst_json_init(&j, &text);
    bst_json_open(&j, NULL, '[');
    for (int i = 0; i < n; i++) {
        bst_json_open(&j, NULL, '{');
        put(&j, all, i);
        bst_json_close(&j, '}');
    }
    bst_json_close(&j, ']');
    fprintf(c->out, "%s\n", text.data);
    bst_sb_fini(&text);
}

static void put_entry(struct bst_json *j, const void *all, int i)
{
    const struct bst_preset_entry *e = (const struct bst_preset_entry *)all + i;
    bst_json_str(j, "id", e->id);
    bst_json_str(j, "name", e->name);
    bst_json_str(j, "about", e->about);
    bst_json_str(j, "path", e->path);
    bst_json_int(j, "errors", e->n_errors);
}

static int list(struct call *c)
{
    enum { SHOWN = 70 };
    struct bst_preset_entry *all;
    int n;
    if (bst_preset_list(c->env, &all, &n)) {
        tui_print(c->err, "bstune: %s\n", bst_err_text());
        return EXIT_USAGE;
    }
    if (c->json)
        print_list(c, n, all, put_entry);
    for (int i = 0; i < n && !c->json; i++) {
        int cut = first_sentence(all[i].about, SHOWN);
        fprintf(c->out, "%-24s %-*s ", all[i].id, bytes_for(all[i].name, 26), all[i].name);
        if (all[i].n_errors)
            fprintf(c->out, "%d error%s: bstune preset check %s\n", all[i].n_errors,
                    all[i].n_errors == 1 ? "" : "s", all[i].id);
        else
            fprintf(c->out, "%.*s%s\n", cut, all[i].about,
                    all[i].about[cut] && !ends_sentence(all[i].about + cut) ? "…" : "");
    }
    bst_preset_list_free(all, n);
    return 0;
}

static int show(struct call *c)
{
    struct bst_preset *p = bst_xalloc(sizeof *p);
    struct bst_sb text;
    bst_sb_init(&text, 1 << 20);
    bool ok = load(c, c->names[0], p);
    if (ok) {
        bst_preset_write(p, &text);
        fputs(text.data, c->out);
    }
    bst_sb_fini(&text);
    bst_free(p);
    return ok ? 0 : EXIT_USAGE;
}

static int check_one(struct call *c, const char *name)
{
    struct bst_preset *p = bst_xalloc(sizeof *p);
    struct bst_preset_errors errs;
    bst_preset_errors_init(&errs);
    enum bst_err failed = bst_preset_load(c->env, name, c->sets, c->n_sets, p, &errs);
    if (failed)
        fputs(errs.text.data, c->err);
    else
        tui_print(c->out, "%s: ok\n", name);
    bst_preset_errors_fini(&errs);
    bst_free(p);
    return !failed ? 0 : failed == BST_E_NOTFOUND ? EXIT_USAGE : EXIT_PROBLEMS;
}

static int worse(int a, int b)
{
    return a == EXIT_USAGE || b == EXIT_USAGE ? EXIT_USAGE : a > b ? a : b;
}

static int check(struct call *c)
{
    int code = 0, n = 0;
    for (int i = 0; i < c->n_names; i++)
        code = worse(code, check_one(c, c->names[i]));
    if (c->n_names)
        return code;
    struct bst_preset_entry *all;
    if (bst_preset_list(c->env, &all, &n)) {
        tui_print(c->err, "bstune: %s\n", bst_err_text());
        return EXIT_USAGE;
    }
    for (int i = 0; i < n; i++)
        code = worse(code, check_one(c, all[i].path));
    bst_preset_list_free(all, n);
    return code;
}

static const char *live_word(enum bst_param_id id)
{
    static const char *const words[] = {"fixed", "live", "length"};
    return words[bst_param_at(id)->live];
}

static void put_difference(struct bst_json *j, const void *all, int i)
{
    const struct bst_preset_difference *d = (const struct bst_preset_difference *)all + i;
    bst_json_str(j, "key", bst_param_at(d->id)->key);
    bst_json_str(j, "old", d->before);
    bst_json_str(j, "new", d->after);
    bst_json_str(j, "kind", live_word(d->id));
}

static int diff(struct call *c)
{
    struct bst_preset *p = bst_xcalloc(2, sizeof *p);
    struct bst_preset_difference *d = bst_xcalloc(BST_N_PARAMS, sizeof *d);
    bool ok = load(c, c->names[0], &p[0]);
    ok &= load(c, c->names[1], &p[1]);
    int n = ok ? bst_preset_diff(&p[0], &p[1], d) : 0;
    if (ok && c->json)
        print_list(c, n, d, put_difference);
    for (int i = 0; i < n && !c->json; i++)
        fprintf(c->out, "%-6s %-28s %s → %s\n", live_word(d[i].id), bst_param_at(d[i].id)->key,
                d[i].before, d[i].after);
    bst_free(d);
    bst_free(p);
    return ok ? 0 : EXIT_USAGE;
}

int tui_preset_cmd(int argc, char **argv, const struct bst_net_table *nets, FILE *out, FILE *err)
{
    const struct verb *v = NULL;
    for (int i = 0; argc > 0 && i < N_VERBS; i++)
        if (strcmp(verbs[i].name, argv[0]) == 0)
            v = &verbs[i];
    if (!v)
        return usage(err);
    struct bst_preset_env *env = bst_preset_env_new(nets);
    struct call *c = bst_xalloc(sizeof *c);
    *c = (struct call){.env = env, .nets = nets, .out = out, .err = err};
    int code = read_arguments(c, v, argc, argv);
    if (!code)
        code = v->run(c);
    bst_free(c);
    bst_preset_env_free(env);
    return code;
}
