/*
 * constraint_pipe - draws under the constraints that standard input has, for scripts that check or attack them: constraint_pipe FOLDER [EXTRA].
 * FOLDER has a tokenizer.json; EXTRA more ids are padding. A line is an object, and so is each answer.
 *
 *     {kind: schema|object|regex|grammar|choice, text | texts, draws, tokens_max, seed}
 *     {status, error, compile_us, outputs: [{text, is_done}], n_tokens, n_forced, forced_us_max, mask_us, mask_us_max, memory_kb}
 *
 * Time is CPU time. A draw is uniform over the mask or, every other time, over what of it closes something.
 */
#include "base/clock.h"
#include "base/random.h"
#include "text/constraint/constraint.h"
#include "tokenizer/tokenizer.h"

#include <jansson.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#define TEXT_BYTES_MAX (1 << 20)
#define CHOICES_MAX    2048
#define FORCED_MAX     64

struct pipe_state {
    struct tokenizer *tokenizer;
    struct constraint_compiler *compiler;
    uint32_t vocabulary, end;
    uint32_t *mask;
    uint32_t *allowed;
    struct random random;
};

struct figures {
    uint64_t n_tokens, n_forced, forced_ns_max, mask_ns, mask_ns_max;
};

static uint64_t cpu_ns(clockid_t clock)
{
    struct timespec time;
    clock_gettime(clock, &time);
    return (uint64_t)time.tv_sec * NS_PER_S + (uint64_t)time.tv_nsec;
}

static uint64_t thread_ns(void)
{
    return cpu_ns(CLOCK_THREAD_CPUTIME_ID);
}

/* A constraint is compiled on a thread of its own. */
static uint64_t process_ns(void)
{
    return cpu_ns(CLOCK_PROCESS_CPUTIME_ID);
}

static bool closes(const struct pipe_state *state, uint32_t id)
{
    size_t n = 0;
    if (id == state->end)
        return true;
    const char *text = tokenizer_token_bytes(state->tokenizer, id, &n);
    for (size_t i = 0; i < n; i++)
        if (strchr("\"}],", text[i]))
            return true;
    return false;
}

static uint32_t draw(struct pipe_state *state)
{
    uint32_t n = 0, n_closing = 0;
    for (uint32_t id = 0; id < state->vocabulary; id++)
        if (state->mask[id / 32] >> id % 32 & 1)
            state->allowed[n++] = id;
    if (n == 0)
        abort(); /* the header says that it is never empty */
    if (random_below(&state->random, 2)) {
        for (uint32_t i = 0; i < n; i++)
            if (closes(state, state->allowed[i]))
                state->allowed[n_closing++] = state->allowed[i];
        n = n_closing ? n_closing : n;
    }
    return state->allowed[random_below(&state->random, n)];
}

static void add(struct pipe_state *state, uint32_t id, char *text, size_t *n_text)
{
    size_t n = 0;
    const char *bytes = tokenizer_token_bytes(state->tokenizer, id, &n);
    if (*n_text + n <= TEXT_BYTES_MAX)
        memcpy(text + *n_text, bytes, n);
    *n_text += n;
}

/* One reply. */
static enum status reply(struct pipe_state *state, struct constraint *constraint,
                         uint32_t tokens_max, struct figures *figures, json_t *outputs,
                         struct error *error)
{
    uint32_t forced[FORCED_MAX];
    char *text = malloc(TEXT_BYTES_MAX);
    size_t n_text = 0;
    bool is_done = false;
    enum status status = STATUS_OK;
    for (uint32_t i = 0; i < tokens_max && !is_done && status == STATUS_OK; i++) {
        const uint64_t forced_ns = thread_ns();
        const uint32_t n = constraint_forced(constraint, forced, FORCED_MAX);
        if (thread_ns() - forced_ns > figures->forced_ns_max)
            figures->forced_ns_max = thread_ns() - forced_ns;
        for (uint32_t k = 0; k < n && status == STATUS_OK; k++) {
            status = constraint_accept(constraint, forced[k], error);
            add(state, forced[k], text, &n_text);
        }
        figures->n_forced += n;
        const uint64_t begun_ns = thread_ns();
        if (status == STATUS_OK)
            status = constraint_mask(constraint, state->mask, error);
        const uint64_t ns = thread_ns() - begun_ns;
        figures->mask_ns += ns;
        if (ns > figures->mask_ns_max)
            figures->mask_ns_max = ns;
        if (status != STATUS_OK)
            break;
        const uint32_t id = draw(state);
        figures->n_tokens++;
        status = constraint_accept(constraint, id, error);
        if (id != state->end)
            add(state, id, text, &n_text);
        is_done = constraint_is_done(constraint);
    }
    json_t *said = json_stringn(text, n_text < TEXT_BYTES_MAX ? n_text : 0);
    json_array_append_new(outputs, json_pack("{s:o, s:b}", "text", said ? said : json_null(),
                                             "is_done", is_done && status == STATUS_OK));
    free(text);
    return status;
}

static struct constraint_text read_text(const json_t *line, struct constraint_bytes *choices)
{
    static const char *const KINDS[] = {"schema", "object", "regex", "grammar", "choice"};
    struct constraint_text text = {.kind = CONSTRAINT_JSON_SCHEMA, .choices = choices};
    const char *kind = json_string_value(json_object_get(line, "kind"));
    for (int i = 0; kind && i < 5; i++)
        if (strcmp(kind, KINDS[i]) == 0)
            text.kind = (enum constraint_kind)i;
    const json_t *one = json_object_get(line, "text"), *more = json_object_get(line, "texts");
    text.text = (struct constraint_bytes){json_string_value(one), json_string_length(one)};
    for (size_t i = 0; i < json_array_size(more) && i < CHOICES_MAX; i++) {
        const json_t *choice = json_array_get(more, i);
        choices[text.n_choices++] = (struct constraint_bytes){json_string_value(choice),
                                                              json_string_length(choice)};
    }
    return text;
}

static void answer(struct pipe_state *state, const json_t *line)
{
    static struct constraint_bytes choices[CHOICES_MAX];
    struct figures figures = {0};
    struct error error = {0};
    struct constraint *constraint = NULL;
    json_t *outputs = json_array();
    const struct constraint_text text = read_text(line, choices);
    const json_int_t draws = json_integer_value(json_object_get(line, "draws"));
    random_init(&state->random, (uint64_t)json_integer_value(json_object_get(line, "seed")));
    const uint64_t begun_ns = process_ns();
    enum status status = constraint_compile(state->compiler, &text, NULL, NULL, &error,
                                            &constraint);
    const uint64_t compile_ns = process_ns() - begun_ns;
    for (json_int_t i = 0; i < draws && status == STATUS_OK; i++) {
        if (!constraint)
            status = constraint_compile(state->compiler, &text, NULL, NULL, &error, &constraint);
        if (status == STATUS_OK)
            status = reply(state, constraint,
                           (uint32_t)json_integer_value(json_object_get(line, "tokens_max")),
                           &figures, outputs, &error);
        constraint_destroy(constraint);
        constraint = NULL;
    }
    constraint_destroy(constraint);
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    json_t *answer = json_pack(
        "{s:s, s:s, s:I, s:o, s:I, s:I, s:f, s:f, s:f, s:I}", "status", status_name(status),
        "error", error.text, "compile_us", (json_int_t)(compile_ns / NS_PER_US), "outputs", outputs,
        "n_tokens", (json_int_t)figures.n_tokens, "n_forced", (json_int_t)figures.n_forced,
        "forced_us_max", (double)figures.forced_ns_max / 1e3, "mask_us",
        figures.n_tokens ? (double)figures.mask_ns / 1e3 / (double)figures.n_tokens : 0.0,
        "mask_us_max", (double)figures.mask_ns_max / 1e3, "memory_kb", (json_int_t)usage.ru_maxrss);
    json_dumpf(answer, stdout, JSON_COMPACT);
    putchar('\n');
    fflush(stdout);
    json_decref(answer);
}

static void *run(void *arg)
{
    struct pipe_state *state = arg;
    char *line = NULL;
    size_t line_max = 0;
    while (getline(&line, &line_max, stdin) > 0) {
        json_t *read = json_loads(line, 0, NULL);
        if (read)
            answer(state, read);
        json_decref(read);
    }
    free(line);
    return NULL;
}

int main(int argc, char **argv)
{
    struct pipe_state state = {0};
    struct error error = {0};
    const struct constraint_limits limits = {

        .bytes_max = 1 << 18,
        .grammar_bytes_max = 1 << 16,
        .choices_max = 1024,
        .compile_ns = 60 * NS_PER_S,
        .n_kept = 1};
    if (argc < 2 || tokenizer_load(argv[1], &error, &state.tokenizer) != STATUS_OK) {
        fprintf(stderr, "constraint_pipe: %s\n", error.text);
        return 2;
    }
    state.vocabulary = tokenizer_n_ids(state.tokenizer) +
                       (argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 10) : 0);
    state.end = tokenizer_special_ids(state.tokenizer).eos;
    if (state.end == TOKEN_NONE)
        state.end = state.vocabulary - 1;
    state.mask = calloc(state.vocabulary / 32 + 1, sizeof *state.mask);
    state.allowed = calloc(state.vocabulary, sizeof *state.allowed);
    const uint64_t begun_ns = thread_ns();
    if (constraint_compiler_create(state.tokenizer, state.vocabulary, &state.end, 1, &limits,
                                   &error, &state.compiler) != STATUS_OK) {
        fprintf(stderr, "constraint_pipe: %s\n", error.text);
        return 2;
    }
    fprintf(stderr, "%u ids, end %u, tokenizer in %.1f ms\n", state.vocabulary, state.end,
            (double)(thread_ns() - begun_ns) / 1e6);
    /* What a constraint may use of the stack, and no more. */
    pthread_attr_t attributes;
    pthread_t thread;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, CONSTRAINT_STACK_BYTES);
    if (pthread_create(&thread, &attributes, run, &state) != 0)
        return 2;
    pthread_join(thread, NULL);
    constraint_compiler_destroy(state.compiler);
    tokenizer_destroy(state.tokenizer);
    free(state.mask);
    free(state.allowed);
    return EXIT_SUCCESS;
}
