#include "cli/client/sampling_fields.h"

#include "base/config/config_value.h"
#include "rpc/borrow.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct field {
    const char *key;
    size_t value, presence; /* offsets in the message */
    int present;            /* what presence then is */
};

#define OFFSET(member) offsetof(Kvferry__V1__SamplingParams, member)
#define FIELD(field, FIELD)                                                                        \
    {                                                                                              \
#field, OFFSET(field), OFFSET(field##_presence_case),                                      \
            KVFERRY__V1__SAMPLING_PARAMS__##FIELD##_PRESENCE_##FIELD                               \
    }

static const struct field FIELDS[] = {
    FIELD(max_tokens, MAX_TOKENS),
    FIELD(temperature, TEMPERATURE),
    FIELD(top_k, TOP_K),
    FIELD(top_p, TOP_P),
    FIELD(min_p, MIN_P),
    FIELD(typical_p, TYPICAL_P),
    FIELD(epsilon_cutoff, EPSILON_CUTOFF),
    FIELD(eta_cutoff, ETA_CUTOFF),
    FIELD(no_repeat_ngram_size, NO_REPEAT_NGRAM_SIZE),
    FIELD(repetition_penalty, REPETITION_PENALTY),
    FIELD(presence_penalty, PRESENCE_PENALTY),
    FIELD(frequency_penalty, FREQUENCY_PENALTY),
    FIELD(seed, SEED),
    FIELD(reply_window, REPLY_WINDOW),
};

#define N_FIELDS (sizeof FIELDS / sizeof *FIELDS)

/* A number of a table's struct becomes that of the message, where F64 is a float. */
static void copy_number(const struct config_row *row, const void *values, const struct field *field,
                        Kvferry__V1__SamplingParams *params)
{
    const char *from = (const char *)values + row->offset;
    char *to = (char *)params + field->value;
    _Static_assert(sizeof params->seed_presence_case == sizeof(int), "an enum is an int");
    memcpy((char *)params + field->presence, &field->present, sizeof(int));
    if (row->type == CONFIG_U32) {
        memcpy(to, from, sizeof(uint32_t));
    } else if (row->type == CONFIG_U64) {
        memcpy(to, from, sizeof(uint64_t));
    } else {
        double wide;
        assert(row->type == CONFIG_F64);
        memcpy(&wide, from, sizeof wide);
        const float narrow = (float)wide;
        memcpy(to, &narrow, sizeof narrow);
    }
}

static const struct config_row *row_of(const struct config_table *table, const char *key)
{
    const struct config_row *row = config_find_row(table, key, strlen(key));
    assert(row && "the table has SAMPLING_ROWS");
    return row;
}

static void take_stop(const struct config_table *table, const void *values,
                      struct sampling_fields *fields)
{
    struct config_list stop;
    memcpy(&stop, (const char *)values + row_of(table, "stop")->offset, sizeof stop);
    assert(stop.n <= CONFIG_LIST_MAX);
    for (uint32_t i = 0; i < stop.n; i++)
        fields->stop[i] = (ProtobufCBinaryData){strlen(stop.texts[i]),
                                                (uint8_t *)borrow(stop.texts[i])};
    fields->params.stop = fields->stop;
    fields->params.n_stop = stop.n;
}

void sampling_fields_take(const struct config *config, const struct config_table *table,
                          const void *values, struct sampling_fields *fields_out)
{
    bool ignores_eos;
    kvferry__v1__sampling_params__init(&fields_out->params);
    for (size_t i = 0; i < N_FIELDS; i++)
        if (strcmp(config_source(config, FIELDS[i].key), "default") != 0)
            copy_number(row_of(table, FIELDS[i].key), values, &FIELDS[i], &fields_out->params);
    memcpy(&ignores_eos, (const char *)values + row_of(table, "ignore_eos")->offset,
           sizeof ignores_eos);
    fields_out->params.ignore_eos = ignores_eos;
    take_stop(table, values, fields_out);
}

/* NULL: no number of a request. */
static const struct field *find(const char *key)
{
    for (size_t i = 0; i < N_FIELDS; i++)
        if (strcmp(FIELDS[i].key, key) == 0)
            return &FIELDS[i];
    return NULL;
}

enum status sampling_fields_set(const struct config_table *table, const char *name,
                                const char *text, struct sampling_fields *fields,
                                struct error *error)
{
    const struct config_row *row = config_find_row(table, name, strlen(name));
    const struct field *field = row ? find(row->key) : NULL;
    bool is_eos = row && strcmp(row->key, "ignore_eos") == 0;
    if (!field && !is_eos)
        return error_set(error, STATUS_INVALID_ARGUMENT, "\"%.60s\" is no sampling parameter",
                         name);
    void *values = calloc(1, table->values_bytes);
    if (!values)
        return STATUS_NO_MEMORY;
    enum status status = config_value_parse(row, text, values, row->key, error);
    if (status == STATUS_OK && field)
        copy_number(row, values, field, &fields->params);
    else if (status == STATUS_OK)
        fields->params.ignore_eos = *(const bool *)((const char *)values + row->offset);
    free(values);
    return status;
}

void sampling_fields_print(const struct sampling_fields *fields, FILE *out)
{
    const Kvferry__V1__SamplingParams *params = &fields->params;
    for (size_t i = 0; i < N_FIELDS; i++) {
        const char *value = (const char *)params + FIELDS[i].value;
        int presence;
        memcpy(&presence, (const char *)params + FIELDS[i].presence, sizeof presence);
        if (presence != FIELDS[i].present)
            continue;
        if (FIELDS[i].value == OFFSET(seed))
            fprintf(out, "  %s %" PRIu64 "\n", FIELDS[i].key, params->seed);
        else if (FIELDS[i].value == OFFSET(max_tokens) || FIELDS[i].value == OFFSET(top_k) ||
                 FIELDS[i].value == OFFSET(reply_window))
            fprintf(out, "  %s %" PRIu32 "\n", FIELDS[i].key, *(const uint32_t *)value);
        else
            fprintf(out, "  %s %g\n", FIELDS[i].key, (double)*(const float *)value);
    }
    if (params->ignore_eos)
        fputs("  ignore_eos yes\n", out);
    for (size_t i = 0; i < params->n_stop; i++)
        fprintf(out, "  stop (%zu bytes)\n", params->stop[i].len);
}
