#include "core/base/json.h"
#include "core/tune/command.h"

static void add_number(struct bst_sb *out, double value)
{
    char digits[32];
    bst_num_text(value, digits);
    bst_sb_add(out, digits);
}

static void add_interval(struct bst_sb *out, struct bst_interval iv)
{
    char text[32];
    bst_interval_format(iv, text);
    bst_sb_add(out, text);
}

static void add_presses(struct bst_sb *out, int presses)
{
    int n = presses < 0 ? -presses : presses;
    if (n > 1)
        bst_sb_addf(out, "^%d", n);
}

static bool is_length(const struct bst_command *cmd)
{
    return cmd->kind == BST_COMMAND_WARMUP || cmd->kind == BST_COMMAND_LENGTH;
}

static void add_set(const struct bst_command *cmd, struct bst_sb *out)
{
    if (is_length(cmd)) {
        bst_sb_addc(out, '=');
        add_interval(out, cmd->interval);
    } else if (cmd->kind == BST_COMMAND_CLIP && cmd->value == 0) {
        bst_sb_add(out, "off");
    } else if (cmd->kind == BST_COMMAND_ACCUMULATE && cmd->value == 0) {
        bst_sb_add(out, "auto");
    } else {
        bst_sb_addc(out, '=');
        add_number(out, cmd->value);
    }
}

static void add_operand(const struct bst_command *cmd, struct bst_sb *out)
{
    if (cmd->op == BST_OPERAND_NONE)
        return;
    bst_sb_addc(out, ' ');
    switch (cmd->op) {
    case BST_OPERAND_SET:
        add_set(cmd, out);
        break;
    case BST_OPERAND_TIMES:
        bst_sb_addc(out, cmd->presses < 0 ? '/' : '*');
        add_number(out, cmd->value);
        add_presses(out, cmd->presses);
        break;
    case BST_OPERAND_PERCENT:
        bst_sb_addc(out, cmd->presses < 0 ? '-' : '+');
        add_number(out, cmd->value);
        bst_sb_addc(out, '%');
        add_presses(out, cmd->presses);
        break;
    case BST_OPERAND_ADD:
    case BST_OPERAND_TAKE:
        bst_sb_addc(out, cmd->op == BST_OPERAND_ADD ? '+' : '-');
        add_interval(out, cmd->interval);
        break;
    case BST_OPERAND_NONE:
        break;
    }
}

void bst_command_format(const struct bst_command *cmd, struct bst_sb *out)
{
    bst_sb_add(out, bst_command_word(cmd->kind));
    if (cmd->kind == BST_COMMAND_PRESET)
        bst_sb_addf(out, " %s", cmd->preset);
    if (cmd->kind == BST_COMMAND_DECAY) {
        bst_sb_addf(out, " %s", bst_schedule_name(cmd->decay));
        if (cmd->has_value) {
            bst_sb_add(out, " =");
            add_number(out, cmd->value);
        }
    }
    add_operand(cmd, out);
    if (cmd->count)
        bst_sb_addf(out, " %lld", (long long)cmd->count);
    if (cmd->repeats)
        bst_sb_addf(out, " %d", cmd->repeats);
    if (cmd->kind == BST_COMMAND_TRIAL)
        bst_sb_addf(out, " %s", cmd->tried);
    if (cmd->jump)
        bst_sb_add(out, " --jump");
    if (cmd->with_length)
        bst_sb_add(out, " --with-length");
    if (cmd->rewind)
        bst_sb_add(out, " --rewind");
}
