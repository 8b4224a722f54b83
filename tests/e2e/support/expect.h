/*
 * expect - what a request must have come to, against the same request on a single process.
 */
#pragma once

#include "client.h"
#include "cluster.h"

struct work {
    uint32_t n;                      /* requests */
    uint32_t (*prompts)[TOKENS_MAX]; /* [n] */
    struct generation *single;       /* [n] as one generation worker alone answered them */
};

/* n requests of the given prompt lengths, half of them sampled with a seed, half greedy; answered
 * by a generation worker without a context worker. flags: more of its flags, ended by NULL; or NULL. */
void work_create(struct work *work, const uint32_t *lengths, uint32_t n, uint32_t max_tokens,
                 const char *const *flags);
/* The same by another program than the product's; NULL: the product's. */
void work_create_on(struct work *work, const char *binary, const uint32_t *lengths, uint32_t n,
                    uint32_t max_tokens, const char *const *flags);
/* The same by a generation worker that is started so. */
void work_create_of(struct work *work, const struct cluster_options *single,
                    const uint32_t *lengths, uint32_t n, uint32_t max_tokens);
void work_destroy(struct work *work);

/* The i-th request, to be started. */
void work_request(const struct work *work, uint32_t i, struct generation *generation_out);
/* Starts all of them at once; the caller waits for each, and frees the array. salt: nothing that is cached of requests with
 * another serves them; NULL: none. */
struct generation *work_start(const struct work *work, struct client *client, const char *salt);

/* Ended once, with the single process's tokens. */
void expect_same(const struct work *work, uint32_t i, const struct generation *generation);
/* Ended once, in time, and with the single process's tokens or a prefix of them and a status that
 * the caller may retry or asked for. Returns whether it succeeded. */
bool expect_same_or_typed(const struct work *work, uint32_t i, const struct generation *generation);
/* All, one after the other, each with the single process's tokens; then nothing is held. */
void expect_round(const struct work *work, struct cluster *cluster);
/* All at once, each with the single process's tokens within limit_ms; then nothing is held. Returns the bytes of KV that crossed. */
uint64_t expect_all_same(const struct work *work, struct cluster *cluster, uint32_t limit_ms);
/* A context and a generation worker with flags (ended by NULL) have the tokens of one generation worker with them, of n prompts of these
 * lengths. Every prompt crosses. Returns the bytes of KV that did. */
uint64_t expect_split_is_single(const char *const *flags, const uint32_t *lengths, uint32_t n,
                                uint32_t max_tokens);
/* The same of any model. single: flags of the one process; both: of both workers; context, generation: of one. Ended by NULL, or NULL. */
struct split {
    const char *model; /* NULL: the demo */
    const char *const *single, *const *both, *const *context, *const *generation;
    uint32_t limit_ms; /* of the split cluster, for all requests */
};
uint64_t expect_split_of(const struct split *split, const uint32_t *lengths, uint32_t n,
                         uint32_t max_tokens);
/* The greedy ones, one after the other, each with the single process's tokens, from KV that crossed; then nothing is held. */
void expect_greedy_same(const struct work *work, struct cluster *cluster);
/* All, one after the other, each with a reply of any tokens, from KV that crossed; then nothing is held. */
void expect_replies(const struct work *work, struct cluster *cluster);
