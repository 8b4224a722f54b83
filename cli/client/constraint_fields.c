#include "cli/client/constraint_fields.h"

#include "base/regular_file.h"
#include "rpc/borrow.h"

#include <stdlib.h>
#include <string.h>

#define FILE_BYTES_MAX (4u << 20)

static enum status check(const struct constraint_rows *rows, struct error *error)
{
    int n = (rows->json_schema[0] != '\0') + (rows->regex[0] != '\0') + (rows->grammar[0] != '\0') +
            rows->json_object + (rows->choice->n > 0);
    if (n <= 1)
        return STATUS_OK;
    return error_set(
        error, STATUS_INVALID_ARGUMENT,
        "json-schema, json-object, regex, grammar and choice: one of them can be given");
}

/* A message's strings end at a NUL. */
static enum status read_file(const char *path, struct constraint_fields *fields,
                             struct error *error)
{
    size_t bytes;
    TRY(regular_file_read(path, FILE_BYTES_MAX, &fields->file, &bytes, error));
    if (strlen(fields->file) == bytes)
        return STATUS_OK;
    return error_set(error, STATUS_CORRUPT, "%.200s has a NUL byte", path);
}

static enum status take_schema(const char *text, struct constraint_fields *fields,
                               struct error *error)
{
    fields->message.kind_case = KVFERRY__V1__CONSTRAINT__KIND_JSON_SCHEMA;
    if (text[strspn(text, " \t\r\n")] == '{') {
        fields->message.json_schema = borrow(text);
        return STATUS_OK;
    }
    TRY(read_file(text, fields, error));
    fields->message.json_schema = fields->file;
    return STATUS_OK;
}

static void take_choices(const struct config_list *list, struct constraint_fields *fields)
{
    for (uint32_t i = 0; i < list->n; i++)
        fields->texts[i] = borrow(list->texts[i]);
    fields->choices.texts = fields->texts;
    fields->choices.n_texts = list->n;
    fields->message.choices = &fields->choices;
    fields->message.kind_case = KVFERRY__V1__CONSTRAINT__KIND_CHOICES;
}

static enum status take(const struct constraint_rows *rows, struct constraint_fields *fields,
                        struct error *error)
{
    fields->is_there = true;
    if (rows->json_schema[0])
        return take_schema(rows->json_schema, fields, error);
    if (rows->grammar[0]) {
        TRY(read_file(rows->grammar, fields, error));
        fields->message.kind_case = KVFERRY__V1__CONSTRAINT__KIND_GRAMMAR;
        fields->message.grammar = fields->file;
    } else if (rows->regex[0]) {
        fields->message.kind_case = KVFERRY__V1__CONSTRAINT__KIND_REGEX;
        fields->message.regex = borrow(rows->regex);
    } else if (rows->json_object) {
        fields->message.kind_case = KVFERRY__V1__CONSTRAINT__KIND_JSON_OBJECT;
        fields->message.json_object = true;
    } else if (rows->choice->n > 0) {
        take_choices(rows->choice, fields);
    } else {
        fields->is_there = false;
    }
    return STATUS_OK;
}

enum status constraint_fields_read(const struct constraint_rows *rows,
                                   struct constraint_fields *fields_out, struct error *error)
{
    TRY(check(rows, error));
    *fields_out = (struct constraint_fields){.is_there = false};
    kvferry__v1__constraint__init(&fields_out->message);
    kvferry__v1__constraint_choices__init(&fields_out->choices);
    const enum status status = take(rows, fields_out, error);
    if (status != STATUS_OK)
        constraint_fields_finish(fields_out);
    return status;
}

void constraint_fields_finish(struct constraint_fields *fields)
{
    free(fields->file);
    fields->file = NULL;
}
