/*
 * openai_constraint - the members of a body that say what the text of the reply must be:
 *
 *     response_format       OpenAI's: json_object, json_schema
 *     guided_json, guided_json_object, guided_regex, guided_choice, guided_grammar; structured_outputs      vLLM's
 *     tool_choice           of chat: "required": an array of calls of tools; a function: what this one takes (tool_text.h)
 *
 * At most one of them. What is in a schema or a grammar is judged by router and workers.
 *
 * Thread: any; no state.
 */
#pragma once

#include "api/openai/tool_schema.h"
#include "router/requests/door.h"

/* Whether the reply is a call of tools. */
enum tool_mode { TOOL_FREE, TOOL_REQUIRED, TOOL_NAMED };

struct openai_constraint {
    Kvferry__V1__Constraint message;
    Kvferry__V1__ConstraintChoices choices;
    const char *member; /* what it came from: a literal; NULL: there is none */
    char *text;         /* owned, as the list below; the texts in it are the body's */
    char **list;
    enum tool_mode tools;
    char tool_name[TOOL_NAME_BYTES_MAX + 1]; /* of NAMED */
};

/* Sets the fields' error on failure. In both cases openai_constraint_free. It must not move. */
void openai_constraint_read(const struct json_fields *fields, bool is_chat,
                            struct openai_constraint *constraint_out);
void openai_constraint_free(struct openai_constraint *constraint);
