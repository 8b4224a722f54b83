/*
 * constraint_desk - compiles the constraints of requests (text/constraint), on a thread of its own.
 *
 *     engine: order ... take: the constraint, or what is wrong with it; of a text that is REPLY_FREE the tokenizer alone
 *
 * Tenants take turns; the orders of a tenant are compiled in the order of their arrival. The first one loads the model's tokenizer, which a worker needs for nothing else but stop strings of beam searches;
 * until that succeeds, each further order tries again.
 *
 * Bounds: waiting_max orders that were not taken, of which half may be of one tenant if there are tenants; a compilation has those of constraint.h. Who orders ends the wait, but not a compilation
 * under way: nothing stops it, and the next order waits for its end.
 *
 * Thread: create, on_done and destroy main's, while no other thread uses it; order, cancel and take the engine's.
 */
#pragma once

#include "base/status.h"
#include "sampling_params/reply_constraint.h"
#include "text/constraint/constraint.h"

struct constraint_desk;
struct constraint_order;
struct tokenizer;

struct constraint_desk_options {
    const char *folder; /* the model's; borrowed, as is ends */
    uint32_t vocabulary;
    const uint32_t *ends;
    uint32_t n_ends;
    struct constraint_limits limits;
    uint32_t waiting_max;
};

/* Starts the thread. NO_MEMORY, NO_THREAD. */
MUST_CHECK enum status constraint_desk_create(const struct constraint_desk_options *options,
                                              struct constraint_desk **desk_out);
/* Its constraints are destroyed, and nothing waits for an order. Waits for what is being compiled. NULL is fine. */
void constraint_desk_destroy(struct constraint_desk *desk);
/* done(arg) is called on the desk's thread when something can be taken. It calls nothing of the desk. */
void constraint_desk_on_done(struct constraint_desk *desk, void (*done)(void *arg), void *arg);

/* The most that an order waits and is compiled: twice limits.compile_ns. NULL: 0. */
uint64_t constraint_desk_limit_ns(const struct constraint_desk *desk);

/* Copies the text. REPLY_FREE: the tokenizer is wanted, whose tokens' texts stop strings need. tenant: as struct standing has it. QUEUE_FULL, NO_MEMORY. */
MUST_CHECK enum status constraint_desk_order(struct constraint_desk *desk,
                                             const struct reply_constraint *text, uint64_t tenant,
                                             struct constraint_order **order_out);
/* It does not wait for others any more. */
bool constraint_desk_has_begun(struct constraint_desk *desk, const struct constraint_order *order);
/* Nothing of that order is taken any more. */
void constraint_desk_cancel(struct constraint_desk *desk, struct constraint_order *order);

/* status: OK, with the constraint, which becomes the caller's; else error has a sentence, which begins with the field. UNSUPPORTED: no
 * tokenizer in the folder, none that is supported, or a build without text/rust. The rest as constraint_compile, but
 * INVALID_ARGUMENT where it takes too long. */
struct constraint_done {
    const struct constraint_order *order; /* gone; only to be compared */
    struct constraint *constraint;        /* NULL: of REPLY_FREE, */
    const struct tokenizer *tokenizer;    /* for which this is there; the desk's */
    enum status status;
    struct error error;
};

/* False: nothing is done. */
bool constraint_desk_take(struct constraint_desk *desk, struct constraint_done *done_out);
