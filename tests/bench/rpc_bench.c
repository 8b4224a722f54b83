/* rpc_bench ADDRESS SECONDS CONCURRENCY [--json] [--ca FILE [--certificate FILE --key FILE] [--cluster NAME]]
 *           [--token TEXT] [--cluster-key FILE | --generate N [--door v1|engine|inference]] - calls, so many at a time: calls/s, and the median and
 * 99th percentile of a call in us. ModelService.ListModels of a router; with --cluster-key AdminService.GetState of
 * any process's control port, signed; with --generate whole streamed generations of N tokens, each of a prompt that no
 * cache holds, and the same of the time to the first token. --door: by kvferry.v1, vllm.grpc.engine.VllmEngine or vllm.Inference.
 *
 * For a comparison start the processes side by side and run it at each in turn, several times. */
#include "base/clock.h"
#include "kvferry/internal/v1/admin.pb-c.h"
#include "kvferry/v1/generation.pb-c.h"
#include "kvferry/v1/model.pb-c.h"
#include "proto/vllm/grpc/engine/vllm_engine.pb-c.h"
#include "proto/vllm/inference.pb-c.h"
#include "rpc/auth/key_file.h"
#include "rpc/client/client.h"

#include <getopt.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CALLS_MAX (4u << 20)
#define PROMPT                                                                                     \
    "In the beginning God created the heaven and the earth. And the earth was without form, and "  \
    "void; and darkness was upon the face of the deep."
#define PROMPT_TOKENS 51u /* of it in the demo model, with what makes it another one each time */

struct caller;

/* One API for generations. */
struct door {
    const char *name, *path;
    const ProtobufCMessageDescriptor *response;
    void (*start)(struct caller *caller, struct rpc_request *request, char *prompt);
};

struct bench {
    struct rpc_request request; /* but for arg, and of generations the message */
    const struct door *door;
    uint32_t n_tokens; /* of a generation; 0: other calls */
    uint64_t until_ns;
    pthread_mutex_t lock; /* of what follows */
    pthread_cond_t changed;
    float *times_us; /* [CALLS_MAX] */
    float *first_us; /* [CALLS_MAX] of the same calls, to the first message */
    uint32_t n;
    uint32_t n_failed;
    uint32_t n_running;
};

struct caller {
    struct bench *bench;
    struct rpc_channel *channel;
    uint64_t began_ns, first_ns;
};

static void begin(struct caller *caller);

static void on_message(void *arg, const ProtobufCMessage *message)
{
    struct caller *caller = arg;
    (void)message;
    if (caller->first_ns == 0)
        caller->first_ns = clock_now_ns();
}

static void on_end(void *arg, const struct rpc_error *error)
{
    struct caller *caller = arg;
    struct bench *bench = caller->bench;
    uint64_t now_ns = clock_now_ns();
    pthread_mutex_lock(&bench->lock);
    if (error->status != STATUS_OK) {
        if (bench->n_failed++ == 0)
            fprintf(stderr, "rpc_bench: a call failed: %s\n", error->message);
    } else if (bench->n < CALLS_MAX) {
        bench->first_us[bench->n] = (float)(caller->first_ns - caller->began_ns) / 1000;
        bench->times_us[bench->n++] = (float)(now_ns - caller->began_ns) / 1000;
    }
    bool goes_on = now_ns < bench->until_ns;
    bench->n_running -= !goes_on;
    pthread_cond_signal(&bench->changed);
    pthread_mutex_unlock(&bench->lock);
    if (goes_on)
        begin(caller);
}

static void start(struct caller *caller, const struct rpc_request *request)
{
    caller->first_ns = 0;
    caller->began_ns = clock_now_ns();
    enum status status = rpc_channel_start(caller->channel, request, NULL);
    if (status != STATUS_OK) {
        fprintf(stderr, "rpc_bench: cannot call: %s\n", status_text(status));
        exit(1);
    }
}

/* ---- generations: greedy, of n_tokens ---- */

static void start_v1(struct caller *caller, struct rpc_request *request, char *prompt)
{
    Kvferry__V1__SamplingParams sampling = KVFERRY__V1__SAMPLING_PARAMS__INIT;
    sampling
        .max_tokens_presence_case = KVFERRY__V1__SAMPLING_PARAMS__MAX_TOKENS_PRESENCE_MAX_TOKENS;
    sampling.max_tokens = caller->bench->n_tokens;
    sampling
        .temperature_presence_case = KVFERRY__V1__SAMPLING_PARAMS__TEMPERATURE_PRESENCE_TEMPERATURE;
    sampling.ignore_eos = true;
    Kvferry__V1__GenerateRequest message = KVFERRY__V1__GENERATE_REQUEST__INIT;
    message.prompt_case = KVFERRY__V1__GENERATE_REQUEST__PROMPT_TEXT;
    message.text = (ProtobufCBinaryData){strlen(prompt), (uint8_t *)prompt};
    message.sampling = &sampling;
    request->message = &message.base;
    start(caller, request);
}

static void start_engine(struct caller *caller, struct rpc_request *request, char *prompt)
{
    Vllm__Grpc__Engine__SamplingParams sampling = VLLM__GRPC__ENGINE__SAMPLING_PARAMS__INIT;
    Vllm__Grpc__Engine__GenerateRequest message = VLLM__GRPC__ENGINE__GENERATE_REQUEST__INIT;
    sampling.temperature_presence_case =
        VLLM__GRPC__ENGINE__SAMPLING_PARAMS__TEMPERATURE_PRESENCE_TEMPERATURE;
    sampling.max_tokens_presence_case =
        VLLM__GRPC__ENGINE__SAMPLING_PARAMS__MAX_TOKENS_PRESENCE_MAX_TOKENS;
    sampling.max_tokens = caller->bench->n_tokens;
    sampling.ignore_eos = true;
    /* This API takes token ids alone: as many as the prompt has. */
    uint32_t ids[PROMPT_TOKENS], state = (uint32_t)strtoull(prompt, NULL, 16);
    for (uint32_t i = 0; i < PROMPT_TOKENS; i++)
        ids[i] = 256 + (state = state * 1664525u + 1013904223u) / (UINT32_MAX / 1024);
    Vllm__Grpc__Engine__TokenizedInput tokenized = VLLM__GRPC__ENGINE__TOKENIZED_INPUT__INIT;
    tokenized.n_input_ids = PROMPT_TOKENS;
    tokenized.input_ids = ids;
    message.input_case = VLLM__GRPC__ENGINE__GENERATE_REQUEST__INPUT_TOKENIZED;
    message.tokenized = &tokenized;
    message.sampling_params = &sampling;
    message.stream = true;
    request->message = &message.base;
    start(caller, request);
}

static void start_inference(struct caller *caller, struct rpc_request *request, char *prompt)
{
    Vllm__StoppingCriteria stopping = VLLM__STOPPING_CRITERIA__INIT;
    Vllm__GenerateRequest message = VLLM__GENERATE_REQUEST__INIT;
    stopping.max_new_tokens = caller->bench->n_tokens;
    stopping.ignore_eos = true;
    message.temperature_presence_case = VLLM__GENERATE_REQUEST__TEMPERATURE_PRESENCE_TEMPERATURE;
    message.prompt_case = VLLM__GENERATE_REQUEST__PROMPT_TEXT;
    message.text = (ProtobufCBinaryData){strlen(prompt), (uint8_t *)prompt};
    message.stopping = &stopping;
    request->message = &message.base;
    start(caller, request);
}

static const struct door DOORS[] = {
    {"v1", "/kvferry.v1.GenerationService/Generate", &kvferry__v1__generate_response__descriptor,
     start_v1},
    {"engine", "/vllm.grpc.engine.VllmEngine/Generate",
     &vllm__grpc__engine__generate_response__descriptor, start_engine},
    {"inference", "/vllm.Inference/GenerateStream", &vllm__generate_response__descriptor,
     start_inference},
};

static const struct door *find_door(const char *name)
{
    for (size_t i = 0; i < sizeof DOORS / sizeof *DOORS; i++)
        if (strcmp(DOORS[i].name, name) == 0)
            return &DOORS[i];
    return NULL;
}

/* It begins as no other: not even its first block is cached. */
static void start_generation(struct caller *caller, struct rpc_request *request)
{
    char prompt[sizeof PROMPT + 32];
    snprintf(prompt, sizeof prompt, "%016llx " PROMPT,
             (unsigned long long)(clock_now_ns() * 0x9e3779b97f4a7c15u + (uintptr_t)caller));
    caller->bench->door->start(caller, request, prompt);
}

static void begin(struct caller *caller)
{
    struct rpc_request request = caller->bench->request;
    request.arg = caller;
    if (caller->bench->n_tokens > 0)
        start_generation(caller, &request);
    else
        start(caller, &request);
}

static int compare(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

static void run(struct bench *bench, struct caller *callers, uint32_t n_callers)
{
    for (uint32_t i = 0; i < n_callers; i++)
        begin(&callers[i]);
    pthread_mutex_lock(&bench->lock);
    while (bench->n_running > 0)
        pthread_cond_wait(&bench->changed, &bench->lock);
    pthread_mutex_unlock(&bench->lock);
}

struct arguments {
    const char *address;
    double seconds;
    uint32_t n_callers;
    bool is_json;
    struct rpc_client_tls tls;
    const char *token, *cluster_key;
    uint32_t n_tokens;
    const struct door *door;
};

static int read_arguments(int argc, char **argv, struct arguments *out)
{
    static const struct option OPTIONS[] = {
        {"json", no_argument, NULL, 'j'},
        {"ca", required_argument, NULL, 'a'},
        {"certificate", required_argument, NULL, 'c'},
        {"key", required_argument, NULL, 'k'},
        {"cluster", required_argument, NULL, 'n'},
        {"token", required_argument, NULL, 't'},
        {"cluster-key", required_argument, NULL, 's'},
        {"generate", required_argument, NULL, 'g'},
        {"door", required_argument, NULL, 'd'},
        {0},
    };
    *out = (struct arguments){
        .tls = {.ca = "", .certificate = "", .key = ""}, .token = "", .door = DOORS};
    for (int option; (option = getopt_long(argc, argv, "", OPTIONS, NULL)) != -1;) {
        switch (option) {
        case 'j':
            out->is_json = true;
            break;
        case 'a':
            out->tls.ca = optarg;
            break;
        case 'c':
            out->tls.certificate = optarg;
            break;
        case 'k':
            out->tls.key = optarg;
            break;
        case 'n':
            out->tls.cluster = optarg;
            break;
        case 't':
            out->token = optarg;
            break;
        case 's':
            out->cluster_key = optarg;
            break;
        case 'g':
            out->n_tokens = (uint32_t)strtoul(optarg, NULL, 10);
            break;
        case 'd':
            out->door = find_door(optarg);
            break;
        default:
            return 2;
        }
    }
    if (argc - optind != 3 || !out->door)
        return 2;
    out->address = argv[optind];
    out->seconds = strtod(argv[optind + 1], NULL);
    out->n_callers = (uint32_t)strtoul(argv[optind + 2], NULL, 10);
    return 0;
}

static struct rpc_request request_of(const struct arguments *arguments, char *bearer)
{
    static const Kvferry__V1__ListModelsRequest LIST = KVFERRY__V1__LIST_MODELS_REQUEST__INIT;
    static const Kvferry__Internal__V1__GetStateRequest STATE =
        KVFERRY__INTERNAL__V1__GET_STATE_REQUEST__INIT;
    struct rpc_request request = {
        .path = "/kvferry.v1.ModelService/ListModels",
        .message = &LIST.base,
        .response = &kvferry__v1__list_models_response__descriptor,
        .wait_for_ready = true,
        .deadline_ns = DEADLINE_NONE,
        .headers = {{"authorization", bearer}},
        .n_headers = arguments->token[0] != '\0',
        .on_message = on_message,
        .on_end = on_end,
    };
    if (arguments->n_tokens > 0) {
        request.path = arguments->door->path;
        request.response = arguments->door->response;
        request.is_stream = true;
    }
    if (arguments->cluster_key) {
        request.path = "/kvferry.internal.v1.AdminService/GetState";
        request.message = &STATE.base;
        request.response = &kvferry__internal__v1__get_state_response__descriptor;
        request.for_any_life = true;
    }
    return request;
}

static enum status read_key(const char *path, struct error *error, struct cluster_key **key_out)
{
    *key_out = NULL;
    return path ? cluster_key_open(path, error, key_out) : STATUS_OK;
}

static void print(struct bench *bench, double took_s, bool is_json)
{
    if (bench->n == 0)
        return;
    qsort(bench->times_us, bench->n, sizeof *bench->times_us, compare);
    qsort(bench->first_us, bench->n, sizeof *bench->first_us, compare);
    uint32_t half = bench->n / 2, most = (uint32_t)((uint64_t)bench->n * 99 / 100);
    printf(
        is_json
            ? "{\"calls_per_s\": %.1f, \"p50_us\": %.1f, \"p99_us\": %.1f, \"first_p50_us\": %.1f, "
              "\"first_p99_us\": %.1f, \"calls\": %u, \"failed\": %u}\n"
            : "calls/s %.1f p50_us %.1f p99_us %.1f first_p50_us %.1f first_p99_us %.1f calls %u "
              "failed %u\n",
        bench->n / took_s, (double)bench->times_us[half], (double)bench->times_us[most],
        (double)bench->first_us[half], (double)bench->first_us[most], bench->n, bench->n_failed);
}

int main(int argc, char **argv)
{
    static struct bench bench = {.lock = PTHREAD_MUTEX_INITIALIZER,
                                 .changed = PTHREAD_COND_INITIALIZER};
    struct rpc_runtime *runtime;
    struct rpc_client *client;
    struct rpc_channel *channel;
    struct error error = {""};
    struct arguments arguments;
    struct rpc_client_options options;
    char bearer[256];
    if (read_arguments(argc, argv, &arguments) != 0) {
        fprintf(stderr, "usage: rpc_bench ADDRESS SECONDS CONCURRENCY [options]\n");
        return 2;
    }
    uint32_t n_callers = arguments.n_callers;
    rpc_client_options_init(&options);
    options.tls = arguments.tls.ca[0] ? &arguments.tls : NULL;
    snprintf(bearer, sizeof bearer, "Bearer %s", arguments.token);
    bench.request = request_of(&arguments, bearer);
    bench.n_tokens = arguments.n_tokens;
    bench.door = arguments.door;
    bench.times_us = malloc(CALLS_MAX * sizeof *bench.times_us);
    bench.first_us = malloc(CALLS_MAX * sizeof *bench.first_us);
    struct caller *callers = calloc(n_callers, sizeof *callers);
    if (!bench.times_us || !bench.first_us || !callers ||
        read_key(arguments.cluster_key, &error, &options.key) != STATUS_OK ||
        rpc_runtime_create("bench", &error, &runtime) != STATUS_OK ||
        rpc_client_create(runtime, &options, &client) != STATUS_OK ||
        rpc_channel_open(client, arguments.address, &channel) != STATUS_OK) {
        fprintf(stderr, "rpc_bench: cannot start %s\n", error.text);
        return 1;
    }
    for (uint32_t i = 0; i < n_callers; i++)
        callers[i] = (struct caller){.bench = &bench, .channel = channel};
    uint64_t begin_ns = clock_now_ns();
    bench.until_ns = begin_ns + (uint64_t)(arguments.seconds * (double)NS_PER_S);
    bench.n_running = n_callers;
    run(&bench, callers, n_callers);
    double took_s = (double)(clock_now_ns() - begin_ns) / (double)NS_PER_S;
    print(&bench, took_s, arguments.is_json);
    rpc_channel_close(channel);
    rpc_client_destroy(client);
    rpc_runtime_destroy(runtime);
    cluster_key_destroy(options.key);
    free(callers);
    free(bench.times_us);
    free(bench.first_us);
    return bench.n == 0 || bench.n_failed > 0;
}
