/*
 * wire - gRPC between simulated processes: calls whose two ends live in two processes.
 *
 *     client end  --messages, in order, each with a delay-->  server end
 *                 <-------------------------------------------
 *
 * An end is over when its owner closes it, when it took a message that was sent as the last one, or
 * when it is broken: its peer closed, died, or could not be reached for longer than keep-alive
 * allows. Both ends of a broken call learn it, at different times, or never if they died first.
 * Messages neither double nor overtake each other; on a cut link they are lost, and so the call is.
 * What reaches a frozen process waits until it goes on.
 *
 * Memory of calls and messages lives until wire_finish.
 */
#pragma once

#include "base/random.h"
#include "tests/sim/timeline.h"

#define WIRE_NODES_MAX 208u

/* How long a process or link may be silent before the other end gives up. */
#define WIRE_KEEP_ALIVE_NS 1500000000ull

struct wire_node {
    uint64_t life; /* 0: not running; else the number of this life */
    uint64_t frozen_until_ns;
    bool is_due; /* something reached it */
};

struct wire_message {
    int kind; /* the users' */
    bool is_last;
};

enum wire_side { WIRE_CLIENT, WIRE_SERVER };

struct wire_call;

/* What an end hears. message is good until wire_finish. */
struct wire_listener {
    void (*message)(void *arg, const struct wire_message *message);
    void (*broken)(void *arg);
    void (*late)(void *arg); /* (client) the deadline passed; the end is over */
};

struct wire {
    struct timeline *timeline;
    struct random random;
    uint64_t delay_min_ns, delay_max_ns;
    struct wire_node nodes[WIRE_NODES_MAX];
    bool cut[WIRE_NODES_MAX][WIRE_NODES_MAX];
    struct wire_call *calls; /* all of them, a list */
    struct wire_block *blocks;
};

void wire_init(struct wire *wire, struct timeline *timeline, uint64_t seed);
void wire_finish(struct wire *wire);

/* Zeroed memory until wire_finish. */
void *wire_alloc(struct wire *wire, size_t bytes);

struct wire_call *wire_open(struct wire *wire, uint32_t client, uint32_t server,
                            uint64_t deadline_ns);
void wire_listen(struct wire_call *call, enum wire_side side, const struct wire_listener *listener,
                 void *arg);
/* message is the first member of something from wire_alloc. The sender's end is over after a last one. */
void wire_send(struct wire_call *call, enum wire_side from, struct wire_message *message);
/* The end is over; the other end will hear broken. */
void wire_close(struct wire_call *call, enum wire_side side);
bool wire_is_over(const struct wire_call *call, enum wire_side side);

bool wire_is_frozen(const struct wire *wire, uint32_t node);
/* The process has ended: its ends are over, the others will be broken. */
void wire_node_died(struct wire *wire, uint32_t node);
void wire_node_freeze(struct wire *wire, uint32_t node, uint64_t until_ns);
void wire_cut_link(struct wire *wire, uint32_t a, uint32_t b, bool is_cut);
