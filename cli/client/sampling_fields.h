/*
 * sampling_fields - the sampling parameters of a client command: its rows, and the fields of the request that they set.
 *
 * A row that is not given leaves its field absent, so that the model's default applies.
 *
 * Thread: main; no state.
 */
#pragma once

#include "base/config/config.h"
#include "proto/kvferry/v1/sampling.pb-c.h"

#define SAMPLING_ROWS(X)                                                                           \
    X(max_tokens, U32(1, 16777216), "256", "tokens", "most tokens to generate")                    \
    SAMPLING_ROWS_OF_CHAT(X)

/* Without max_tokens, whose default is another one there. */
#define SAMPLING_ROWS_OF_CHAT(X)                                                                   \
    X(temperature, F64(0, 100), "1", "", "0: greedy; not given: the model's default")              \
    X(top_k, U32(0, 4294967295), "0", "tokens",                                                    \
      "sample from this many of the likeliest tokens; 0: all; not given: the model's default")     \
    X(top_p, F64(0, 1), "1", "",                                                                   \
      "sample from the likeliest tokens with this total probability; not given: the model's "      \
      "default")                                                                                   \
    X(min_p, F64(0, 1), "0", "", "lowest probability of a token, relative to the likeliest one")   \
    X(typical_p, F64(0, 1), "1", "",                                                               \
      "sample from the tokens nearest to the entropy with this total probability; not given: the " \
      "model's default")                                                                           \
    X(epsilon_cutoff, F64(0, 1), "0", "",                                                          \
      "lowest probability of a token; not given: the model's default")                             \
    X(eta_cutoff, F64(0, 1), "0", "",                                                              \
      "lowest probability of a token, less where the entropy is high; not given: the model's "     \
      "default")                                                                                   \
    X(no_repeat_ngram_size, U32(0, 64), "0", "tokens",                                             \
      "so many tokens do not appear twice in one order; 0: all may; not given: the model's "       \
      "default")                                                                                   \
    X(repetition_penalty, F64(0, 100), "1", "",                                                    \
      "factor against repeated tokens; not given: the model's default")                            \
    X(presence_penalty, F64(-2, 2), "0", "", "penalty for tokens that were generated before")      \
    X(frequency_penalty, F64(-2, 2), "0", "",                                                      \
      "penalty for each time a token was generated before")                                        \
    X(seed, U64(0, CONFIG_NO_MAX), "0", "",                                                        \
      "seed of the sampling; not given: the server chooses one")                                   \
    X(reply_window, U32(0, 1073741824), "0", "tokens",                                             \
      "tokens that a token of the reply sees, where the server has sink_tokens; not given: the "   \
      "server's attention_window")                                                                 \
    X(stop, LIST, "", "", "text that ends the reply")                                              \
    X(ignore_eos, BOOL, "no", "", "continue after the end-of-sequence token")

/* The parameters, and the list that they point to. */
struct sampling_fields {
    Kvferry__V1__SamplingParams params;
    ProtobufCBinaryData stop[CONFIG_LIST_MAX];
};

/* values: the struct of a table with these rows. Borrows the texts of stop; fields_out must not move. */
void sampling_fields_take(const struct config *config, const struct config_table *table,
                          const void *values, struct sampling_fields *fields_out);

/* Sets one field to a value that a person typed. name is that of a row, with - or _; all but stop can be set.
 * INVALID_ARGUMENT with the name, and the value where it is wrong. */
MUST_CHECK enum status sampling_fields_set(const struct config_table *table, const char *name,
                                           const char *text, struct sampling_fields *fields,
                                           struct error *error);
/* Prints the fields that are set, one a line. */
void sampling_fields_print(const struct sampling_fields *fields, FILE *out);
