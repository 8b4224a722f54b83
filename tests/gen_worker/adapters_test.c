/* gen_engine: a request with an adapter that its context worker lacks, or does not know of, ends with that word where nothing is
 * computed here; and holds its adapter until then. */
#include "tests/gen_worker/support/gen_rig.h"

#include <criterion/criterion.h>
#include <string.h>

static uint32_t n_holds;

static struct adapter *share(struct adapter *adapter)
{
    n_holds++;
    return adapter;
}

static void release(struct adapter *adapter)
{
    (void)adapter;
    cr_assert_gt(n_holds, 0);
    n_holds--;
}

static void expect(enum status said, const char *sentence, enum status status, const char *told)
{
    struct sampling_params sampling = gen_rig_sampling(4);
    struct rig_client client = {0};
    struct gen_rig rig;
    /* Nothing is computed with it, so that any address will do. */
    const struct request_adapter adapter = {.id = {.name = "law", .digest = {1, 2}},
                                            .adapter = (struct adapter *)(void *)&rig,
                                            .share = share,
                                            .release = release};
    gen_rig_open(&rig, STRICT);
    struct gen_request request = gen_rig_request("a", 'a', 16, &sampling);
    request.input.adapter = &adapter;
    cr_assert_eq(gen_engine_generate(rig.engine, &client, &request, NULL), STATUS_OK);
    gen_rig_step(&rig);
    cr_expect_eq(n_holds, 1);
    gen_rig_describe(&rig);
    gen_engine_prefill_end(rig.engine, rig.prefill, said, sentence);
    gen_rig_settle(&rig);
    expect_ended(&client, status);
    cr_expect_str_eq(client.finish_sentence, told);
    gen_rig_close(&rig);
    cr_expect_eq(n_holds, 0);
}

Test(gen_adapters, a_context_worker_that_lacks_it_is_believed)
{
    const char *lacks = "adapter law is asked for with the digest 1, this worker has 2";
    expect(STATUS_ADAPTER_MISMATCH, lacks, STATUS_ADAPTER_MISMATCH, lacks);
}

Test(gen_adapters, one_of_an_earlier_version_is_named)
{
    expect(STATUS_INVALID_ARGUMENT, "sampling is absent", STATUS_UNSUPPORTED,
           "an adapter is not supported by the context worker, which has an earlier version");
}
