#include "text/constraint/constraint_asked.h"

#include <assert.h>
#include <string.h>

static struct constraint_bytes bytes_of(const char *text)
{
    return (struct constraint_bytes){text, strlen(text)};
}

struct constraint_text constraint_asked_text(const struct reply_constraint *asked,
                                             struct constraint_bytes *choices)
{
    static const enum constraint_kind KINDS[] = {
        [REPLY_JSON_SCHEMA] = CONSTRAINT_JSON_SCHEMA,
        [REPLY_JSON_OBJECT] = CONSTRAINT_JSON_OBJECT,
        [REPLY_REGEX] = CONSTRAINT_REGEX,
        [REPLY_GRAMMAR] = CONSTRAINT_GRAMMAR,
        [REPLY_CHOICES] = CONSTRAINT_CHOICE,
    };
    assert(asked->kind >= REPLY_JSON_SCHEMA && asked->kind <= REPLY_CHOICES);
    struct constraint_text text = {.kind = KINDS[asked->kind]};
    if (asked->kind == REPLY_CHOICES) {
        for (uint32_t i = 0; i < asked->n_texts; i++)
            choices[i] = bytes_of(asked->texts[i]);
        text.choices = choices;
        text.n_choices = asked->n_texts;
    } else if (asked->n_texts == 1) {
        text.text = bytes_of(asked->texts[0]);
    }
    return text;
}
