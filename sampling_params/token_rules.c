#include "sampling_params/token_rules.h"

#include "sampling_params/sampling_fault.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool token_rules_is_empty(const struct token_rules *rules)
{
    return rules->n_biases == 0 && rules->n_allowed == 0 && rules->n_bad == 0 &&
           rules->constraint.kind == REPLY_FREE && rules->stops.n == 0;
}

/* ---- faults ---- */

/* around: what the field's name has before and behind the index. */
static bool find_foreign(const uint32_t *ids, uint32_t n, uint32_t vocabulary,
                         const char *const around[2], struct sampling_fault *fault_out)
{
    char field[40], wanted[48];
    uint32_t i = 0;
    while (i < n && ids[i] < vocabulary)
        i++;
    if (i == n)
        return false;
    snprintf(field, sizeof field, "%s[%" PRIu32 "]%s", around[0], i, around[1]);
    snprintf(wanted, sizeof wanted, "below the vocabulary, %" PRIu32, vocabulary);
    return sampling_fault_set_count(fault_out, field, ids[i], wanted);
}

/* The index of the first id that was there before, or n. */
static uint32_t find_repeated(const uint32_t *ids, uint32_t n)
{
    enum { N_PLACES = 4 * LOGIT_BIASES_MAX };
    uint16_t places[N_PLACES] = {0}; /* index + 1 of an id, at its hash or behind */
    assert(n <= LOGIT_BIASES_MAX);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t at = ids[i] * 2654435761u % N_PLACES;
        for (; places[at] != 0; at = (at + 1) % N_PLACES)
            if (ids[places[at] - 1] == ids[i])
                return i;
        places[at] = (uint16_t)(i + 1);
    }
    return n;
}

static bool find_in_biases(const struct token_rules *rules, uint32_t vocabulary,
                           struct sampling_fault *fault_out)
{
    static const char *const AROUND[2] = {"logit_bias", ".token_id"};
    char field[40], value[32];
    if (rules->n_biases > LOGIT_BIASES_MAX)
        return sampling_fault_set_count(fault_out, "logit_bias", rules->n_biases,
                                        "at most 1024 tokens");
    if (find_foreign(rules->bias_ids, rules->n_biases, vocabulary, AROUND, fault_out))
        return true;
    for (uint32_t i = 0; i < rules->n_biases; i++) {
        if (rules->biases[i] >= -LOGIT_BIAS_LARGEST && rules->biases[i] <= LOGIT_BIAS_LARGEST)
            continue; /* NaN is not */
        snprintf(field, sizeof field, "logit_bias[%" PRIu32 "].bias", i);
        snprintf(value, sizeof value, "%g", (double)rules->biases[i]);
        return sampling_fault_set(fault_out, field, value, "-100 .. 100");
    }
    const uint32_t i = find_repeated(rules->bias_ids, rules->n_biases);
    if (i == rules->n_biases)
        return false;
    snprintf(field, sizeof field, "logit_bias[%" PRIu32 "].token_id", i);
    return sampling_fault_set_count(fault_out, field, rules->bias_ids[i],
                                    "of a token without another bias");
}

static bool find_in_allowed(const struct token_rules *rules, uint32_t vocabulary,
                            struct sampling_fault *fault_out)
{
    static const char *const AROUND[2] = {"allowed_token_ids", ""};
    if (rules->n_allowed > ALLOWED_TOKEN_IDS_MAX)
        return sampling_fault_set_count(fault_out, "allowed_token_ids", rules->n_allowed,
                                        "at most 4096 ids");
    return find_foreign(rules->allowed_ids, rules->n_allowed, vocabulary, AROUND, fault_out);
}

static bool find_in_bad(const struct token_rules *rules, uint32_t vocabulary,
                        struct sampling_fault *fault_out)
{
    static const char *const AROUND[2] = {"bad_words, token ", ""};
    uint64_t n_ids = 0;
    if (rules->n_bad > BAD_SEQUENCES_MAX)
        return sampling_fault_set_count(fault_out, "bad_words", rules->n_bad,
                                        "at most 64 sequences");
    for (uint32_t i = 0; i < rules->n_bad; i++) {
        char field[40];
        n_ids += rules->bad_lengths[i];
        if (rules->bad_lengths[i] >= 1 && rules->bad_lengths[i] <= BAD_SEQUENCE_IDS_MAX)
            continue;
        snprintf(field, sizeof field, "bad_words, length of sequence %" PRIu32, i);
        return sampling_fault_set_count(fault_out, field, rules->bad_lengths[i], "1 .. 512");
    }
    if (n_ids != rules->n_bad_ids)
        return sampling_fault_set_count(fault_out, "bad_words, the number of tokens",
                                        rules->n_bad_ids, "the sum of the sequences' lengths");
    return find_foreign(rules->bad_ids, rules->n_bad_ids, vocabulary, AROUND, fault_out);
}

static bool find_in_constraint(const struct reply_constraint *constraint,
                               struct sampling_fault *fault_out)
{
    if (constraint->kind == REPLY_UNSET)
        return sampling_fault_set(fault_out, "constraint", "empty", "of one of its kinds");
    if (constraint->kind == REPLY_CHOICES &&
        (constraint->n_texts < 1 || constraint->n_texts > REPLY_CHOICES_MAX))
        return sampling_fault_set_count(fault_out, "constraint.choices", constraint->n_texts,
                                        "1 .. 1024 texts");
    return false;
}

static bool find_in_stops(const struct stop_texts *stops, struct sampling_fault *fault_out)
{
    char field[40], value[32];
    if (stops->n > STOP_STRINGS_MAX)
        return sampling_fault_set_count(fault_out, "stop", stops->n, "at most 16 strings");
    for (uint32_t i = 0; i < stops->n; i++) {
        if (stops->bytes[i] >= 1 && stops->bytes[i] <= STOP_STRING_BYTES_MAX)
            continue;
        snprintf(field, sizeof field, "stop[%" PRIu32 "]", i);
        snprintf(value, sizeof value, "of %" PRIu32 " bytes", stops->bytes[i]);
        return sampling_fault_set(fault_out, field, value, "of 1 .. 256 bytes");
    }
    return false;
}

bool token_rules_find_fault(const struct token_rules *rules, uint32_t vocabulary,
                            struct sampling_fault *fault_out)
{
    return find_in_biases(rules, vocabulary, fault_out) ||
           find_in_allowed(rules, vocabulary, fault_out) ||
           find_in_bad(rules, vocabulary, fault_out) ||
           find_in_constraint(&rules->constraint, fault_out) ||
           find_in_stops(&rules->stops, fault_out);
}

/* ---- a copy ---- */

/* Returns where the n words now are, and moves at behind them. */
static void *put(uint32_t **at, const void *from, uint32_t n)
{
    uint32_t *to = *at;
    if (n > 0)
        memcpy(to, from, n * sizeof *to);
    *at += n;
    return to;
}

/* The pointers to the texts lie at at, the texts at bytes. Returns where they end. */
static char *put_texts(struct reply_constraint *constraint, const char **at, char *bytes)
{
    for (uint32_t i = 0; i < constraint->n_texts; i++) {
        const size_t n = strlen(constraint->texts[i]) + 1;
        memcpy(bytes, constraint->texts[i], n);
        at[i] = bytes;
        bytes += n;
    }
    constraint->texts = at;
    return bytes;
}

static size_t stop_bytes(const struct stop_texts *stops)
{
    size_t bytes = 0;
    for (uint32_t i = 0; i < stops->n; i++)
        bytes += stops->bytes[i];
    return bytes;
}

static void put_stops(struct stop_texts *stops, char *bytes)
{
    for (uint32_t i = 0; i < stops->n; i++) {
        memcpy(bytes, stops->texts[i], stops->bytes[i]);
        stops->texts[i] = bytes;
        bytes += stops->bytes[i];
    }
}

struct token_rules *token_rules_copy(const struct token_rules *rules)
{
    static_assert(sizeof(float) == sizeof(uint32_t), "lists of words");
    const size_t n_words = 2 * (size_t)rules->n_biases + rules->n_allowed + rules->n_bad +
                           rules->n_bad_ids;
    const uint32_t n_texts = rules->constraint.n_texts;
    const size_t text_bytes = reply_constraint_bytes(&rules->constraint) + n_texts +
                              stop_bytes(&rules->stops);
    struct token_rules *copy = malloc(sizeof *copy + n_texts * sizeof(char *) +
                                      n_words * sizeof(uint32_t) + text_bytes);
    if (!copy)
        return NULL;
    const char **texts = (const char **)(copy + 1);
    uint32_t *const words = (uint32_t *)(texts + n_texts);
    uint32_t *at = words;
    *copy = *rules;
    copy->bias_ids = put(&at, rules->bias_ids, rules->n_biases);
    copy->biases = put(&at, rules->biases, rules->n_biases);
    copy->allowed_ids = put(&at, rules->allowed_ids, rules->n_allowed);
    copy->bad_lengths = put(&at, rules->bad_lengths, rules->n_bad);
    copy->bad_ids = put(&at, rules->bad_ids, rules->n_bad_ids);
    assert((size_t)(at - words) == n_words);
    put_stops(&copy->stops, put_texts(&copy->constraint, texts, (char *)at));
    return copy;
}
