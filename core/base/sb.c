#include "core/base/sb.h"

#include <stdio.h>
#include <string.h>

#include "core/base/alloc.h"

enum { FIRST_ROOM = 64 };

/* What an empty buffer points at; room 0 says that it must not be written. */
static char nothing[1];

void bst_sb_init(struct bst_sb *sb, size_t cap)
{
    *sb = (struct bst_sb){.data = nothing, .cap = cap};
}

void bst_sb_fini(struct bst_sb *sb)
{
    if (sb->room)
        bst_free(sb->data);
    bst_sb_init(sb, sb->cap);
}

void bst_sb_clear(struct bst_sb *sb)
{
    sb->len = 0;
    sb->full = false;
    if (sb->room)
        sb->data[0] = '\0';
}

/* Makes room for n more bytes and the NUL; n never leads past the cap. */
static void make_room(struct bst_sb *sb, size_t n)
{
    size_t want = sb->len + n + 1;
    if (want <= sb->room)
        return;
    size_t room = sb->room ? sb->room : FIRST_ROOM;
    while (room < want)
        room = room > want / 2 ? want : room * 2;
    sb->data = bst_xrealloc(sb->room ? sb->data : NULL, room, 1);
    sb->data[sb->len] = '\0';
    sb->room = room;
}

/* The longest prefix of s within n bytes that does not cut a UTF-8 sequence. */
static size_t whole_chars(const char *s, size_t n)
{
    size_t at = n;
    for (int back = 0; at && back < 3 && ((unsigned char)s[at] & 0xC0) == 0x80; back++)
        at--;
    return ((unsigned char)s[at] & 0xC0) == 0xC0 ? at : n;
}

void bst_sb_addn(struct bst_sb *sb, const char *s, size_t n)
{
    if (sb->full || !n)
        return;
    size_t left = sb->cap - sb->len;
    if (n > left) {
        sb->full = true;
        n = whole_chars(s, left);
    }
    make_room(sb, n);
    memcpy(sb->data + sb->len, s, n);
    sb->len += n;
    sb->data[sb->len] = '\0';
}

void bst_sb_add(struct bst_sb *sb, const char *s)
{
    bst_sb_addn(sb, s, strlen(s));
}

void bst_sb_addc(struct bst_sb *sb, char c)
{
    bst_sb_addn(sb, &c, 1);
}

void bst_sb_addf(struct bst_sb *sb, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    bst_sb_addv(sb, fmt, ap);
    va_end(ap);
}

void bst_sb_addv(struct bst_sb *sb, const char *fmt, va_list ap)
{
    if (sb->full)
        return;
    char brief[256];
    va_list again;
    va_copy(again, ap);
    int n = vsnprintf(brief, sizeof brief, fmt, ap);
    BST_ASSERT(n >= 0);
    if ((size_t)n < sizeof brief) {
        bst_sb_addn(sb, brief, (size_t)n);
    } else {
        char *s = bst_xalloc((size_t)n + 1);
        vsnprintf(s, (size_t)n + 1, fmt, again);
        bst_sb_addn(sb, s, (size_t)n);
        bst_free(s);
    }
    va_end(again);
}

char *bst_sb_take(struct bst_sb *sb)
{
    char *s = sb->room ? sb->data : bst_xalloc(1);
    bst_sb_init(sb, sb->cap);
    return s;
}
