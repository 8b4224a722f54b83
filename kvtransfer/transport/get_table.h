/*
 * get_table - the pieces that a transport was asked for, each from its get to its report.
 *
 *     FREE --take--> OUT --end--> ENDED --report--> FREE
 *
 * Bounds: gets_max at a time.
 * Thread: the transport's.
 */
#pragma once

#include "kvtransfer/transport/pull_wire.h"

enum get_state { GET_FREE, GET_OUT, GET_ENDED };

struct get {
    enum get_state state;
    uint32_t generation; /* one more each time the place is used */
    struct transport_peer *peer;
    struct transfer_id id;
    struct piece piece;
    transport_got got;
    void *arg;
    enum status status; /* when ENDED */
    struct get *next;   /* of the free, of the ended, or of a driver's own list */
};

struct get_list {
    struct get *first, *last;
};

struct get_table {
    struct get *gets; /* [gets_max] */
    uint32_t gets_max, n_free;
    struct get_list free, ended;
};

/* What one call of transport_ops.get asks for. */
struct get_call {
    struct transport_peer *peer;
    const struct transfer_id *id;
    const struct piece *pieces;
    uint32_t n;
    transport_got got;
    void *arg;
};

MUST_CHECK enum status get_table_init(struct get_table *table, uint32_t gets_max);
/* A zeroed table is fine. */
void get_table_finish(struct get_table *table);

/* One get for each piece. QUEUE_FULL: fewer are free, none is taken. */
MUST_CHECK enum status get_table_take(struct get_table *table, const struct get_call *call,
                                      struct get *gets_out[GET_PIECES_MAX]);
/* As if they had never been taken. */
void get_table_put_back(struct get_table *table, struct get *const *gets, uint32_t n);

/* Ends the get: its bytes are there, or never will be. The next report tells the caller. */
void get_table_end(struct get_table *table, struct get *get, enum status status);
/* Ends all gets of a peer that are out. */
void get_table_end_peer(struct get_table *table, const struct transport_peer *peer,
                        enum status status);
/* Calls back for all gets that have ended, and frees them. Returns how many. */
unsigned get_table_report(struct get_table *table);

/* What the owner is asked for that get. */
struct wire_item get_table_item(const struct get_table *table, const struct get *get);
/* Finds the get that is out and that this piece answers: every field is equal, and the owner is the get's peer. Only ANSWER_STALE
 * may come from another incarnation. NULL: none. */
struct get *get_table_find(const struct get_table *table, const struct wire_piece *piece,
                           uint64_t reader_incarnation);
/* Of an answer that is not ANSWER_BYTES. */
enum status wire_refusal(enum wire_answer answer);

void get_list_append(struct get_list *list, struct get *get);
struct get *get_list_take(struct get_list *list); /* NULL: empty */
