/*
 * splitter - the pre_tokenizer: cuts text into the pieces that BPE works on.
 *
 * A chain of at most SPLIT_STAGES_MAX patterns, each working on the pieces of the one before:
 * Split, Digits, and last of all ByteLevel, which may put a space in front and use GPT-2's pattern.
 * A piece goes down the whole chain before the next one is cut, so no list of pieces is kept.
 *
 * Thread: immutable once built; a split_run belongs to one call.
 */
#pragma once

#include "base/status.h"
#include "tokenizer/split_pattern.h"

#include <stdbool.h>
#include <stddef.h>

#define SPLIT_STAGES_MAX 8

struct field;

enum split_behavior {
    SPLIT_REMOVED,
    SPLIT_ISOLATED,
    SPLIT_MERGED_WITH_PREVIOUS,
    SPLIT_MERGED_WITH_NEXT,
    SPLIT_CONTIGUOUS
};

struct split_stage {
    struct split_pattern *pattern;
    enum split_behavior behavior;
    bool invert;
};

struct splitter {
    struct split_stage stages[SPLIT_STAGES_MAX];
    unsigned n_stages;
    unsigned prefix_stage; /* a space is put in front before this stage */
    bool add_prefix_space;
    bool has_byte_level;
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
    char *prefixed; /* [prefixed_max] the piece with its space; zero at first */
    size_t prefixed_max;
};

/* Reads pre_tokenizer. CORRUPT, UNSUPPORTED: error names the field. NO_MEMORY. On failure nothing is
 * kept. */
MUST_CHECK enum status splitter_init(struct splitter *splitter, const struct field *pre_tokenizer,
                                     struct error *error);
void splitter_finish(struct splitter *splitter);

/* Fails as split_pattern_next does, with NO_MEMORY, and with what emit returned. */
MUST_CHECK enum status split_run(struct split_run *run, const char *text, size_t n_bytes);
void split_run_finish(struct split_run *run);
