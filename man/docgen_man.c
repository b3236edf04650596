/* The tables as mdoc(7). */
#include "man/docgen.h"

#include <stdio.h>
#include <string.h>

#include "core/base/text.h"
#include "core/run/preset.h"
#include "core/tune/command.h"
#include "core/tune/diagnostics.h"
#include "tui/cli.h"

/* mdoc gives - ' ` ^ ~ \ other shapes than the keyboard's, and wants code points by number. */
static void add_char(struct bst_sb *out, const char *s, size_t n, uint32_t point)
{
    static const struct {
        char c;
        const char *as;
    } special[] = {{'\\', "\\e"},  {'-', "\\-"},   {'\'', "\\(aq"}, {'`', "\\(ga"},
                   {'^', "\\(ha"}, {'~', "\\(ti"}, {'"', "\\(dq"}};
    if (point >= 0x80) {
        bst_sb_addf(out, "\\[u%04X]", (unsigned)point);
        return;
    }
    for (size_t i = 0; i < sizeof special / sizeof special[0]; i++) {
        if (special[i].c == *s) {
            bst_sb_add(out, special[i].as);
            return;
        }
    }
    bst_sb_addn(out, s, n);
}

static void add_chars(struct bst_sb *out, const char *s, size_t n)
{
    while (n) {
        uint32_t point = 0;
        size_t len = bst_text_utf8(s, n, &point);
        BST_ASSERT(len);
        /* A hyphen inside a word may break; one that begins it is an option's or a minus. */
        add_char(out, s, len, point);
        s += len;
        n -= len;
    }
}

void doc_mdoc_word(struct bst_sb *out, const char *text)
{
    /* \& keeps a word such as . or : from being taken for punctuation. */
    bst_sb_add(out, "\"\\&");
    add_chars(out, text, strlen(text));
    bst_sb_addc(out, '"');
}

/* Bytes up to the blank after the end of a sentence. */
static size_t sentence(const char *s)
{
    size_t i = 0;
    while (s[i] && !(strchr(".?!", s[i]) && s[i + 1] == ' '))
        i++;
    return s[i] ? i + 1 : i;
}

void doc_mdoc_text(struct bst_sb *out, const char *text)
{
    while (*text) {
        size_t n = sentence(text);
        if (*text == '.' || *text == '\'')
            bst_sb_add(out, "\\&");
        add_chars(out, text, n);
        bst_sb_addc(out, '\n');
        text += n;
        text += strspn(text, " ");
    }
}

static void add_option(struct bst_sb *out, const struct tui_option_info *o)
{
    bst_sb_add(out, ".It ");
    if (o->letter)
        bst_sb_addf(out, "Fl %c , ", o->letter);
    bst_sb_add(out, "Fl Fl ");
    doc_mdoc_word(out, o->name);
    if (strchr(o->argument, '|')) {
        bst_sb_add(out, " Cm ");
        doc_mdoc_word(out, o->argument);
    } else if (*o->argument) {
        bst_sb_add(out, " Ar ");
        doc_mdoc_word(out, o->argument);
    }
    bst_sb_addc(out, '\n');
    doc_mdoc_text(out, o->text);
}

void doc_verbs(struct bst_sb *out)
{
    bst_sb_add(out, ".Bl -tag -width Ds\n");
    for (int v = 0; v < TUI_N_VERBS; v++) {
        const struct tui_verb_info *verb = tui_verb_at((enum tui_verb)v);
        bst_sb_addf(out, ".It Cm %s", verb->word);
        if (*verb->operands) {
            bst_sb_add(out, " Ar ");
            doc_mdoc_word(out, verb->operands);
        }
        bst_sb_addc(out, '\n');
        doc_mdoc_text(out, verb->text);
        bool any = false;
        for (int i = 0; i < TUI_N_OPTIONS; i++) {
            const struct tui_option_info *o = tui_option_at((enum tui_option)i);
            if (!(o->verbs & (1u << v)))
                continue;
            bst_sb_add(out, any ? "" : ".Bl -tag -width Ds\n");
            any = true;
            add_option(out, o);
        }
        bst_sb_add(out, any ? ".El\n" : "");
    }
    bst_sb_add(out, ".El\n");
}

static void add_word(struct bst_sb *out, const char *word, const char *operand, const char *help)
{
    bst_sb_add(out, ".It Cm ");
    doc_mdoc_word(out, word);
    if (*operand) {
        bst_sb_add(out, " Ar ");
        doc_mdoc_word(out, operand);
    }
    bst_sb_addc(out, '\n');
    char first[2] = {*help >= 'a' && *help <= 'z' ? (char)(*help - 32) : *help, '\0'};
    struct bst_sb text;
    bst_sb_init(&text, 4096);
    bst_sb_addf(&text, "%s%s.", first, help + 1);
    doc_mdoc_text(out, text.data);
    bst_sb_fini(&text);
}

void doc_commands(struct bst_sb *out)
{
    bst_sb_add(out, ".Bl -tag -width Ds\n");
    for (int i = 0; i < BST_N_COMMANDS; i++) {
        enum bst_command_kind kind = (enum bst_command_kind)i;
        add_word(out, bst_command_word(kind), bst_command_operand(kind), bst_command_help(kind));
    }
    bst_sb_add(out, ".El\n");
}

void doc_prompt(struct bst_sb *out)
{
    bst_sb_add(out, ".Bl -tag -width Ds\n");
#define X(name, word, operand, help) add_word(out, word, operand, help);
#include "tui/commands.def"
#undef X
    bst_sb_add(out, ".El\n");
}

/* "+ =" as "+ or =", <Esc> without its brackets. */
static void add_key_names(struct bst_sb *out, const char *keys)
{
    bst_sb_add(out, ".It");
    for (bool first = true; *keys; first = false) {
        size_t n = strcspn(keys, " ");
        char name[24];
        bool named = keys[0] == '<' && n > 2;
        snprintf(name, sizeof name, "%.*s", (int)(named ? n - 2 : n), named ? keys + 1 : keys);
        bst_sb_add(out, first ? " Ic " : " , Ic ");
        doc_mdoc_word(out, name);
        keys += n;
        keys += strspn(keys, " ");
    }
    bst_sb_addc(out, '\n');
}

void doc_keys(struct bst_sb *out)
{
    static const struct {
        const char *group, *title;
    } groups[] = {{"CHANGE", "Changes"}, {"RUN", "The run"}, {"VIEW", "The view"},
                  {"CHART", "Charts"},   {"LIST", "Lists"},  {"GENERAL", "General"}};
    static const struct {
        const char *keys, *group, *help;
    } keys[] = {
#define X(name, keys, group, flags, label, help) {keys, #group, help},
#include "tui/keys.def"
#undef X
    };
    size_t n_keys = sizeof keys / sizeof keys[0], shown = 0;
    for (size_t i = 0; i < n_keys; i++) /* in doc_study_keys() */
        shown += !strcmp(keys[i].group, "SWEEP");
    for (size_t g = 0; g < sizeof groups / sizeof groups[0]; g++) {
        bst_sb_addf(out, ".Ss %s\n.Bl -tag -width \"BackTab\" -compact\n", groups[g].title);
        for (size_t i = 0; i < n_keys; i++) {
            if (strcmp(keys[i].group, groups[g].group) != 0)
                continue;
            add_key_names(out, keys[i].keys);
            doc_mdoc_text(out, keys[i].help);
            shown++;
        }
        bst_sb_add(out, ".El\n");
    }
    BST_ASSERT(shown == n_keys);
}

void doc_study_keys(struct bst_sb *out)
{
    static const struct {
        const char *name, *keys;
    } keys[] = {
#define X(name, keys, group, flags, label, help) {#name, keys},
#include "tui/keys.def"
#undef X
    };
    static const struct {
        const char *name, *help;
    } rows[] = {
#define X(name, label, help) {#name, help},
#include "tui/study_keys.def"
#undef X
    };
    bst_sb_add(out, ".Bl -tag -width \"BackTab\" -compact\n");
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        size_t k = 0;
        while (strcmp(keys[k].name, rows[i].name) != 0)
            k++;
        add_key_names(out, keys[k].keys);
        doc_mdoc_text(out, rows[i].help);
    }
    bst_sb_add(out, ".El\n");
}

static void add_param(struct bst_sb *out, enum bst_param_id id)
{
    static const char *const lives[] = {"Fixed.", "Live.", "Live by the command length."};
    const struct bst_param_info *m = bst_param_at(id);
    struct bst_sb text;
    bst_sb_init(&text, 4096);
    bst_sb_add(out, ".It Ic ");
    doc_mdoc_word(out, m->section ? strchr(m->key, '.') + 1 : m->key);
    bst_sb_addc(out, '\n');
    doc_mdoc_text(out, m->text);
    bst_sb_add(&text, "Value: ");
    bst_param_allowed(id, &text);
    if (*m->unit)
        bst_sb_addf(&text, " (%s)", m->unit);
    bst_sb_addf(&text, "; default: %s.", *m->initial ? m->initial : "empty");
    if (m->one_of) {
        bst_sb_add(&text, " Excludes ");
        bool first = true;
        for (int i = 0; i < BST_N_PARAMS; i++) {
            const struct bst_param_info *other = bst_param_at((enum bst_param_id)i);
            if (i == (int)id || other->one_of != m->one_of)
                continue;
            bst_sb_addf(&text, "%s%s", first ? "" : " and ", other->key);
            first = false;
        }
        bst_sb_add(&text, ".");
    }
    bst_sb_addf(&text, " %s", lives[m->live]);
    doc_mdoc_text(out, text.data);
    bst_sb_fini(&text);
}

void doc_params(struct bst_sb *out)
{
    int n_sections;
    const struct bst_param_section *sections = bst_param_sections(&n_sections);
    bst_sb_add(out, ".Ss Keys at the top\n.Bl -tag -width Ds\n");
    for (int i = 0; i < BST_N_PARAMS; i++)
        if (!bst_param_at((enum bst_param_id)i)->section)
            add_param(out, (enum bst_param_id)i);
    bst_sb_add(out, ".El\n");
    for (int s = 0; s < n_sections; s++) {
        bst_sb_addf(out, ".Ss Keys of the mapping %s\n", sections[s].name);
        doc_mdoc_text(out, sections[s].text);
        bst_sb_add(out, ".Bl -tag -width Ds\n");
        for (int i = 0; i < BST_N_PARAMS; i++) {
            const char *section = bst_param_at((enum bst_param_id)i)->section;
            if (section && strcmp(section, sections[s].name) == 0)
                add_param(out, (enum bst_param_id)i);
        }
        bst_sb_add(out, ".El\n");
    }
}

void doc_diagnostics(struct bst_sb *out)
{
    bst_sb_add(out, ".Bl -tag -width Ds\n");
    for (int i = 0; i < bst_diag_count(); i++) {
        const struct bst_diag_info *d = bst_diag_at(i);
        char code[16];
        bst_diag_code(d->id, code);
        bst_sb_add(out, ".It Sy ");
        doc_mdoc_word(out, code);
        bst_sb_add(out, " ");
        doc_mdoc_word(out, d->title);
        bst_sb_addf(out, " Pq %s\n", bst_severity_name(d->severity));
        doc_mdoc_text(out, d->cause);
        bst_sb_add(out, ".Pp\n.Em Remedy :\n");
        doc_mdoc_text(out, d->remedy);
    }
    bst_sb_add(out, ".El\n");
}
