#include "tui/script.h"

#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/alloc.h"
#include "core/base/clock.h"
#include "core/base/io.h"
#include "core/base/json.h"

enum { SCRIPT_CAP = 1 << 20, SCREEN_CAP = 8 << 20 };

static const double patience = 20; /* seconds that `expect` waits */

struct script {
    struct tui_app *app;
    bool fake; /* the clock stands still unless a directive moves it */
    double fake_now;
    bool left;
};

static void settle(struct script *s, bool ask)
{
    if (ask)
        s->app->link->ops->refresh(s->app->link, true);
    tui_app_events(s->app);
    tui_app_tick(s->app);
    tui_app_draw(s->app);
}

/* At most `seconds`, less when something comes. */
static void pass(struct script *s, double seconds)
{
    struct pollfd p = {s->app->link->ops->fd(s->app->link), POLLIN, 0};
    if (s->fake) {
        s->fake_now += seconds;
        bst_clock_fake(true, s->fake_now);
    } else {
        poll(&p, p.fd >= 0, (int)ceil(seconds * 1000));
    }
}

static void wait_for(struct script *s, double seconds)
{
    double end = bst_clock_now() + seconds;
    do {
        pass(s, fmin(fmax(end - bst_clock_now(), 0), 0.5));
        settle(s, true);
    } while (bst_clock_now() < end - 1e-9);
}

static bool screen_has(struct script *s, const char *text)
{
    struct bst_sb screen;
    bst_sb_init(&screen, SCREEN_CAP);
    tui_frame_text(&s->app->frame, &screen);
    bool found = strstr(screen.data, text) != NULL;
    bst_sb_fini(&screen);
    return found;
}

static enum bst_err expect(struct script *s, const char *text)
{
    double end = bst_clock_now() + patience;
    settle(s, true);
    while (!screen_has(s, text)) {
        if (bst_clock_now() >= end)
            return bst_fail(BST_E_STATE, "the screen never had `%s`", text);
        pass(s, 0.1);
        settle(s, true);
    }
    return BST_OK;
}

static void press(struct script *s, int key)
{
    if (tui_app_key(s->app, key) & TUI_DO_LEAVE)
        s->left = true;
    settle(s, false);
}

static enum bst_err press_all(struct script *s, const char *keys)
{
    while (*keys) {
        const char *at = keys;
        int key = tui_key_parse(&keys);
        if (key < 0)
            return bst_fail(BST_E_PARSE, "no such key: %s", at);
        press(s, key);
    }
    return BST_OK;
}

static enum bst_err type_all(struct script *s, const char *text)
{
    for (; *text; text++)
        press(s, (unsigned char)*text);
    return BST_OK;
}

static enum bst_err save(struct script *s, const char *file)
{
    struct bst_sb screen;
    settle(s, false);
    bst_sb_init(&screen, SCREEN_CAP);
    tui_frame_text(&s->app->frame, &screen);
    enum bst_err err = strcmp(file, "-")
                           ? bst_io_replace_file(file, screen.data, screen.len)
                           : bst_io_write_full(STDOUT_FILENO, screen.data, screen.len, "output");
    bst_sb_fini(&screen);
    return err;
}

static enum bst_err resize(struct script *s, const char *operand)
{
    int w, h;
    if (sscanf(operand, "%d %d", &w, &h) != 2 || w < 1 || h < 1)
        return bst_fail(BST_E_PARSE, "size takes two numbers");
    tui_frame_resize(&s->app->frame, w, h);
    settle(s, false);
    return BST_OK;
}

static enum bst_err run_line(struct script *s, const char *word, const char *operand)
{
    double seconds;
    if (!strcmp(word, "size"))
        return resize(s, operand);
    if (!strcmp(word, "keys"))
        return press_all(s, operand);
    if (!strcmp(word, "type"))
        return type_all(s, operand);
    if (!strcmp(word, "expect"))
        return expect(s, operand);
    if (!strcmp(word, "save"))
        return save(s, operand);
    if (!strcmp(word, "refuse"))
        return screen_has(s, operand) ? bst_fail(BST_E_STATE, "the screen has `%s`", operand)
                                      : BST_OK;
    if (strcmp(word, "wait"))
        return bst_fail(BST_E_PARSE, "no such directive: %s", word);
    if (!bst_num_parse(operand, &seconds) || !(seconds >= 0 && seconds < 3600))
        return bst_fail(BST_E_PARSE, "wait takes seconds");
    wait_for(s, seconds);
    return BST_OK;
}

enum bst_err tui_script_run(struct tui_app *app, const char *file)
{
    struct script s = {
        .app = app, .fake = app->cfg->fake_time != NULL, .fake_now = bst_clock_now()};
    char *text = NULL, *rest;
    size_t n;
    BST_TRY(bst_io_read_file(file, SCRIPT_CAP, &text, &n));
    enum bst_err err = BST_OK;
    int number = 0;
    settle(&s, true);
    rest = text;
    for (char *line; !err && !s.left && (line = strsep(&rest, "\n"));) {
        char word[16];
        number++;
        line[strcspn(line, "\r")] = '\0';
        line += strspn(line, " ");
        size_t len = strcspn(line, " ");
        if (!len || *line == '#')
            continue;
        snprintf(word, sizeof word, "%.*s", (int)len, line);
        err = run_line(&s, word, line + len + strspn(line + len, " "));
    }
    if (err)
        bst_fail_in(err, "%s:%d", file, number);
    bst_free(text);
    return err;
}
