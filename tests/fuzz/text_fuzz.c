/* Text from outside: what bst_text_clean lets through is printable UTF-8; what bst_num_parse takes
 * is written back and read again as the same number. */
#include <string.h>

#include "core/base/alloc.h"
#include "core/base/json.h"
#include "core/base/text.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bst_sb sb;
    bst_sb_init(&sb, size * 12 + 1);
    bst_text_clean(&sb, (const char *)data, size);
    BST_ASSERT(!sb.full);
    for (size_t at = 0; at < sb.len;) {
        uint32_t point = 0;
        size_t len = bst_text_utf8(sb.data + at, sb.len - at, &point);
        BST_ASSERT(len > 0 && point >= 0x20 && (point < 0x7F || point > 0x9F));
        at += len;
    }
    bst_sb_fini(&sb);
    char *text = bst_xalloc(size + 1), out[32];
    memcpy(text, data, size);
    double value, back;
    if (bst_num_parse(text, &value)) {
        bst_num_text(value, out);
        BST_ASSERT(bst_num_parse(out, &back) && back == value);
    }
    uint64_t bytes;
    (void)bst_text_parse_bytes(text, &bytes);
    (void)bst_text_is_name(text);
    bst_free(text);
    return 0;
}
