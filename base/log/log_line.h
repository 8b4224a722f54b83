/*
 * log_line - builds one line of the log, which stays one well-formed line for any input.
 *
 * Bytes that a client sent cannot end the line or a string, change the mode of a terminal, or change
 * the order in which text is shown. Parts that do not fit are left out: a JSON line is still a whole
 * object, with `"cut":true`; a line for people ends with " ...".
 *
 * Thread: any; a line belongs to one.
 */
#pragma once

#include "base/log/log.h"

/* Raw bytes taken of each part; longer parts are cut. An escape turns one byte into six at most. */
enum {
    LOG_ROLE_BYTES = 32,
    LOG_NAME_BYTES = 128,
    LOG_MESSAGE_BYTES = 1500,
    LOG_ID_BYTES = 128,
    LOG_PEER_BYTES = 160,
    LOG_FIELD_TEXT_BYTES = 512,
    LOG_ESCAPED_BYTES = 6, /* \u001b */
    /* There is always room for time, level, role, name, message, ids, peer and their keys. Fields
     * get the rest. */
    LOG_LINE_BYTES = LOG_ESCAPED_BYTES * (LOG_ROLE_BYTES + LOG_NAME_BYTES + LOG_MESSAGE_BYTES +
                                          LOG_ID_BYTES + LOG_PEER_BYTES) +
                     512,
};

struct log_line {
    size_t length;
    bool is_json;
    bool is_cut;
    char text[LOG_LINE_BYTES];
};

struct log_line_head {
    const char *level, *role, *name; /* name "": none */
    bool is_json;
};

/* Writes the whole line with its newline. about may be NULL; the time is from the machine's clock. */
void log_line_format(struct log_line *line, const struct log_line_head *head,
                     const struct log_about *about, const char *event,
                     const struct log_field *fields, size_t n_fields);
