/*
 * layer_list - a list of config.json with an element for each layer.
 *
 * Thread: any; no state.
 */
#pragma once

#include "base/status.h"
#include "model/files/json_fields.h"

#include <stdint.h>

/* *list_out NULL: the key is absent. elements, for the sentence: "strings". CORRUPT: no list of n_layers. */
MUST_CHECK enum status layer_list_get(const struct json_fields *fields, const char *key,
                                      uint32_t n_layers, const char *elements,
                                      const json_t **list_out);

/* An element of layer_types. CORRUPT: no string. */
MUST_CHECK enum status layer_list_type(const struct json_fields *fields, const json_t *types,
                                       uint32_t layer, const char **type_out);
/* UNSUPPORTED, with a sentence. */
MUST_CHECK enum status layer_list_refuse_type(const struct json_fields *fields, uint32_t layer,
                                              const char *type);
