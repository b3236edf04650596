#include "core/train/manifest.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/alloc.h"
#include "core/base/crc32c.h"

#define PIECE ((size_t)1 << 20) /* bytes read at a time */

const char *const bst_manifest_names[MANIFEST_FILES] = {"weights.safetensors",
                                                        "optimizer.safetensors", "state.json"};

void bst_manifest_write(const struct bst_manifest *m, struct bst_sb *out)
{
    size_t start = out->len;
    bst_sb_addf(out,
                "bstune-checkpoint 1\nseq %" PRIu64 "\nupdate %" PRIu64 "\nsamples %" PRIu64 "\n",
                m->seq, m->update, m->samples);
    for (int i = 0; i < MANIFEST_FILES; i++)
        bst_sb_addf(out, "file %s %" PRIu64 " %08" PRIx32 "\n", bst_manifest_names[i],
                    m->file[i].bytes, m->file[i].crc);
    bst_sb_addf(out, "end %08" PRIx32 "\n", bst_crc32c(0, out->data + start, out->len - start));
}

enum bst_err bst_manifest_read(const char *text, size_t n, struct bst_manifest *out)
{
    struct bst_sb again;
    *out = (struct bst_manifest){0};
    int got =
        sscanf(text,
               "bstune-checkpoint 1 seq %" SCNu64 " update %" SCNu64 " samples %" SCNu64
               " file %*s %" SCNu64 " %" SCNx32 " file %*s %" SCNu64 " %" SCNx32
               " file %*s %" SCNu64 " %" SCNx32,
               &out->seq, &out->update, &out->samples, &out->file[0].bytes, &out->file[0].crc,
               &out->file[1].bytes, &out->file[1].crc, &out->file[2].bytes, &out->file[2].crc);
    /* Written again it must be the same text: whatever is odd about it shows, its own CRC included.
     */
    bst_sb_init(&again, 4096);
    bst_manifest_write(out, &again);
    bool same = got == 9 && again.len == n && !memcmp(again.data, text, n);
    bst_sb_fini(&again);
    return same ? BST_OK : bst_fail(BST_E_CORRUPT, "MANIFEST is damaged");
}

static enum bst_err scan_fd(int fd, const char *name, uint64_t *bytes, uint32_t *crc)
{
    struct stat st;
    if (fstat(fd, &st))
        return bst_fail(BST_E_IO, "%s: %s", name, strerror(errno));
    if (!S_ISREG(st.st_mode))
        return bst_fail(BST_E_CORRUPT, "%s: not a file", name);
    char *piece = bst_xalloc(PIECE);
    enum bst_err err = BST_OK;
    *bytes = 0;
    *crc = 0;
    for (;;) {
        ssize_t n = read(fd, piece, PIECE);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            err = bst_fail(BST_E_IO, "%s: %s", name, strerror(errno));
        if (n <= 0)
            break;
        *crc = bst_crc32c(*crc, piece, (size_t)n);
        *bytes += (uint64_t)n;
    }
    bst_free(piece);
    return err;
}

static enum bst_err scan_file(const char *dir, const char *name, uint64_t *bytes, uint32_t *crc)
{
    char *path = bst_xasprintf("%s/%s", dir, name);
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    int why = errno;
    bst_free(path);
    if (fd < 0)
        return bst_fail(why == ENOENT || why == ELOOP ? BST_E_CORRUPT : BST_E_IO, "%s: %s", name,
                        strerror(why));
    enum bst_err err = scan_fd(fd, name, bytes, crc);
    close(fd);
    return err;
}

enum bst_err bst_manifest_scan(const char *dir, struct bst_manifest *m, bool check)
{
    for (int i = 0; i < MANIFEST_FILES; i++) {
        const char *name = bst_manifest_names[i];
        uint64_t bytes = 0;
        uint32_t crc = 0;
        BST_TRY(scan_file(dir, name, &bytes, &crc));
        if (check && bytes != m->file[i].bytes)
            return bst_fail(BST_E_CORRUPT, "%s: %" PRIu64 " bytes, %" PRIu64 " were written", name,
                            bytes, m->file[i].bytes);
        if (check && crc != m->file[i].crc)
            return bst_fail(BST_E_CORRUPT, "%s: checksum %08" PRIx32 ", %08" PRIx32 " was written",
                            name, crc, m->file[i].crc);
        m->file[i].bytes = bytes;
        m->file[i].crc = crc;
    }
    return BST_OK;
}
