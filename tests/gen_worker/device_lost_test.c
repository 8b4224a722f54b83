/* gen_engine on a device that is lost in the middle: every request ends once, with DEVICE_LOST, and every block is free. */
#include "tests/device/fault_device.h"
#include "tests/gen_worker/support/gen_rig.h"

#include <criterion/criterion.h>

enum { N_CLIENTS = 4, N_PROMPT = 20, N_TOKENS = 6 };

/* Local prompts: chunks and decoding steps side by side. True: the device was lost. */
static bool run(struct device *device, uint64_t fails_at, struct rig_client clients[N_CLIENTS + 1])
{
    static const char *const NAMES[] = {"a", "b", "c", "d", "late"};
    struct gen_rig rig;
    struct gen_rig_options options = ROOMY;
    const struct sampling_params sampling = gen_rig_sampling(N_TOKENS);
    options.device = device;
    gen_rig_open(&rig, options);
    fault_device_fail_at(device, fails_at);
    for (uint32_t i = 0; i < N_CLIENTS; i++) {
        struct gen_request request = gen_rig_request(NAMES[i], i, N_PROMPT + i, &sampling);
        request.context_worker = "";
        cr_assert_eq(gen_engine_generate(rig.engine, &clients[i], &request, NULL), STATUS_OK);
    }
    gen_rig_settle(&rig);
    bool is_lost = device_is_lost(device);
    if (is_lost) {
        struct gen_request request = gen_rig_request(NAMES[N_CLIENTS], 9, N_PROMPT, &sampling);
        request.context_worker = "";
        cr_assert_eq(gen_engine_generate(rig.engine, &clients[N_CLIENTS], &request, NULL),
                     STATUS_OK);
    }
    gen_rig_settle(&rig);
    expect_all_free_or_cached(&rig);
    gen_rig_close(&rig);
    return is_lost;
}

Test(gen_device_lost, every_request_ends_once_with_its_type_whichever_call_failed)
{
    bool was_lost = true;
    uint64_t n = 0;
    uint32_t n_ok = 0;
    while (was_lost) {
        n++;
        struct rig_client clients[N_CLIENTS + 1] = {0};
        struct device *device = fault_device_open(
            &(struct fault_options){.seed = n, .steps_max = 3, .computes_at_once = true});
        was_lost = run(device, n, clients);
        for (uint32_t i = 0; i < N_CLIENTS + (was_lost ? 1u : 0u); i++) {
            bool is_whole = clients[i].n_tokens == N_TOKENS; /* it ended before the loss */
            n_ok += is_whole;
            expect_ended(&clients[i], is_whole ? STATUS_OK : STATUS_DEVICE_LOST);
            cr_expect(is_whole || was_lost);
        }
        device_close(device);
    }
    cr_expect(n > 20, "the run had %lu calls", (unsigned long)n);
    cr_expect(n_ok >= N_CLIENTS);
}
