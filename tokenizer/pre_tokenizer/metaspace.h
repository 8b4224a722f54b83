/*
 * metaspace - Metaspace of tokenizer.json, which writes spaces as another character: as pre_tokenizer and as decoder.
 *
 * Thread: any.
 */
#pragma once

#include "base/status.h"

#include <stddef.h>

struct field;

enum prepend_scheme {
    PREPEND_NEVER,
    PREPEND_ALWAYS, /* to every piece that does not begin with it */
    PREPEND_FIRST   /* only at the start of the whole text */
};

/* What a Metaspace says, as pre_tokenizer and as decoder. CORRUPT, UNSUPPORTED: error names the field. */
MUST_CHECK enum status metaspace_read(const struct field *metaspace, struct error *error,
                                      char space_out[4], size_t *n_space_out,
                                      enum prepend_scheme *scheme_out);
