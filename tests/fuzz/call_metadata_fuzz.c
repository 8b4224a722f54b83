/* call_metadata - whatever metadata a call brings, its name is printable, its trace is one that can be written
 * again or none, and nobody who has not the key has proved to have it.
 *
 *     input: [which key 1][bytes of the value 2, little endian][value...] for each header
 */
#include "rpc/request_id.h"
#include "rpc/server/call.h"
#include "rpc/server/call_state.h"
#include "rpc/server/server_state.h"

#include <stdlib.h>
#include <string.h>

#define HEADERS_MAX 8

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes);

static struct rpc_server server;
static struct rpc_method row = {.path = "/kvferry.internal.v1.AdminService/GetState",
                                .takes_any_life = true};
static struct rpc_server_method method = {.row = &row, .is_inner = true};

static void check(bool is_so)
{
    if (!is_so)
        abort();
}

static void start_server(void)
{
    struct cluster_key *key;
    struct key_set keys;
    struct error error;
    check(key_set_draw(&keys, &error) == STATUS_OK);
    check(cluster_key_create(&keys, &key) == STATUS_OK);
    struct call_auth_options options = {.key = key, .life = 4711, .nonces_max = 16};
    check(call_auth_create(&options, &server.options.auth) == STATUS_OK);
}

static void judge_trace(const struct rpc_call *call)
{
    struct request_origin origin;
    struct trace_context again;
    char text[TRACEPARENT_BYTES + 1];
    rpc_call_origin(call, &origin);
    if (!trace_context_is_some(&origin.trace))
        return;
    traceparent_format(&origin.trace, text);
    check(traceparent_parse(text, TRACEPARENT_BYTES, &again));
    check(memcmp(again.trace_id, origin.trace.trace_id, TRACE_ID_BYTES) == 0);
    check(again.is_sampled == origin.trace.is_sampled);
}

static void judge(struct rpc_call *call)
{
    judge_trace(call);
    struct rpc_error error;
    const char *value = NULL;
    size_t n_value = 0;
    if (rpc_call_take_request_id(call, &error) == STATUS_OK)
        check(strlen(call->request_id) >= 1 &&
              rpc_request_id_check("id", call->request_id, strlen(call->request_id), &error) ==
                  STATUS_OK);
    check(rpc_call_authenticate(call, &error) == STATUS_UNAUTHENTICATED && !call->is_bound);
    size_t n = rpc_call_header(call, CALL_AUTH_KEY, &value, &n_value);
    check(n <= call->metadata.count && (n == 0) == (value == NULL));
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes)
{
    static const char *const KEYS[] = {RPC_REQUEST_ID_KEY, CALL_AUTH_KEY, "authorization",
                                       TRACEPARENT_KEY};
    grpc_metadata headers[HEADERS_MAX];
    uint8_t *values[HEADERS_MAX]; /* copies, so that the sanitizer sees their ends */
    size_t n = 0;
    if (!server.options.auth)
        start_server();
    while (n_bytes >= 3 && n < HEADERS_MAX) {
        const char *key = KEYS[bytes[0] % 4];
        size_t n_value = (size_t)bytes[1] | (size_t)bytes[2] << 8;
        bytes += 3;
        n_bytes -= 3;
        n_value = n_value < n_bytes ? n_value : n_bytes;
        values[n] = malloc(n_value ? n_value : 1);
        if (!values[n])
            break;
        memcpy(values[n], bytes, n_value);
        headers[n] = (grpc_metadata){.key = grpc_slice_from_static_string(key),
                                     .value = grpc_slice_from_static_buffer(values[n], n_value)};
        n++;
        bytes += n_value;
        n_bytes -= n_value;
    }
    struct rpc_call call = {
        .server = &server, .method = &method, .metadata = {.count = n, .metadata = headers}};
    judge(&call);
    for (size_t i = 0; i < n; i++)
        free(values[i]);
    return 0;
}
