#include "router/requests/constraint_request.h"

#include "text/constraint/constraint_asked.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What begins sentences of a worker about a text of the request. */
#define FIELDS "sampling.constraint"
#define STOP   "sampling.stop:"

/* The text that is at fault: of choices, the first that is wrong alone. */
static const char *faulty_text(const struct reply_constraint *asked,
                               const struct constraint_text *text,
                               const struct constraint_limits *limits)
{
    struct error ignored;
    const bool are_too_many = text->n_choices > limits->choices_max;
    for (uint32_t i = 0; !are_too_many && i < text->n_choices; i++) {
        const struct constraint_text one = {
            .kind = text->kind, .choices = &text->choices[i], .n_choices = 1};
        if (constraint_check(&one, limits, &ignored) != STATUS_OK)
            return asked->texts[i];
    }
    return asked->n_texts > 0 ? asked->texts[0] : "";
}

enum status constraint_request_check(const struct reply_constraint *asked,
                                     const struct constraint_limits *limits,
                                     struct rpc_error *error)
{
    struct constraint_bytes *choices;
    struct error why = {0};
    char field[64];
    snprintf(field, sizeof field, "sampling.%s", reply_constraint_field(asked));
    choices = calloc((size_t)asked->n_texts + 1, sizeof *choices);
    if (!choices)
        return STATUS_NO_MEMORY;
    const struct constraint_text text = constraint_asked_text(asked, choices);
    const enum status status = constraint_check(&text, limits, &why);
    if (status != STATUS_OK)
        rpc_error_set(error, status, field, faulty_text(asked, &text, limits), "%s: %s", field,
                      why.text[0] ? why.text : status_text(status));
    free(choices);
    return status;
}

bool constraint_request_field(const char *sentence, char *field_out, size_t field_bytes)
{
    if (strncmp(sentence, FIELDS, sizeof FIELDS - 1) != 0 &&
        strncmp(sentence, STOP, sizeof STOP - 1) != 0)
        return false;
    snprintf(field_out, field_bytes, "%.*s", (int)strcspn(sentence, ":, "), sentence);
    return true;
}
