#include <stdio.h>
#include <string.h>

#include "core/base/text.h"
#include "core/tune/command.h"
#include "tui/app.h"
#include "tui/armed.h"
#include "tui/pane.h"
#include "tui/words.h"

enum word {
#define X(name, word, operand, help) WORD_##name,
#include "tui/commands.def"
#undef X
    N_WORDS
};

const struct tui_word tui_words[N_WORDS] = {
#define X(name, word, operand, help) {word, operand, help},
#include "tui/commands.def"
#undef X
};
const int tui_n_words = N_WORDS;

static unsigned run_take(struct tui_app *app, const char *operand)
{
    (void)operand;
    if (app->cfg->readonly) {
        tui_say(&app->model, TUI_WARN, "started with --readonly: attach again without it to drive");
        return 0;
    }
    app->model.readonly = false;
    app->link->ops->lease(app->link, true);
    return TUI_DO_REFRESH;
}

static unsigned run_readonly(struct tui_app *app, const char *operand)
{
    (void)operand;
    if (app->model.readonly && !app->cfg->readonly) {
        app->model.readonly = false;
        tui_say(&app->model, TUI_NORMAL, "keys change the run again, once this console drives");
        return TUI_DO_REFRESH;
    }
    app->model.message[0] = '\0';
    tui_armed_drop(&app->model, app->link, "read-only; :readonly again to drive");
    app->model.readonly = true;
    app->link->ops->lease(app->link, false);
    if (!app->model.message[0])
        tui_say(&app->model, TUI_NORMAL, "read-only; :readonly again to drive");
    return TUI_DO_REFRESH;
}

static unsigned run_view(struct tui_app *app, const char *operand)
{
    for (int i = 0; i < TUI_N_PANES; i++)
        if (!strcmp(tui_panes[i]->name, operand)) {
            app->model.view.focus = i;
            app->model.view.shown |= 1u << i;
            app->model.view.maximised = true;
            return 0;
        }
    tui_say(&app->model, TUI_BAD, "view takes one of %s", tui_words[WORD_VIEW].operand);
    return 0;
}

static unsigned run_filter(struct tui_app *app, const char *operand)
{
    snprintf(app->model.view.filter, sizeof app->model.view.filter, "%.47s", operand);
    return 0;
}

static unsigned run_save(struct tui_app *app, const char *operand)
{
    tui_save(app, operand);
    return 0;
}

static unsigned run_show_preset(struct tui_app *app, const char *operand)
{
    (void)operand;
    return tui_request_run(app, TUI_REQ_SHOW_PRESET);
}

static unsigned run_help(struct tui_app *app, const char *operand)
{
    (void)operand;
    return tui_request_run(app, TUI_REQ_HELP);
}

static unsigned run_redraw(struct tui_app *app, const char *operand)
{
    (void)app;
    (void)operand;
    return TUI_DO_CLEAR;
}

static unsigned run_quit(struct tui_app *app, const char *operand)
{
    (void)app;
    (void)operand;
    return TUI_DO_LEAVE;
}

static unsigned (*const runners[N_WORDS])(struct tui_app *, const char *) = {
    [WORD_TAKE] = run_take,        [WORD_READONLY] = run_readonly,
    [WORD_VIEW] = run_view,        [WORD_FILTER] = run_filter,
    [WORD_SAVE_SCREEN] = run_save, [WORD_SHOW_PRESET] = run_show_preset,
    [WORD_HELP] = run_help,        [WORD_REDRAW] = run_redraw,
    [WORD_QUIT] = run_quit,
};

/* Words of the prompt come first: `:qiut` is no `fit`. */
static void say_unread(struct tui_model *m, enum bst_err err, const char *line)
{
    const char *names[N_WORDS + BST_N_COMMANDS];
    char word[TUI_LINE];
    snprintf(word, sizeof word, "%.*s", (int)strcspn(line, " "), line);
    for (int i = 0; i < N_WORDS; i++)
        names[i] = tui_words[i].word;
    for (int i = 0; i < BST_N_COMMANDS; i++)
        names[N_WORDS + i] = bst_command_word((enum bst_command_kind)i);
    int near = err == BST_E_NOTFOUND ? bst_text_nearest(word, names, N_WORDS + BST_N_COMMANDS) : -1;
    if (near >= 0 && near < N_WORDS)
        tui_say(m, TUI_BAD, "no command '%.40s'; did you mean '%s'?", word, names[near]);
    else if (err == BST_E_NOTFOUND && !strstr(bst_err_text(), "did you mean"))
        tui_say(m, TUI_BAD, "%s; `:help` lists them", bst_err_text());
    else
        tui_say(m, TUI_BAD, "%s", bst_err_text());
}

static unsigned run_command(struct tui_app *app, const char *line)
{
    struct tui_model *m = &app->model;
    struct bst_command cmd;
    char why[300];
    enum bst_err err = bst_command_parse(line, &cmd);
    if (err) {
        say_unread(m, err, line);
        return 0;
    }
    /* A replay can be held as well as a run. */
    bool holds = cmd.kind == BST_COMMAND_PAUSE || cmd.kind == BST_COMMAND_RESUME;
    if (!(m->fixed[0] && holds) && !tui_model_may_change(m, why, sizeof why)) {
        tui_say(m, TUI_WARN, "%s", why);
        return 0;
    }
    if (cmd.kind == BST_COMMAND_STOP)
        return tui_request_run(app, TUI_REQ_STOP);
    if (!bst_command_is_change(cmd.kind))
        return tui_direct(app, line);
    tui_armed_command(m, app->link, line);
    return 0;
}

unsigned tui_words_run(struct tui_app *app, const char *line)
{
    while (*line == ' ')
        line++;
    size_t n = strcspn(line, " ");
    char trimmed[TUI_LINE];
    snprintf(trimmed, sizeof trimmed, "%s", line);
    for (size_t end = strlen(trimmed); end && trimmed[end - 1] == ' '; end--)
        trimmed[end - 1] = '\0';
    if (!n)
        return 0;
    const char *operand = trimmed + strcspn(trimmed, " ");
    while (*operand == ' ')
        operand++;
    for (int i = 0; i < N_WORDS; i++)
        if (strlen(tui_words[i].word) == n && !strncmp(tui_words[i].word, line, n))
            return runners[i](app, operand);
    return run_command(app, trimmed);
}
