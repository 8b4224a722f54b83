/* Chat by gRPC: the model's template makes the prompt, so the answer is that of the rendered text; a special token that somebody
 * writes stays text, unless the operator says otherwise; a model without a template says so; what the template refuses is told. */
#include "proto/kvferry/v1/generation.pb-c.h"
#include "support/cluster.h"
#include "support/command.h"
#include "support/dial.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

TestSuite(chat_prompt, .init = command_folder_make, .fini = command_folder_remove);

#ifdef KVFERRY_SANITIZED /* whose runtime makes other system calls */
#define SECCOMP "--seccomp=off"
#else
#define SECCOMP "--seccomp=on"
#endif

#define LIMIT_NS (60 * NS_PER_S)

static const char TEMPLATE[] = "{% for m in messages %}{% if m.role == 'nobody' %}{{ "
                               "raise_exception('nobody may not speak') }}"
                               "{% endif %}{{ m.role }}: {{ m.content }}\n{% endfor %}"
                               "{% if add_generation_prompt %}assistant:{% endif %}";

struct caller {
    struct cluster cluster;
    struct dial router;
    struct rpc_error error;
    uint32_t prompt_tokens, n_ids, ids[32];
    uint64_t kv_bytes;
};

static void open_caller(struct caller *caller, const char *const *router)
{
    memset(caller, 0, sizeof *caller);
    cluster_start(&caller->cluster,
                  &(struct cluster_options){.n_contexts = 1, .n_generations = 1, .router = router});
    dial_open(&caller->router, "chat", caller->cluster.router.grpc);
}

static void close_caller(struct caller *caller)
{
    cluster_wait_quiet(&caller->cluster);
    dial_close(&caller->router);
    cluster_stop(&caller->cluster);
}

static void on_message(void *arg, const ProtobufCMessage *message)
{
    struct caller *caller = arg;
    const Kvferry__V1__CompleteResponse *whole = (const Kvferry__V1__CompleteResponse *)message;
    cr_assert_leq(whole->n_token_ids, 32);
    caller->n_ids = (uint32_t)whole->n_token_ids;
    memcpy(caller->ids, whole->token_ids, whole->n_token_ids * sizeof *caller->ids);
    caller->prompt_tokens = whole->usage->prompt_tokens;
    caller->kv_bytes = whole->timing->kv_bytes_received;
}

static enum status complete(struct caller *caller, Kvferry__V1__GenerateRequest *message)
{
    Kvferry__V1__SamplingParams sampling = KVFERRY__V1__SAMPLING_PARAMS__INIT;
    sampling
        .max_tokens_presence_case = KVFERRY__V1__SAMPLING_PARAMS__MAX_TOKENS_PRESENCE_MAX_TOKENS;
    sampling.max_tokens = 8;
    sampling
        .temperature_presence_case = KVFERRY__V1__SAMPLING_PARAMS__TEMPERATURE_PRESENCE_TEMPERATURE;
    sampling.ignore_eos = true;
    message->sampling = &sampling;
    message->return_timing = true;
    const struct rpc_request request = {
        .path = "/kvferry.v1.GenerationService/Complete",
        .message = &message->base,
        .response = &kvferry__v1__complete_response__descriptor,
        .deadline_ns = clock_now_ns() + LIMIT_NS,
        .on_message = on_message,
        .arg = caller,
    };
    return rpc_channel_call_wait(caller->router.channel, &request, &caller->error);
}

static enum status say(struct caller *caller, const char *role, const char *content)
{
    Kvferry__V1__GenerateRequest message = KVFERRY__V1__GENERATE_REQUEST__INIT;
    Kvferry__V1__ChatPrompt chat = KVFERRY__V1__CHAT_PROMPT__INIT;
    Kvferry__V1__ChatMessage one = KVFERRY__V1__CHAT_MESSAGE__INIT;
    Kvferry__V1__ChatMessage *list[] = {&one};
    one.role = (char *)role;
    one.content_presence_case = KVFERRY__V1__CHAT_MESSAGE__CONTENT_PRESENCE_CONTENT;
    one.content = (ProtobufCBinaryData){strlen(content), (uint8_t *)content};
    chat.messages = list;
    chat.n_messages = 1;
    message.prompt_case = KVFERRY__V1__GENERATE_REQUEST__PROMPT_CHAT;
    message.chat = &chat;
    return complete(caller, &message);
}

static enum status say_text(struct caller *caller, const char *text)
{
    Kvferry__V1__GenerateRequest message = KVFERRY__V1__GENERATE_REQUEST__INIT;
    message.prompt_case = KVFERRY__V1__GENERATE_REQUEST__PROMPT_TEXT;
    message.text = (ProtobufCBinaryData){strlen(text), (uint8_t *)text};
    message.add_special_tokens_presence_case =
        KVFERRY__V1__GENERATE_REQUEST__ADD_SPECIAL_TOKENS_PRESENCE_ADD_SPECIAL_TOKENS;
    return complete(caller, &message);
}

static const char QUESTION[] =
    "In the beginning God created the heaven and the earth. And the earth was without form, and "
    "void; "
    "and darkness was upon the face of the deep. And the Spirit of God moved upon the face of the "
    "waters. And God said, Let there be light: and there was light. Who said that? <|end_of_text|>";

static void expect_as_text(struct caller *caller, bool is_protected)
{
    struct caller asked;
    char text[1024];
    cr_assert_eq(say(caller, "user", QUESTION), STATUS_OK, "%s", caller->error.message);
    cr_assert_gt(caller->kv_bytes, 0);
    asked = *caller;
    snprintf(text, sizeof text, "user: %s\nassistant:", QUESTION);
    cr_assert_eq(say_text(caller, text), STATUS_OK, "%s", caller->error.message);
    if (is_protected) { /* the token that was typed is its letters */
        cr_assert_gt(asked.prompt_tokens, caller->prompt_tokens);
        return;
    }
    cr_assert_eq(asked.prompt_tokens, caller->prompt_tokens);
    cr_assert_arr_eq(asked.ids, caller->ids, sizeof asked.ids);
}

Test(chat_prompt, the_prompt_is_what_the_template_makes)
{
    static struct caller caller;
    char file[128];
    snprintf(file, sizeof file, "%s", in_folder("chat.jinja"));
    write_file(file, TEMPLATE, sizeof TEMPLATE - 1);
    const char *const as_transformers[] = {"--chat-template", file, "--chat-protect-tokens=no",
                                           NULL};
    const char *const protected[] = {"--chat-template", file, SECCOMP, NULL};
    open_caller(&caller, as_transformers);
    expect_as_text(&caller, false);
    close_caller(&caller);
    open_caller(&caller, protected);
    expect_as_text(&caller, true);
    cr_assert_eq(say(&caller, "nobody", "Hi"), STATUS_INVALID_ARGUMENT);
    cr_assert(strstr(caller.error.message, "nobody may not speak"), "%s", caller.error.message);
    cr_assert_eq(say(&caller, "", "Hi"), STATUS_INVALID_ARGUMENT);
    cr_assert_str_eq(caller.error.field, "chat.messages[0].role");
    close_caller(&caller);
}

static const char WITH_DOCUMENTS[] =
    "{% for d in documents or [] %}{{ d.title }}: {{ d.text }}\n{% endfor %}"
    "{% for m in messages %}{{ m.role }}: {% if m.content is string %}{{ m.content }}"
    "{% else %}{% for part in m.content %}[{{ part.type }}:{{ part.text }}]{% endfor %}"
    "{% endif %}{{ '\n' }}{% endfor %}assistant:";

static enum status say_parts(struct caller *caller, const char *document)
{
    Kvferry__V1__GenerateRequest message = KVFERRY__V1__GENERATE_REQUEST__INIT;
    Kvferry__V1__ChatPrompt chat = KVFERRY__V1__CHAT_PROMPT__INIT;
    Kvferry__V1__ChatMessage one = KVFERRY__V1__CHAT_MESSAGE__INIT;
    Kvferry__V1__ChatPart parts[] = {KVFERRY__V1__CHAT_PART__INIT, KVFERRY__V1__CHAT_PART__INIT};
    Kvferry__V1__ChatPart *part_list[] = {&parts[0], &parts[1]};
    Kvferry__V1__ChatMessage *list[] = {&one};
    char *documents[] = {(char *)document};
    parts[0].text = (ProtobufCBinaryData){11, (uint8_t *)"Who is he? "};
    parts[1].text = (ProtobufCBinaryData){11, (uint8_t *)"Who is she?"};
    one.role = (char *)"user";
    one.parts = part_list;
    one.n_parts = 2;
    chat.messages = list;
    chat.n_messages = 1;
    chat.documents = documents;
    chat.n_documents = 1;
    message.prompt_case = KVFERRY__V1__GENERATE_REQUEST__PROMPT_CHAT;
    message.chat = &chat;
    return complete(caller, &message);
}

Test(chat_prompt, documents_and_parts_reach_the_template)
{
    static struct caller caller;
    struct caller asked;
    char file[128];
    snprintf(file, sizeof file, "%s", in_folder("chat.jinja"));
    write_file(file, WITH_DOCUMENTS, sizeof WITH_DOCUMENTS - 1);
    const char *const router[] = {"--chat-template", file, "--chat-parts-max", "2", NULL};
    open_caller(&caller, router);
    cr_assert_eq(say_parts(&caller, "{\"title\": \"Genesis\", \"text\": \"Adam and Eve\"}"),
                 STATUS_OK, "%s", caller.error.message);
    asked = caller;
    cr_assert_eq(say_text(&caller, "Genesis: Adam and Eve\nuser: [text:Who is he? ][text:Who is "
                                   "she?]\nassistant:"),
                 STATUS_OK, "%s", caller.error.message);
    cr_assert_eq(asked.prompt_tokens, caller.prompt_tokens);
    cr_assert_arr_eq(asked.ids, caller.ids, sizeof asked.ids);
    /* A token that is typed in a document is its letters. */
    cr_assert_eq(say_parts(&caller, "{\"title\": \"T\", \"text\": \"<|end_of_text|>\"}"),
                 STATUS_OK);
    asked = caller;
    cr_assert_eq(say_text(&caller, "T: <|end_of_text|>\nuser: [text:Who is he? ][text:Who is "
                                   "she?]\nassistant:"),
                 STATUS_OK);
    cr_assert_gt(asked.prompt_tokens, caller.prompt_tokens);
    cr_assert_eq(say_parts(&caller, "7"), STATUS_INVALID_ARGUMENT);
    cr_assert_str_eq(caller.error.field, "chat.documents[0]");
    close_caller(&caller);
}

Test(chat_prompt, a_bound_is_a_row_of_the_configuration)
{
    static struct caller caller;
    char file[128];
    snprintf(file, sizeof file, "%s", in_folder("chat.jinja"));
    write_file(file, TEMPLATE, sizeof TEMPLATE - 1);
    const char *const router[] = {"--chat-template", file, "--chat-parts-max", "1", NULL};
    open_caller(&caller, router);
    cr_assert_eq(say_parts(&caller, "{}"), STATUS_INVALID_ARGUMENT);
    cr_assert_str_eq(caller.error.field, "chat.messages[0].parts");
    cr_assert_str_eq(caller.error.message,
                     "chat.messages[0].parts has 2 parts; at most 1 are taken (chat_parts_max)");
    close_caller(&caller);
}

Test(chat_prompt, a_model_without_a_template_says_so)
{
    static struct caller caller;
    open_caller(&caller, NULL);
    cr_assert_eq(say(&caller, "user", "Hi"), STATUS_NO_CHAT_TEMPLATE, "%s", caller.error.message);
    cr_assert(strncmp(caller.error.message, "the model has no chat template", 30) == 0, "%s",
              caller.error.message);
    close_caller(&caller);
}
