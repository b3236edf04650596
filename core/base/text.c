#include "core/base/text.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/base/json.h"

size_t bst_text_utf8(const char *s, size_t n, uint32_t *point)
{
    const unsigned char *p = (const unsigned char *)s;
    if (!n)
        return 0;
    if (p[0] < 0x80) {
        *point = p[0];
        return 1;
    }
    size_t len = p[0] >= 0xF0 ? 4 : p[0] >= 0xE0 ? 3 : 2;
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    if (p[0] < 0xC2 || p[0] > 0xF4 || n < len)
        return 0;
    uint32_t c = p[0] & (0xFFu >> (len + 1));
    for (size_t i = 1; i < len; i++) {
        if ((p[i] & 0xC0) != 0x80)
            return 0;
        c = c << 6 | (p[i] & 0x3Fu);
    }
    if (c < least[len] || c > 0x10FFFF || (c >= 0xD800 && c <= 0xDFFF))
        return 0;
    *point = c;
    return len;
}

/* Code points that move, hide or forge text on a terminal without being seen themselves. */
static const struct {
    uint32_t first, last;
} unseen[] = {
    {0x00, 0x1F},     {0x7F, 0x9F},     {0xAD, 0xAD},     {0x61C, 0x61C},     {0x115F, 0x1160},
    {0x180E, 0x180E}, {0x200B, 0x200F}, {0x2028, 0x202E}, {0x2060, 0x206F},   {0x3164, 0x3164},
    {0xFEFF, 0xFEFF}, {0xFFA0, 0xFFA0}, {0xFFF9, 0xFFFB}, {0xE0000, 0xE01EF},
};

static bool is_unseen(uint32_t point)
{
    for (size_t i = 0; i < sizeof unseen / sizeof unseen[0]; i++)
        if (point >= unseen[i].first && point <= unseen[i].last)
            return true;
    return false;
}

void bst_text_clean(struct bst_sb *out, const char *s, size_t n)
{
    while (n) {
        uint32_t point;
        size_t len = bst_text_utf8(s, n, &point);
        if (!len) {
            bst_sb_addf(out, "\\x%02x", (unsigned char)*s);
            len = 1;
        } else if (point == '\n') {
            bst_sb_add(out, "\\n");
        } else if (point == '\t') {
            bst_sb_add(out, "\\t");
        } else if (!is_unseen(point)) {
            bst_sb_addn(out, s, len);
        } else if (point < 0x100) {
            bst_sb_addf(out, "\\x%02x", (unsigned)point);
        } else {
            bst_sb_addf(out, "\\u{%x}", (unsigned)point);
        }
        s += len;
        n -= len;
    }
}

enum { WORD_MAX = 64 };

static int least_of(int a, int b, int c)
{
    int least = a < b ? a : b;
    return least < c ? least : c;
}

/* Optimal string alignment: insertions, deletions, changes, and swaps of neighbours. */
static int distance(const char *a, int n_a, const char *b, int n_b)
{
    int d[3][WORD_MAX + 1];
    for (int j = 0; j <= n_b; j++)
        d[0][j] = j;
    for (int i = 1; i <= n_a; i++) {
        int *now = d[i % 3], *up = d[(i + 2) % 3], *up2 = d[(i + 1) % 3];
        now[0] = i;
        for (int j = 1; j <= n_b; j++) {
            now[j] = least_of(up[j] + 1, now[j - 1] + 1, up[j - 1] + (a[i - 1] != b[j - 1]));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                now[j] = least_of(now[j], up2[j - 2] + 1, now[j]);
        }
    }
    return d[n_a % 3][n_b];
}

int bst_text_nearest(const char *word, const char *const *names, int n_names)
{
    size_t n = strlen(word);
    int best = -1, best_edits = 4;
    if (n > WORD_MAX)
        return -1;
    for (int i = 0; i < n_names; i++) {
        size_t n_name = strlen(names[i]);
        if (n_name > WORD_MAX)
            continue;
        int edits = distance(word, (int)n, names[i], (int)n_name);
        if (edits < best_edits && (size_t)edits * 2 <= n) {
            best = i;
            best_edits = edits;
        }
    }
    return best;
}

static bool is_alnum(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

bool bst_text_in_list(const char *list, const char *word)
{
    size_t n = strlen(word);
    for (const char *p = list; *p && n; p += strcspn(p, " "), p += strspn(p, " "))
        if (!strncmp(p, word, n) && (!p[n] || p[n] == ' '))
            return true;
    return false;
}

bool bst_text_is_name(const char *s)
{
    if (!is_alnum(*s))
        return false;
    size_t n = 0;
    for (; s[n]; n++)
        if (n == 64 || !(is_alnum(s[n]) || strchr("._-", s[n])))
            return false;
    return true;
}

void bst_text_rate(double rate, char out[32])
{
    snprintf(out, 32, rate < 1000 ? "%.4g" : "%.0f", rate);
}

void bst_text_bytes(uint64_t bytes, char out[32])
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    int unit = 0;
    double value = (double)bytes;
    /* 1023.995 would be shown as 1024.00. */
    while (value >= (unit ? 1023.995 : 1024.0) && unit < 6) {
        value /= 1024;
        unit++;
    }
    if (!unit) {
        snprintf(out, 32, "%d B", (int)bytes);
        return;
    }
    uint64_t hundredths = (uint64_t)llround(value * 100);
    snprintf(out, 32, "%d.%02d %s", (int)(hundredths / 100), (int)(hundredths % 100), units[unit]);
}

bool bst_text_parse_bytes(const char *s, uint64_t *out)
{
    static const struct {
        const char *name;
        double factor;
    } units[] = {
        {"", 1},         {"B", 1},        {"KiB", 0x1p10}, {"MiB", 0x1p20}, {"GiB", 0x1p30},
        {"TiB", 0x1p40}, {"PiB", 0x1p50}, {"EiB", 0x1p60}, {"kB", 1e3},     {"MB", 1e6},
        {"GB", 1e9},     {"TB", 1e12},    {"PB", 1e15},    {"EB", 1e18},
    };
    size_t n = strspn(s, "0123456789.");
    char digits[32];
    if (!n || n >= sizeof digits || *s == '.')
        return false;
    memcpy(digits, s, n);
    digits[n] = '\0';
    const char *unit = s + n + (s[n] == ' ' && s[n + 1]);
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        if (strcmp(unit, units[i].name) != 0)
            continue;
        int64_t whole;
        uint64_t factor = (uint64_t)units[i].factor;
        if (bst_int_parse(digits, &whole))
            return !__builtin_mul_overflow((uint64_t)whole, factor, out);
        double value;
        if (factor == 1 || !bst_num_parse(digits, &value) || value * units[i].factor >= 0x1p63)
            return false;
        *out = (uint64_t)floor(value * units[i].factor);
        return true;
    }
    return false;
}

const char *bst_text_plural(uint64_t n)
{
    return n == 1 ? "" : "s";
}
