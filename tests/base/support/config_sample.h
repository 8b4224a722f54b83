/*
 * config_sample - a table with a row of each type, loaded from what a person gave.
 *
 * All functions assert (Criterion) on anything unexpected.
 */
#pragma once

#include "base/config/config.h"

enum colour { RED, GREEN, BLUE };

#define SAMPLE_CONFIG(X)                                                                           \
    X(is_on, BOOL, "false", "", "a switch")                                                        \
    X(block_tokens, U32(8, 128), "32", "tokens", "tokens in a block")                              \
    X(seed, U64(0, CONFIG_NO_MAX), "7", "", "a seed")                                              \
    X(ratio, F64(0, 1), "0.25", "", "a share")                                                     \
    X(pool_bytes, SIZE(1024, CONFIG_NO_MAX), "64M", "bytes", "the pool")                           \
    X(drain_ms, DURATION_MS(0, 600000), "30s", "ms", "how long a drain takes")                     \
    X(address, STRING, "127.0.0.1:1", "", "where")                                                 \
    X(token, SECRET, "", "", "a password")                                                         \
    X(colour, WORD(enum colour, "red|green|blue"), "green", "", "which")                           \
    X(texts, LIST, "", "", "some")                                                                 \
    X(parent, HIDDEN(U32(0, 9)), "1", "", "nobody's business")
#define SAMPLE_ALIASES(X) X("block-size", block_tokens) X("b", block_tokens)

CONFIG_DECLARE(sample_config, SAMPLE_CONFIG);

enum { WORDS_MAX = 14 };

/* What a person gave: words of the command line and of the environment, and a file's text. */
struct given {
    const char *arguments[WORDS_MAX];
    const char *environment[WORDS_MAX];
    const char *yaml; /* NULL: no file */
    const char *usage;
    const struct config_program *program;
};

struct loaded {
    struct sample_config values;
    struct config *config;
    struct error error;
    char path[64];
    char *arguments[WORDS_MAX + 2]; /* with --config and the path; config borrows them */
};

/* Makes the file of the path, which the caller removes. */
void config_sample_write(struct loaded *loaded, const char *text);
enum status load(const struct given *given, struct loaded *loaded);
void load_ok(const struct given *given, struct loaded *loaded);
