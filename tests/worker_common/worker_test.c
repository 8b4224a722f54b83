/* worker: what the common rows come to. */
#include "worker_common/worker.h"

#include <criterion/criterion.h>
#include <string.h>

Test(worker, kv_dtype_is_the_one_asked_for_and_else_that_of_the_weights)
{
    static const enum dtype WEIGHTS[] = {DTYPE_F32, DTYPE_BF16, DTYPE_F16};
    static const enum kv_dtype SAME[] = {KV_F32, KV_BF16, KV_F16};
    for (int i = 0; i < 3; i++) {
        cr_assert_eq(worker_kv_dtype(WORKER_KV_AUTO, WEIGHTS[i]), SAME[i]);
        cr_assert_eq(worker_kv_dtype(WORKER_KV_F32, WEIGHTS[i]), KV_F32);
        cr_assert_eq(worker_kv_dtype(WORKER_KV_BF16, WEIGHTS[i]), KV_BF16);
        cr_assert_eq(worker_kv_dtype(WORKER_KV_F16, WEIGHTS[i]), KV_F16);
    }
}

Test(worker, data_port_is_on_the_loopback_as_long_as_the_control_port_is)
{
    static const char *const LOCAL[] = {"127.0.0.1:0", "[::1]:0", "localhost:1", "unix:/s"};
    for (size_t i = 0; i < sizeof LOCAL / sizeof *LOCAL; i++)
        cr_assert_str_eq(worker_net_devices("", LOCAL[i]), "lo", "%s", LOCAL[i]);
    cr_assert_str_eq(worker_net_devices("", "0.0.0.0:0"), "");
    cr_assert_str_eq(worker_net_devices("", ":50052"), "", "every interface");
    cr_assert_str_eq(worker_net_devices("", "worker.example:50052"), "");
    cr_assert_str_eq(worker_net_devices("eth0", "127.0.0.1:0"), "eth0");
    cr_assert_str_eq(worker_net_devices("eth0", "0.0.0.0:0"), "eth0");
}

Test(worker, geometry_is_the_models_and_set_only_when_good)
{
    struct error error = {""};
    struct model *model;
    struct model_options options = {.without_weights = true};
    cr_assert_eq(model_load(KVFERRY_SOURCE_DIR "/model/demo", &options, &error, &model), STATUS_OK,
                 "%s", error.text);
    const struct model_config *config = model_get_config(model);
    struct geometry geometry = {.n_layers = 7};
    cr_assert_eq(worker_geometry(model, WORKER_KV_AUTO, NULL, 12, &error, &geometry),
                 STATUS_INVALID_ARGUMENT);
    cr_assert(strstr(error.text, "block_tokens"), "%s", error.text);
    cr_assert_eq(geometry.n_layers, 7);
    cr_assert_eq(worker_geometry(model, WORKER_KV_F16, NULL, 32, &error, &geometry), STATUS_OK,
                 "%s", error.text);
    struct geometry wanted = {
        .n_layers = config->n_layers,
        .n_kv_heads = config->n_kv_heads,
        .head_dim = config->head_dim,
        .block_tokens = 32,
        .dtype = KV_F16,
    };
    model_digest(model, wanted.model_digest);
    cr_assert_eq(geometry_match(&geometry, &wanted, "equal", &error), STATUS_OK, "%s", error.text);
    model_destroy(model);
}

static enum kv_driver driver_on(enum kv_driver wanted, enum worker_kv_network network,
                                const char *devices)
{
    const struct worker_options options = {.kv_transport = wanted, .kv_network = network};
    enum kv_driver driver = KV_DRIVER_AUTO;
    cr_assert_eq(worker_kv_driver(&options, devices, &driver, NULL), STATUS_OK);
    return driver;
}

Test(worker, kv_crosses_in_clear_only_on_a_loopback_or_a_network_called_trusted)
{
    const struct worker_options clear = {.kv_transport = KV_AM_TCP};
    struct error error = {0};
    enum kv_driver driver;
    cr_assert_eq(driver_on(KV_DRIVER_AUTO, WORKER_NETWORK_UNTRUSTED, "lo"), KV_AM_TCP);
    cr_assert_eq(driver_on(KV_DRIVER_AUTO, WORKER_NETWORK_TRUSTED, "eth0"), KV_AM_TCP);
    cr_assert_eq(driver_on(KV_DRIVER_AUTO, WORKER_NETWORK_UNTRUSTED, "eth0"), KV_TLS);
    cr_assert_eq(driver_on(KV_DRIVER_AUTO, WORKER_NETWORK_UNTRUSTED, ""), KV_TLS);
    cr_assert_eq(driver_on(KV_UNIX, WORKER_NETWORK_UNTRUSTED, "eth0"), KV_UNIX);
    cr_assert_eq(driver_on(KV_AM_TCP, WORKER_NETWORK_UNTRUSTED, "lo"), KV_AM_TCP);
    cr_assert_eq(worker_kv_driver(&clear, "lo,eth0", &driver, &error), STATUS_INVALID_ARGUMENT);
    cr_assert(strstr(error.text, "am-tcp") && strstr(error.text, "lo,eth0") &&
                  strstr(error.text, "set kv_network to trusted"),
              "%s", error.text);
}
