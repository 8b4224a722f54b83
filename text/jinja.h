/*
 * jinja - chat templates rendered as Transformers has jinja2 render them, by the Rust library in rust/.
 *
 *     jinja_create -> jinja_add (each template) -> jinja_render (each request) -> jinja_destroy
 *
 * A template is code: run it only in a process that has limits of its own (template_worker.h). fuel bounds its steps, but not
 * all memory that a step can take, nor the stack.
 *
 * Texts are UTF-8, not terminated, and borrowed for the call. Thread: one at a time for each struct jinja.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum jinja_result {
    JINJA_OK,
    JINJA_SYNTAX,   /* the template cannot be read */
    JINJA_INPUT,    /* the request is not what it must be */
    JINJA_RAISED,   /* the template's own raise_exception: the error is its message alone */
    JINJA_FUEL,     /* it takes too many steps */
    JINJA_TOO_LONG, /* it makes too many bytes */
    JINJA_FAILED,   /* it does what cannot be done */
    JINJA_PANIC     /* a mistake in the library */
};

struct jinja;

struct jinja_limits {
    uint64_t fuel; /* a step of the template, or 64 bytes of JSON, is one */
    size_t depth;  /* of calls and values */
    size_t out_bytes_max;
};

struct jinja_text {
    const char *bytes;
    size_t n_bytes;
};

struct jinja_input {
    struct jinja_text json; /* README.md of text/ has its members */
    int64_t now_unix_s;     /* what strftime_now sees */
    uint32_t mark;          /* a character that tojson never escapes; 0: none */
};

/* Where a sentence goes, terminated. */
struct jinja_error {
    char *text;
    size_t bytes_max;
};

/* Writes the time by a format of strftime, and returns the bytes written, at most out_bytes_max. */
typedef size_t (*jinja_strftime)(int64_t now_unix_s, const char *format, size_t n_bytes, char *out,
                                 size_t out_bytes_max);

/* tokens: a JSON object of variables that every template sees, as bos_token. */
enum jinja_result jinja_create(const struct jinja_limits *limits, const struct jinja_text *tokens,
                               jinja_strftime strftime, const struct jinja_error *error,
                               struct jinja **jinja_out);

/* The templates that may be chosen: default, which must be there; tool_use, for requests with tools; rag, for those with
 * documents alone. A name is added once. */
enum jinja_result jinja_add(struct jinja *jinja, const struct jinja_text *name,
                            const struct jinja_text *source, const struct jinja_error *error);

/* The prompt is borrowed until the next call. */
enum jinja_result jinja_render(struct jinja *jinja, const struct jinja_input *input,
                               const struct jinja_error *error, struct jinja_text *prompt_out);

/* Once in a process that does nothing else, on the thread that renders, while it may still open files. on_no_memory is
 * called where memory ends, and does not return. */
void jinja_prepare(void (*on_no_memory)(void));

/* NULL is fine. */
void jinja_destroy(struct jinja *jinja);

/* Of the whole library, in bytes: what the process holds, and what this thread has allocated, less what it freed, which wraps below 0.
 * Any thread. */
size_t jinja_memory_held(void);
size_t jinja_memory_of_thread(void);
