/* peer_list: a reader is found by its incarnation if it is admitted and not closing; otherwise the source is asked once. */
#include "kvtransfer/transport/peer_list.h"

#include <criterion/criterion.h>

enum { READER = 1000 };

struct engine {
    struct peer_list list;
    bool admits; /* when it is asked */
    int n_asked;
};

static struct transport_peer *add(struct engine *engine, bool is_admitted)
{
    struct transport_peer *peer;
    cr_assert_eq(peer_list_add(&engine->list, NULL, READER, sizeof *peer, &peer), STATUS_OK);
    cr_assert_eq(peer->incarnation, READER);
    peer->is_admitted = is_admitted;
    return peer;
}

static void refresh(void *arg)
{
    struct engine *engine = arg;
    engine->n_asked++;
    if (engine->admits)
        (void)add(engine, true);
}

Test(peer_list, a_reader_is_one_that_was_admitted_or_that_the_source_admits_now)
{
    struct engine engine = {.list.n_max = 3};
    const struct transport_source nothing = {0}, source = {.arg = &engine, .refresh = refresh};
    (void)add(&engine, false);
    cr_assert_null(peer_list_reader(&engine.list, &nothing, READER), "this worker gets from it");
    cr_assert_null(peer_list_reader(&engine.list, &source, READER));
    cr_assert_eq(engine.n_asked, 1);
    engine.admits = true;
    struct transport_peer *reader = peer_list_reader(&engine.list, &source, READER);
    cr_assert(reader && reader->is_admitted);
    cr_assert_eq(engine.n_asked, 2);
    cr_assert_eq(peer_list_reader(&engine.list, &source, READER), reader);
    cr_assert_eq(engine.n_asked, 2, "it is known");
    cr_assert_null(peer_list_reader(&engine.list, &nothing, READER + 1));

    peer_list_close(&engine.list, reader, NULL, NULL);
    struct transport_peer *next = peer_list_reader(&engine.list, &source, READER);
    cr_assert(next && next != reader, "a closing one is no reader any more");
    cr_assert_eq(engine.n_asked, 3);
    struct transport_peer *more;
    cr_assert_eq(peer_list_add(&engine.list, NULL, READER, sizeof *more, &more), STATUS_QUEUE_FULL);
    peer_list_end(&engine.list, reader);
    while (engine.list.first)
        peer_list_remove(&engine.list, engine.list.first);
    cr_assert_eq(engine.list.n, 0);
}
