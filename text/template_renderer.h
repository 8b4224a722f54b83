/*
 * template_renderer - makes prompts of chat requests, by the model's chat template, in processes of their own.
 *
 *     render --> a free worker --frames--> template_worker       a keeper starts workers (template_keeper.h)
 *
 * A template, or what a request makes of it, can take a worker's life, time or memory; the router goes on. A worker that dies or
 * is late is replaced, and a request whose worker died is tried once more with a new one. A worker that cannot be started, or
 * dies before it has read the template, is tried again after a pause, which doubles from RENDERER_PAUSE_MS.
 *
 * Bounds: n_workers render at once, further calls wait for one; those of struct template_limits.
 *
 * Thread: template_renderer_create on one that lives as long as the process, before a system call filter; render from any, at
 * once. Clock: clock_now_ns.
 */
#pragma once

#include "base/status.h"
#include "text/template_limits.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RENDERER_PAUSE_MS     100
#define RENDERER_PAUSE_MS_MAX 10000

struct metrics;
struct template_renderer;
struct tokenizer;

struct template_renderer_options {
    const char *folder;        /* of the model */
    const char *template_file; /* the operator's; NULL or "": the folder's */
    const char *program;       /* that has KEEPER_COMMAND; NULL: the one that runs */
    uint64_t template_bytes_max;
    uint32_t n_workers; /* 1 .. KEEPER_WORKERS_MAX */
    uint64_t render_ms; /* longest time of one rendering */
    struct template_limits limits;
    bool
        protects_tokens; /* a request's special tokens stay text; no: they are tokens, as in Transformers */
    struct metrics *metrics; /* outlives the renderer, and has no other one's series */
};

struct render_request {
    const char *json; /* README.md has its members */
    size_t n_bytes;
    uint64_t deadline_ns;
    int64_t now_unix_s;                /* what strftime_now sees, in the process's time zone */
    const struct tokenizer *tokenizer; /* the model's, of protects_tokens; else may be NULL */
};

struct render_prompt {
    char *text; /* UTF-8; the caller frees */
    size_t n_bytes;
    uint32_t mark; /* for encode_input; 0: none */
};

/* Starts the processes and gives them the template. Strings of options are copied or not kept.
 * NO_CHAT_TEMPLATE: this build has none, or the folder has none: what each chat request is to be told. CORRUPT: the template
 * cannot be compiled; others of chat_template_read. error says which. IO_FAILED, PEER_LOST: no process. NO_MEMORY. */
MUST_CHECK enum status template_renderer_create(const struct template_renderer_options *options,
                                                struct error *error,
                                                struct template_renderer **renderer_out);
/* No call is in it. NULL is fine. */
void template_renderer_destroy(struct template_renderer *renderer);

/* Waits for the prompt.
 * INVALID_ARGUMENT: the request is not what it must be, or the template refuses it: error has the sentence of its
 *   raise_exception, or names the field.
 * TEMPLATE_LIMIT: it took more than a limit. PROMPT_TOO_LONG: more than prompt_bytes_max.
 * TIMED_OUT: deadline_ns has come. NOT_READY: no worker can be had now.
 * NO_MEMORY, BUG. */
MUST_CHECK enum status template_renderer_render(struct template_renderer *renderer,
                                                const struct render_request *request,
                                                struct error *error,
                                                struct render_prompt *prompt_out);
