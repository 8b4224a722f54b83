/* process_state: what a process says of itself arrives as it was said; a geometry that is none is refused
 * by the field's name. */
#include "base/utf8.h"
#include "process/process_state.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

static struct process_peer said_peers[4], heard_peers[4];
static struct process_state said, heard = {.peers = heard_peers, .peers_max = 4};
static struct process_state_message message;

static void some_state(void)
{
    said = (struct process_state){.peers = said_peers, .peers_max = 4};
    memset(said_peers, 0, sizeof said_peers);
    snprintf(said.name, sizeof said.name, "worker-1");
    said.role = KVFERRY__INTERNAL__V1__ROLE__ROLE_GENERATION_WORKER;
    said.is_ready = true;
    said.model.vocabulary = 96;
    said.prefills = (struct process_prefills){.n = 2, .tokens = 5ull << 32, .done_tokens = 512};
    snprintf(said.allow_numerics, sizeof said.allow_numerics, "any");
    said.kv_convert = true;
    said.kernels = (struct process_kernels){"avx512_bf16", "avx2", "measured", 24};
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
    cr_assert_eq(heard.prefills.n, 2);
    cr_assert_eq(heard.prefills.tokens, 5ull << 32);
    cr_assert_eq(heard.prefills.done_tokens, 512);
    cr_assert_str_eq(heard.allow_numerics, "any");
    cr_assert(heard.kv_convert);
    cr_assert_str_eq(heard.kernels.products, "avx512_bf16");
    cr_assert_str_eq(heard.kernels.attention, "avx2");
    cr_assert_str_eq(heard.kernels.chosen_by, "measured");
    cr_assert_eq(heard.kernels.threads, 24);
    cr_assert_eq(geometry_match(&said.model.geometry, &heard.model.geometry, "equal", &error),
                 STATUS_OK, "%s", error.text);
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
    said.kernels = (struct process_kernels){0};
    process_state_encode(&said, &message);
    cr_assert_eq(process_state_decode(&message.response, &heard, &error), STATUS_OK);
    cr_assert_not(heard.model.has_geometry);
    cr_assert_null(message.response.kernels);
    cr_assert_eq(heard.kernels.threads, 0);
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

/* ---- adapters ---- */

static char digest_text[] = "00112233445566778899aabbccddeeff";

Test(process_state, adapters_arrive_as_they_were_said)
{
    struct error error = {0};
    some_state();
    said.model.n_adapters = ADAPTERS_MAX;
    for (uint32_t i = 0; i < ADAPTERS_MAX; i++) {
        snprintf(said.model.adapters[i].name, sizeof said.model.adapters[i].name, "a%u", i);
        said.model.adapters[i].digest[1] = i;
    }
    process_state_encode(&said, &message);
    cr_assert_eq(process_state_decode(&message.response, &heard, &error), STATUS_OK, "%s",
                 error.text);
    cr_assert_eq(heard.model.n_adapters, ADAPTERS_MAX);
    for (uint32_t i = 0; i < ADAPTERS_MAX; i++)
        cr_assert(adapter_id_equal(&heard.model.adapters[i], &said.model.adapters[i]));
}

static void refuse_adapter(const char *name, const char *digest, size_t n, const char *word)
{
    static Kvferry__V1__AdapterCard *list[ADAPTERS_MAX + 1];
    Kvferry__V1__AdapterCard adapter = KVFERRY__V1__ADAPTER_CARD__INIT;
    struct error error = {0};
    char given[2][80];
    snprintf(given[0], sizeof given[0], "%s", name);
    snprintf(given[1], sizeof given[1], "%s", digest);
    adapter.name = given[0];
    adapter.digest = given[1];
    for (size_t i = 0; i < n; i++)
        list[i] = &adapter;
    some_state();
    process_state_encode(&said, &message);
    message.model.card.adapters = list;
    message.model.card.n_adapters = n;
    cr_expect_eq(process_state_decode(&message.response, &heard, &error), STATUS_INVALID_ARGUMENT,
                 "%s", word);
    cr_expect(strstr(error.text, word), "no \"%s\" in \"%s\"", word, error.text);
}

Test(process_state, adapters_that_are_none_are_refused_by_name)
{
    refuse_adapter("", digest_text, 1, "adapter is \"\", expected a name");
    refuse_adapter("a b", digest_text, 1, "adapter is \"a b\"");
    refuse_adapter("a", "", 1, "adapter has the digest \"\", expected 32");
    refuse_adapter("a", digest_text + 1, 1, "expected 32 hexadecimal digits");
    refuse_adapter("a", digest_text, ADAPTERS_MAX + 1, "adapters are 65; at most 64 are taken");
}

static void expect_whole(const char *text, size_t n_max)
{
    cr_expect_eq(utf8_first_invalid(text, strlen(text)), strlen(text), "%s", text);
    cr_expect_geq(strlen(text), n_max - 4, "%s", text);
    cr_expect_lt(strlen(text), n_max);
}

/* n bytes in front of characters of two. */
static void fill(char *text, size_t bytes, size_t n)
{
    memset(text, 'a', n);
    for (; n + 3 <= bytes; n += 2)
        memcpy(text + n, "\xc3\xa9", 2);
    text[n] = '\0';
}

Test(process_state, a_text_too_long_is_cut_between_two_characters)
{
    for (size_t n = 0; n < 2; n++) {
        char text[600], name[PROCESS_NAME_MAX];
        struct error error = {0};
        fill(text, sizeof text, n);
        some_state();
        process_state_encode(&said, &message);
        message.response.name = message.model.card.name = text;
        message.response.transport = message.peers[0].address = message.peers[1].reason = text;
        cr_assert_eq(process_state_decode(&message.response, &heard, &error), STATUS_OK);
        expect_whole(heard.name, sizeof heard.name);
        expect_whole(heard.model.name, sizeof heard.model.name);
        expect_whole(heard.transport, sizeof heard.transport);
        expect_whole(heard.peers[0].address, sizeof heard.peers[0].address);
        expect_whole(heard.peers[1].reason, sizeof heard.peers[1].reason);
        model_card_name("", text, name);
        expect_whole(name, sizeof name);
        model_card_name(text, "x", name);
        expect_whole(name, sizeof name);
    }
}

Test(process_state, a_reason_that_was_cut_is_said_without_half_a_character)
{
    some_state();
    snprintf(said.peers[1].reason, sizeof said.peers[1].reason, "abc\xe2\x82");
    process_state_encode(&said, &message);
    const char *reason = message.peers[1].reason;
    cr_assert_eq(utf8_first_invalid(reason, strlen(reason)), strlen(reason), "%s", reason);
    cr_assert_eq(strncmp(reason, "abc", 3), 0);
}

Test(process_state, a_model_without_a_name_has_that_of_its_folder)
{
    char name[PROCESS_NAME_MAX];
    model_card_name("given", "model/demo", name);
    cr_assert_str_eq(name, "given");
    model_card_name("", "model/demo//", name);
    cr_assert_str_eq(name, "demo");
    model_card_name("", "./-x", name);
    cr_assert_str_eq(name, "-x");
}
