/*
 * constraint - what the text of a reply must be: a JSON schema, any JSON object, a regex, a grammar, one of some texts.
 *
 *     constraint_compiler_create (one for a tokenizer) -> constraint_compile (blocks: a thread for it) -> constraint
 *     before each draw: constraint_mask; after it: constraint_accept; constraint_forced: what can only come next
 *
 * By llguidance (text/rust). A constraint comes from strangers: its bytes, its compiling and each mask are bounded. The work has a
 * bound in steps, not in time. It is compiled on a thread of its own, with the stack that this takes; CONSTRAINT_STACK_BYTES is what all
 * other calls need.
 *
 * What tokens a mask allows depends on the constraint and the tokens accepted, on nothing else: a constraint that is compiled
 * elsewhere and accepts the same tokens has the same mask.
 *
 * Memory: a constraint is a copy of the compiled one, of 30 to 400 KB for usual texts and up to 10 MB for hostile ones, and grows with
 * the reply. While all of the process, those being compiled and those kept included, have more than memory_max, nothing is compiled,
 * and one of more than CONSTRAINT_SMALL_BYTES fails at its next mask.
 *
 * Thread: a compiler: any, several at once; a constraint: one at a time.
 */
#pragma once

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CONSTRAINT_STACK_BYTES ((size_t)256 << 10)
#define CONSTRAINT_SMALL_BYTES ((size_t)1 << 20)

struct tokenizer;

enum constraint_kind {
    CONSTRAINT_JSON_SCHEMA,
    CONSTRAINT_JSON_OBJECT,
    CONSTRAINT_REGEX, /* the whole text matches: syntax of Rust's regex, without look-around and references back */
    CONSTRAINT_GRAMMAR, /* Lark as llguidance reads it, or with ::= GBNF (gbnf.h) */
    CONSTRAINT_CHOICE
};

struct constraint_bytes {
    const char *bytes; /* UTF-8, not terminated */
    size_t n_bytes;
};

/* Borrowed. */
struct constraint_text {
    enum constraint_kind kind;
    struct constraint_bytes text; /* not of JSON_OBJECT and CHOICE */
    const struct constraint_bytes *choices;
    uint32_t n_choices; /* CHOICE */
};

/* Rows of configuration: constraint_config.h. */
struct constraint_limits {
    size_t bytes_max;         /* of the text, or of all choices */
    size_t grammar_bytes_max; /* of a regex, or of a grammar; also at most bytes_max */
    uint32_t choices_max;
    uint64_t compile_ns;
    uint32_t
        n_kept; /* compiled ones that a compiler keeps for the next request with the same text */
    uint64_t memory_max; /* bytes of all constraints of the process; 0: no limit */
};

struct constraint_compiler;
struct constraint;

/* tokenizer is borrowed. vocabulary: of the logits, may be above the tokenizer's ids, which are padding and never allowed. ends: the
 * model's end-of-sequence ids, at least one below vocabulary; others are left out.
 * UNSUPPORTED: a build without text/rust, or no end. NO_MEMORY. */
MUST_CHECK enum status constraint_compiler_create(const struct tokenizer *tokenizer,
                                                  uint32_t vocabulary, const uint32_t *ends,
                                                  uint32_t n_ends,
                                                  const struct constraint_limits *limits,
                                                  struct error *error,
                                                  struct constraint_compiler **compiler_out);
/* Its constraints are destroyed, and no call is in it. NULL is fine. */
void constraint_compiler_destroy(struct constraint_compiler *compiler);

/* What is wrong without compiling it, in little time: too many bytes, no UTF-8, no JSON, what is refused of a schema, by name, what
 * GBNF has wrong. Also in a build without text/rust. INVALID_ARGUMENT: error says what; the caller names the field. NO_MEMORY. */
MUST_CHECK enum status constraint_check(const struct constraint_text *text,
                                        const struct constraint_limits *limits,
                                        struct error *error);

/* Checks and compiles. Equal texts are compiled once while they are among the last used. is_over, called now and then until it
 * compiles: true ends it; NULL: never. What compiles is not stopped: llguidance can be told to only during masks, which take a few ms of
 * it. Its steps are its bound, 1 s for the worst text that is known; what comes too late is kept for the next request.
 * INVALID_ARGUMENT: error says what is wrong, also when no text could meet it. TIMED_OUT: compile_ns is over. CANCELLED: is_over said so.
 * QUEUE_FULL: memory_max, which error names. NO_MEMORY, NO_THREAD. */
MUST_CHECK enum status constraint_compile(struct constraint_compiler *compiler,
                                          const struct constraint_text *text,
                                          bool (*is_over)(void *arg), void *arg,
                                          struct error *error, struct constraint **constraint_out);
void constraint_destroy(struct constraint *constraint); /* NULL is fine */

/* mask_out [(vocabulary + 31) / 32]: bit i % 32 of word i / 32: token i may be drawn. Never empty when OK.
 * CONSTRAINT_UNMET: there is none, or to find them takes too many steps, and it stays so; or memory_max. */
MUST_CHECK enum status constraint_mask(struct constraint *constraint, uint32_t *mask_out,
                                       struct error *error);
/* An end of sequence may be accepted, too, and is then the last.
 * CONSTRAINT_UNMET: the token does not fit; nothing is accepted any more. */
MUST_CHECK enum status constraint_accept(struct constraint *constraint, uint32_t token_id,
                                         struct error *error);
/* Takes back the last n accepted tokens, all of them at most; not after a failure. CONSTRAINT_UNMET: it fails. */
MUST_CHECK enum status constraint_rollback(struct constraint *constraint, uint32_t n,
                                           struct error *error);
/* The tokens that alone can come next, as the model's own encoder makes them: each is what the mask would have as its only one, after
 * those before it were accepted. None of them is accepted yet. Returns how many, up to n_max; 0: more than one may come. */
uint32_t constraint_forced(struct constraint *constraint, uint32_t *ids_out, uint32_t n_max);
/* The text is complete: nothing but an end may follow. */
bool constraint_is_done(const struct constraint *constraint);
