/*
 * log_line - one line of the log while it is written: whole, and one line, whatever is put in.
 *
 * Nothing of what a client sent ends a line, a string or a terminal's mood, nor shows in another order
 * than it has. What finds no room is left out: a JSON line is a whole object at its bound, too, and
 * says `"cut":true`; one for people ends with " ...".
 *
 * Thread: any; a line belongs to one.
 */
#pragma once

#include "base/log/log.h"

/* Raw bytes taken of each part; longer ones are cut. Escaping makes six of one at most. */
enum {
    LOG_ROLE_BYTES = 32,
    LOG_NAME_BYTES = 128,
    LOG_MESSAGE_BYTES = 1500,
    LOG_ID_BYTES = 128,
    LOG_PEER_BYTES = 160,
    LOG_FIELD_TEXT_BYTES = 512,
    LOG_ESCAPED_BYTES = 6, /* \u001b */
    /* Time, level, role, name, message, ids, peer and their keys find room; fields what is left. */
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

/* The whole line, newline included; about may be NULL, the time is the machine's. */
void log_line_format(struct log_line *line, const struct log_line_head *head,
                     const struct log_about *about, const char *event,
                     const struct log_field *fields, size_t n_fields);
