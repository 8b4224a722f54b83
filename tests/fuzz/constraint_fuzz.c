/* constraint: whatever a request asks a reply to keep to, it is refused with a sentence, or each token of a reply is one that the mask has,
 * and the mask has one until the reply is complete or CONSTRAINT_UNMET. The first byte: the kind. */
#include "base/random.h"
#include "text/constraint/constraint.h"
#include "text/text_build.h"
#include "tokenizer/tokenizer.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

#define CHOICES_MAX 8
#define TOKENS_MAX  12

static const struct constraint_limits LIMITS = {.bytes_max = 1 << 14,
                                                .grammar_bytes_max = 1 << 12,
                                                .choices_max = CHOICES_MAX,
                                                .compile_ns = 60000000000,
                                                .n_kept = 1};

static struct tokenizer *tokenizer;
static struct constraint_compiler *compiler;
static uint32_t vocabulary;

static void prepare(void)
{
    struct error error = {0};
    if (tokenizer)
        return;
    if (tokenizer_load(KVFERRY_SOURCE_DIR "/tests/golden/tokenizer/gpt2", &error, &tokenizer) !=
        STATUS_OK)
        abort();
    vocabulary = tokenizer_n_ids(tokenizer) + 5;
    const uint32_t end = vocabulary - 1;
    if (text_is_built() && constraint_compiler_create(tokenizer, vocabulary, &end, 1, &LIMITS,
                                                      &error, &compiler) != STATUS_OK)
        abort();
}

/* The bytes between zeros are choices. */
static uint32_t split(const char *bytes, size_t n_bytes, struct constraint_bytes choices[])
{
    uint32_t n = 0;
    size_t begun = 0;
    for (size_t i = 0; i <= n_bytes && n < CHOICES_MAX; i++)
        if (i == n_bytes || bytes[i] == 0) {
            choices[n++] = (struct constraint_bytes){bytes + begun, i - begun};
            begun = i + 1;
        }
    return n;
}

static uint32_t draw(const uint32_t *mask, struct random *random)
{
    uint32_t n = 0;
    for (uint32_t id = 0; id < vocabulary; id++)
        n += mask[id / 32] >> id % 32 & 1;
    assert(n > 0);
    uint32_t skip = (uint32_t)random_below(random, n);
    for (uint32_t id = 0; id < vocabulary; id++)
        if ((mask[id / 32] >> id % 32 & 1) && skip-- == 0)
            return id;
    abort();
}

static void reply(struct constraint *constraint)
{
    struct random random;
    struct error error = {0};
    uint32_t *mask = calloc((vocabulary + 31) / 32, sizeof *mask);
    uint32_t n_accepted = 0;
    random_init(&random, 1);
    assert(mask);
    while (n_accepted < TOKENS_MAX && !constraint_is_done(constraint)) {
        uint32_t forced[4];
        const uint32_t n_forced = constraint_forced(constraint, forced, 4);
        const enum status status = constraint_mask(constraint, mask, &error);
        assert(status == STATUS_OK || status == STATUS_CONSTRAINT_UNMET);
        if (status != STATUS_OK)
            break;
        const uint32_t id = draw(mask, &random);
        assert(n_forced == 0 || id == forced[0]);
        if (constraint_accept(constraint, id, &error) != STATUS_OK)
            break;
        n_accepted++;
    }
    if (constraint_rollback(constraint, n_accepted / 2, &error) == STATUS_OK)
        (void)!constraint_mask(constraint, mask, &error);
    free(mask);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    struct constraint_bytes choices[CHOICES_MAX];
    struct constraint *constraint = NULL;
    struct error error = {0};
    if (n_bytes < 1)
        return 0;
    prepare();
    char *bytes = malloc(n_bytes);
    assert(bytes);
    memcpy(bytes, data + 1, n_bytes - 1);
    struct constraint_text text = {.kind = (enum constraint_kind)(data[0] % 5),
                                   .text = {bytes, n_bytes - 1},
                                   .choices = choices};
    if (text.kind == CONSTRAINT_CHOICE)
        text.n_choices = split(bytes, n_bytes - 1, choices);
    enum status status = constraint_check(&text, &LIMITS, &error);
    if (status == STATUS_OK && compiler)
        status = constraint_compile(compiler, &text, NULL, NULL, &error, &constraint);
    assert(status == STATUS_OK || status == STATUS_INVALID_ARGUMENT);
    assert(status == STATUS_OK || error.text[0]);
    if (constraint)
        reply(constraint);
    constraint_destroy(constraint);
    free(bytes);
    return 0;
}
