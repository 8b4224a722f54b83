/* The port of gateways gets what no gateway sends: malformed, far too large or half sent. Each is refused by name, and the next good
 * request works. */
#include "support/engine_bed.h"
#include "support/raw_generate.h"
#include "support/text.h"
#include "tests/rpc/support/raw_call.h"

#include <criterion/criterion.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

enum { ID_MAX = 512 };

static void refuse(struct engine_bed *bed, const char *what, const struct engine_question *question,
                   const char *named)
{
    static struct engine_reply reply;
    engine_start(bed, question, &reply);
    engine_await_end(&reply);
    cr_expect_eq(reply.n_messages, 0, "%s", what);
    engine_expect_told(what, &reply.error, STATUS_INVALID_ARGUMENT, named);
}

/* ---- hostile requests ---- */

/* A field as no generated code packs it; nothing named: it is served. */
static const struct lie {
    const char *what, *named;
    uint32_t tag;
    ProtobufCWireType wire;
    const char *bytes;
    size_t n;
} LIES[] = {
#define BYTES(text) text, sizeof(text) - 1
    {"an id that is a number", "request_id", 1, PROTOBUF_C_WIRE_TYPE_VARINT, BYTES("\x05")},
    {"a prompt of eight bytes", "tokenized", 2, PROTOBUF_C_WIRE_TYPE_64BIT, BYTES("12345678")},
    {"a second prompt", "tokenized", 2, PROTOBUF_C_WIRE_TYPE_LENGTH_PREFIXED, BYTES("\0")},
    {"a flag that is a text", "stream", 5, PROTOBUF_C_WIRE_TYPE_LENGTH_PREFIXED, BYTES("\001t")},
    {"an id that is no UTF-8", "request_id", 1, PROTOBUF_C_WIRE_TYPE_LENGTH_PREFIXED,
     BYTES("\002\xff\xfe")},
    {"an id with a NUL", "request_id", 1, PROTOBUF_C_WIRE_TYPE_LENGTH_PREFIXED, BYTES("\003a\0b")},
    {"a length beyond the end", "", 99, PROTOBUF_C_WIRE_TYPE_LENGTH_PREFIXED, BYTES("\x7f")},
    {"a length of 2^63", "", 99, PROTOBUF_C_WIRE_TYPE_LENGTH_PREFIXED,
     BYTES("\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01")},
    {"a number without an end", "", 99, PROTOBUF_C_WIRE_TYPE_VARINT, BYTES("\xff")},
    {"a number of eleven bytes", "", 99, PROTOBUF_C_WIRE_TYPE_VARINT,
     BYTES("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01")},
    {"a number that is not known", NULL, 127, PROTOBUF_C_WIRE_TYPE_VARINT,
     BYTES("\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01")},
    {"a text that is not known", NULL, 536870911, PROTOBUF_C_WIRE_TYPE_LENGTH_PREFIXED,
     BYTES("\003abc")},
};

static void tell_lies(struct engine_bed *bed)
{
    static struct engine_reply reply;
    for (size_t i = 0; i < sizeof LIES / sizeof *LIES; i++) {
        const struct lie *lie = &LIES[i];
        struct engine_question question;
        ProtobufCMessageUnknownField field = {.tag = lie->tag,
                                              .wire_type = lie->wire,
                                              .len = lie->n,
                                              .data = (uint8_t *)(uintptr_t)lie->bytes};
        engine_question_init(&question, bed, N_TOKENS);
        question.request.base.unknown_fields = &field;
        question.request.base.n_unknown_fields = 1;
        engine_start(bed, &question, &reply);
        engine_await_end(&reply);
        if (lie->named)
            engine_expect_told(lie->what, &reply.error, STATUS_INVALID_ARGUMENT, lie->named);
        else
            engine_expect_wanted(bed, &reply);
    }
}

#define WITH(what, named, ...)                                                                     \
    do {                                                                                           \
        struct engine_question question;                                                           \
        Vllm__Grpc__Engine__SamplingParams *params = &question.sampling;                           \
        engine_question_init(&question, bed, N_TOKENS);                                            \
        __VA_ARGS__;                                                                               \
        (void)params;                                                                              \
        refuse(bed, what, &question, named);                                                       \
    } while (0)

static void send_bad_numbers(struct engine_bed *bed)
{
    uint32_t beyond[] = {1, UINT32_MAX};
    WITH("no token of the model", "vocabulary", question.tokenized.input_ids = beyond,
         question.tokenized.n_input_ids = 2);
    WITH("4 billion choices", "n is 4294967295", params->n = UINT32_MAX);
    WITH("no tokens", "max_tokens is 0", params->max_tokens = 0);
    WITH("no number", "temperature", params->temperature = NAN);
    WITH("an infinite temperature", "temperature", params->temperature = INFINITY);
    WITH("a negative temperature", "temperature", params->temperature = -1);
    WITH("no probability", "top_p", params->top_p = 2);
    WITH("an infinite penalty", "presence_penalty", params->presence_penalty = -INFINITY);
    WITH("a penalty that is no number", "repetition_penalty", params->repetition_penalty = NAN);
    WITH("more at least than at most", "min_tokens", params->min_tokens = UINT32_MAX);
    WITH("log-probabilities below none", "logprobs is -2147483648",
         params->logprobs_presence_case =
             VLLM__GRPC__ENGINE__SAMPLING_PARAMS__LOGPROBS_PRESENCE_LOGPROBS,
         params->logprobs = INT32_MIN);
}

static void send_bad_texts(struct engine_bed *bed)
{
    static char id[ID_MAX + 2], schema[] = "{\"type\": \"what\"}";
    static char *ids[2];
    ProtobufCBinaryData stops[100];
    Vllm__Grpc__Engine__ChoiceConstraint choices = VLLM__GRPC__ENGINE__CHOICE_CONSTRAINT__INIT;
    memset(id, 'i', ID_MAX + 1);
    ids[0] = ids[1] = id;
    WITH("an id of 513 bytes", "request_id has 513 bytes", question.request.request_id = id);
    for (size_t i = 0; i < 100; i++)
        stops[i] = text_of("stop");
    WITH("100 stop strings", "stop", params->stop = stops, params->n_stop = 100);
    WITH("no schema", "json_schema",
         params->constraint_case = VLLM__GRPC__ENGINE__SAMPLING_PARAMS__CONSTRAINT_JSON_SCHEMA,
         params->json_schema = schema);
    WITH("no choice", "choices",
         params->constraint_case = VLLM__GRPC__ENGINE__SAMPLING_PARAMS__CONSTRAINT_CHOICE,
         params->choice = &choices);
    engine_abort(bed, ids, 2); /* ids that nobody can have */
}

Test(engine_port_lies, what_is_malformed_is_refused_by_name_and_the_next_request_works)
{
    static struct engine_bed bed;
    engine_bed_open(&bed, (const char *const[]){ENGINE_PORT, NULL});
    tell_lies(&bed);
    send_bad_numbers(&bed);
    send_bad_texts(&bed);
    engine_expect_good(&bed);
    cr_expect_gt(requests_ended(&bed.cluster, "BAD_FIELD"), 0, "it is counted");
    engine_bed_close(&bed);
}

Test(engine_port_lies, half_sent_requests_hold_up_nobody)
{
    static struct engine_bed bed;
    struct engine_question question;
    uint8_t packed[1024];
    int sockets[12];
    engine_bed_open(&bed, (const char *const[]){ENGINE_PORT, NULL});
    engine_question_init(&question, &bed, N_TOKENS);
    size_t n = vllm__grpc__engine__generate_request__get_packed_size(&question.request);
    cr_assert_leq(n, sizeof packed);
    vllm__grpc__engine__generate_request__pack(&question.request, packed);
    for (size_t i = 0; i < 12; i++)
        sockets[i] = raw_call_start(bed.cluster.router.engine,
                                    &(struct raw_call){.path = ENGINE "Generate",
                                                       .window = 100,
                                                       .message = packed,
                                                       .message_bytes = (uint16_t)n,
                                                       .is_half = i % 3 == 0,
                                                       .is_cut = i % 3 == 1,
                                                       .lacks_message = i % 3 == 2});
    engine_expect_good(&bed);
    for (size_t i = 0; i < 12; i++) {
        if (i % 3 == 2)
            cr_expect(raw_call_await_trailers(sockets[i]), "it is told that there is no message");
        close(sockets[i]);
    }
    engine_expect_good(&bed);
    engine_bed_close(&bed);
}
