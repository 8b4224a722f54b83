#include "router/admission/tenant_file.h"

#include "base/config/nearest.h"
#include "base/regular_file.h"
#include "router/admission/quota.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#define FILE_BYTES_MAX (1u << 20)

static const struct {
    const char *name, *path;
} METHODS[] = {
#define X(name, word, path) {word, path},
    TENANT_METHODS(X)
#undef X
};

enum row_key {
    KEY_TENANT,
    KEY_SHA256,
    KEY_METHODS,
    KEY_REQUESTS_PER_SECOND,
    KEY_TOKENS_PER_MINUTE,
    KEY_REQUESTS_AT_ONCE,
    KEY_SHARES_PREFIX_CACHE,
    KEY_WEIGHT,
    KEY_PRIORITY,
    KEY_PRIORITY_MAX,
    N_KEYS
};

static const char *const KEYS[N_KEYS] = {
    "tenant",
    "sha256",
    "methods",
    "requests_per_second",
    "tokens_per_minute",
    "requests_at_once",
    "shares_prefix_cache",
    "weight",
    "priority",
    "priority_max",
};

_Static_assert(sizeof METHODS / sizeof *METHODS == TENANT_N_METHODS, "a row each");

const char *tenant_method_name(uint32_t method)
{
    return method < TENANT_N_METHODS ? METHODS[method].name : NULL;
}

enum tenant_method tenant_method_of_path(const char *path)
{
    static const char ALPHA[] = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo";
    uint32_t method = 0;
    if (strcmp(path, ALPHA) == 0)
        return TENANT_REFLECTION;
    while (method < TENANT_N_METHODS && strcmp(METHODS[method].path, path) != 0)
        method++;
    return (enum tenant_method)method;
}

/* ---- one value ---- */

enum status tenant_name_check(const char *name, struct error *error)
{
    static const char LETTERS[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
    size_t bytes = strlen(name);
    if (bytes >= 1 && bytes <= TENANT_NAME_MAX && strspn(name, LETTERS) == bytes)
        return STATUS_OK;
    return error_set(error, STATUS_INVALID_ARGUMENT,
                     "\"%.80s\" is not a name: use 1 to %u of A-Z a-z 0-9 . _ -", name,
                     TENANT_NAME_MAX);
}

static enum status refuse(struct error *error, const char *key, const char *value,
                          const char *wanted)
{
    return error_set(error, STATUS_CORRUPT, "%s is \"%.80s\"; it must be %s", key, value, wanted);
}

static enum status set_name(char out[TENANT_NAME_MAX + 1], const char *key, const char *value,
                            struct error *error)
{
    struct error why;
    if (tenant_name_check(value, &why) != STATUS_OK)
        return error_set(error, STATUS_CORRUPT, "%s: %s", key, why.text);
    memcpy(out, value, strlen(value) + 1);
    return STATUS_OK;
}

/* Decimal, 1 .. max. */
static enum status set_count(uint32_t *out, uint32_t max, const char *key, const char *value,
                             struct error *error)
{
    uint64_t n = 0;
    char wanted[48];
    size_t digits = strspn(value, "0123456789");
    snprintf(wanted, sizeof wanted, "a number from 1 to %u", max);
    for (size_t i = 0; i < digits && n <= max; i++)
        n = 10 * n + (uint64_t)(value[i] - '0');
    if (digits == 0 || value[digits] || n == 0 || n > max)
        return refuse(error, key, value, wanted);
    *out = (uint32_t)n;
    return STATUS_OK;
}

/* Decimal, -STANDING_PRIORITY_MAX .. STANDING_PRIORITY_MAX. */
static enum status set_priority(int32_t *out, const char *key, const char *value,
                                struct error *error)
{
    const char *digits = value + (value[0] == '-');
    size_t n_digits = strspn(digits, "0123456789");
    int32_t n = 0;
    for (size_t i = 0; i < n_digits && n <= STANDING_PRIORITY_MAX; i++)
        n = 10 * n + (digits[i] - '0');
    if (n_digits == 0 || digits[n_digits] || n > STANDING_PRIORITY_MAX)
        return refuse(error, key, value, "a number from -100 to 100");
    *out = value[0] == '-' ? -n : n;
    return STATUS_OK;
}

/* Decimal with up to three digits behind the point, in thousandths. */
static enum status set_rate(uint32_t *milli_out, const char *key, const char *value,
                            struct error *error)
{
    uint64_t milli = 0, unit = 1000;
    size_t digits = strspn(value, "0123456789");
    size_t decimals = value[digits] == '.' ? strspn(value + digits + 1, "0123456789") : 0;
    size_t bytes = digits + (value[digits] == '.') + decimals;
    for (size_t i = 0; i < digits && milli <= QUOTA_MILLI_A_SECOND_MAX; i++)
        milli = 10 * milli + 1000 * (uint64_t)(value[i] - '0');
    for (size_t i = 0; i < decimals && i < 3; i++)
        milli += (unit /= 10) * (uint64_t)(value[digits + 1 + i] - '0');
    bool is_number = digits > 0 && decimals <= 3 && (value[digits] != '.' || decimals > 0);
    if (!is_number || value[bytes] || milli == 0 || milli > QUOTA_MILLI_A_SECOND_MAX)
        return refuse(error, key, value, "a number from 0.001 to 100000");
    *milli_out = (uint32_t)milli;
    return STATUS_OK;
}

static enum status add_method(struct tenant_row *row, const char *value, struct error *error)
{
    struct nearest nearest;
    char hint[NEAREST_HINT_BYTES];
    nearest_init(&nearest, value);
    for (uint32_t i = 0; i < TENANT_N_METHODS; i++) {
        nearest_offer(&nearest, METHODS[i].name);
        if (strcmp(METHODS[i].name, value) != 0)
            continue;
        if (row->methods & TENANT_METHOD_BIT(i))
            return error_set(error, STATUS_CORRUPT, "methods has \"%s\" twice", value);
        row->methods |= TENANT_METHOD_BIT(i);
        return STATUS_OK;
    }
    nearest_hint(&nearest, hint);
    return error_set(error, STATUS_CORRUPT, "methods has \"%.80s\", which is not a method%s", value,
                     hint);
}

static enum status set(struct tenant_row *row, enum row_key key, const char *value,
                       struct error *error)
{
    switch (key) {
    case KEY_TENANT:
        return set_name(row->tenant, KEYS[key], value, error);
    case KEY_SHA256:
        if (sha256_parse(value, strlen(value), &row->hash) == STATUS_OK)
            return STATUS_OK;
        return error_set(error, STATUS_CORRUPT,
                         "sha256 has %zu characters and is not a hash; it "
                         "must be the 64 hex digits that `kvferry token` "
                         "prints",
                         strlen(value));
    case KEY_METHODS:
        return add_method(row, value, error);
    case KEY_REQUESTS_PER_SECOND:
        return set_rate(&row->requests_a_second_milli, KEYS[key], value, error);
    case KEY_TOKENS_PER_MINUTE:
        return set_count(&row->tokens_a_minute, QUOTA_A_MINUTE_MAX, KEYS[key], value, error);
    case KEY_REQUESTS_AT_ONCE:
        return set_count(&row->requests_at_once, 65536, KEYS[key], value, error);
    case KEY_SHARES_PREFIX_CACHE:
        return set_name(row->group, KEYS[key], value, error);
    case KEY_WEIGHT:
        return set_count(&row->weight, STANDING_WEIGHT_MAX, KEYS[key], value, error);
    case KEY_PRIORITY:
        return set_priority(&row->priority, KEYS[key], value, error);
    case KEY_PRIORITY_MAX:
        row->has_priority_max = true;
        return set_priority(&row->priority_max, KEYS[key], value, error);
    case N_KEYS:
        break;
    }
    return STATUS_BUG;
}

static enum status find_key(const char *name, enum row_key *key_out, struct error *error)
{
    struct nearest nearest;
    char hint[NEAREST_HINT_BYTES];
    nearest_init(&nearest, name);
    for (uint32_t i = 0; i < N_KEYS; i++) {
        nearest_offer(&nearest, KEYS[i]);
        if (strcmp(KEYS[i], name) == 0) {
            *key_out = (enum row_key)i;
            return STATUS_OK;
        }
    }
    nearest_hint(&nearest, hint);
    return error_set(error, STATUS_CORRUPT, "unknown key \"%.80s\"%s", name, hint);
}

enum status tenant_row_set(struct tenant_row *row, const char *key, const char *value,
                           struct error *error)
{
    enum row_key found;
    TRY(find_key(key, &found, error));
    return set(row, found, value, error);
}

int32_t tenant_row_priority_max(const struct tenant_row *row)
{
    return row->has_priority_max ? row->priority_max : row->priority;
}

enum status tenant_row_check(const struct tenant_row *row, struct error *error)
{
    if (row->priority <= tenant_row_priority_max(row))
        return STATUS_OK;
    return error_set(error, STATUS_INVALID_ARGUMENT, "priority is %d, over priority_max, %d",
                     row->priority, row->priority_max);
}

/* Without a secret: routers need not share one to mean the same tenant. */
enum status tenant_key_of(const char *tenant, uint64_t *key_out)
{
    struct sha256 hash;
    uint64_t key;
    TRY(sha256_of(tenant, strlen(tenant), &hash));
    memcpy(&key, hash.bytes, sizeof key);
    *key_out = key ? key : 1;
    return STATUS_OK;
}

/* ---- the file ---- */

/* Where in the file the next event stands. */
enum place { IN_NOTHING, IN_FILE, IN_ROWS, IN_ROW, IN_METHODS };

struct reader {
    const char *path;
    struct error *error;
    yaml_parser_t parser;
    enum place place;
    bool has_tokens; /* the key of the whole file */
    bool has_key;    /* of the row: its value comes next */
    enum row_key key;
    uint32_t seen; /* keys of the row: bits */
    struct tenant_row row;
    struct tenant_row *rows;
    uint32_t n, room;
};

static enum status corrupt(const struct reader *reader, size_t line, const char *what)
{
    return error_set(reader->error, STATUS_CORRUPT, "%s:%zu: %s", reader->path, line + 1, what);
}

/* Of a sentence without a place. */
static enum status locate(const struct reader *reader, size_t line, enum status status,
                          const struct error *why)
{
    return status == STATUS_CORRUPT ? corrupt(reader, line, why->text) : status;
}

static bool has_same_standing(const struct tenant_row *a, const struct tenant_row *b)
{
    return a->weight == b->weight && a->priority == b->priority &&
           tenant_row_priority_max(a) == tenant_row_priority_max(b);
}

/* With all rows before it: TENANT_ROWS_MAX are too few to need an index. */
static enum status check_against_others(struct reader *reader, size_t line)
{
    struct error why;
    const struct tenant_row *row = &reader->row;
    for (uint32_t i = 0; i < reader->n; i++) {
        const struct tenant_row *other = &reader->rows[i];
        const char *what = NULL;
        if (sha256_equal(&other->hash, &row->hash))
            what = "has the same sha256";
        else if (strcmp(other->tenant, row->tenant) == 0 &&
                 (other->requests_a_second_milli != row->requests_a_second_milli ||
                  other->tokens_a_minute != row->tokens_a_minute ||
                  other->requests_at_once != row->requests_at_once ||
                  strcmp(other->group, row->group) != 0))
            what = "gives the same tenant other quotas or another group";
        else if (strcmp(other->tenant, row->tenant) == 0 && !has_same_standing(other, row))
            what = "gives the same tenant another weight or priority";
        if (!what)
            continue;
        error_write(&why, "tenant %s: the row at line %u %s", row->tenant, other->line, what);
        return corrupt(reader, line, why.text);
    }
    return STATUS_OK;
}

static enum status end_row(struct reader *reader)
{
    assert(reader->place == IN_ROW && reader->row.line > 0 && "on_start began it");
    size_t line = reader->row.line - 1;
    if (!(reader->seen & 1u << KEY_TENANT))
        return corrupt(reader, line, "a row without tenant");
    if (!(reader->seen & 1u << KEY_SHA256))
        return corrupt(reader, line, "a row without sha256");
    if (!(reader->seen & 1u << KEY_METHODS))
        reader->row.methods = TENANT_PUBLIC_METHODS;
    struct error why;
    if (tenant_row_check(&reader->row, &why) != STATUS_OK)
        return corrupt(reader, line, why.text);
    TRY(check_against_others(reader, line));
    if (reader->n == TENANT_ROWS_MAX)
        return corrupt(reader, line, "more rows than 4096");
    if (reader->n == reader->room) {
        uint32_t room = reader->room ? 2 * reader->room : 16;
        struct tenant_row *rows = realloc(reader->rows, room * sizeof *rows);
        if (!rows)
            return STATUS_NO_MEMORY;
        reader->rows = rows;
        reader->room = room;
    }
    assert(reader->n < reader->room && reader->n < TENANT_ROWS_MAX);
    reader->rows[reader->n++] = reader->row;
    reader->place = IN_ROWS;
    return STATUS_OK;
}

static enum status on_row_text(struct reader *reader, const char *text, size_t line)
{
    struct error why = {0};
    if (reader->has_key) {
        assert(reader->seen & 1u << reader->key && "a key is seen before its value");
        reader->has_key = false;
        if (reader->key == KEY_METHODS)
            return corrupt(reader, line, "methods must be a list");
        return locate(reader, line, set(&reader->row, reader->key, text, &why), &why);
    }
    enum status status = find_key(text, &reader->key, &why);
    if (status != STATUS_OK)
        return locate(reader, line, status, &why);
    if (reader->seen & 1u << reader->key) {
        error_write(&why, "%s is given twice", text);
        return corrupt(reader, line, why.text);
    }
    reader->seen |= 1u << reader->key;
    reader->has_key = true;
    return STATUS_OK;
}

static enum status on_text(struct reader *reader, const yaml_event_t *event)
{
    const char *text = (const char *)event->data.scalar.value;
    size_t line = event->start_mark.line;
    struct error why = {0};
    if (strlen(text) != event->data.scalar.length)
        return corrupt(reader, line, "a zero byte");
    switch (reader->place) {
    case IN_FILE:
        if (reader->has_tokens || strcmp(text, "tokens") != 0) {
            error_write(
                &why, "found \"%.80s\" in place of the only key of the file, tokens, and its list",
                text);
            return corrupt(reader, line, why.text);
        }
        reader->has_tokens = true;
        return STATUS_OK;
    case IN_ROW:
        return on_row_text(reader, text, line);
    case IN_METHODS:
        return locate(reader, line, add_method(&reader->row, text, &why), &why);
    default:
        return corrupt(reader, line, "expected `tokens:` and a list of rows");
    }
}

static enum status on_start(struct reader *reader, const yaml_event_t *event)
{
    bool is_list = event->type == YAML_SEQUENCE_START_EVENT;
    size_t line = event->start_mark.line;
    if (reader->place == IN_NOTHING && !is_list && !reader->has_tokens) {
        reader->place = IN_FILE;
    } else if (reader->place == IN_FILE && is_list && reader->has_tokens) {
        reader->place = IN_ROWS;
    } else if (reader->place == IN_ROWS && !is_list) {
        reader->place = IN_ROW;
        reader->row = (struct tenant_row){.line = (uint32_t)line + 1};
        reader->seen = 0;
        reader->has_key = false;
    } else if (reader->place == IN_ROW && is_list && reader->has_key &&
               reader->key == KEY_METHODS) {
        reader->place = IN_METHODS;
        reader->has_key = false;
    } else {
        return corrupt(reader, line,
                       is_list ? "a list, where none can be"
                               : "keys and values, where none can be");
    }
    return STATUS_OK;
}

static enum status on_event(struct reader *reader, const yaml_event_t *event)
{
    switch (event->type) {
    case YAML_SCALAR_EVENT:
        return on_text(reader, event);
    case YAML_SEQUENCE_START_EVENT:
    case YAML_MAPPING_START_EVENT:
        return on_start(reader, event);
    case YAML_SEQUENCE_END_EVENT:
        assert((reader->place == IN_METHODS || reader->place == IN_ROWS) &&
               "on_start knows no other");
        reader->place = reader->place == IN_METHODS ? IN_ROW : IN_FILE;
        return STATUS_OK;
    case YAML_MAPPING_END_EVENT:
        if (reader->place == IN_ROW)
            return end_row(reader);
        assert(reader->place == IN_FILE);
        reader->place = IN_NOTHING;
        return STATUS_OK;
    case YAML_ALIAS_EVENT:
        return corrupt(reader, event->start_mark.line, "anchors are not supported");
    default:
        return STATUS_OK;
    }
}

static enum status read_events(struct reader *reader)
{
    for (;;) {
        yaml_event_t event;
        if (!yaml_parser_parse(&reader->parser, &event)) {
            if (reader->parser.error == YAML_MEMORY_ERROR)
                return STATUS_NO_MEMORY;
            return corrupt(reader, reader->parser.problem_mark.line,
                           reader->parser.problem ? reader->parser.problem
                                                  : "cannot be read as YAML");
        }
        bool is_end = event.type == YAML_STREAM_END_EVENT;
        enum status status = on_event(reader, &event);
        yaml_event_delete(&event);
        if (status != STATUS_OK || is_end)
            return status;
    }
}

enum status tenant_file_parse(const char *text, size_t bytes, const char *path,
                              struct tenant_row **rows_out, uint32_t *n_out, struct error *error)
{
    struct reader reader = {.path = path, .error = error};
    enum status status = STATUS_NO_MEMORY;
    if (yaml_parser_initialize(&reader.parser)) {
        yaml_parser_set_input_string(&reader.parser, (const unsigned char *)text, bytes);
        status = read_events(&reader);
        yaml_parser_delete(&reader.parser);
    }
    if (status == STATUS_OK && reader.n == 0)
        status = error_set(error, STATUS_CORRUPT, "%s: no row: no client could call", path);
    if (status != STATUS_OK) {
        free(reader.rows);
        return status;
    }
    assert(reader.rows && reader.n <= reader.room);
    *rows_out = reader.rows;
    *n_out = reader.n;
    return STATUS_OK;
}

enum status tenant_file_read(const char *path, struct tenant_row **rows_out, uint32_t *n_out,
                             struct error *error)
{
    char *text = NULL;
    size_t bytes = 0;
    TRY(regular_file_read(path, FILE_BYTES_MAX, &text, &bytes, error));
    enum status status = tenant_file_parse(text, bytes, path, rows_out, n_out, error);
    free(text);
    return status;
}
