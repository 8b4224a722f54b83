/*
 * recurrent_layers - reads from config.json which layers have recurrent state in place of K and V, and their sizes.
 *
 *     layer_types             a word for each layer: linear_attention, full_attention; or without it:
 *     full_attention_interval every nth layer has attention; absent: 4
 *     linear_*                the sizes; a text_config may leave out what is as in the class
 *     norms_are_whole, ...    how a GGUF file stores them (gguf_recurrent.h)
 *
 * Thread: any; no state.
 */
#pragma once

#include "model/config/model_config.h"
#include "model/files/json_fields.h"

/* For a family_reader (family_readers.h). CORRUPT, UNSUPPORTED: the sentence names key and value. */
MUST_CHECK enum status recurrent_layers_read(const struct json_fields *fields,
                                             struct model_config *config);
