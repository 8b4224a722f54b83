/*
 * engine_request - the part of a request that both engines have: the head of a context engine's prompt and of a generation
 * engine's job. It is checked, and copied into one allocation with its tokens.
 *
 * Thread: any makes it; then it has one owner at a time.
 */
#pragma once

#include "base/adapter_id.h"
#include "base/standing.h"
#include "base/status.h"
#include "engine/encoder_line.h"
#include "sampling_params/sampling_params.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ENGINE_REQUEST_ID_MAX 128u /* bytes */
#define ENGINE_SALT_MAX       128u /* bytes */

struct adapter;
struct constraint;
struct constraint_order;
struct prefix_hash;
struct prefix_key;
struct tokenizer;

/* An adapter of the model, held. */
struct request_adapter {
    struct adapter_id id;
    struct adapter *adapter; /* NULL: the model alone */
    struct adapter *(*share)(struct adapter *adapter);
    void (*release)(struct adapter *adapter);
};

struct engine_request {
    void *stream;
    /* Frees what else the struct of which this is the head owns; NULL: nothing. */
    void (*finish)(struct engine_request *request);
    uint64_t id_hash; /* engine_request_id_hash of request_id */
    char request_id[ENGINE_REQUEST_ID_MAX + 1];
    uint64_t request_number;  /* engine_request_number of the id in its log lines */
    struct standing standing; /* weight at least 1 */
    struct sampling_params sampling;
    struct token_rules *rules; /* sampling's; NULL: none */
    /* Of the text that the rules ask for, after all tokens that are known; owned. NULL: they ask for none, or it is ordered. */
    struct constraint *constraint;
    struct constraint_order *order;    /* at the desk; NULL: none */
    struct request_adapter adapter;    /* held until destroy */
    bool needs_tokenizer;              /* for stop strings: it is ordered, too, */
    const struct tokenizer *tokenizer; /* and is here then; the desk's */
    uint8_t salt[ENGINE_SALT_MAX];
    size_t salt_bytes;
    uint64_t deadline_ns; /* DEADLINE_NONE: none */
    uint64_t arrived_ns;  /* when the engine took it */
    uint32_t schedule_id; /* schedule.h */
    /* prefix_tier.h: the order that it waits for (0: none), until when at the latest, which changes and how many free blocks
     * there were when it looked last, the spans of the order that it has, whether the order is of another request, and
     * whether it needs to ask no more. */
    uint64_t restore, held_until_ns, restore_lookup;
    uint32_t restore_spans;
    bool restores_other, is_restored;
    uint32_t n_tokens;   /* of the prompt; with an encoder of its line */
    uint32_t n_text;     /* of these, the encoder's; 0: the model has none */
    uint32_t reply_at;   /* encoder_line.h; 0: the model has none */
    uint32_t *token_ids; /* [n_tokens], after the struct of which this is the head */
};

/* As it comes; everything borrowed. */
struct engine_request_input {
    const char *request_id; /* 1 .. ENGINE_REQUEST_ID_MAX bytes */
    const uint32_t *token_ids;
    uint32_t n_tokens;
    const struct encoder_line *line; /* NULL: the model has no encoder */
    const struct sampling_params *sampling;
    const struct request_adapter *adapter; /* NULL: the model alone; the request shares it */
    const void *salt;
    size_t salt_bytes;    /* up to ENGINE_SALT_MAX */
    uint64_t deadline_ns; /* DEADLINE_NONE: none */
    struct standing standing;
};

/* INVALID_ARGUMENT: error gets a sentence with field, value and limit. The first checks request_id, cache_salt and standing, the
 * second token_ids. */
MUST_CHECK enum status engine_request_check_text(const struct engine_request_input *input,
                                                 struct error *error);
MUST_CHECK enum status engine_request_check_tokens(const struct engine_request_input *input,
                                                   uint32_t vocabulary, struct error *error);

/* With an encoder, what a text and its reply must be: UNSUPPORTED, PROMPT_TOO_LONG with a sentence. */
MUST_CHECK enum status engine_request_check_line(const struct engine_request_input *input,
                                                 struct error *error);
/* Hashes whole blocks of its first n_tokens tokens. Equal hashes mean equal prefixes with equal adapters, and of an encoder's text equal texts, since each of
 * its cross blocks depends on all of it. */
void engine_request_hash(const struct engine_request *request, const struct prefix_key *key,
                         const uint32_t *token_ids, uint32_t n_tokens, uint32_t block_tokens,
                         struct prefix_hash *hashes_out);
/* Of so many cached spans of the prompt, those that it can go on from: those of an encoder's text are all there, or useless. */
uint32_t engine_request_usable(const struct engine_request *request, uint32_t n_spans,
                               uint32_t block_tokens);
/* Whether tokens of its spans may be told (cache_events.h): it has no cache salt, no adapter, and no encoder's text, whose spans are found only together. */
bool engine_request_is_common(const struct engine_request *request);
/* Of the first n_tokens of its line, those that its client sent. */
uint32_t engine_request_sent(const struct engine_request *request, uint32_t n_tokens);

/* The desk has something for it: its rules have a constraint, which was not compiled yet, or it needs the tokenizer. */
bool engine_request_needs_desk(const struct engine_request *request);

/* bytes: of the struct of which it is the head; its other fields are zeros. The caller has checked the input. NO_MEMORY. */
MUST_CHECK enum status engine_request_create(size_t bytes, const struct engine_request_input *input,
                                             void *stream, struct error *error,
                                             struct engine_request **request_out);
/* Without an order. NULL is fine. */
void engine_request_destroy(struct engine_request *request);

/* For a search of many requests: is_named compares the ids only where the hashes are equal. */
uint64_t engine_request_id_hash(const char *request_id);
bool engine_request_is_named(const struct engine_request *request, const char *request_id,
                             uint64_t id_hash);

/* A request id as 64 bits, for places without room for text (the metadata of a step). An id that begins with 16 hexadecimal
 * digits, as generated ids do, gives these; any other id gives a hash (SipHash). Never 0. Two ids may give the same number, so
 * nothing is decided by it. */
uint64_t engine_request_number(const char *request_id);
