/* slice_set: the addresses of all slices together, sorted, each worker once; no bound can be passed. */
#include "discovery/k8s/slice_set.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct slice_set *set;
static struct slice_addresses addresses;
static struct error error;

static struct slice_endpoint v4(uint32_t ip, uint16_t port, const char *pod)
{
    struct slice_endpoint endpoint = {
        .ip = {(uint8_t)(ip >> 24), (uint8_t)(ip >> 16), (uint8_t)(ip >> 8), (uint8_t)ip},
        .port = port};
    snprintf(endpoint.pod, sizeof endpoint.pod, "%s", pod);
    return endpoint;
}

static struct slice_endpoint v6(uint8_t last, uint16_t port, const char *pod)
{
    struct slice_endpoint endpoint = {.ip = {0xfd, [15] = last}, .is_v6 = true, .port = port};
    snprintf(endpoint.pod, sizeof endpoint.pod, "%s", pod);
    return endpoint;
}

static void put(const char *name, const struct slice_endpoint *endpoints, uint32_t n)
{
    cr_assert_eq(slice_set_put(set, name, endpoints, n, false, &error), STATUS_OK, "%s",
                 error.text);
}

static void expect(const char *wanted)
{
    char all[1024] = "";
    slice_set_addresses(set, &addresses);
    for (uint32_t i = 0; i < addresses.n; i++)
        snprintf(all + strlen(all), sizeof all - strlen(all), "%s ", addresses.list[i]);
    cr_assert_str_eq(all, wanted);
}

static void begin(void)
{
    cr_assert_eq(slice_set_create(&set), STATUS_OK);
}

static void end(void)
{
    slice_set_destroy(set);
}

#define IP(a, b, c, d) ((uint32_t)(a) << 24 | (b) << 16 | (c) << 8 | (d))

Test(slice_set, is_the_union_of_its_slices, .init = begin, .fini = end)
{
    const struct slice_endpoint a[] = {v4(IP(10, 1, 2, 9), 5, "p9"), v4(IP(10, 1, 2, 3), 5, "p3")};
    const struct slice_endpoint b[] = {v4(IP(10, 1, 2, 3), 5, "p3"), v4(IP(10, 1, 2, 3), 6, "p3")};
    expect("");
    put("a", a, 2);
    put("b", b, 2);
    expect("10.1.2.3:5 10.1.2.3:6 10.1.2.9:5 ");
    put("a", a, 1);
    expect("10.1.2.3:5 10.1.2.3:6 10.1.2.9:5 ");
    slice_set_remove(set, "b");
    slice_set_remove(set, "b");
    expect("10.1.2.9:5 ");
    put("a", NULL, 0);
    expect("");
    cr_assert_eq(slice_set_n(set), 1);
}

Test(slice_set, a_pod_of_two_families_is_one_worker, .init = begin, .fini = end)
{
    const struct slice_endpoint four[] = {v4(IP(10, 0, 0, 1), 5, "x"), v4(IP(10, 0, 0, 2), 5, "")};
    const struct slice_endpoint six[] = {v6(1, 5, "x"), v6(2, 5, "only"), v6(3, 5, "")};
    put("six", six, 3);
    expect("[fd00::1]:5 [fd00::2]:5 [fd00::3]:5 ");
    put("four", four, 2);
    expect("10.0.0.1:5 10.0.0.2:5 [fd00::2]:5 [fd00::3]:5 ");
    slice_set_remove(set, "four");
    expect("[fd00::1]:5 [fd00::2]:5 [fd00::3]:5 ");
}

Test(slice_set, counts_slices_without_the_port, .init = begin, .fini = end)
{
    cr_assert_eq(slice_set_put(set, "a", NULL, 0, true, &error), STATUS_OK);
    put("b", NULL, 0);
    cr_assert_eq(slice_set_n_lacking_port(set), 1);
    put("a", NULL, 0);
    cr_assert_eq(slice_set_n_lacking_port(set), 0);
}

Test(slice_set, refuses_a_slice_too_many, .init = begin, .fini = end)
{
    char name[16];
    for (uint32_t i = 0; i < SLICE_SET_SLICES_MAX; i++) {
        snprintf(name, sizeof name, "s%u", i);
        put(name, NULL, 0);
    }
    cr_assert_eq(slice_set_put(set, "more", NULL, 0, false, &error), STATUS_UNSUPPORTED);
    cr_assert(strstr(error.text, "more than 256 EndpointSlices"), "%s", error.text);
    put("s7", NULL, 0);
    slice_set_remove(set, "s9");
    put("more", NULL, 0);
}

Test(slice_set, refuses_endpoints_too_many_and_cuts_addresses, .init = begin, .fini = end)
{
    static struct slice_endpoint many[SLICE_SET_ENDPOINTS_MAX + 1];
    for (uint32_t i = 0; i <= SLICE_SET_ENDPOINTS_MAX; i++)
        many[i] = v4(IP(10, 0, i >> 8, i & 255), 50052, "");
    put("a", many, SLICE_SET_ADDRESSES_MAX);
    slice_set_addresses(set, &addresses);
    cr_assert_eq(addresses.n, SLICE_SET_ADDRESSES_MAX);
    cr_assert_not(addresses.is_cut);

    put("b", many, SLICE_SET_ENDPOINTS_MAX - SLICE_SET_ADDRESSES_MAX);
    slice_set_addresses(set, &addresses);
    cr_assert_eq(addresses.n, SLICE_SET_ADDRESSES_MAX);
    cr_assert(addresses.is_cut);
    cr_assert_str_eq(addresses.list[0], "10.0.0.0:50052");

    cr_assert_eq(slice_set_put(set, "c", many, 1, false, &error), STATUS_UNSUPPORTED);
    cr_assert(strstr(error.text, "more than 2048 endpoints"), "%s", error.text);
    cr_assert_eq(slice_set_put(set, "b", many, SLICE_SET_ENDPOINTS_MAX, false, &error),
                 STATUS_UNSUPPORTED);
    slice_set_remove(set, "a");
    slice_set_remove(set, "b");
    put("all", many, SLICE_SET_ENDPOINTS_MAX);
    cr_assert_eq(slice_set_put(set, "all", many, SLICE_SET_ENDPOINTS_MAX + 1, false, &error),
                 STATUS_UNSUPPORTED);
}
