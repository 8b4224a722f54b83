/* tokenizer: whatever stands in tokenizer.model or tekken.json, it is refused or can be used. An input that begins with { is a
 * tekken.json. */
#include "tokenizer/tokenizer.h"

#include <assert.h>
#include <string.h>

static const char SAMPLE[] =
    "It's 1234 <s>caf\xc3\xa9 e\xcc\x81\xcc\xa3 \n\n aaaaaaaaaaaa [INST] \xe4\xb8\xad";

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    const struct text_buffer file = {.bytes = (char *)(uintptr_t)data, .n_bytes = n_bytes};
    const bool is_tekken = n_bytes > 0 && data[0] == '{';
    struct tokenizer *tokenizer = NULL;
    struct error error;

    enum status status = tokenizer_load_bytes(
        is_tekken ? TOKENIZER_TEKKEN : TOKENIZER_SENTENCEPIECE, &file, NULL, &error, &tokenizer);
    if (status != STATUS_OK) {
        assert(status == STATUS_CORRUPT || status == STATUS_UNSUPPORTED);
        return 0;
    }
    const struct encode_input input = {.text = SAMPLE,
                                       .text_bytes = sizeof SAMPLE - 1,
                                       .add_special = true,
                                       .parse_special = true};
    uint32_t ids[256];
    struct token_buffer tokens = {.ids = ids, .ids_max = sizeof ids / sizeof *ids};
    status = tokenizer_encode(tokenizer, &input, &tokens, &error);
    assert(status == STATUS_OK || status == STATUS_INVALID_ARGUMENT);
    if (status == STATUS_OK) {
        struct text_buffer decoded = {0};
        const struct decode_input back = {ids, tokens.n_ids, false};
        assert(tokenizer_decode(tokenizer, &back, &decoded, &error) == STATUS_OK);
    }
    tokenizer_destroy(tokenizer);
    return 0;
}
