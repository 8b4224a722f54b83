/*
 * tokenizer_pipe - a tokenizer for scripts: a line of JSON in, a line of JSON out.
 *
 *     tokenizer_pipe FOLDER
 *
 *     {"text": "..", "add_special": true}       [1, 2, 3]
 *     {"ids": [1, 2], "skip_special": true}     ["text", "the same, token by token"]
 */
#include "tokenizer/token_decoder.h"

#include <assert.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static json_t *encode(const struct tokenizer *tokenizer, const json_t *request)
{
    const json_t *text = json_object_get(request, "text");
    struct encode_input input = {
        .text = json_string_value(text),
        .text_bytes = json_string_length(text),
        .add_special = json_is_true(json_object_get(request, "add_special")),
        .parse_special = true};
    struct token_buffer tokens = {0};
    struct error error;
    json_t *reply = json_array();

    if (tokenizer_encode(tokenizer, &input, &tokens, &error) != STATUS_OK)
        return json_string(error.text);
    tokens.ids_max = tokens.n_ids;
    tokens.ids = malloc((tokens.n_ids + 1) * sizeof *tokens.ids);
    enum status status = tokenizer_encode(tokenizer, &input, &tokens, &error);
    assert(status == STATUS_OK);
    for (size_t i = 0; i < tokens.n_ids; i++)
        json_array_append_new(reply, json_integer(tokens.ids[i]));
    free(tokens.ids);
    return reply;
}

static json_t *stream(const struct tokenizer *tokenizer, const struct decode_input *input)
{
    struct token_decoder decoder;
    char part[TOKEN_TEXT_BYTES_MAX];
    char *text = malloc((input->n_ids + 1) * sizeof part);
    size_t n_bytes = 0;

    assert(text);
    token_decoder_init(&decoder, tokenizer, input->skip_special);
    for (size_t i = 0; i <= input->n_ids; i++) {
        size_t n = i < input->n_ids ? token_decoder_push(&decoder, input->ids[i], part)
                                    : token_decoder_finish(&decoder, part);
        memcpy(text + n_bytes, part, n);
        n_bytes += n;
    }
    json_t *reply = json_stringn(text, n_bytes);
    free(text);
    return reply;
}

static json_t *decode(const struct tokenizer *tokenizer, const json_t *request)
{
    const json_t *list = json_object_get(request, "ids");
    size_t n_ids = json_array_size(list);
    uint32_t *ids = malloc((n_ids + 1) * sizeof *ids);
    struct decode_input input = {ids, n_ids,
                                 json_is_true(json_object_get(request, "skip_special"))};
    struct text_buffer text = {0};
    struct error error;

    assert(ids);
    for (size_t i = 0; i < n_ids; i++)
        ids[i] = (uint32_t)json_integer_value(json_array_get(list, i));
    enum status status = tokenizer_decode(tokenizer, &input, &text, &error);
    assert(status == STATUS_OK);
    text.bytes_max = text.n_bytes;
    text.bytes = malloc(text.n_bytes + 1);
    status = tokenizer_decode(tokenizer, &input, &text, &error);
    assert(status == STATUS_OK);
    json_t *reply = json_pack("[s#, o]", text.bytes, (int)text.n_bytes, stream(tokenizer, &input));
    free(text.bytes);
    free(ids);
    return reply;
}

int main(int argc, char **argv)
{
    struct tokenizer *tokenizer = NULL;
    struct error error = {""};
    char *line = NULL;
    size_t line_max = 0;

    if (argc != 2 || tokenizer_load(argv[1], &error, &tokenizer) != STATUS_OK) {
        fprintf(stderr, "tokenizer_pipe: %s\n", argc == 2 ? error.text : "one folder is needed");
        return 1;
    }
    for (ssize_t n; (n = getline(&line, &line_max, stdin)) > 0;) {
        json_t *request = json_loadb(line, (size_t)n, JSON_ALLOW_NUL, NULL);
        assert(request);
        json_t *reply = json_object_get(request, "ids") ? decode(tokenizer, request)
                                                        : encode(tokenizer, request);
        assert(reply);
        json_dumpf(reply, stdout, JSON_COMPACT | JSON_ENCODE_ANY);
        putchar('\n');
        json_decref(reply);
        json_decref(request);
    }
    free(line);
    tokenizer_destroy(tokenizer);
    return 0;
}
