/*
 * reply_printer - prints the reply of a Generate call on standard output, as it arrives or as JSON at its end.
 *
 *     one choice      its text, as it arrives
 *     several         under "--- choice 1 of 3 ---", in their order: the first as it arrives, what came of the others behind it
 *     is_json         at the end, one JSON object a line for each choice
 *
 * Log-probabilities and scores of beams go to standard error, or into the JSON. On a terminal, control characters of the text are shown as "?"
 * (output.h). A reply that must be kept for this is bounded by bytes_max; one that is only shown is not kept.
 *
 * Thread: one at a time.
 */
#pragma once

#include "cli/client/reply.h"
#include "cli/client/reply_texts.h"

struct reply_printer_options {
    uint32_t n_choices; /* 1 .. REPLY_CHOICES_MAX */
    bool is_json, has_logprobs, has_prompt_logprobs;
    bool has_scores;    /* of a beam search */
    bool keeps;         /* the caller wants the reply: reply_printer.reply */
    uint64_t bytes_max; /* of what is kept */
};

struct reply_printer {
    struct reply_printer_options options;
    struct reply reply; /* if it is kept */
    struct reply_texts texts;
    uint32_t on_show;  /* the choice that is printed now; n_choices: all are */
    size_t n_shown;    /* bytes of it */
    bool has_text;     /* something was printed */
    bool is_mid_line;  /* and its last byte is no line feed */
    bool has_header;   /* of the choice on show */
    bool is_unprinted; /* standard output failed */
};

void reply_printer_init(struct reply_printer *printer, const struct reply_printer_options *options);
void reply_printer_finish(struct reply_printer *printer);
/* Whether it needs texts before reply_printer_end. */
bool reply_printer_needs_texts(const struct reply_printer *printer);

/* IO_FAILED: standard output failed (is_unprinted); else as reply_take. */
MUST_CHECK enum status reply_printer_take(struct reply_printer *printer,
                                          const Kvferry__V1__GenerateResponse *message,
                                          struct error *error);
/* Ends the line that is begun, also of a reply that was broken off. */
void reply_printer_end_line(struct reply_printer *printer);
/* Of a whole reply: prints JSON, or log-probabilities on standard error. */
void reply_printer_end(struct reply_printer *printer);
