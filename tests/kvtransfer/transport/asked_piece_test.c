/* asked_piece: one reader has at most pieces_max and the spare, all readers have at most reads_max; a piece beyond a bound is counted
 * and refused, and an answer says what became of the piece. */
#include "kvtransfer/transport/asked_piece.h"

#include <criterion/criterion.h>
#include <string.h>

enum { OWNER = 2000, READER = 1000, PIECES_MAX = 2, SPARE = 1, READS_MAX = 5 };

static const struct wire_pull PULL = {
    .n = 1, .reader_incarnation = READER, .owner_incarnation = OWNER, .id.bytes = "a transfer"};
static const struct wire_item ITEM = {
    .get = 1, .generation = 2, .block_index = 3, .block = 4, .offset = 8, .bytes = 16};
static const uint8_t BYTES[16] = "sixteen bytes..";

struct owner {
    struct transport transport;
    struct transport_peer readers[2];
    struct asked_bounds bounds;
    enum status answers; /* of read_begin */
    int n_ended;
};

static enum status read_begin(void *arg, struct block_read *read)
{
    const struct owner *owner = arg;
    cr_assert_eq(read->reader_incarnation, READER);
    cr_assert_eq(read->block_index, ITEM.block_index);
    cr_assert_eq(read->remote_block, ITEM.block);
    cr_assert_eq(read->offset, ITEM.offset);
    cr_assert_eq(read->bytes, ITEM.bytes);
    read->view = owner->answers == STATUS_OK ? BYTES : NULL;
    return owner->answers;
}

static void read_end(void *arg, struct block_read *read, enum status status)
{
    (void)read;
    (void)status;
    ((struct owner *)arg)->n_ended++;
}

static void owner_init(struct owner *owner)
{
    *owner = (struct owner){
        .transport.source = {.arg = owner, .read_begin = read_begin, .read_end = read_end},
        .bounds = {.reads_max = READS_MAX, .pieces_max = PIECES_MAX, .spare = SPARE}};
    for (uint32_t i = 0; i < 2; i++)
        owner->readers[i] = (struct transport_peer){
            .transport = &owner->transport, .incarnation = READER, .is_admitted = true};
}

static bool is_taken(struct owner *owner, uint32_t reader, struct asked_piece *piece_out)
{
    asked_piece_take(&owner->bounds, &owner->readers[reader], &PULL, &ITEM, piece_out);
    return !piece_out->is_refused;
}

Test(asked_piece, a_reader_may_have_its_pieces_and_the_spare_and_all_readers_what_is_read_at_a_time)
{
    struct owner owner;
    struct asked_piece pieces[READS_MAX], refused;
    owner_init(&owner);
    for (uint32_t i = 0; i < PIECES_MAX + SPARE; i++)
        cr_assert(is_taken(&owner, 0, &pieces[i]));
    cr_assert_not(is_taken(&owner, 0, &refused), "its bound");
    cr_assert(owner.readers[0].has_overrun && !owner.readers[1].has_overrun);
    asked_piece_end(&owner.bounds, &owner.readers[0], &refused, STATUS_OK);
    cr_assert_eq(owner.bounds.n_reads, PIECES_MAX + SPARE, "a refused piece was not counted");
    for (uint32_t i = PIECES_MAX + SPARE; i < READS_MAX; i++)
        cr_assert(is_taken(&owner, 1, &pieces[i]));
    cr_assert_not(is_taken(&owner, 1, &refused), "the bound of all");
    asked_piece_take(&owner.bounds, &owner.readers[1], &PULL, &ITEM, NULL);
    cr_assert_eq(owner.transport.full_pieces, 3, "also without room for the refusal");
    for (uint32_t i = 0; i < READS_MAX; i++)
        asked_piece_end(&owner.bounds, &owner.readers[i >= PIECES_MAX + SPARE], &pieces[i],
                        STATUS_PEER_LOST);
    cr_assert_eq(owner.bounds.n_reads + owner.readers[0].n_reads + owner.readers[1].n_reads, 0);
    cr_assert_eq(owner.n_ended, 0, "no read had begun");
    cr_assert(is_taken(&owner, 0, &pieces[0]));
}

static enum wire_answer answer_of(struct owner *owner, struct asked_piece *piece)
{
    struct wire_piece answer;
    cr_assert(asked_piece_answer(&owner->transport.source, OWNER, piece, &answer));
    cr_assert_eq(answer.owner_incarnation, OWNER);
    cr_assert_eq(answer.reader_incarnation, READER);
    cr_assert_eq(memcmp(&answer.id, &PULL.id, sizeof answer.id), 0);
    cr_assert_eq(memcmp(&answer.item, &ITEM, sizeof ITEM), 0);
    cr_assert_eq(answer.crc32c != 0, answer.answer == ANSWER_BYTES);
    return answer.answer;
}

Test(asked_piece, an_answer_has_the_bytes_or_says_why_it_has_none)
{
    struct owner owner;
    struct asked_piece piece;
    struct wire_piece unset;
    owner_init(&owner);
    cr_assert(is_taken(&owner, 0, &piece));
    owner.answers = STATUS_NOT_READY;
    cr_assert_not(asked_piece_answer(&owner.transport.source, OWNER, &piece, &unset));
    owner.answers = STATUS_NOT_HELD;
    cr_assert_eq(answer_of(&owner, &piece), ANSWER_NOT_HELD);
    owner.answers = STATUS_OK;
    cr_assert_eq(answer_of(&owner, &piece), ANSWER_BYTES);
    cr_assert_eq(piece.read.view, BYTES);
    asked_piece_end(&owner.bounds, &owner.readers[0], &piece, STATUS_OK);
    cr_assert_eq(owner.n_ended, 1);

    struct wire_pull stale = PULL;
    stale.owner_incarnation = OWNER - 1;
    asked_piece_take(&owner.bounds, &owner.readers[0], &stale, &ITEM, &piece);
    cr_assert_eq(answer_of(&owner, &piece), ANSWER_STALE);
    cr_assert_null(piece.read.view, "nothing was read for another incarnation");
    asked_piece_end(&owner.bounds, &owner.readers[0], &piece, STATUS_OK);

    owner.bounds.reads_max = 0;
    cr_assert_not(is_taken(&owner, 0, &piece));
    cr_assert_eq(answer_of(&owner, &piece), ANSWER_FULL);
    cr_assert_null(piece.read.view);
    cr_assert_eq(owner.n_ended, 1);
}
