#include "core/tune/interval.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/base/json.h"

static const double samples_max = 0x1p53;

static const char *const suffixes[] = {
    [BST_UNIT_EPOCHS] = "ep",
    [BST_UNIT_STEPS] = "st",
    [BST_UNIT_SAMPLES] = "sa",
    [BST_UNIT_RATIO] = "%",
};

enum bst_err bst_interval_parse(const char *text, struct bst_interval *out)
{
    /* No exponents: the e of "1ep" belongs to the unit. */
    size_t n = strspn(text, "0123456789.");
    char digits[32];
    if (!n || n >= sizeof digits)
        return bst_fail(BST_E_PARSE, "'%.40s' is not a length such as 1ep, 500st, 10000sa or 10%%",
                        text);
    memcpy(digits, text, n);
    digits[n] = '\0';
    double value;
    if (!bst_num_parse(digits, &value))
        return bst_fail(BST_E_PARSE, "'%s' is not a number", digits);
    for (int unit = 0; unit <= BST_UNIT_RATIO; unit++) {
        if (strcmp(text + n, suffixes[unit]) != 0)
            continue;
        *out = (struct bst_interval){unit == BST_UNIT_RATIO ? value / 100 : value,
                                     (enum bst_unit)unit};
        return BST_OK;
    }
    if (!text[n])
        return bst_fail(BST_E_PARSE,
                        "'%s' has no unit: ep (epochs), st (updates), sa (samples) or %%", digits);
    return bst_fail(BST_E_PARSE,
                    "'%.20s' is no unit: ep (epochs), st (updates), sa (samples) or %%", text + n);
}

void bst_interval_format(struct bst_interval iv, char out[32])
{
    /* 0.07 · 100 is 7.000000000000001; twelve places of a percent are enough for anyone. */
    double value = iv.unit == BST_UNIT_RATIO ? rint(iv.value * 1e14) / 1e12 : iv.value;
    char digits[32];
    bst_num_text(value, digits);
    snprintf(out, 32, "%.28s%s", digits, suffixes[iv.unit]);
}

enum bst_err bst_interval_samples(struct bst_interval iv, const struct bst_scale *scale,
                                  uint64_t *out)
{
    uint64_t one = 1;
    if (iv.unit == BST_UNIT_EPOCHS)
        one = scale->dataset;
    else if (iv.unit == BST_UNIT_STEPS)
        one = scale->batch;
    else if (iv.unit == BST_UNIT_RATIO)
        one = scale->total;
    double samples = floor(iv.value * (double)one + 0.5);
    if (!(samples >= 0 && samples < samples_max)) {
        char text[32];
        bst_interval_format(iv, text);
        return bst_fail(BST_E_RANGE, "%s is not a length a run can have, up to 9.007e15 samples",
                        text);
    }
    *out = (uint64_t)samples;
    return BST_OK;
}
