#include "tui/cli_client.h"

#include <poll.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/run/run_dir.h"
#include "core/tune/command.h"

#define STOP_SECONDS 10.0

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

static void print_reply(const struct tui_call *c, const struct bst_reply *r)
{
    FILE *to = r->ok ? c->out : c->err;
    fprintf(to, "%s%s%s: %s", r->outcome, r->code[0] ? " " : "", r->code, r->text);
    if (!strcmp(r->outcome, "applied") || !strcmp(r->outcome, "proposed"))
        fprintf(to, " (update %llu)", (unsigned long long)r->effective_update);
    fputc('\n', to);
    if (r->ok && r->memory_planned.valid && r->memory_limit.valid)
        fprintf(to, "  memory a device: %.0f of %.0f bytes\n", r->memory_planned.value,
                r->memory_limit.value);
    for (int i = 0; i < r->n_kept; i++)
        fprintf(to, "  kept: %s, %s\n", r->kept[i].key, r->kept[i].new_value);
}

int tui_give_command(const struct tui_call *c, const char *dir, const char *text)
{
    struct bst_client *client;
    enum bst_err err = bst_client_open(dir, "ctl", false, &client);
    if (err)
        return tui_fail(c, tui_code_of(err));
    int code = TUI_EXIT_FAILED;
    bst_client_command(client, text, tui_given(c, TUI_OPTION_DRY_RUN));
    if (tui_wait_for(client, BST_CLIENT_REPLY) == BST_CLIENT_REPLY) {
        const struct bst_reply *r = bst_client_reply(client);
        code = r->ok ? TUI_EXIT_DONE : TUI_EXIT_FAILED;
        if (tui_given(c, TUI_OPTION_JSON))
            fprintf(c->out, "%s\n", bst_client_reply_json(client));
        else
            print_reply(c, r);
    } else {
        fprintf(c->err, "bstune %s: the trainer went away before it answered\n",
                tui_verb_at(c->cli->verb)->word);
    }
    bst_client_close(client);
    return code;
}

static bool is_command(const char *word)
{
    for (int i = 0; i < BST_N_COMMANDS; i++)
        if (!strcmp(word, bst_command_word((enum bst_command_kind)i)))
            return true;
    return false;
}

/* The run may be left out when there is one; a run that bears a command's name is meant when
 * another command follows it. */
static int first_of_command(const struct tui_call *c)
{
    if (!is_command(c->cli->operands[0]))
        return 1;
    return c->cli->n_operands > 1 && is_command(c->cli->operands[1]) ? 1 : 0;
}

/* RUN's folder and the words of COMMAND behind what `text` holds already. */
int tui_run_and_command(const struct tui_call *c, char dir[512], char text[256])
{
    struct bst_command cmd;
    int first = first_of_command(c);
    if (first == c->cli->n_operands)
        return tui_usage(c, "'%s' is no command; after the name of a run, COMMAND is missing",
                         c->cli->operands[0]);
    for (int i = first; i < c->cli->n_operands; i++) {
        size_t len = strlen(text), room = 256 - len;
        if (snprintf(text + len, room, "%s%s", len ? " " : "", c->cli->operands[i]) >= (int)room)
            return tui_usage(c, "a command is at most 255 bytes");
    }
    enum bst_err err = bst_run_find(BST_RUNS_ROOT, first ? c->cli->operands[0] : NULL, dir);
    if (err)
        return tui_fail(c, tui_code_of(err));
    return bst_command_parse(text, &cmd) ? tui_fail(c, TUI_EXIT_USAGE) : TUI_EXIT_DONE;
}

int tui_verb_ctl(const struct tui_call *c)
{
    char dir[512], text[256] = "";
    int code = tui_run_and_command(c, dir, text);
    return code ? code : tui_give_command(c, dir, text);
}

int tui_verb_stop(const struct tui_call *c)
{
    char dir[512];
    enum bst_err err = bst_run_find(BST_RUNS_ROOT, tui_run_operand(c), dir);
    if (err)
        return tui_fail(c, tui_code_of(err));
    int code = tui_give_command(c, dir, "stop");
    /* The answer comes once all is saved; the run is over when its lock is free. */
    double until = bst_clock_now() + STOP_SECONDS;
    while (!code && bst_run_is_live(dir) && bst_clock_now() < until)
        poll(NULL, 0, 10);
    return code;
}
