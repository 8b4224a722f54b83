/*
 * tokenizer_bench - how fast a tokenizer loads, encodes and decodes a mebibyte of English.
 *
 *     tokenizer_bench [FOLDER]      the demo model's by default
 *
 * The text is the prompts of the demo model's goldens, one after the other.
 */
#include "base/clock.h"
#include "tokenizer/tokenizer.h"

#include <assert.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#define TEXT_BYTES ((size_t)1 << 20)
#define ROUNDS     10

static void fill_text(char *text)
{
    json_t *root = json_load_file(KVFERRY_SOURCE_DIR "/model/demo/golden/greedy.json", 0, NULL);
    const json_t *cases = json_object_get(root, "cases");
    size_t n_bytes = 0;

    assert(json_array_size(cases) > 0);
    for (size_t i = 0; n_bytes < TEXT_BYTES; i = (i + 1) % json_array_size(cases)) {
        const json_t *prompt = json_object_get(json_array_get(cases, i), "prompt");
        size_t length = json_string_length(prompt);
        length = length < TEXT_BYTES - n_bytes ? length : TEXT_BYTES - n_bytes;
        for (size_t j = 0; j < length; j++) { /* plain ASCII, so that a cut is no harm */
            char byte = json_string_value(prompt)[j];
            text[n_bytes++] = (unsigned char)byte < 0x80 ? byte : '?';
        }
    }
    json_decref(root);
}

static double mib_per_second(uint64_t ns)
{
    return (double)TEXT_BYTES * ROUNDS / (1 << 20) / ((double)ns / (double)NS_PER_S);
}

static void measure(const struct tokenizer *tokenizer)
{
    char *text = malloc(TEXT_BYTES);
    char *back = malloc(2 * TEXT_BYTES);
    uint32_t *ids = malloc(TEXT_BYTES * sizeof *ids);
    assert(text && back && ids);
    fill_text(text);
    struct encode_input input = {.text = text, .text_bytes = TEXT_BYTES, .parse_special = true};
    struct token_buffer tokens = {.ids = ids, .ids_max = TEXT_BYTES};
    struct text_buffer decoded = {.bytes = back, .bytes_max = 2 * TEXT_BYTES};
    enum status status = STATUS_OK;

    uint64_t start_ns = clock_now_ns();
    for (int i = 0; i < ROUNDS && status == STATUS_OK; i++)
        status = tokenizer_encode(tokenizer, &input, &tokens, NULL);
    uint64_t encode_ns = clock_now_ns() - start_ns;
    struct decode_input output = {ids, tokens.n_ids, false};
    start_ns = clock_now_ns();
    for (int i = 0; i < ROUNDS && status == STATUS_OK; i++)
        status = tokenizer_decode(tokenizer, &output, &decoded, NULL);
    uint64_t decode_ns = clock_now_ns() - start_ns;
    assert(status == STATUS_OK);
    bool is_same = decoded.n_bytes == TEXT_BYTES && memcmp(text, back, TEXT_BYTES) == 0;

    printf("encode  %8.1f MiB/s  %.2f bytes a token\n", mib_per_second(encode_ns),
           (double)TEXT_BYTES / (double)tokens.n_ids);
    printf("decode  %8.1f MiB/s  %s\n", mib_per_second(decode_ns),
           is_same ? "the same text" : "another text, as its normalizer or decoder has it");
    free(text);
    free(back);
    free(ids);
}

int main(int argc, char **argv)
{
    const char *folder = argc > 1 ? argv[1] : KVFERRY_SOURCE_DIR "/model/demo";
    struct tokenizer *tokenizer = NULL;
    struct error error = {""};
    struct rusage usage;

    uint64_t start_ns = clock_now_ns();
    enum status status = tokenizer_load(folder, &error, &tokenizer);
    uint64_t load_ns = clock_now_ns() - start_ns;
    if (status != STATUS_OK) {
        fprintf(stderr, "%s: %s\n", status_text(status), error.text);
        return 1;
    }
    getrusage(RUSAGE_SELF, &usage);
    printf("load    %8.1f ms     %u ids, %ld KiB at the highest\n",
           (double)load_ns / (double)NS_PER_MS, tokenizer_n_ids(tokenizer), usage.ru_maxrss);
    measure(tokenizer);
    tokenizer_destroy(tokenizer);
    return 0;
}
