#include "tokenizer/vocab/vocab.h"

#include "tokenizer/files/byte_alphabet.h"
#include "tokenizer/files/field.h"
#include "tokenizer/tokens.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Two passes: first what each id is, into a table by id, so that repeats show and the
 * size of the run of bytes is known; then the run, in the order of the ids. */

/* One id, while the document is still in memory. */
struct entry {
    const char *text; /* NULL: no token has this id */
    uint32_t n_bytes;
    uint8_t flags;
};

/* All ids, and their number. */
struct entries {
    struct entry *at; /* [TOKENIZER_IDS_MAX], untouched pages cost nothing */
    uint32_t n_ids;
    size_t n_bytes;
};

static enum status refuse_length(uint32_t id, size_t n_bytes, struct error *error)
{
    return error_set(error, STATUS_UNSUPPORTED,
                     "tokenizer.json: the token of id %u has %zu bytes; at most %d are supported",
                     id, n_bytes, TOKEN_BYTES_MAX);
}

static enum status entries_put(struct entries *entries, uint32_t id, struct entry entry,
                               const char *where, struct error *error)
{
    assert(id < TOKENIZER_IDS_MAX);
    struct entry *slot = &entries->at[id];

    if (slot->text)
        return error_set(error, STATUS_CORRUPT, "%s gives id %u to \"%.60s\", which \"%.60s\" has",
                         where, id, entry.text, slot->text);
    if (entry.n_bytes == 0)
        return error_set(error, STATUS_CORRUPT, "%s has an empty token, id %u", where, id);
    if (entry.n_bytes > TOKEN_SPELLING_MAX)
        return refuse_length(id, entry.n_bytes, error);
    *slot = entry;
    entries->n_bytes += entry.n_bytes;
    if (id >= entries->n_ids)
        entries->n_ids = id + 1;
    return STATUS_OK;
}

/* Reads members without a struct field for each: there are some hundred thousand. */
static enum status read_vocab(const struct field *vocab_field, struct entries *entries,
                              struct error *error)
{
    TRY(field_need_object(vocab_field, error));
    /* jansson's iteration is not const, but changes nothing. */
    json_t *object = (json_t *)(uintptr_t)vocab_field->value;
    const char *text;
    size_t n_bytes;
    json_t *value;

    json_object_keylen_foreach(object, text, n_bytes, value)
    {
        json_int_t id = json_integer_value(value);
        if (!json_is_integer(value) || id < 0 || id >= TOKENIZER_IDS_MAX)
            return error_set(error, STATUS_CORRUPT,
                             "%s: the id of \"%.60s\" is not a whole number of 0 to %u",
                             vocab_field->path, text, TOKENIZER_IDS_MAX - 1);
        struct entry entry = {.text = text,
                              .n_bytes = n_bytes > TOKEN_SPELLING_MAX ? TOKEN_SPELLING_MAX + 1
                                                                      : (uint32_t)n_bytes};
        TRY(entries_put(entries, (uint32_t)id, entry, vocab_field->path, error));
    }
    return STATUS_OK;
}

/* A token of added_tokens may be one of model.vocab too, then with the same id. */
static enum status read_added_token(const struct field *token, json_t *vocab,
                                    struct entries *entries, struct error *error)
{
    TRY(field_need_object(token, error));
    struct field id_field = field_member(token, "id");
    struct field content = field_member(token, "content");
    struct field special_field = field_member(token, "special");
    struct entry entry = {.flags = TOKEN_FLAG_ADDED_ONLY};
    uint32_t id;
    size_t n_bytes;
    bool special = false;

    TRY(field_id(&id_field, error, &id));
    TRY(field_text(&content, error, &entry.text, &n_bytes));
    TRY(field_bool(&special_field, error, &special));
    const json_t *known = json_object_getn(vocab, entry.text, n_bytes);
    if (known && json_integer_value(known) != id)
        return error_set(error, STATUS_CORRUPT, "%s is %u, but model.vocab says %lld",
                         id_field.path, id, (long long)json_integer_value(known));
    entry.n_bytes = n_bytes > TOKEN_SPELLING_MAX ? TOKEN_SPELLING_MAX + 1 : (uint32_t)n_bytes;
    if (!known)
        TRY(entries_put(entries, id, entry, token->path, error));
    entries->at[id].flags |= TOKEN_FLAG_ADDED;
    if (special)
        entries->at[id].flags |= TOKEN_FLAG_SPECIAL;
    return STATUS_OK;
}

static enum status read_added(const struct field *added, const struct field *vocab_field,
                              struct entries *entries, struct error *error)
{
    if (field_is_absent(added))
        return STATUS_OK;
    TRY(field_need_array(added, error));
    for (size_t i = 0; i < field_length(added); i++) {
        struct field token = field_element(added, i);
        TRY(read_added_token(&token, (json_t *)(uintptr_t)vocab_field->value, entries, error));
    }
    return STATUS_OK;
}

static uint32_t hash(const uint8_t *bytes, size_t n_bytes)
{
    uint64_t state = 0xcbf29ce484222325ull; /* FNV-1a */
    for (size_t i = 0; i < n_bytes; i++)
        state = (state ^ bytes[i]) * 0x100000001b3ull;
    return (uint32_t)(state ^ state >> 32);
}

/* The slot that holds these bytes with those of KIND, or the free one where they would go. */
#define KIND (TOKEN_FLAG_BYTE_LEVEL | TOKEN_FLAG_ADDED_ONLY)
static uint32_t *find_slot(const struct vocab *vocab, const uint8_t *bytes, size_t n_bytes,
                           uint8_t kind)
{
    for (uint32_t at = hash(bytes, n_bytes) & vocab->slot_mask;; at = (at + 1) & vocab->slot_mask) {
        uint32_t id = vocab->slots[at];
        if (id == TOKEN_NONE)
            return &vocab->slots[at];
        size_t length;
        const uint8_t *known = vocab_bytes(vocab, id, &length);
        if (length == n_bytes && (vocab->flags[id] & KIND) == kind &&
            memcmp(known, bytes, n_bytes) == 0)
            return &vocab->slots[at];
    }
}

static enum status vocab_allocate(struct vocab *vocab, const struct entries *entries)
{
    uint32_t n_slots = 16;

    assert(entries->n_ids > 0 && entries->n_ids <= TOKENIZER_IDS_MAX);
    while (n_slots < 2 * entries->n_ids)
        n_slots *= 2;
    vocab->n_ids = entries->n_ids;
    vocab->slot_mask = n_slots - 1;
    vocab->bytes = malloc(entries->n_bytes);
    vocab->starts = malloc((entries->n_ids + 1) * sizeof *vocab->starts);
    vocab->flags = malloc(entries->n_ids);
    vocab->slots = malloc(n_slots * sizeof *vocab->slots);
    if (!vocab->bytes || !vocab->starts || !vocab->flags || !vocab->slots)
        return STATUS_NO_MEMORY;
    memset(vocab->slots, 0xff, n_slots * sizeof *vocab->slots);
    return STATUS_OK;
}

static enum status vocab_fill(struct vocab *vocab, const struct entries *entries,
                              struct error *error)
{
    uint32_t start = 0;

    for (uint32_t id = 0; id < entries->n_ids; id++) {
        const struct entry *entry = &entries->at[id];
        vocab->starts[id] = vocab->starts[id + 1] = start;
        if (!entry->text) {
            vocab->flags[id] = TOKEN_FLAG_HOLE;
            continue;
        }
        size_t n_bytes = NOT_BYTE_LEVEL;
        if (vocab->is_byte_level)
            n_bytes = byte_alphabet_read(entry->text, entry->n_bytes, vocab->bytes + start);
        vocab->flags[id] = entry->flags;
        if (n_bytes == NOT_BYTE_LEVEL) {
            memcpy(vocab->bytes + start, entry->text, entry->n_bytes);
            n_bytes = entry->n_bytes;
        } else {
            vocab->flags[id] |= TOKEN_FLAG_BYTE_LEVEL;
        }
        if (n_bytes > TOKEN_BYTES_MAX)
            return refuse_length(id, n_bytes, error);
        start += (uint32_t)n_bytes;
        vocab->starts[id + 1] = start;
        uint32_t *slot = find_slot(vocab, vocab->bytes + vocab->starts[id], n_bytes,
                                   vocab->flags[id] & KIND);
        if (*slot == TOKEN_NONE || !(entry->flags & TOKEN_FLAG_ADDED_ONLY))
            *slot = id;
    }
    assert(start <= entries->n_bytes); /* the alphabet only shortens */
    return STATUS_OK;
}

static void vocab_map_bytes(struct vocab *vocab)
{
    for (unsigned i = 0; i < 256; i++) {
        uint8_t byte = (uint8_t)i;
        char fallback[8];
        snprintf(fallback, sizeof fallback, "<0x%02X>", i);
        vocab->byte_ids[i] = vocab_find(vocab, &byte, 1);
        vocab->fallback_ids[i] = vocab_find_text(vocab, fallback, strlen(fallback));
    }
}

enum status vocab_create(const struct field *vocab_field, const struct field *added_field,
                         bool is_byte_level, struct error *error, struct vocab **vocab_out)
{
    struct entries entries = {.at = calloc(TOKENIZER_IDS_MAX, sizeof *entries.at)};
    struct vocab *vocab = calloc(1, sizeof *vocab);
    enum status status = entries.at && vocab ? STATUS_OK : STATUS_NO_MEMORY;

    if (status == STATUS_OK)
        status = read_vocab(vocab_field, &entries, error);
    if (status == STATUS_OK)
        status = read_added(added_field, vocab_field, &entries, error);
    if (status == STATUS_OK && entries.n_ids == 0)
        status = error_set(error, STATUS_CORRUPT, "%s is empty", vocab_field->path);
    if (status == STATUS_OK)
        status = vocab_allocate(vocab, &entries);
    if (status == STATUS_OK) {
        vocab->is_byte_level = is_byte_level;
        status = vocab_fill(vocab, &entries, error);
    }
    free(entries.at);
    if (status != STATUS_OK) {
        vocab_destroy(vocab);
        return status;
    }
    vocab_map_bytes(vocab);
    *vocab_out = vocab;
    return STATUS_OK;
}

void vocab_destroy(struct vocab *vocab)
{
    if (!vocab)
        return;
    free(vocab->bytes);
    free(vocab->starts);
    free(vocab->flags);
    free(vocab->slots);
    free(vocab);
}

uint32_t vocab_find(const struct vocab *vocab, const uint8_t *bytes, size_t n_bytes)
{
    assert(n_bytes > 0);
    return *find_slot(vocab, bytes, n_bytes, vocab->is_byte_level ? TOKEN_FLAG_BYTE_LEVEL : 0);
}

static uint32_t find_text(const struct vocab *vocab, const char *text, size_t n_bytes, uint8_t kind)
{
    uint8_t bytes[TOKEN_SPELLING_MAX];

    if (n_bytes == 0 || n_bytes > sizeof bytes)
        return TOKEN_NONE;
    size_t n_out = vocab->is_byte_level ? byte_alphabet_read(text, n_bytes, bytes) : NOT_BYTE_LEVEL;
    if (n_out == NOT_BYTE_LEVEL)
        return *find_slot(vocab, (const uint8_t *)text, n_bytes, kind);
    return *find_slot(vocab, bytes, n_out, kind | TOKEN_FLAG_BYTE_LEVEL);
}

uint32_t vocab_find_text(const struct vocab *vocab, const char *text, size_t n_bytes)
{
    return find_text(vocab, text, n_bytes, 0);
}

uint32_t vocab_find_added(const struct vocab *vocab, const char *text, size_t n_bytes)
{
    return find_text(vocab, text, n_bytes, TOKEN_FLAG_ADDED_ONLY);
}
