/* expected_config - what a GGUF file's keys must have become. */
#pragma once

#include <jansson.h>

/* config is the JSON in text, member by member. */
void expect_config(const json_t *config, const char *text);
