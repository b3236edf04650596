/* Whatever comes over a run's socket: cut into lines in pieces of any size, and read as requests.
 */
#include "fuzz.h"

#include <string.h>

#include "core/base/err.h"
#include "core/run/wire.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bst_frames f;
    size_t piece = size ? 1 + data[0] % 64 : 1;
    bst_frames_init(&f, 4096);
    for (size_t at = 0; at < size; at += piece) {
        size_t n = size - at < piece ? size - at : piece, len;
        if (bst_frames_feed(&f, (const char *)data + at, n))
            break;
        for (char *line; (line = bst_frames_next(&f, &len)) != NULL;) {
            struct bst_request r;
            BST_ASSERT(line[len] == '\0');
            BST_ASSERT(len <= 4096 + piece);
            if (bst_request_parse(line, len, &r))
                continue;
            BST_ASSERT(strlen(r.text) < sizeof r.text);
            for (const char *p = r.user; *p; p++)
                BST_ASSERT((unsigned char)*p >= 0x20 && *p != 0x7F);
        }
        BST_ASSERT(f.room <= 8192);
    }
    bst_frames_fini(&f);
    return 0;
}
