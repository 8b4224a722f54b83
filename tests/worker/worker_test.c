/* worker: what the common rows come to. */
#include "worker/worker.h"

#include <criterion/criterion.h>

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
