/* descriptor_index: finds every symbol of the embedded set, and survives a broken one. */
#include "base/random.h"
#include "proto/descriptor_set.h"
#include "rpc/server/descriptor_index.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

static size_t set_bytes(void)
{
    return (size_t)(descriptor_set_end - descriptor_set_begin);
}

Test(descriptor_index, finds_files_symbols_and_closures)
{
    struct rpc_descriptor_index *index;
    cr_assert_eq(rpc_descriptor_index_create(descriptor_set_begin, set_bytes(), &index), STATUS_OK);
    size_t n_files = rpc_descriptor_index_count(index);
    cr_assert_gt(n_files, 5);

    static const char *const SYMBOLS[][2] = {
        {"grpc.health.v1.Health", "grpc/health/v1/health.proto"},
        {"grpc.health.v1.Health.Watch", "grpc/health/v1/health.proto"},
        {"grpc.health.v1.HealthCheckResponse.ServingStatus", "grpc/health/v1/health.proto"},
        {"google.rpc.BadRequest.FieldViolation", "google/rpc/error_details.proto"},
        {"google.protobuf.Any", "google/protobuf/any.proto"},
    };
    for (size_t i = 0; i < sizeof SYMBOLS / sizeof *SYMBOLS; i++) {
        size_t file = rpc_descriptor_index_by_symbol(index, SYMBOLS[i][0]);
        cr_assert_neq(file, DESCRIPTOR_NONE, "%s", SYMBOLS[i][0]);
        cr_assert_eq(file, rpc_descriptor_index_by_name(index, SYMBOLS[i][1]));
    }
    cr_assert_eq(rpc_descriptor_index_by_symbol(index, "grpc.health.v1"), DESCRIPTOR_NONE);
    cr_assert_eq(rpc_descriptor_index_by_name(index, "none.proto"), DESCRIPTOR_NONE);

    size_t *files = calloc(n_files, sizeof *files);
    size_t status_file = rpc_descriptor_index_by_name(index, "google/rpc/status.proto");
    cr_assert_eq(rpc_descriptor_index_closure(index, status_file, files), 2);
    cr_assert_eq(files[0], status_file);
    cr_assert_eq(files[1], rpc_descriptor_index_by_name(index, "google/protobuf/any.proto"));
    free(files);
    rpc_descriptor_index_destroy(index);
}

Test(descriptor_index, a_cut_set_is_corrupt_or_smaller_but_never_read_past)
{
    size_t n_set = set_bytes();
    size_t n_corrupt = 0;
    for (size_t cut = 0; cut < n_set; cut += 13) {
        uint8_t *exact = malloc(cut ? cut : 1);
        memcpy(exact, descriptor_set_begin, cut);
        struct rpc_descriptor_index *index;
        enum status status = rpc_descriptor_index_create(exact, cut, &index);
        cr_assert(status == STATUS_OK || status == STATUS_CORRUPT);
        n_corrupt += status == STATUS_CORRUPT;
        if (status == STATUS_OK)
            rpc_descriptor_index_destroy(index);
        free(exact);
    }
    cr_assert_gt(n_corrupt, n_set / 13 / 2);
}

Test(descriptor_index, changed_bytes_never_crash_it)
{
    size_t n_set = set_bytes();
    uint8_t *copy = malloc(n_set);
    struct random random;
    random_init(&random, 11);
    for (int round = 0; round < 2000; round++) {
        memcpy(copy, descriptor_set_begin, n_set);
        for (int i = 0; i < 3; i++)
            copy[random_below(&random, n_set)] = (uint8_t)random_u64(&random);
        struct rpc_descriptor_index *index;
        if (rpc_descriptor_index_create(copy, n_set, &index) == STATUS_OK)
            rpc_descriptor_index_destroy(index);
    }
    free(copy);
}
