#include "base/clock.h"
#include "base/utf8.h"
#include "text/constraint/constraint.h"
#include "text/constraint/constraint_parts.h"
#include "text/constraint/constraint_source.h"
#include "text/constraint/constraint_store.h"
#include "text/constraint/token_spelling.h"
#include "text/jinja.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct constraint_compiler {
    struct token_spelling *spelling;
    LlgTokenizer *tokenizer;
    struct constraint_store *store;
    struct constraint_limits limits;
    size_t base_bytes; /* of the library, without constraints */
    uint32_t vocabulary;
    uint32_t n_ends;
    uint32_t ends[];
};

/* ---- create and destroy ---- */

static size_t encode(const void *user_data, const uint8_t *bytes, size_t n_bytes, uint32_t *ids_out,
                     size_t ids_max)
{
    return token_spelling_encode(user_data, bytes, n_bytes, ids_out, ids_max);
}

static enum status create_tokenizer(struct constraint_compiler *compiler, struct error *error)
{
    char why[sizeof error->text] = "";
    const struct token_spelling *spelling = compiler->spelling;
    const LlgTokenizerInitV2 init = {
        .struct_size = sizeof init,
        .vocab_size = compiler->vocabulary,
        .tok_eos = compiler->ends[0],
        .token_lens = spelling->lengths,
        .token_bytes = spelling->bytes,
        /* Without one, nothing is forced: there are masks alone. */
        .tokenize_fn = spelling->spells_ascii ? encode : NULL,
        .use_approximate_greedy_tokenize_fn = !spelling->spells_ascii,
        .tokenize_user_data = spelling,
        .tok_eos_extra = compiler->n_ends > 1 ? compiler->ends + 1 : NULL,
        .tok_eos_extra_count = compiler->n_ends - 1,
    };
    compiler->tokenizer = llg_new_tokenizer_v2(&init, why, sizeof why);
    if (!compiler->tokenizer)
        return error_set(error, STATUS_UNSUPPORTED, "the tokenizer for constraints: %s", why);
    return STATUS_OK;
}

static struct constraint_compiler *new_compiler(uint32_t vocabulary, const uint32_t *ends,
                                                uint32_t n_ends,
                                                const struct constraint_limits *limits)
{
    struct constraint_compiler *compiler = calloc(1, sizeof *compiler +
                                                         n_ends * sizeof *compiler->ends);
    if (!compiler)
        return NULL;
    compiler->limits = *limits;
    compiler->vocabulary = vocabulary;
    for (uint32_t i = 0; i < n_ends; i++)
        if (ends[i] < vocabulary && !constraint_compiler_is_end(compiler, ends[i]))
            compiler->ends[compiler->n_ends++] = ends[i];
    return compiler;
}

enum status constraint_compiler_create(const struct tokenizer *tokenizer, uint32_t vocabulary,
                                       const uint32_t *ends, uint32_t n_ends,
                                       const struct constraint_limits *limits, struct error *error,
                                       struct constraint_compiler **compiler_out)
{
    struct constraint_compiler *compiler = new_compiler(vocabulary, ends, n_ends, limits);
    enum status status = STATUS_NO_MEMORY;
    if (!compiler)
        goto fail;
    if (compiler->n_ends == 0) {
        status = error_set(error, STATUS_UNSUPPORTED,
                           "constraints: the model has no end-of-sequence token");
        goto fail;
    }
    status = token_spelling_create(tokenizer, vocabulary, compiler->ends, compiler->n_ends,
                                   &compiler->spelling);
    if (status != STATUS_OK)
        goto fail;
    status = constraint_store_create(limits->n_kept, &compiler->store);
    if (status != STATUS_OK)
        goto fail;
    status = create_tokenizer(compiler, error);
    if (status != STATUS_OK)
        goto fail;
    compiler->base_bytes = jinja_memory_held();
    *compiler_out = compiler;
    return STATUS_OK;

fail:
    constraint_compiler_destroy(compiler);
    return status;
}

void constraint_compiler_destroy(struct constraint_compiler *compiler)
{
    if (!compiler)
        return;
    constraint_store_destroy(compiler->store);
    if (compiler->tokenizer)
        llg_free_tokenizer(compiler->tokenizer);
    token_spelling_destroy(compiler->spelling);
    free(compiler);
}

uint32_t constraint_compiler_vocabulary(const struct constraint_compiler *compiler)
{
    return compiler->vocabulary;
}

bool constraint_compiler_is_end(const struct constraint_compiler *compiler, uint32_t token_id)
{
    for (uint32_t i = 0; i < compiler->n_ends; i++)
        if (compiler->ends[i] == token_id)
            return true;
    return false;
}

enum status constraint_compiler_check_memory(const struct constraint_compiler *compiler,
                                             struct error *error)
{
    const uint64_t max = compiler->limits.memory_max;
    const size_t held = jinja_memory_held();
    if (max == 0 || held <= compiler->base_bytes || held - compiler->base_bytes <= max)
        return STATUS_OK;
    return error_set(error, STATUS_QUEUE_FULL,
                     "the constraints of all requests have more than %llu bytes "
                     "(constraint_memory_max)",
                     (unsigned long long)max);
}

/* ---- compile ---- */

/* What a regex has wrong stands last in a drawing of it, as "error: unclosed group". */
static const char *skip_drawing(const char *text)
{
    static const char LABEL[] = "error: ";
    const char *drawing = strstr(text, "regex parse error:"), *label = NULL;
    for (const char *at = drawing; at && (at = strstr(at, LABEL)); at++)
        label = at;
    return label ? label + strlen(LABEL) : text;
}

/* "at 12(6): " */
static const char *skip_place(const char *text)
{
    int n = 0;
    sscanf(text, "at %*u(%*u): %n", &n);
    return text + n;
}

/* Words of the library that a user cannot know. */
static const char *put_plainly(const char *text)
{
    return strcmp(text, "NoExtensionBias") == 0 ? "no text can meet it" : text;
}

void constraint_library_error(LlgMatcher *matcher, struct error *error)
{
    const char *text = llg_matcher_get_error(matcher);
    text = skip_drawing(text ? text : "");
    utf8_clean(text, strcspn(text, "\n"), error->text, sizeof error->text);
    const char *plain = put_plainly(error->text);
    if (plain != error->text)
        snprintf(error->text, sizeof error->text, "%s", plain);
}

/* Chosen by what hostile constraints need: tests/text/peers/constraint_cases.py. */
static const LlgParserLimits LIMITS = {
    .max_items_in_row = 5000,
    .initial_lexer_fuel = 1000000,
    .step_lexer_fuel = 100000,
    .step_max_items = 50000,
    .max_lexer_states = 50000,
    .max_grammar_size = 500000,
    .precompute_large_lexemes = true,
    .verbose_errors = false,
};

/* The library goes down one call for each rule of a chain of rules: 3 KB for 7 bytes. What is not used costs nothing. */
#define STACK_BYTES        ((size_t)1 << 20)
#define STACK_BYTES_OF_ONE 1024

struct compile {
    struct constraint_compiler *compiler;
    const struct constraint_source *source;
    struct error *error;
    struct store_copy made;
};

/* The first mask belongs to it: it shows whether there is a text at all, and is the one that takes longest. */
static void *compile_run(void *arg)
{
    struct compile *compile = arg;
    LlgConstraintInit init = {0};
    const size_t before = jinja_memory_of_thread();
    llg_constraint_init_set_defaults(&init, compile->compiler->tokenizer);
    init.log_buffer_level = 0;
    init.log_stderr_level = 0;
    init.ff_tokens_ok = compile->compiler->spelling->spells_ascii;
    init.limits = LIMITS;
    LlgMatcher *matcher = llg_new_matcher(&init, compile->source->kind, compile->source->text);
    if (llg_matcher_is_error(matcher) || llg_matcher_compute_mask(matcher)) {
        constraint_library_error(matcher, compile->error);
        llg_free_matcher(matcher);
        return NULL;
    }
    compile->made = (struct store_copy){matcher, jinja_memory_of_thread() - before};
    return NULL;
}

static enum status compile(struct constraint_compiler *compiler,
                           const struct constraint_source *source, struct error *error,
                           struct store_copy *made_out)
{
    struct error why = {0};
    struct compile compile = {.compiler = compiler, .source = source, .error = &why};
    pthread_attr_t attributes;
    pthread_t thread;
    if (pthread_attr_init(&attributes) != 0)
        return STATUS_NO_MEMORY;
    pthread_attr_setstacksize(&attributes, STACK_BYTES + STACK_BYTES_OF_ONE * strlen(source->text));
    const int failed = pthread_create(&thread, &attributes, compile_run, &compile);
    pthread_attr_destroy(&attributes);
    if (failed)
        return STATUS_NO_THREAD;
    pthread_join(thread, NULL);
    if (!compile.made.matcher)
        return error_set(error, STATUS_INVALID_ARGUMENT, "%s",
                         source->is_converted ? skip_place(why.text) : why.text);
    *made_out = compile.made;
    return STATUS_OK;
}

/* What of a store's place a call has. */
struct compiling {
    enum store_answer answer;
    uint64_t text_id;
    struct store_copy copy;
};

static enum status compile_into(struct constraint_compiler *compiler,
                                const struct constraint_source *source,
                                const struct store_wait *wait, struct error *error,
                                struct compiling *compiling)
{
    struct store_copy made = {0};
    const enum status status = compile(compiler, source, error, &made);
    if (compiling->answer == STORE_RESERVED && status == STATUS_OK)
        constraint_store_put(compiler->store, compiling->text_id, made.matcher, &compiling->copy);
    else if (status == STATUS_OK)
        compiling->copy = made;
    else if (compiling->answer == STORE_RESERVED)
        constraint_store_give_up(compiler->store, compiling->text_id);
    if (status != STATUS_OK)
        return status;
    if (clock_now_ns() >= wait->until_ns) {
        llg_free_matcher(compiling->copy.matcher);
        return STATUS_TIMED_OUT;
    }
    return STATUS_OK;
}

static enum status compile_source(struct constraint_compiler *compiler,
                                  const struct constraint_source *source,
                                  const struct store_wait *wait, struct error *error,
                                  struct constraint **constraint_out)
{
    struct compiling compiling = {0};
    const struct store_key key = {(int)source->key_kind, source->text, strlen(source->text)};
    struct error why = {0};
    if (constraint_compiler_check_memory(compiler, &why) != STATUS_OK)
        constraint_store_clear(compiler->store);
    TRY(constraint_compiler_check_memory(compiler, error));
    enum status status = constraint_store_find(compiler->store, &key, wait, &compiling.answer,
                                               &compiling.text_id, &compiling.copy);
    if (status == STATUS_OK && compiling.answer != STORE_FOUND)
        status = compile_into(compiler, source, wait, error, &compiling);
    if (status == STATUS_TIMED_OUT)
        return error_set(error, status,
                         "compiling it takes more than %llu ms (constraint_compile_ms)",
                         (unsigned long long)(compiler->limits.compile_ns / NS_PER_MS));
    if (status != STATUS_OK)
        return status;
    status = constraint_create(compiler, compiling.copy.matcher, compiling.copy.n_bytes,
                               constraint_out);
    if (status != STATUS_OK)
        llg_free_matcher(compiling.copy.matcher);
    return status;
}

enum status constraint_compile(struct constraint_compiler *compiler,
                               const struct constraint_text *text, bool (*is_over)(void *arg),
                               void *arg, struct error *error, struct constraint **constraint_out)
{
    struct constraint_source source;
    const struct store_wait wait = {
        .is_over = is_over, .arg = arg, .until_ns = clock_now_ns() + compiler->limits.compile_ns};
    TRY(constraint_check(text, &compiler->limits, error));
    TRY(constraint_source_init(&source, text, error));
    enum status status = STATUS_CANCELLED;
    if (!is_over || !is_over(arg))
        status = compile_source(compiler, &source, &wait, error, constraint_out);
    constraint_source_finish(&source);
    return status;
}
