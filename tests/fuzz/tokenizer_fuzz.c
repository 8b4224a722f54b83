/* tokenizer: whatever stands in tokenizer.json, it is refused or can be used; whatever the text, it
 * comes back byte for byte or is refused. An input that begins with { is a tokenizer.json, any
 * other is text for the demo model's. */
#include "tokenizer/token_decoder.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char SAMPLE[] =
    "It's 1234 <s>caf\xc3\xa9 e\xcc\x81\xcc\xa3 \n\n aaaaaaaaaaaaaaaaaaaaaa, b_c-d "
    "\xf0\x9f\x99\x82 <|endoftext|> \xe4\xb8\xad\xe6\x96\x87";

/* Every split of the ids streams as the whole decodes. */
static void check_stream(const struct tokenizer *tokenizer, const uint32_t *ids, size_t n_ids,
                         const char *text, size_t n_bytes)
{
    struct token_decoder decoder;
    char part[TOKEN_TEXT_BYTES_MAX];
    size_t n_seen = 0;

    token_decoder_init(&decoder, tokenizer, false);
    for (size_t i = 0; i <= n_ids; i++) {
        size_t n = i < n_ids ? token_decoder_push(&decoder, ids[i], part)
                             : token_decoder_finish(&decoder, part);
        assert(n <= n_bytes - n_seen && memcmp(part, text + n_seen, n) == 0);
        n_seen += n;
    }
    assert(n_seen == n_bytes);
}

static void check_text(const struct tokenizer *tokenizer, const char *text, size_t n_bytes,
                       bool is_exact)
{
    struct encode_input input = {
        .text = text, .text_bytes = n_bytes, .add_special = true, .parse_special = true};
    struct token_buffer tokens = {0};
    struct error error;

    input.add_special = !is_exact;
    enum status status = tokenizer_encode(tokenizer, &input, &tokens, &error);
    if (status != STATUS_OK) {
        assert(status == STATUS_INVALID_ARGUMENT);
        return;
    }
    size_t n_ids = tokens.n_ids;
    uint32_t *ids = malloc((n_ids + 1) * sizeof *ids);
    tokens = (struct token_buffer){.ids = ids, .ids_max = n_ids};
    assert(ids && tokenizer_encode(tokenizer, &input, &tokens, &error) == STATUS_OK);
    assert(tokens.n_ids == n_ids);

    struct decode_input back = {ids, n_ids, false};
    struct text_buffer decoded = {0};
    assert(tokenizer_decode(tokenizer, &back, &decoded, &error) == STATUS_OK);
    decoded.bytes_max = decoded.n_bytes;
    decoded.bytes = malloc(decoded.bytes_max + 1);
    assert(decoded.bytes && tokenizer_decode(tokenizer, &back, &decoded, &error) == STATUS_OK);
    if (is_exact)
        assert(decoded.n_bytes == n_bytes && memcmp(decoded.bytes, text, n_bytes) == 0);
    check_stream(tokenizer, ids, n_ids, decoded.bytes, decoded.n_bytes);
    free(decoded.bytes);
    free(ids);
}

static void check_document(const char *bytes, size_t n_bytes)
{
    struct text_buffer file = {.bytes = (char *)bytes, .n_bytes = n_bytes};
    struct tokenizer *tokenizer = NULL;
    struct error error;
    enum status status = tokenizer_load_bytes(TOKENIZER_JSON, &file, NULL, &error, &tokenizer);

    if (status == STATUS_OK)
        check_text(tokenizer, SAMPLE, sizeof SAMPLE - 1, false);
    else
        assert(status == STATUS_CORRUPT || status == STATUS_UNSUPPORTED);
    tokenizer_destroy(tokenizer);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    static struct tokenizer *demo; /* loaded once, lives as long as the program */

    if (!demo && tokenizer_load(KVFERRY_SOURCE_DIR "/model/demo", NULL, &demo) != STATUS_OK)
        abort();
    if (n_bytes > 0 && data[0] == '{')
        check_document((const char *)data, n_bytes);
    else if (n_bytes > 0)
        check_text(demo, (const char *)data, n_bytes, true);
    return 0;
}
