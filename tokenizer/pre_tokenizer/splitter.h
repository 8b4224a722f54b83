/*
 * splitter - the pre_tokenizer: cuts text into the pieces that the model works on.
 *
 * A chain of at most SPLIT_STAGES_MAX stages, each working on the pieces of the one before. A stage may rewrite a piece first
 * (Metaspace writes spaces as another character and may put one in front, ByteLevel may put a space in front), then it
 * may cut it by a pattern. A piece goes down the whole chain before the next one is cut, so no list of pieces is kept.
 *
 * ByteLevel is two stages: the last of them writes each byte as a character of the byte alphabet. Where that is the end of
 * the chain, a model of bytes does without it.
 *
 * Thread: immutable once built; a split_run belongs to one call.
 */
#pragma once

#include "base/status.h"
#include "tokenizer/pattern/split_pattern.h"
#include "tokenizer/pre_tokenizer/metaspace.h"

#include <stdbool.h>
#include <stddef.h>

#define SPLIT_STAGES_MAX 16

struct field;

enum split_behavior {
    SPLIT_REMOVED,
    SPLIT_ISOLATED,
    SPLIT_MERGED_WITH_PREVIOUS,
    SPLIT_MERGED_WITH_NEXT,
    SPLIT_CONTIGUOUS
};

struct split_stage {
    char space[4];  /* [n_space] UTF-8 of one character: what a space becomes */
    size_t n_space; /* 0: spaces stay */
    bool
        spells_bytes; /* each byte becomes its character of the byte alphabet; then nothing else is done */
    enum prepend_scheme prepend;
    struct split_pattern *pattern; /* NULL: it does not cut */
    enum split_behavior behavior;
    bool invert;
};

struct splitter {
    struct split_stage stages[SPLIT_STAGES_MAX];
    unsigned n_stages;
};

/* Called with each piece, never an empty one. Borrowed until it returns. */
typedef enum status (*split_emit)(void *arg, const char *piece, size_t n_bytes);

/* What one call of splitter_run needs; matcher is the caller's. */
struct split_run {
    const struct splitter *splitter;
    struct split_matcher *matcher;
    struct error *error;
    split_emit emit;
    void *arg;
    /* What each stage makes of a piece, grown to the longest; zero at first. */
    char *rewritten[SPLIT_STAGES_MAX];
    size_t rewritten_max[SPLIT_STAGES_MAX];
};

/* Reads pre_tokenizer. CORRUPT, UNSUPPORTED: error names the field. NO_MEMORY. On failure nothing is
 * kept. */
MUST_CHECK enum status splitter_init(struct splitter *splitter, const struct field *pre_tokenizer,
                                     struct error *error);
void splitter_finish(struct splitter *splitter);

/* Whether the last stage writes bytes as characters; splitter_leave_bytes takes it away, so that pieces are bytes. */
bool splitter_ends_in_bytes(const struct splitter *splitter);
void splitter_leave_bytes(struct splitter *splitter);

/* Whether it puts something in front of a text. */
bool splitter_prepends(const struct splitter *splitter);

/* is_first: text is the start of the whole text. Fails as split_pattern_next does, with NO_MEMORY,
 * and with what emit returned. */
MUST_CHECK enum status split_run(struct split_run *run, const char *text, size_t n_bytes,
                                 bool is_first);
void split_run_finish(struct split_run *run);
