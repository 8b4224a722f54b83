/*
 * chat_template - the chat templates of a model's folder, or of the operator's file, and the variables that they see.
 *
 * Where they are looked for, as Transformers does; the first that is there counts:
 *
 *     the operator's file                                         the default alone
 *     chat_template.jinja, additional_chat_templates/NAME.jinja   the default, and others by their names
 *     tokenizer_config.json: chat_template                        a text, or a list of {name, template}
 *     chat_template.json: chat_template                           of processors; the same
 *
 * Of the names those count that a request can choose by what it has: default, tool_use, rag. A request brings no template.
 * The variables are bos_token, eos_token, unk_token, sep_token, pad_token, cls_token, mask_token, each where
 * tokenizer_config.json names it, as a text or an object with content; special_tokens_map.json counts before it in folders
 * that are so old that tokenizer_config.json has no added_tokens_decoder.
 *
 * Thread: immutable once read.
 */
#pragma once

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

#define CHAT_TEMPLATES_MAX    3
#define CHAT_CONFIG_BYTES_MAX ((uint64_t)64 << 20) /* of each JSON file */

struct chat_template_source {
    const char *name; /* a literal */
    char *text;       /* UTF-8 */
    size_t n_bytes;
};

struct chat_template {
    struct chat_template_source sources[CHAT_TEMPLATES_MAX]; /* the default first */
    uint32_t n_sources;
    char *tokens;     /* a JSON object */
    char origin[256]; /* "chat_template.jinja", for sentences */
};

/* file: the operator's; NULL or "": none. template_bytes_max holds for each template.
 * NO_CHAT_TEMPLATE: the folder has none, or only ones of other names. NOT_FOUND: the operator's file. CORRUPT, UNSUPPORTED,
 * IO_FAILED: error names file and field. NO_MEMORY. */
MUST_CHECK enum status chat_template_read(const char *folder, const char *file,
                                          uint64_t template_bytes_max, struct error *error,
                                          struct chat_template **template_out);
void chat_template_destroy(struct chat_template *template); /* NULL is fine */
