/* adapter_set: adapters by name; a request holds what it found; another digest, no room and bad names are refused with the values. */
#include "model/adapter/adapter.h"
#include "model/model.h"
#include "process/adapter_codec.h"
#include "worker_common/adapter_set.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#define GOLDEN KVFERRY_SOURCE_DIR "/tests/golden"
#define LLAMA  GOLDEN "/adapters/llama"
#define OTHER  GOLDEN "/adapters/llama_other"
#define DEEP   GOLDEN "/adapters/llama_deep" /* rank 16 */

static struct model *model;
static struct adapter_set *set;
static struct error error;

static void make(uint32_t rank_max, uint64_t bytes_max)
{
    cr_assert_eq(model_load(GOLDEN "/models/llama_t5_bias", NULL, &error, &model), STATUS_OK, "%s",
                 error.text);
    const struct adapter_set_options options = {
        .model = model, .rank_max = rank_max, .bytes_max = bytes_max};
    cr_assert_eq(adapter_set_create(&options, &set), STATUS_OK);
}

static void unmake(void)
{
    adapter_set_destroy(set);
    model_destroy(model);
}

static struct adapter_id add(const char *name, const char *folder)
{
    struct adapter_id id;
    cr_assert_eq(adapter_set_add(set, name, folder, &error, &id), STATUS_OK, "%s", error.text);
    return id;
}

static void expect_refused(enum status status, const char *word)
{
    cr_expect_neq(status, STATUS_OK);
    cr_expect(strstr(error.text, word), "no \"%s\" in \"%s\"", word, error.text);
}

Test(adapter_set, a_request_finds_its_adapter_by_name_and_digest)
{
    struct request_adapter found;
    struct adapter_id ids[ADAPTERS_MAX];
    make(0, 0);
    const struct adapter_id a = add("a", LLAMA), b = add("b", OTHER);
    (void)add("a", LLAMA); /* the same */
    cr_assert_eq(adapter_set_list(set, ids), 2);
    cr_assert(adapter_id_equal(&ids[0], &a) && adapter_id_equal(&ids[1], &b));
    cr_assert_eq(adapter_set_rank(set), 7);
    cr_assert_eq(adapter_set_find(set, &b, &error, &found), STATUS_OK, "%s", error.text);
    cr_assert_eq(adapter_rank(found.adapter), 7);
    found.release(found.adapter);

    struct adapter_id mixed = a;
    memcpy(mixed.digest, b.digest, sizeof mixed.digest);
    char theirs[ADAPTER_DIGEST_BYTES], ours[ADAPTER_DIGEST_BYTES];
    adapter_digest_format(b.digest, theirs);
    adapter_digest_format(a.digest, ours);
    cr_assert_eq(adapter_set_find(set, &mixed, &error, &found), STATUS_ADAPTER_MISMATCH);
    cr_assert(strstr(error.text, theirs) && strstr(error.text, ours), "%s", error.text);
    snprintf(mixed.name, sizeof mixed.name, "c");
    cr_assert_eq(adapter_set_find(set, &mixed, &error, &found), STATUS_ADAPTER_MISMATCH);
    expect_refused(STATUS_ADAPTER_MISMATCH, "none of that name");
    expect_refused(adapter_set_find(NULL, &a, &error, &found), "none of that name");
    unmake();
}

Test(adapter_set, what_was_removed_lives_as_long_as_it_is_held)
{
    struct request_adapter held;
    make(0, 0);
    const struct adapter_id a = add("a", LLAMA);
    cr_assert_eq(adapter_set_find(set, &a, &error, &held), STATUS_OK);
    cr_assert_eq(adapter_set_remove(set, "a", &error), STATUS_OK);
    cr_assert_eq(adapter_rank(held.adapter), 4);
    struct request_adapter again;
    cr_assert_eq(adapter_set_find(set, &a, &error, &again), STATUS_ADAPTER_MISMATCH);
    held.release(held.adapter);
    expect_refused(adapter_set_remove(set, "a", &error), "adapter \"a\" is not there");
    expect_refused(adapter_set_remove(NULL, "a", &error), "is not there");
    (void)add("a", OTHER);
    unmake();
}

Test(adapter_set, what_does_not_fit_is_refused)
{
    struct adapter_id id;
    make(8, 20000);
    (void)add("a", LLAMA);
    expect_refused(adapter_set_add(set, "a", OTHER, &error, &id), "unload it first");
    expect_refused(adapter_set_add(set, "b c", OTHER, &error, &id), "adapter is \"b c\"");
    expect_refused(adapter_set_add(set, "deep", DEEP, &error, &id), "rank 16, at most 8");
    expect_refused(adapter_set_add(set, "b", LLAMA, &error, &id), "there is room for 5152");
    (void)add("b", OTHER);
    cr_assert_eq(adapter_set_bytes(set), 14848 + 3712);
    expect_refused(adapter_set_add(set, "c", GOLDEN "/adapters/gpt2_fused", &error, &id),
                   "no tensor is called");
    unmake();
}

Test(adapter_set, no_more_than_so_many)
{
    struct adapter_id id;
    char name[16];
    make(0, 0);
    for (uint32_t i = 0; i < ADAPTERS_MAX; i++) {
        snprintf(name, sizeof name, "a%u", i);
        (void)add(name, OTHER);
    }
    expect_refused(adapter_set_add(set, "more", OTHER, &error, &id), "at most");
    cr_assert_eq(adapter_set_remove(set, "a7", &error), STATUS_OK);
    (void)add("more", OTHER);
    unmake();
}

Test(adapter_set, an_identity_has_the_list)
{
    static struct identity_message message;
    struct adapter_id ids[ADAPTERS_MAX];
    make(0, 0);
    const struct adapter_id a = add("a", LLAMA);
    kvferry__internal__v1__worker_identity__init(&message.message);
    adapter_set_describe(set, &message);
    cr_assert_eq(message.message.n_adapters, 1);
    cr_assert_eq(adapters_decode(message.message.adapters, 1, &error, ids), STATUS_OK);
    cr_assert(adapter_id_equal(&ids[0], &a));
    adapter_set_compare(set, &message.message);
    adapter_set_compare(set, NULL);
    adapter_set_describe(NULL, &message);
    cr_assert_eq(message.message.n_adapters, 0);
    unmake();
}
