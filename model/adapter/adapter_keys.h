/*
 * adapter_keys - the keys of adapter_config.json that PEFT up to 0.21 writes.
 *
 * adapter_config reads some. Some have no effect on what a trained adapter computes. Each other one must be empty (null, false, 0, "",
 * [], {}), also one that is not known: then it asks for nothing.
 *
 * Thread: any; no state.
 */
#pragma once

#include "base/status.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

/* UNSUPPORTED: names the key, its value and what it asks for. */
MUST_CHECK enum status adapter_keys_check(const json_t *config, struct error *error);

/* The value as JSON, cut to the room. */
void adapter_keys_print(const json_t *value, char *text, size_t text_max);
