/* Tokenize and Detokenize of what is long are answered beside the others; what a reply does not hold is refused in
 * the router's own words, and so is a text on which the tokenizer's pattern looks too far ahead. */
#include "proto/kvferry/v1/generation.pb-c.h"
#include "support/cluster.h"
#include "support/command.h"
#include "support/dial.h"
#include "support/model_copy.h"

#include <criterion/criterion.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

TestSuite(text_calls, .init = command_folder_make, .fini = command_folder_remove);

#define SERVICE   "/kvferry.v1.GenerationService/"
#define REPLY_IDS 32760 /* what 64 KiB hold of ids of two bytes, less a few bytes for the field */

struct caller {
    struct cluster cluster;
    struct dial router;
};

static void open_caller(struct caller *caller, const struct cluster_options *options)
{
    cluster_start(&caller->cluster, options);
    dial_open(&caller->router, "text calls", caller->cluster.router.grpc);
}

static void close_caller(struct caller *caller)
{
    dial_close(&caller->router);
    cluster_stop(&caller->cluster);
}

static struct rpc_error call(const struct caller *caller, const char *method,
                             const ProtobufCMessage *message,
                             const ProtobufCMessageDescriptor *response)
{
    char path[64];
    snprintf(path, sizeof path, SERVICE "%s", method);
    struct rpc_request request = {
        .path = path,
        .message = message,
        .response = response,
        .is_stream = strcmp(method, "Generate") == 0,
        .deadline_ns = clock_now_ns() + COMMAND_LIMIT_NS,
        .elements_max = 1u << 20,
    };
    struct rpc_error error;
    (void)!rpc_channel_call_wait(caller->router.channel, &request, &error);
    return error;
}

/* n times a character. */
static struct rpc_error tokenize(const struct caller *caller, char character, size_t n)
{
    Kvferry__V1__TokenizeRequest request = KVFERRY__V1__TOKENIZE_REQUEST__INIT;
    char *text = malloc(n);
    cr_assert_not_null(text);
    memset(text, character, n);
    request.text = (ProtobufCBinaryData){n, (uint8_t *)text};
    struct rpc_error error = call(caller, "Tokenize", &request.base,
                                  &kvferry__v1__tokenize_response__descriptor);
    free(text);
    return error;
}

static struct rpc_error detokenize(const struct caller *caller, uint32_t id, size_t n)
{
    Kvferry__V1__DetokenizeRequest request = KVFERRY__V1__DETOKENIZE_REQUEST__INIT;
    uint32_t *ids = malloc(n * sizeof *ids);
    cr_assert_not_null(ids);
    for (size_t i = 0; i < n; i++)
        ids[i] = id;
    request.token_ids = ids;
    request.n_token_ids = n;
    struct rpc_error error = call(caller, "Detokenize", &request.base,
                                  &kvferry__v1__detokenize_response__descriptor);
    free(ids);
    return error;
}

static void expect(struct rpc_error error, enum status status, const char *part)
{
    cr_expect_eq(error.status, status, "%s: %s", status_name(error.status), error.message);
    cr_expect(strstr(error.message, part), "no \"%s\" in \"%s\"", part, error.message);
}

/* On the queue thread and, with the other router, on the text thread. */
static void check_bounds(const char *inline_bytes)
{
    const char *const router[] = {
        "--message-bytes-max", "65536", "--reply-bytes-max", "20000", "--text-inline-bytes",
        inline_bytes,          NULL};
    struct caller caller;
    open_caller(&caller, &(struct cluster_options){.n_generations = 1, .router = router});
    expect(tokenize(&caller, '\x01', 100), STATUS_OK, "");
    expect(tokenize(&caller, '\x01', REPLY_IDS), STATUS_OK, "");
    expect(tokenize(&caller, '\x01', REPLY_IDS + 1), STATUS_REPLY_TOO_LONG,
           "text makes more than the 32760 tokens that a reply holds");
    expect(detokenize(&caller, 64, 20000), STATUS_OK, "");
    expect(detokenize(&caller, 64, 20001), STATUS_INVALID_ARGUMENT,
           "token_ids make a text of 20001 bytes; at most 20000 are given");
    expect(detokenize(&caller, 2048, 20000), STATUS_INVALID_ARGUMENT, "must be below 2048");
    close_caller(&caller);
}

Test(text_calls, what_a_reply_does_not_hold_is_refused_in_our_own_words)
{
    check_bounds("1M");
    check_bounds("0");
}

static void look_ahead(void)
{
    json_error_t reason;
    json_t *root = json_load_file(in_folder("model/tokenizer.json"), 0, &reason);
    cr_assert_not_null(root, "%s", reason.text);
    json_object_set_new(root, "pre_tokenizer",
                        json_pack("{s:s, s:[{s:s, s:{s:s}, s:s, s:b}, {s:s, s:b, s:b}]}", "type",
                                  "Sequence", "pretokenizers", "type", "Split", "pattern", "Regex",
                                  "\\p{N}{1,3}(?=(?:\\p{N}{3})*(?!\\p{N}))", "behavior", "Isolated",
                                  "invert", 0, "type", "ByteLevel", "add_prefix_space", 0,
                                  "use_regex", 0));
    cr_assert_eq(json_dump_file(root, in_folder("model/tokenizer.json"), 0), 0);
    json_decref(root);
}

Test(text_calls, a_text_on_which_a_pattern_looks_too_far_ahead_is_refused)
{
    struct caller caller;
    char model[160];
    model_copy_make();
    look_ahead();
    snprintf(model, sizeof model, "%s", in_folder("model"));
    open_caller(&caller, &(struct cluster_options){.model = model, .n_generations = 1});
    expect(tokenize(&caller, '7', 3000), STATUS_OK, "");
    expect(tokenize(&caller, '7', 500000), STATUS_INVALID_ARGUMENT,
           "text: a split pattern reaches its limit after byte ");
    expect(tokenize(&caller, 'x', 500000), STATUS_OK, "");
    close_caller(&caller);
}
