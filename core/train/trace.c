/* --trace-samples: one line an update that counted, "update first n index…". Opened for appending,
 * so that a resumed run goes on; an update done twice (after a crash) is there twice, the last one
 * holds. */
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/base/alloc.h"
#include "core/base/io.h"
#include "core/base/log.h"
#include "core/base/sb.h"
#include "core/train/rank.h"

enum bst_err bst_trace_open(struct bst_trainer *t)
{
    t->trace_fd = -1;
    if (!t->cfg.trace_path)
        return BST_OK;
    return bst_io_open_write(t->cfg.trace_path, O_APPEND, 0666, &t->trace_fd);
}

void bst_trace_room(struct bst_trainer *t, int64_t n)
{
    if (t->trace_fd < 0 || n <= t->trace_room)
        return;
    t->trace = bst_xrealloc(t->trace, (size_t)n, sizeof *t->trace);
    t->trace_room = n;
}

void bst_trace_write(struct bst_trainer *t, const struct bst_update_req *req)
{
    struct bst_sb line;
    if (t->trace_fd < 0 || !req->update)
        return;
    bst_sb_init(&line, SIZE_MAX / 2);
    bst_sb_addf(&line, "%" PRIu64 " %" PRIu64 " %" PRId64, req->update, req->first, req->batch);
    for (int64_t i = 0; i < req->batch; i++)
        bst_sb_addf(&line, " %" PRId64, t->trace[i]);
    bst_sb_addc(&line, '\n');
    /* The update has happened: a full disk costs the trace, not the run. */
    if (bst_io_write_full(t->trace_fd, line.data, line.len, t->cfg.trace_path)) {
        bst_log(BST_LOG_ERROR, "the trace of samples ends before update %" PRIu64 ": %s",
                req->update, bst_err_text());
        bst_trace_close(t);
    }
    bst_sb_fini(&line);
}

void bst_trace_close(struct bst_trainer *t)
{
    if (t->trace_fd >= 0)
        close(t->trace_fd);
    t->trace_fd = -1;
    bst_free(t->trace);
    t->trace = NULL;
    t->trace_room = 0;
}
