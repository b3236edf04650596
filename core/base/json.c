#include "core/base/json.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "core/base/text.h"

static void add_string(struct bst_sb *sb, const char *s)
{
    size_t n = strlen(s);
    bst_sb_addc(sb, '"');
    while (n) {
        uint32_t point;
        size_t len = bst_text_utf8(s, n, &point);
        if (!len) {
            bst_sb_add(sb, "\xEF\xBF\xBD"); /* U+FFFD for each byte that is not UTF-8 */
            len = 1;
        } else if (point == '"' || point == '\\') {
            bst_sb_addf(sb, "\\%c", (char)point);
        } else if (point == '\n') {
            bst_sb_add(sb, "\\n");
        } else if (point == '\t') {
            bst_sb_add(sb, "\\t");
        } else if (point < 0x20 || (point >= 0x7F && point < 0xA0)) {
            bst_sb_addf(sb, "\\u%04x", (unsigned)point);
        } else {
            bst_sb_addn(sb, s, len);
        }
        s += len;
        n -= len;
    }
    bst_sb_addc(sb, '"');
}

static void begin(struct bst_json *j, const char *key)
{
    if (j->comma)
        bst_sb_addc(j->sb, ',');
    j->comma = true;
    if (key) {
        add_string(j->sb, key);
        bst_sb_addc(j->sb, ':');
    }
}

void bst_json_init(struct bst_json *j, struct bst_sb *sb)
{
    *j = (struct bst_json){.sb = sb};
}

void bst_json_open(struct bst_json *j, const char *key, char bracket)
{
    begin(j, key);
    bst_sb_addc(j->sb, bracket);
    j->comma = false;
}

void bst_json_close(struct bst_json *j, char bracket)
{
    bst_sb_addc(j->sb, bracket);
    j->comma = true;
}

void bst_json_str(struct bst_json *j, const char *key, const char *value)
{
    begin(j, key);
    if (value)
        add_string(j->sb, value);
    else
        bst_sb_add(j->sb, "null");
}

void bst_json_int(struct bst_json *j, const char *key, int64_t value)
{
    begin(j, key);
    bst_sb_addf(j->sb, "%" PRId64, value);
}

void bst_json_uint(struct bst_json *j, const char *key, uint64_t value)
{
    begin(j, key);
    bst_sb_addf(j->sb, "%" PRIu64, value);
}

void bst_json_num(struct bst_json *j, const char *key, double value)
{
    char words[32] = "null";
    begin(j, key);
    if (isfinite(value))
        bst_num_text(value, words);
    bst_sb_add(j->sb, words);
}

void bst_json_bool(struct bst_json *j, const char *key, bool value)
{
    begin(j, key);
    bst_sb_add(j->sb, value ? "true" : "false");
}

void bst_json_null(struct bst_json *j, const char *key)
{
    begin(j, key);
    bst_sb_add(j->sb, "null");
}

void bst_json_num_or_why(struct bst_json *j, const char *key, double value)
{
    bst_json_num(j, key, value);
    if (!isfinite(value))
        bst_json_str(j, "nonfinite", isnan(value) ? "nan" : "inf");
}

void bst_json_raw(struct bst_json *j, const char *key, const char *json)
{
    begin(j, key);
    bst_sb_add(j->sb, json);
}
