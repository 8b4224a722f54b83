/*
 * field - a value in a JSON file together with its path, so that a complaint can name it:
 * "tokenizer.json: pre_tokenizer.pretokenizers[0].behavior is not a string".
 *
 * Values are borrowed from the document. Thread: one at a time.
 */
#pragma once

#include "base/status.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FIELD_PATH_MAX 160

struct field {
    const json_t *value; /* NULL: not there */
    char path[FIELD_PATH_MAX];
};

/* A document; file names it in sentences. root NULL or no object: every member is absent. */
struct field field_root(const char *file, const json_t *root);
struct field field_member(const struct field *object, const char *key);
struct field field_element(const struct field *array, size_t index);

/* Not there, or null. */
bool field_is_absent(const struct field *field);
/* Absent, or the empty text. */
bool field_is_blank(const struct field *field);
size_t field_length(const struct field *array); /* 0 when it is no array */

/* These fail with CORRUPT, and a sentence that names file, path and what was wanted. */
MUST_CHECK enum status field_need_object(const struct field *field, struct error *error);
MUST_CHECK enum status field_need_array(const struct field *field, struct error *error);
/* Borrowed text, terminated, may hold NUL; n_bytes_out may be NULL. */
MUST_CHECK enum status field_text(const struct field *field, struct error *error,
                                  const char **text_out, size_t *n_bytes_out);
/* Leaves *value_inout as it is when the field is absent. */
MUST_CHECK enum status field_bool(const struct field *field, struct error *error,
                                  bool *value_inout);
/* Text of one character, n_bytes_out of UTF-8. */
MUST_CHECK enum status field_character(const struct field *field, struct error *error,
                                       char bytes_out[4], size_t *n_bytes_out);
/* A token id, below TOKENIZER_IDS_MAX. */
MUST_CHECK enum status field_id(const struct field *field, struct error *error, uint32_t *id_out);
/* The text of the member "type" of an object. */
MUST_CHECK enum status field_type(const struct field *object, struct error *error,
                                  const char **type_out);
#define FIELD_NESTING_MAX 8u /* of sequences within each other */
typedef enum status field_reader(void *arg, const struct field *step, const char *type,
                                 struct error *error);
/* Calls read for the one step that object is, or for all in the list `key` of a Sequence, in order, also of Sequences within it. Stops
 * where it fails. UNSUPPORTED: nested too deep. */
MUST_CHECK enum status field_read_steps(const struct field *object, const char *key,
                                        field_reader *read, void *arg, struct error *error);
/* UNSUPPORTED with a sentence: the field has this value, which is not built. */
enum status field_refuse(const struct field *field, struct error *error, const char *value);
