/*
 * engine_model - what the model's folder says of it, for gateways that have no folder of their own.
 *
 * A folder need not have the files: what is not known is zero.
 *
 * Thread: any (plain data).
 */
#pragma once

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

#define ENGINE_EOS_MAX 16u

struct engine_model {
    char type[64]; /* "llama"; "": not known */
    int32_t eos_ids[ENGINE_EOS_MAX];
    uint32_t n_eos;
    int32_t bos_id, pad_id; /* pad_id: the first eos id where the folder names none */
};

/* Reads config.json and generation_config.json, whose end-of-sequence ids go before. CORRUPT: error names file and key. */
MUST_CHECK enum status engine_model_read(const char *folder, struct engine_model *model_out,
                                         struct error *error);
bool engine_model_is_eos(const struct engine_model *model, uint32_t id);
