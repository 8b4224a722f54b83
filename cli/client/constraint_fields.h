/*
 * constraint_fields - what the text of a reply must be: the rows of a client command, and the field of the request that they set.
 *
 * Thread: main.
 */
#pragma once

#include "cli/client/sampling_fields.h"

#define CONSTRAINT_FIELD_ROWS(X)                                                                   \
    X(json_schema, STRING, "", "file or {...}",                                                    \
      "the reply is JSON that fits this JSON Schema: a file, or the schema itself")                \
    X(json_object, BOOL, "no", "", "the reply is a JSON object")                                   \
    X(regex, STRING, "", "", "the whole reply matches this regular expression")                    \
    X(grammar, STRING, "", "file", "the reply is of this grammar: Lark or GBNF")                   \
    X(choice, LIST, "", "", "the reply is this text, or that of another --choice")

struct constraint_rows {
    const char *json_schema, *regex, *grammar;
    bool json_object;
    const struct config_list *choice;
};

#define CONSTRAINT_ROWS_OF(values)                                                                 \
    {                                                                                              \
        (values)->json_schema, (values)->regex, (values)->grammar, (values)->json_object,          \
            &(values)->choice                                                                      \
    }

struct constraint_fields {
    Kvferry__V1__Constraint message;
    Kvferry__V1__ConstraintChoices choices;
    char *texts[CONFIG_LIST_MAX];
    char *file; /* owned */
    bool is_there;
};

/* Reads the file that a row names; borrows the rest from the rows. fields_out must not move. INVALID_ARGUMENT: more than one of the
 * rows. What reading a file says, with its name. */
MUST_CHECK enum status constraint_fields_read(const struct constraint_rows *rows,
                                              struct constraint_fields *fields_out,
                                              struct error *error);
void constraint_fields_finish(struct constraint_fields *fields);
