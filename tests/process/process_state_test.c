/* process_state: what a process says of itself arrives as it was said; a geometry that is none is refused
 * by the field's name. */
#include "process/process_state.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

static struct process_state said, heard; /* too large for a stack */
static struct process_state_message message;

static void some_state(void)
{
    memset(&said, 0, sizeof said);
    snprintf(said.name, sizeof said.name, "worker-1");
    said.role = KVFERRY__INTERNAL__V1__ROLE__ROLE_GENERATION_WORKER;
    said.is_ready = true;
    said.model.vocabulary = 96;
    said.model.has_geometry = true;
    said.model.geometry = (struct geometry){.n_layers = 5,
                                            .n_kv_heads = 2,
                                            .head_dim = 32,
                                            .block_tokens = 16,
                                            .dtype = KV_F16,
                                            .model_digest = {1, UINT64_MAX}};
    snprintf(said.transport, sizeof said.transport, "shm-read");
    said.n_peers = 2;
    snprintf(said.peers[0].address, sizeof said.peers[0].address, "host:1");
    said.peers[0].is_ready = true;
    snprintf(said.peers[1].address, sizeof said.peers[1].address, "host:2");
    said.peers[1].is_refused = true;
    snprintf(said.peers[1].reason, sizeof said.peers[1].reason, "does not fit");
}

Test(process_state, what_a_pair_must_agree_on_arrives_as_it_was_said)
{
    struct error error = {0};
    some_state();
    process_state_encode(&said, &message);
    cr_assert_eq(process_state_decode(&message.response, &heard, &error), STATUS_OK, "%s",
                 error.text);
    cr_assert(heard.model.has_geometry);
    cr_assert_eq(geometry_match(&said.model.geometry, &heard.model.geometry, &error), STATUS_OK,
                 "%s", error.text);
    cr_assert_str_eq(heard.transport, "shm-read");
    cr_assert_eq(heard.n_peers, 2);
    cr_assert(heard.peers[0].is_ready && !heard.peers[0].is_refused);
    cr_assert(!heard.peers[1].is_ready && heard.peers[1].is_refused);
    cr_assert_str_eq(heard.peers[1].reason, "does not fit");
}

Test(process_state, one_that_loads_has_no_geometry_yet)
{
    struct error error = {0};
    some_state();
    said.model = (struct model_card){.name = "demo"};
    process_state_encode(&said, &message);
    cr_assert_eq(process_state_decode(&message.response, &heard, &error), STATUS_OK);
    cr_assert_not(heard.model.has_geometry);
    cr_assert_str_eq(heard.model.name, "demo");
}

#define REFUSES(word, change)                                                                      \
    do {                                                                                           \
        struct error error = {0};                                                                  \
        some_state();                                                                              \
        process_state_encode(&said, &message);                                                     \
        Kvferry__V1__Geometry *geometry = &message.model.geometry.message;                         \
        change;                                                                                    \
        cr_assert_eq(process_state_decode(&message.response, &heard, &error),                      \
                     STATUS_INVALID_ARGUMENT, word);                                               \
        cr_assert_not_null(strstr(error.text, word), "%s", error.text);                            \
    } while (0)

Test(process_state, a_geometry_that_is_none_is_refused_by_name)
{
    char dtype[] = "f64", digest[] = "abc";
    REFUSES("dtype", geometry->dtype = dtype);
    REFUSES("model_digest", geometry->model_digest = digest);
    REFUSES("n_layers", geometry->n_layers = 0);
    REFUSES("block_tokens", geometry->block_tokens = 12);
    REFUSES("block_bytes", geometry->block_bytes--);
}
