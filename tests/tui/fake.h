/* A run that never was, for screens that must be the same each time: 3.4 epochs of a small ResNet,
 * made from formulas, and a trainer that answers as the real one does. */
#ifndef TESTS_TUI_FAKE_H
#define TESTS_TUI_FAKE_H

#include "tui/link.h"

enum fake_kind {
    FAKE_USUAL,
    FAKE_EMPTY,    /* connected, nothing has happened yet */
    FAKE_DIVERGED, /* a loss that is not finite, a layer too, a failed run */
    FAKE_MANY,     /* eight devices, three hundred layers, long and hostile names */
    FAKE_OTHER,    /* another console drives */
    FAKE_LOST,     /* the trainer does not answer */
    FAKE_MOVING,   /* a second's worth of updates with each question */
    FAKE_SLOW,     /* a command that changes the run is answered after the next question */
    FAKE_ENDED,    /* done, its trainer gone since yesterday */
    FAKE_TOKENS,   /* a language model's run, its batch counted in tokens, under noam */
    FAKE_TAKEN,    /* after each proposal another console takes the lease, and advice comes */
    FAKE_REPLAY,   /* of a recording: nothing can be changed */
    FAKE_EARLY,    /* half an epoch, in a warm-up of one of ten epochs */
    FAKE_ENDING,   /* 100 updates before the end; a trial is refused, and 30 are left by then */
    FAKE_GONE,     /* a trial ends the connection, and another one is there at once */
};

struct tui_link *fake_open(enum fake_kind kind);
/* -1 when there is no such word */
int fake_kind_by_name(const char *name);

#endif
