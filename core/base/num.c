#include <errno.h>
#include <locale.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/json.h"

/* A console must call setlocale for its wide characters; numbers stay in the C locale all the same.
 */
static locale_t c_locale;
static pthread_once_t c_locale_once = PTHREAD_ONCE_INIT;

static void make_c_locale(void)
{
    c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    BST_ASSERT(c_locale);
}

static locale_t get_c_locale(void)
{
    pthread_once(&c_locale_once, make_c_locale);
    return c_locale;
}

/* "1e-05" becomes "1.0e-05": YAML 1.1 readers (PyYAML) take the former for a string. */
static void add_point(char out[32])
{
    char *e = strchr(out, 'e');
    if (!e || strchr(out, '.'))
        return;
    memmove(e + 2, e, strlen(e) + 1);
    e[0] = '.';
    e[1] = '0';
}

void bst_num_brief(double value, int digits, char out[32])
{
    if (!isfinite(value)) {
        snprintf(out, 32, "%s", isnan(value) ? "nan" : value < 0 ? "-inf" : "inf");
        return;
    }
    locale_t before = uselocale(get_c_locale());
    snprintf(out, 30, "%.*g", digits, value);
    uselocale(before);
    add_point(out);
}

void bst_num_text(double value, char out[32])
{
    for (int digits = 15; digits <= 17; digits++) {
        bst_num_brief(value, digits, out);
        if (strtod_l(out, NULL, get_c_locale()) == value)
            break;
    }
}

bool bst_num_parse(const char *text, double *out)
{
    const char *p = text + (*text == '-' || *text == '+');
    size_t whole = strspn(p, "0123456789");
    p += whole;
    size_t part = 0;
    if (*p == '.') {
        part = strspn(p + 1, "0123456789");
        p += 1 + part;
    }
    if (!whole && !part)
        return false;
    if (*p == 'e' || *p == 'E') {
        p++;
        p += *p == '-' || *p == '+';
        size_t power = strspn(p, "0123456789");
        if (!power)
            return false;
        p += power;
    }
    if (*p)
        return false;
    double value = strtod_l(text, NULL, get_c_locale());
    if (!isfinite(value))
        return false;
    *out = value;
    return true;
}

bool bst_int_parse(const char *text, int64_t *out)
{
    const char *digits = text + (*text == '-' || *text == '+');
    if (!*digits || digits[strspn(digits, "0123456789")])
        return false;
    errno = 0;
    long long value = strtoll(text, NULL, 10);
    if (errno)
        return false;
    *out = value;
    return true;
}
