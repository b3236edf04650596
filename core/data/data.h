/* Data sets by name, and the loader that feeds one rank. A data set is read-only and shared by
 * threads once open. Samples are one endless stream: position p is sample perm(seed, p / N)[p mod
 * N] of epoch p / N, so that neither a batch change nor a resume repeats or drops one. */
#ifndef BST_DATA_DATA_H
#define BST_DATA_DATA_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/err.h"
#include "core/backend/backend.h"
#include "core/graph/net.h"

/* What a sample of a set of sequences is made into, by enum bst_net_input of the net that reads it.
 * A stream is a row of tokens; labels that do not count are BST_TOKEN_IGNORED.
 *   NEXT       one stream; the label of a position is the token behind it. Of a pair: source,
 *              separator, target, end, with labels on target and end alone.
 *   TRANSLATE  source and end | start and target; the labels are target and end.
 *   MASKED     CLS A SEP B SEP with a part of the tokens hidden | segments, 0 for A and 1 for B;
 *              the labels are the tokens that were hidden (Devlin et al. 2019), `pair` whether B
 *              is from elsewhere. */
#define BST_TOKEN_IGNORED BST_LABEL_IGNORED
enum { BST_DATA_STREAMS = BST_MAX_STREAMS };

/* Tokens that stand for no text. In a vocabulary of bytes they follow the 256. */
struct bst_special {
    int32_t pad, start, end, mask; /* BERT: pad, CLS, SEP, mask */
};

struct bst_data_cfg {
    const char *format; /* "idx", "cifar10", "imagefolder", "shapes"; of sequences "tokens", "text",
                           "pairs", "copy", "reverse", "addition" */
    const char *path;   /* folder, of sequences also a file; NULL: the format's own place */
    int image_size;     /* imagefolder: crop; shapes: side; 0: the set's own */
    int classes;        /* shapes: 0: its own; sequences: the vocabulary; 0: its own */
    int channels;       /* shapes; 0: its own */
    int64_t train_count, eval_count; /* shapes; else a limit on the samples used; 0: all */
    bool augment;                    /* training only: crop and flip */
    bool distort;                    /* training only: colours and erasing as well */
    uint64_t seed;
    int threads; /* decoding threads; 0: none of its own where the set is in memory */
    /* Sequences. */
    enum bst_net_input input;
    int length;                 /* T, tokens of a stream; 0: the set's own */
    int token_bytes;            /* tokens: of a token where no header says; 0: 2 */
    const char *languages;      /* pairs: "en-de" are files of those endings */
    int digits;                 /* addition: of a number; 0: 3 */
    bool bucket;                /* pairs: samples of like length come together */
    struct bst_special special; /* tokens under MASKED; all 0: BERT's */
};

enum bst_part { BST_TRAIN, BST_EVAL };

struct bst_token_count { /* of one sample of sequences */
    int tokens;          /* of all streams, without the padding */
    int targets;         /* labels that count */
};

struct bst_data_info {
    int64_t n[2]; /* by enum bst_part */
    int height, width, channels, classes;
    bool decodes; /* a sample costs CPU time: threads of the loader's own pay */
    /* Sequences: height, width and channels are 0, classes is the vocabulary. */
    int streams;                  /* 0: images */
    int length[BST_DATA_STREAMS]; /* of each stream */
    int n_labels;                 /* a sample; 1 with images */
    bool padded;                  /* streams may end early: a batch has lengths */
    bool answers;                 /* a sample's targets are one answer, right as a whole or not */
    struct bst_token_count each;  /* every sample's, where they are alike */
    struct bst_special special;
    char note[160]; /* something the person should know, e.g. that generated data stand in; "" if
                       not */
    const char *diagnostic; /* "BST-nnn" for the note, or NULL */
};

struct bst_dataset;

/* Where one sample of sequences goes. */
struct bst_token_sample {
    int32_t *tokens[BST_DATA_STREAMS]; /* info.length[s] of each stream */
    int32_t *length[BST_DATA_STREAMS]; /* one: tokens before the padding */
    int32_t *labels;                   /* info.n_labels */
    int32_t *pair;                     /* one: MASKED, 1 where B is from elsewhere; else 0 */
};

/* One row of the table in formats.c. Decodes sample `index` into out, uint8 [H, W, C]; `key` picks
 * the augmentation (same key, same pixels). Threads call get() at once. */
struct bst_data_format {
    const char *name;
    const char *about;
    enum bst_err (*open)(const struct bst_data_cfg *cfg, void **state, struct bst_data_info *info);
    void (*close)(void *state);
    enum bst_err (*get)(void *state, enum bst_part part, int64_t index, uint64_t key, uint8_t *out,
                        int32_t *label);
    /* Instead of get, of sequences: every field that `out` points to is written whole. */
    enum bst_err (*get_tokens)(void *state, enum bst_part part, int64_t index, uint64_t key,
                               const struct bst_token_sample *out);
    /* Without reading a sample. NULL: all are as info.each says. */
    void (*measure)(void *state, enum bst_part part, int64_t index, struct bst_token_count *out);
    /* What info tells of sequences whose files are not looked at; NULL: open() needs no file. */
    enum bst_err (*usual)(const struct bst_data_cfg *cfg, struct bst_data_info *info);
    const char *(*class_name)(void *state, int label); /* NULL: the set names no classes */
    /* The format used when cfg.path is NULL and open() says BST_E_NOTFOUND; or NULL. */
    const char *stand_in;
};

extern const struct bst_data_format *const bst_data_formats[]; /* NULL-terminated */

BST_MUST_USE enum bst_err bst_dataset_open(const struct bst_data_cfg *cfg,
                                           struct bst_dataset **out);
void bst_dataset_close(struct bst_dataset *ds);
/* Whether a format is of sequences; false too where there is no such format. */
bool bst_dataset_is_sequences(const char *format);
/* Streams, lengths and vocabulary of a set of sequences, without its files: what the configuration
 * says, or what is usual. The errors are open()'s, as far as files have no part in them. */
BST_MUST_USE enum bst_err bst_dataset_usual(const struct bst_data_cfg *cfg,
                                            struct bst_data_info *out);
const struct bst_data_info *bst_dataset_info(const struct bst_dataset *ds);
/* Class name, or NULL where the set has none. Borrowed. */
const char *bst_dataset_class(const struct bst_dataset *ds, int label);
/* Of sequences: tokens of sample `index` and labels that count, without reading it. */
struct bst_token_count bst_dataset_count(const struct bst_dataset *ds, enum bst_part part,
                                         int64_t index);

/* Samples that could not be read and were substituted, in the order found. A later change of a file
 * is not noticed. Thread-safe. */
struct bst_data_bad {
    enum bst_part part;
    int64_t index;
    char reason[240]; /* names the file */
};
int64_t bst_dataset_n_bad(struct bst_dataset *ds);
/* Entry i, 0 … n-1; false past those kept (the first 64). */
bool bst_dataset_bad(struct bst_dataset *ds, int64_t i, struct bst_data_bad *out);

/* The sample at stream position p of the training part (evaluation runs 0 … n-1 in order). */
int64_t bst_sampler_index(uint64_t seed, int64_t n, uint64_t position, bool shuffle);

/* The same for a data set, with samples of like length brought together where it is asked to do so:
 * positions are shuffled, sorted by length in pools of 1024, and pieces of 32 of a pool shuffled
 * again. As pure a function of seed and position. Any thread. */
struct bst_order;
struct bst_order *bst_order_new(struct bst_dataset *ds, enum bst_part part, bool shuffle,
                                uint64_t seed);
void bst_order_free(struct bst_order *o);
int64_t bst_order_index(struct bst_order *o, uint64_t position);
/* Tokens and labels that count of the n samples from `first` on. */
void bst_order_count(struct bst_order *o, uint64_t first, int64_t n, int64_t *tokens,
                     int64_t *targets);

/* A loader fills slots ahead of the rank that takes them. One taker. `ask` says which range will be
 * taken next (any number of ranges, in order); a range that is asked for again, or dropped by
 * `forget`, costs nothing but its work. `take` of a range that was not asked for loads it now;
 * whatever was asked for before the range taken (or at all, if it was not asked for) is dropped,
 * since the plan has changed. */
struct bst_loader_cfg {
    struct bst_dataset *ds;
    enum bst_part part;
    bool shuffle;
    uint64_t seed;
    int max_batch; /* largest range */
    int slots;     /* ranges in flight; ≥ 2 overlaps loading with training */
    int threads;
    /* Whose alloc_host() the slots are from, on whose thread the loader is made and freed; NULL, or
     * one that has none: bst_alloc(). */
    const struct bst_backend *backend;
    struct bst_be *be;
};

struct bst_batch {
    const uint8_t *images;                    /* [n, H, W, C]; NULL with sequences */
    const int32_t *labels;                    /* [n], of sequences [n, T] */
    const int64_t *index;                     /* [n] samples used */
    const int32_t *tokens[BST_DATA_STREAMS];  /* [n, length of the stream]; NULL: there is none */
    const int32_t *lengths[BST_DATA_STREAMS]; /* [n]; NULL: no sample has padding */
    const int32_t *pair; /* [n], see struct bst_token_sample; NULL with images */
    int length;          /* where samples have padding: of the rows of tokens and labels; else 0 */
    int n;
    int n_bad; /* substituted because they could not be read */
    int slot;
    const void *block; /* all of the above, in one piece; its size is the same for every batch */
    size_t block_bytes;
};

struct bst_loader;
BST_MUST_USE enum bst_err bst_loader_new(const struct bst_loader_cfg *cfg, struct bst_loader **out);
void bst_loader_free(struct bst_loader *l);
void bst_loader_ask(struct bst_loader *l, uint64_t first, int n);
/* BST_E_CANCELLED once `stop` (may be NULL) is set while the range is not there yet: however slow
 * the source, the wait ends; the range stays asked for. */
BST_MUST_USE enum bst_err bst_loader_take(struct bst_loader *l, uint64_t first, int n,
                                          const atomic_int *stop, struct bst_batch *out);
void bst_loader_give_back(struct bst_loader *l, const struct bst_batch *b);
void bst_loader_forget(struct bst_loader *l);
/* Cuts the rows of a batch that was taken to `length` tokens, in place; no sample is longer. For
 * sets with padding alone. */
void bst_loader_cut(struct bst_loader *l, struct bst_batch *b, int length);
/* Bytes held for slots, for the memory table; and seconds take() has waited so far. */
size_t bst_loader_bytes(const struct bst_loader *l);
/* The same for a loader that is not made yet; SIZE_MAX when that cannot be. */
size_t bst_loader_bytes_for(const struct bst_loader_cfg *cfg);
double bst_loader_waited(const struct bst_loader *l);

#endif
