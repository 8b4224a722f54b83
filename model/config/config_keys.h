/*
 * config_keys - decides what to do with each key in a model folder's JSON files, for every version of Transformers.
 *
 *     used      read by config_file.c, families.c, rope_parameters.c, tokenizer/ or the router
 *     ignored   changes no result of kvferry; the table says why
 *     refused   would change the result, and kvferry does not compute that. A neutral value is ignored: null,
 *               false, empty, or the neutral value in the table
 *     not done  asks for another search than greedy or drawn tokens: beams, n-grams that may not come again, a least
 *               length. The model serves without it, and the log says so. A neutral value is ignored as above
 *     unknown   no version of Transformers uses it for these families
 *
 * A folder without generation_config.json is an old one: its config.json has the keys of both files, as
 * in Transformers. If the file exists, these keys in config.json are ignored.
 *
 * tokenizer/ enforces tokenizer_config.json and special_tokens_map.json; their keys here are only for
 * reports to people (folder_report.h).
 *
 * Thread: any.
 */
#pragma once

#include "model/files/json_fields.h"

enum key_file {
    KEYS_CONFIG,       /* config.json with a generation_config.json beside it */
    KEYS_CONFIG_ALONE, /* config.json without one */
    KEYS_GENERATION,
    KEYS_TOKENIZER,
    KEYS_SPECIAL_TOKENS,
};

enum key_verdict { KEY_USED, KEY_IGNORED, KEY_REFUSED, KEY_NOT_DONE, KEY_UNKNOWN };

/* Whether a list of keys, separated by spaces, has the key. NULL: an empty list. */
bool config_keys_list(const char *keys, const char *key);

/* own_keys: of the model's family (families.h), used in this file; NULL: none. *why_out: why the key is ignored; "" for other verdicts. A literal. */
enum key_verdict config_key_judge(enum key_file file, const char *own_keys, const char *key,
                                  const json_t *value, const char **why_out);

/* UNSUPPORTED names the first refused key and its value, CORRUPT a value that a key not done cannot have. Those that are not done are
 * logged with their values, all in one line, and so are unknown ones; not if is_quiet. */
MUST_CHECK enum status config_keys_check(enum key_file file, const char *own_keys,
                                         const struct json_fields *fields, bool is_quiet);
