/*
 * engine_fields - errors name the fields of the client's protocol.
 *
 * The router judges kvferry.v1's message and names its fields ("sampling.n"); each protocol has a table of what it calls them.
 *
 * Thread: any; no state.
 */
#pragma once

#include "rpc/rpc_error.h"

/* "#" in both stands for an index: "logit_bias[#].bias". */
struct engine_field {
    const char *inner; /* as kvferry.v1 has it; NULL ends a table */
    const char *own;
};

/* Renames the field, and the name that the sentence begins with, by the first row that is the name or a part of its path. */
void engine_fields_rename(const struct engine_field *fields, struct rpc_error *error);
