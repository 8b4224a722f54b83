/*
 * encoder_readers - what the rows of families.c with an encoder cannot say: as family_readers.h.
 *
 * Thread: any; no state.
 */
#pragma once

#include "model/config/model_config.h"
#include "model/files/json_fields.h"

MUST_CHECK enum status family_read_t5(const struct json_fields *fields,
                                      struct model_config *config);
MUST_CHECK enum status family_read_mt5(const struct json_fields *fields,
                                       struct model_config *config);
MUST_CHECK enum status family_read_umt5(const struct json_fields *fields,
                                        struct model_config *config);
MUST_CHECK enum status family_read_bart(const struct json_fields *fields,
                                        struct model_config *config);
MUST_CHECK enum status family_read_mbart(const struct json_fields *fields,
                                         struct model_config *config);
