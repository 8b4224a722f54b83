/* get_table: a piece finds the get that asked for it, if every field is that of the get and its owner is the one that was asked. */
#include "kvtransfer/transport/get_table.h"

#include <criterion/criterion.h>

enum { OWNER = 2000, READER = 1000 };

static void got(void *arg, const struct piece *piece, enum status status)
{
    (void)piece;
    *(enum status *)arg = status;
}

Test(get_table, a_piece_answers_a_get_only_if_every_field_is_equal)
{
    struct transport_peer owner = {.incarnation = OWNER};
    struct transfer_id id = {.bytes = "a transfer"};
    uint8_t target[16];
    const struct piece wanted = {
        .block_index = 3, .remote_block = 4, .offset = 8, .bytes = sizeof target, .target = target};
    enum status status = STATUS_NOT_READY;
    struct get_table table;
    struct get *gets[GET_PIECES_MAX];
    cr_assert_eq(get_table_init(&table, 2), STATUS_OK);
    cr_assert_eq(
        get_table_take(&table, &(struct get_call){&owner, &id, &wanted, 1, got, &status}, gets),
        STATUS_OK);
    struct get *const get = gets[0];
    const struct wire_piece right = {.answer = ANSWER_BYTES,
                                     .owner_incarnation = OWNER,
                                     .reader_incarnation = READER,
                                     .id = id,
                                     .item = get_table_item(&table, get)};
    cr_assert_eq(get_table_find(&table, &right, READER), get);
    cr_assert_null(get_table_find(&table, &right, READER + 1));

    struct wire_piece wrong[8];
    for (uint32_t i = 0; i < 8; i++)
        wrong[i] = right;
    wrong[0].owner_incarnation++;
    wrong[1].reader_incarnation++;
    wrong[2].id.bytes[0]++;
    wrong[3].item.get = 2;
    wrong[4].item.generation++;
    wrong[5].item.block_index++;
    wrong[6].item.offset++;
    wrong[7].item.bytes--;
    for (uint32_t i = 0; i < 8; i++)
        cr_assert_null(get_table_find(&table, &wrong[i], READER), "%u", i);
    wrong[0].answer = ANSWER_NOT_HELD;
    cr_assert_null(get_table_find(&table, &wrong[0], READER));
    wrong[0].answer = ANSWER_STALE;
    cr_assert_eq(get_table_find(&table, &wrong[0], READER), get, "the owner is another one now");

    get_table_end(&table, get, STATUS_OK);
    cr_assert_null(get_table_find(&table, &right, READER), "it has ended");
    cr_assert_eq(get_table_report(&table), 1);
    cr_assert_eq(status, STATUS_OK);
    cr_assert_null(get_table_find(&table, &right, READER), "it is free");
    get_table_finish(&table);
}
