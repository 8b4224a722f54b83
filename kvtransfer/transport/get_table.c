#include "kvtransfer/transport/get_table.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

void get_list_append(struct get_list *list, struct get *get)
{
    get->next = NULL;
    *(list->first ? &list->last->next : &list->first) = get;
    list->last = get;
}

struct get *get_list_take(struct get_list *list)
{
    struct get *get = list->first;
    if (get) {
        assert(list->last);
        list->first = get->next;
        if (!list->first)
            list->last = NULL;
    }
    return get;
}

enum status get_table_init(struct get_table *table, uint32_t gets_max)
{
    *table = (struct get_table){.gets_max = gets_max, .n_free = gets_max};
    table->gets = calloc(gets_max, sizeof *table->gets);
    if (!table->gets)
        return STATUS_NO_MEMORY;
    for (uint32_t i = 0; i < gets_max; i++)
        get_list_append(&table->free, &table->gets[i]);
    return STATUS_OK;
}

void get_table_finish(struct get_table *table)
{
    free(table->gets);
    *table = (struct get_table){0};
}

enum status get_table_take(struct get_table *table, const struct get_call *call,
                           struct get *gets_out[GET_PIECES_MAX])
{
    assert(call->n > 0 && call->n <= GET_PIECES_MAX);
    if (table->n_free < call->n)
        return STATUS_QUEUE_FULL;
    for (uint32_t i = 0; i < call->n; i++) {
        assert(call->pieces[i].bytes > 0 && call->pieces[i].bytes <= PIECE_BYTES_MAX);
        struct get *get = get_list_take(&table->free);
        assert(get && get->state == GET_FREE); /* n_free counts them */
        *get = (struct get){.state = GET_OUT,
                            .generation = get->generation + 1,
                            .peer = call->peer,
                            .id = *call->id,
                            .piece = call->pieces[i],
                            .got = call->got,
                            .arg = call->arg};
        gets_out[i] = get;
    }
    table->n_free -= call->n;
    return STATUS_OK;
}

void get_table_put_back(struct get_table *table, struct get *const *gets, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        assert(gets[i]->state == GET_OUT);
        gets[i]->state = GET_FREE;
        get_list_append(&table->free, gets[i]);
    }
    table->n_free += n;
    assert(table->n_free <= table->gets_max);
}

void get_table_end(struct get_table *table, struct get *get, enum status status)
{
    assert(get->state == GET_OUT);
    get->state = GET_ENDED;
    get->status = status;
    get_list_append(&table->ended, get);
}

void get_table_end_peer(struct get_table *table, const struct transport_peer *peer,
                        enum status status)
{
    for (uint32_t i = 0; i < table->gets_max; i++)
        if (table->gets[i].state == GET_OUT && table->gets[i].peer == peer)
            get_table_end(table, &table->gets[i], status);
}

unsigned get_table_report(struct get_table *table)
{
    unsigned n = 0;
    struct get_list ended = table->ended;
    table->ended = (struct get_list){0};
    for (struct get *get = get_list_take(&ended); get; get = get_list_take(&ended), n++) {
        assert(get->state == GET_ENDED);
        struct get copy = *get;
        get->state = GET_FREE;
        get_list_append(&table->free, get);
        table->n_free++;
        copy.got(copy.arg, &copy.piece, copy.status);
    }
    return n;
}

struct wire_item get_table_item(const struct get_table *table, const struct get *get)
{
    const struct piece *piece = &get->piece;
    assert(get >= table->gets && get < table->gets + table->gets_max);
    return (struct wire_item){.get = (uint32_t)(get - table->gets),
                              .generation = get->generation,
                              .block_index = piece->block_index,
                              .block = piece->remote_block,
                              .offset = piece->offset,
                              .bytes = piece->bytes};
}

struct get *get_table_find(const struct get_table *table, const struct wire_piece *piece,
                           uint64_t reader_incarnation)
{
    const struct wire_item *item = &piece->item;
    if (item->get >= table->gets_max)
        return NULL;
    struct get *get = &table->gets[item->get];
    bool is_answer = get->state == GET_OUT && get->generation == item->generation &&
                     piece->reader_incarnation == reader_incarnation &&
                     memcmp(&piece->id, &get->id, sizeof piece->id) == 0 &&
                     item->block_index == get->piece.block_index &&
                     item->block == get->piece.remote_block && item->offset == get->piece.offset &&
                     item->bytes == get->piece.bytes &&
                     (piece->owner_incarnation == get->peer->incarnation ||
                      piece->answer == ANSWER_STALE);
    return is_answer ? get : NULL;
}

enum status wire_refusal(enum wire_answer answer)
{
    assert(answer != ANSWER_BYTES);
    switch (answer) {
    case ANSWER_STALE:
        return STATUS_STALE_PEER;
    case ANSWER_FULL:
        return STATUS_QUEUE_FULL;
    default:
        return STATUS_NOT_HELD;
    }
}
