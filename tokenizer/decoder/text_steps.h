/*
 * text_steps - what a decoder does with a text as a whole, or with a run of byte tokens: a character at a time, as it comes.
 *
 *     REPLACE    a text becomes another, no longer one
 *     STRIP      leaves out a character at the start and at the end, so many times
 *
 * A step holds back what it cannot judge yet: the beginning of a text to be replaced, characters that may be the end.
 *
 * Thread: steps are immutable once read; a struct text_run belongs to one text.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TEXT_STEPS_MAX      8
#define TEXT_STEP_BYTES_MAX 32 /* of a text to be replaced */
#define TEXT_STEP_STOP_MAX  8  /* characters that may be left out at the end */
#define TEXT_STEPS_HELD_MAX (TEXT_STEPS_MAX * (TEXT_STEP_BYTES_MAX + 4)) /* bytes */

enum text_step_kind { TEXT_STEP_REPLACE, TEXT_STEP_STRIP };

struct text_step {
    enum text_step_kind kind;
    char bytes[TEXT_STEP_BYTES_MAX]; /* [n_bytes] what is replaced, or the one character */
    size_t n_bytes;
    char content[TEXT_STEP_BYTES_MAX]; /* [n_content] what takes its place; REPLACE */
    size_t n_content;
    uint32_t start_max, stop_max; /* STRIP: most at the start and at the end */
};

struct text_steps {
    struct text_step steps[TEXT_STEPS_MAX];
    unsigned n;
};

/* Of one text, zero at first. */
struct text_run {
    struct text_run_step {
        bool has_begun; /* STRIP: the start is over */
        uint8_t n_held; /* REPLACE: bytes; STRIP: characters that may be the end */
        uint32_t n_left_out;
        char held[TEXT_STEP_BYTES_MAX + 4];
    } steps[TEXT_STEPS_MAX];
};

/* Whether the text goes on as it comes: there is nothing to replace, and the start is over. */
bool text_steps_are_over(const struct text_steps *steps, const struct text_run *run);

/* Whole characters of UTF-8, which may not be text_out. Returns the bytes written, at most n_bytes + TEXT_STEPS_HELD_MAX. */
size_t text_steps_push(const struct text_steps *steps, struct text_run *run, const char *text,
                       size_t n_bytes, char *text_out);
/* The end of the text: writes at most TEXT_STEPS_HELD_MAX bytes. run is zero afterwards. */
size_t text_steps_finish(const struct text_steps *steps, struct text_run *run, char *text_out);
