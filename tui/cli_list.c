#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "core/base/alloc.h"
#include "core/base/clock.h"
#include "core/base/json.h"
#include "core/run/run_dir.h"
#include "tui/verbs.h"

static void print_json(const struct tui_call *c, const struct bst_run_info *list, int n)
{
    struct bst_sb sb;
    struct bst_json j;
    bst_sb_init(&sb, 16 << 20);
    bst_json_init(&j, &sb);
    bst_json_open(&j, NULL, '[');
    for (int i = 0; i < n; i++) {
        bst_json_open(&j, NULL, '{');
        bst_json_str(&j, "name", list[i].name);
        bst_json_str(&j, "state", list[i].state);
        bst_json_bool(&j, "live", list[i].live);
        bst_json_str(&j, "preset", list[i].preset);
        bst_json_str(&j, "host", list[i].host);
        bst_json_int(&j, "pid", list[i].pid);
        bst_json_num(&j, "started", list[i].started > 0 ? list[i].started : NAN);
        bst_json_str(&j, "dir", list[i].dir);
        bst_json_close(&j, '}');
    }
    bst_json_close(&j, ']');
    fprintf(c->out, "%s\n", sb.data);
    bst_sb_fini(&sb);
}

int tui_verb_list(const struct tui_call *c)
{
    struct bst_run_info *list;
    int n;
    if (bst_run_list(BST_RUNS_ROOT, &list, &n))
        return tui_fail(c, TUI_EXIT_FAILED);
    if (tui_given(c, TUI_OPTION_JSON)) {
        print_json(c, list, n);
    } else {
        int widest = 0;
        for (int i = 0; i < n; i++)
            widest = (int)strlen(list[i].name) > widest ? (int)strlen(list[i].name) : widest;
        for (int i = 0; i < n; i++) {
            char when[32] = "start not known     ";
            if (list[i].started > 0)
                bst_clock_iso(list[i].started, when);
            /* Another folder's may bear the name of one of this folder's. */
            bool here = bst_run_is_here(BST_RUNS_ROOT, list[i].dir);
            tui_print(c->out, "%-*s %-10s %s  %s  pid %d on %s%s%s\n", widest, list[i].name,
                      list[i].state, when, list[i].preset, list[i].pid, list[i].host,
                      here ? "" : "  ", here ? "" : list[i].dir);
        }
        if (!n)
            fprintf(c->err, "no run under %s/, and none lives on this machine\n", BST_RUNS_ROOT);
    }
    bst_free(list);
    return TUI_EXIT_DONE;
}
