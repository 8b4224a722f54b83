/* guard: refuses every message that protobuf-c would pay too much for, or read wrongly. */
#include "probe.pb-c.h"
#include "rpc/guard.h"

#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <stdlib.h>
#include <string.h>

static const struct rpc_guard_limits LIMITS = {8, 100, 64};

static enum status check(const void *bytes, size_t n_bytes, struct rpc_error *error)
{
    memset(error, 0, sizeof *error);
    return rpc_guard_check(&kvferry__probe__ask__descriptor, bytes, n_bytes, &LIMITS, error);
}

struct bad_case {
    char name[32];
    uint8_t bytes[24];
    size_t n_bytes;
    char field[24];
    char sentence[48];
};

#define BAD(name, field, sentence, ...)                                                            \
    {                                                                                              \
        name, {__VA_ARGS__}, sizeof((uint8_t[]){__VA_ARGS__}), field, sentence                     \
    }

ParameterizedTestParameters(guard, refuses_with_the_field)
{
    static struct bad_case cases[] = {
        BAD("cut varint", "", "malformed tag", 0x80),
        BAD("tag 0", "", "tag out of range", 0x00, 0x01),
        BAD("tag over 32 bits", "", "tag out of range", 0x88, 0x80, 0x80, 0x80, 0x10, 0x01),
        BAD("varint of 11 bytes", "count", "malformed varint", 0x08, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF,
            0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x01),
        BAD("varint over 64 bits", "count", "malformed varint", 0x08, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF,
            0xFF, 0xFF, 0xFF, 0xFF, 0x02),
        BAD("group", "count", "wire type", 0x0B, 0x0C),
        BAD("wire type 6", "count", "wire type", 0x0E),
        BAD("string as varint", "text", "does not fit", 0x18, 0x01),
        BAD("uint32 as bytes", "count", "does not fit", 0x0A, 0x01, 0x01),
        BAD("message as fixed32", "tree", "does not fit", 0x2D, 1, 2, 3, 4),
        BAD("double as fixed32", "real", "does not fit", 0x65, 1, 2, 3, 4),
        BAD("length past the end", "text", "past the end", 0x1A, 0x05, 'a'),
        BAD("length of 2^63", "text", "past the end", 0x1A, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF,
            0xFF, 0xFF, 0x7F),
        BAD("cut fixed64", "real", "cut off", 0x61, 1, 2, 3),
        BAD("inner length past the end", "tree.child", "past the end", 0x2A, 0x02, 0x0A, 0x05),
        BAD("scalar twice", "count", "twice", 0x08, 0x01, 0x08, 0x02),
        BAD("merge bomb", "tree", "twice", 0x2A, 0x00, 0x2A, 0x00),
        BAD("two of one oneof", "prompt_tree", "beside another", 0x32, 0x01, 'a', 0x3A, 0x00),
        BAD("NUL in a string", "text", "not UTF-8", 0x1A, 0x03, 'a', 0x00, 'b'),
        BAD("overlong UTF-8", "text", "not UTF-8", 0x1A, 0x02, 0xC0, 0x80),
        BAD("surrogate", "text", "not UTF-8", 0x1A, 0x03, 0xED, 0xA0, 0x80),
        BAD("over 10FFFF", "text", "not UTF-8", 0x1A, 0x04, 0xF4, 0x90, 0x80, 0x80),
        BAD("cut character", "text", "not UTF-8", 0x1A, 0x02, 0xE2, 0x82),
        BAD("bad name of many", "names", "not UTF-8", 0x42, 0x01, 'a', 0x42, 0x01, 0xFF),
        BAD("cut packed varint", "tokens", "packed", 0x22, 0x02, 0x01, 0x80),
        BAD("odd packed fixed32", "fixed", "multiple", 0x6A, 0x03, 1, 2, 3),
        BAD("deep field", "tree.child", "does not fit", 0x2A, 0x02, 0x08, 0x01),
        BAD("map value", "labels.value", "not UTF-8", 0x5A, 0x06, 0x0A, 0x01, 'k', 0x12, 0x01,
            0xFF),
    };
    return cr_make_param_array(struct bad_case, cases, sizeof cases / sizeof *cases);
}

ParameterizedTest(struct bad_case *bad, guard, refuses_with_the_field)
{
    struct rpc_error error;
    cr_assert_eq(check(bad->bytes, bad->n_bytes, &error), STATUS_INVALID_ARGUMENT, "%s", bad->name);
    cr_assert_str_eq(error.field, bad->field, "%s: %s", bad->name, error.message);
    cr_assert_not_null(strstr(error.message, bad->sentence), "%s: %s", bad->name, error.message);
}

/* n levels of Ask.tree / Tree.child; returns where the bytes start in out. */
static const uint8_t *nest(unsigned levels, uint8_t *out, size_t out_bytes, size_t *n_out)
{
    size_t n = 0;
    for (unsigned i = 0; i < levels; i++) {
        uint8_t length[10], *end = length;
        size_t rest = n;
        do
            *end++ = (uint8_t)((rest & 0x7F) | (rest > 0x7F ? 0x80 : 0));
        while (rest >>= 7);
        n += (size_t)(end - length);
        memcpy(out + out_bytes - n, length, (size_t)(end - length));
        out[out_bytes - ++n] = i + 1 == levels ? 0x2A : 0x0A;
    }
    *n_out = n;
    return out + out_bytes - n;
}

Test(guard, allows_depth_max_levels_and_no_more)
{
    static uint8_t buffer[200000];
    struct rpc_error error;
    size_t n;
    const uint8_t *bytes = nest(8, buffer, sizeof buffer, &n);
    cr_assert_eq(check(bytes, n, &error), STATUS_OK, "%s", error.message);
    bytes = nest(9, buffer, sizeof buffer, &n);
    cr_assert_eq(check(bytes, n, &error), STATUS_INVALID_ARGUMENT);
    cr_assert_not_null(strstr(error.message, "levels"));
    bytes = nest(20000, buffer, sizeof buffer, &n);
    cr_assert_eq(check(bytes, n, &error), STATUS_INVALID_ARGUMENT);
}

static enum status check_tokens(size_t n_tokens, struct rpc_error *error)
{
    uint32_t tokens[200];
    for (size_t i = 0; i < n_tokens; i++)
        tokens[i] = (uint32_t)(i * 1000);
    Kvferry__Probe__Ask ask = KVFERRY__PROBE__ASK__INIT;
    ask.tokens = tokens;
    ask.n_tokens = n_tokens;
    uint8_t bytes[1024];
    size_t n = kvferry__probe__ask__pack(&ask, bytes);
    return check(bytes, n, error);
}

Test(guard, counts_packed_elements_exactly)
{
    struct rpc_error error;
    cr_assert_eq(check_tokens(100, &error), STATUS_OK, "%s", error.message);
    cr_assert_eq(check_tokens(101, &error), STATUS_INVALID_ARGUMENT);
    cr_assert_str_eq(error.field, "tokens");
}

static enum status check_repeated(const void *element, size_t n_bytes, unsigned n,
                                  struct rpc_error *error)
{
    uint8_t bytes[4096];
    for (unsigned i = 0; i < n; i++)
        memcpy(bytes + i * n_bytes, element, n_bytes);
    return check(bytes, n * n_bytes, error);
}

Test(guard, counts_unpacked_elements_messages_strings_and_maps)
{
    struct rpc_error error;
    static const uint8_t elements[][2] = {{0x20, 0x01}, {0x42, 0}, {0x52, 0}, {0x5A, 0}};
    for (size_t i = 0; i < 4; i++) {
        cr_assert_eq(check_repeated(elements[i], 2, 100, &error), STATUS_OK, "%zu", i);
        cr_assert_eq(check_repeated(elements[i], 2, 101, &error), STATUS_INVALID_ARGUMENT);
    }
}

Test(guard, counts_elements_of_all_levels_together)
{
    struct rpc_error error;
    /* Ask.many { leaves: 9 packed } is 10 elements. */
    static const uint8_t element[] = {0x52, 11, 0x12, 9, 1, 2, 3, 4, 5, 6, 7, 8, 9};
    cr_assert_eq(check_repeated(element, sizeof element, 10, &error), STATUS_OK);
    cr_assert_eq(check_repeated(element, sizeof element, 11, &error), STATUS_INVALID_ARGUMENT);
}

Test(guard, bounds_unknown_fields)
{
    struct rpc_error error;
    cr_assert_eq(check_repeated("\xA0\x06\x01", 3, 64, &error), STATUS_OK);
    cr_assert_eq(check_repeated("\xA0\x06\x01", 3, 65, &error), STATUS_INVALID_ARGUMENT);
    cr_assert_not_null(strstr(error.message, "unknown"));
}

Test(guard, unpacks_what_it_allows)
{
    uint32_t tokens[] = {1, 2, 300000};
    char *names[] = {"a", "\xE2\x82\xAC"};
    Kvferry__Probe__Ask ask = KVFERRY__PROBE__ASK__INIT;
    ask.text = "chapter";
    ask.tokens = tokens;
    ask.n_tokens = 3;
    ask.names = names;
    ask.n_names = 2;
    ask.signed_number = INT64_MIN;
    ask.prompt_case = KVFERRY__PROBE__ASK__PROMPT_PROMPT_TEXT;
    ask.prompt_text = "";
    uint8_t bytes[256];
    size_t n = kvferry__probe__ask__pack(&ask, bytes);

    struct rpc_arena arena;
    rpc_arena_init(&arena);
    rpc_arena_reset(&arena, 65536);
    struct rpc_error error;
    ProtobufCMessage *message;
    cr_assert_eq(rpc_guard_unpack(&kvferry__probe__ask__descriptor, bytes, n, &LIMITS, &arena,
                                  &error, &message),
                 STATUS_OK);
    const Kvferry__Probe__Ask *read = (const Kvferry__Probe__Ask *)message;
    cr_assert_str_eq(read->text, "chapter");
    cr_assert_eq(read->n_tokens, 3);
    cr_assert_eq(read->tokens[2], 300000);
    cr_assert_str_eq(read->names[1], "\xE2\x82\xAC");
    cr_assert_eq(read->signed_number, INT64_MIN);
    cr_assert_eq(read->prompt_case, KVFERRY__PROBE__ASK__PROMPT_PROMPT_TEXT);
    rpc_arena_finish(&arena);
}

Test(guard, every_cut_of_a_good_message_is_judged_without_reading_past_it)
{
    uint32_t tokens[40] = {70000};
    Kvferry__Probe__Tree tree = KVFERRY__PROBE__TREE__INIT;
    Kvferry__Probe__Ask ask = KVFERRY__PROBE__ASK__INIT;
    tree.leaves = ask.tokens = tokens;
    tree.n_leaves = ask.n_tokens = 40;
    ask.tree = &tree;
    ask.text = "a text of some length";
    uint8_t bytes[512];
    size_t n = kvferry__probe__ask__pack(&ask, bytes);

    struct rpc_arena arena;
    rpc_arena_init(&arena);
    for (size_t cut = 0; cut <= n; cut++) {
        uint8_t *exact = malloc(cut ? cut : 1); /* so that the sanitizer sees one byte too far */
        memcpy(exact, bytes, cut);
        struct rpc_error error;
        ProtobufCMessage *message;
        rpc_arena_reset(&arena, 65536);
        /* What the guard allows must unpack: protobuf-c is never the one to find a fault. */
        enum status checked = check(exact, cut, &error);
        cr_assert_eq(rpc_guard_unpack(&kvferry__probe__ask__descriptor, exact, cut, &LIMITS, &arena,
                                      &error, &message),
                     checked);
        free(exact);
    }
    rpc_arena_finish(&arena);
}
