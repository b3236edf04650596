#include "tui/cli_client.h"

#include <poll.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/run/run_dir.h"
#include "core/tune/command.h"
#include "tui/format.h"

#define STOP_SECONDS 10.0
/* How often a wait looks at what it waits for. */
enum { LOOK_MS = 1000 };

enum bst_client_event tui_wait_for(struct bst_client *client, enum bst_client_event kind)
{
    for (;;) {
        enum bst_client_event e = bst_client_next(client);
        if (e == kind || e == BST_CLIENT_CLOSED)
            return e;
        if (e != BST_CLIENT_NOTHING)
            continue;
        struct pollfd p = {.fd = bst_client_fd(client), .events = POLLIN};
        poll(&p, 1, -1);
    }
}

/* Whose it is stands first: who left the name out has to see which run was meant. */
static void print_reply(const struct tui_call *c, const char *run, const struct bst_reply *r)
{
    char memory[2 * TUI_NUM];
    FILE *to = r->ok ? c->out : c->err;
    char text[sizeof r->text + 40];
    bool dated = !strcmp(r->outcome, "applied") || !strcmp(r->outcome, "proposed");
    int at = fprintf(to, "%s: %s%s%s: ", run, r->outcome, r->code[0] ? " " : "", r->code);
    int n = snprintf(text, sizeof text, "%s", r->text);
    if (dated)
        snprintf(text + n, sizeof text - (size_t)n, " (update %llu)",
                 (unsigned long long)r->effective_update);
    tui_print_text(to, text, 2, at);
    if (r->ok && r->memory_planned.valid && r->memory_limit.valid) {
        tui_of_bytes(r->memory_planned, r->memory_limit, memory);
        fprintf(to, "  memory a device: %s\n", memory);
    }
    for (int i = 0; i < r->n_kept; i++)
        fprintf(to, "  kept: %s, %s\n", r->kept[i].key, r->kept[i].new_value);
}

/* One command on its way, and what is said while it waits. */
struct asking {
    const struct tui_call *c;
    struct bst_client *client;
    enum bst_command_kind kind;
    uint64_t id;
    bool waits_said, flight_said,
        shows;      /* shows: a line of its own search's progress stands on the terminal */
    char said[256]; /* of the progress, last */
    bool cancelled; /* the search is asked to end; its answer says that it has */
    int not_begun;  /* statuses in a row that know nothing of it, once an end was asked for */
};

static volatile sig_atomic_t asked_to_end;

static void note_signal(int number)
{
    (void)number;
    asked_to_end = 1;
}

/* A second one ends this process at once. */
static void take_signals(void)
{
    struct sigaction action = {.sa_handler = note_signal, .sa_flags = SA_RESETHAND};
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

static bool is_search(enum bst_command_kind kind)
{
    return kind == BST_COMMAND_FIT || kind == BST_COMMAND_LRFIND || kind == BST_COMMAND_TRIAL;
}

/* Those that a search does not keep waiting. */
static bool is_urgent(enum bst_command_kind kind)
{
    return kind == BST_COMMAND_PAUSE || kind == BST_COMMAND_STOP || kind == BST_COMMAND_CANCEL;
}

static void clear_progress(struct asking *a)
{
    if (a->shows)
        fprintf(a->c->err, "\r%78s\r", "");
    a->shows = false;
}

/* An end was asked for: of a search that is on by `cancel`, else by going away. False once there is
 * nothing to wait for. */
static bool end_search(struct asking *a, const struct bst_status *s)
{
    if (a->cancelled)
        return true;
    if (s->you_search) {
        a->cancelled = true;
        bst_client_command(a->client, "cancel", false);
        return true;
    }
    /* Its answer may be on its way behind the first status. */
    bst_client_ask_status(a->client, false);
    return ++a->not_begun < 2;
}

/* One line that is written over on a terminal; elsewhere a line each. */
static void show_progress(struct asking *a, const char *text)
{
    a->shows = isatty(STDERR_FILENO);
    if (a->shows)
        fprintf(a->c->err, "\r%-78.78s", text);
    else if (strcmp(text, a->said))
        tui_print(a->c->err, "%s\n", text);
    snprintf(a->said, sizeof a->said, "%s", text);
}

static void say_status(struct asking *a, const struct bst_status *s)
{
    const char *word = tui_verb_at(a->c->cli->verb)->word;
    char flight[120];
    if (!is_urgent(a->kind) && !a->flight_said && tui_in_flight(s, flight, sizeof flight)) {
        a->flight_said = true;
        tui_print(a->c->err, "bstune %s: %s: queued; %s\n", word, bst_client_run(a->client),
                  flight);
    }
    if (s->phase != BST_PHASE_SEARCHING || is_urgent(a->kind))
        return;
    if (!s->you_search && !a->waits_said) {
        a->waits_said = true;
        tui_print(a->c->err,
                  "bstune %s: %s: waits for the search that is on (%s); `bstune ctl %s cancel` "
                  "ends it\n",
                  word, s->run, s->search[0] ? s->search : "it has just begun", s->run);
    } else if (s->you_search && s->search[0] && !a->cancelled) {
        show_progress(a, s->search);
    }
    fflush(a->c->err);
}

/* False: there will be no answer. */
static bool wait_answer(struct asking *a)
{
    for (;;) {
        enum bst_client_event e = bst_client_next(a->client);
        if (e == BST_CLIENT_CLOSED)
            return false;
        if (e == BST_CLIENT_REPLY && bst_client_reply(a->client)->id == a->id)
            return true;
        if (e == BST_CLIENT_STATUS) {
            const struct bst_status *s = bst_client_status(a->client);
            say_status(a, s);
            if (asked_to_end && !end_search(a, s))
                return false;
        }
        if (e != BST_CLIENT_NOTHING)
            continue;
        struct pollfd p = {.fd = bst_client_fd(a->client), .events = POLLIN};
        if (poll(&p, 1, LOOK_MS) <= 0)
            bst_client_ask_status(a->client, false);
    }
}

static int print_answer(struct asking *a, bool come)
{
    const struct tui_call *c = a->c;
    const struct bst_reply *r = bst_client_reply(a->client);
    clear_progress(a);
    if (!come) {
        (void)bst_fail(BST_E_STATE, "%s: %s", bst_client_run(a->client),
                       a->not_begun ? "given up before it began; the run is as it was"
                                    : "the trainer went away before it answered");
        return tui_fail(c, TUI_EXIT_FAILED);
    }
    if (tui_given(c, TUI_OPTION_JSON))
        fprintf(c->out, "%s\n", bst_client_reply_json(a->client));
    else
        print_reply(c, bst_client_run(a->client), r);
    return r->ok ? TUI_EXIT_DONE : TUI_EXIT_FAILED;
}

int tui_give_command(const struct tui_call *c, const char *dir, const char *text)
{
    struct asking a = {.c = c};
    struct bst_command cmd;
    bool dry = tui_given(c, TUI_OPTION_DRY_RUN);
    if (bst_command_parse(text, &cmd))
        return tui_fail(c, TUI_EXIT_USAGE);
    a.kind = cmd.kind;
    enum bst_err err = bst_client_open(dir, "ctl", false, &a.client);
    if (err)
        return tui_fail(c, tui_code_of(err));
    if (is_search(a.kind) && !dry)
        take_signals();
    a.id = bst_client_command(a.client, text, dry);
    bst_client_ask_status(a.client, false);
    int code = print_answer(&a, wait_answer(&a));
    bst_client_close(a.client);
    return code;
}

/* "batch +20%" in quotes is one operand: its first word counts. -1: none of ours. */
static int command_of(const char *operand)
{
    size_t n = strcspn(operand, " ");
    for (int i = 0; i < BST_N_COMMANDS; i++) {
        const char *word = bst_command_word((enum bst_command_kind)i);
        if (strlen(word) == n && !strncmp(operand, word, n))
            return i;
    }
    return -1;
}

/* The run may be left out when there is one; a run that bears a command's name is meant when
 * another command follows it. */
static int first_of_command(const struct tui_call *c)
{
    if (command_of(c->cli->operands[0]) < 0)
        return 1;
    return c->cli->n_operands > 1 && command_of(c->cli->operands[1]) >= 0 ? 1 : 0;
}

/* One word, which no command is. */
static int say_no_command(const struct tui_call *c)
{
    const char *word = c->cli->operands[0], *near = bst_command_near(word);
    char dir[512];
    if (!bst_run_find(BST_RUNS_ROOT, word, BST_RUN_CHANGE, dir))
        return tui_usage(c, "behind the name of a run stands a command, as in `bstune %s %s %s`",
                         tui_verb_at(c->cli->verb)->word, word,
                         bst_command_example(BST_COMMAND_BATCH));
    if (near)
        return tui_usage(c, "no command '%s'; did you mean '%s'?", word, near);
    return tui_usage(c, "'%s' is neither a run nor a command", word);
}

/* A run's name, unless a command was mistyped. */
static int say_no_run(const struct tui_call *c, enum bst_err err, const char *word)
{
    const char *near = word ? bst_command_near(word) : NULL;
    if (err != BST_E_NOTFOUND || !near)
        return tui_fail(c, tui_code_of(err));
    (void)bst_fail(err, "%s; or did you mean the command '%s'?", bst_err_text(), near);
    return tui_fail(c, tui_code_of(err));
}

/* The last error, of a command, and where its grammar stands. */
static int say_bad_command(const struct tui_call *c, const char *text)
{
    int kind = command_of(text);
    tui_fail(c, TUI_EXIT_USAGE);
    if (kind >= 0)
        fprintf(c->err, "Try 'bstune ctl help %s'.\n",
                bst_command_word((enum bst_command_kind)kind));
    else
        fprintf(c->err, "Try 'bstune ctl help', which lists the commands.\n");
    return TUI_EXIT_USAGE;
}

/* RUN's folder and the words of COMMAND behind what `text` holds already. */
int tui_run_and_command(const struct tui_call *c, char dir[512], char text[256])
{
    struct bst_command cmd;
    int first = first_of_command(c);
    if (first == c->cli->n_operands)
        return say_no_command(c);
    for (int i = first; i < c->cli->n_operands; i++) {
        size_t len = strlen(text), room = 256 - len;
        if (snprintf(text + len, room, "%s%s", len ? " " : "", c->cli->operands[i]) >= (int)room)
            return tui_usage(c, "a command is at most 255 bytes");
    }
    const char *run = first ? c->cli->operands[0] : NULL;
    enum bst_err err = bst_run_find(BST_RUNS_ROOT, run, BST_RUN_CHANGE, dir);
    if (err)
        return say_no_run(c, err, run);
    return bst_command_parse(text, &cmd) ? say_bad_command(c, c->cli->operands[first])
                                         : TUI_EXIT_DONE;
}

/* Where `help` stands among the operands: first, or behind a run's name; -1: nowhere. A run may be
 * called help, too. */
static int find_help(const struct tui_call *c)
{
    static const char help[] = "help";
    char dir[512];
    const char *const *word = c->cli->operands;
    if (!strcmp(word[0], help))
        return c->cli->n_operands > 1 && !bst_run_find(BST_RUNS_ROOT, help, BST_RUN_CHANGE, dir)
                   ? -1
                   : 0;
    return c->cli->n_operands > 1 && !strcmp(word[1], help) ? 1 : -1;
}

static int show_help(const struct tui_call *c, const char *word)
{
    struct bst_command cmd;
    int kind = word ? command_of(word) : -1;
    if (word && kind < 0 && bst_command_parse(word, &cmd))
        return say_bad_command(c, word);
    if (word)
        tui_cli_command(kind, c->out);
    else
        tui_cli_commands(c->out);
    return TUI_EXIT_DONE;
}

int tui_verb_ctl(const struct tui_call *c)
{
    char dir[512], text[256] = "";
    int help = find_help(c);
    if (help >= 0)
        return show_help(c, help + 1 < c->cli->n_operands ? c->cli->operands[help + 1] : NULL);
    int code = tui_run_and_command(c, dir, text);
    return code ? code : tui_give_command(c, dir, text);
}

int tui_verb_stop(const struct tui_call *c)
{
    char dir[512];
    enum bst_err err = bst_run_find(BST_RUNS_ROOT, tui_run_operand(c), BST_RUN_CHANGE, dir);
    if (err)
        return tui_fail(c, tui_code_of(err));
    int code = tui_give_command(c, dir, "stop");
    /* The answer comes once all is saved; the run is over when its lock is free. */
    double until = bst_clock_now() + STOP_SECONDS;
    while (!code && bst_run_is_live(dir) && bst_clock_now() < until)
        poll(NULL, 0, 10);
    return code;
}
