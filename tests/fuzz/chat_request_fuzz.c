/* chat_marks: whatever a chat request is, it is refused, or it stays the same JSON but for marks; and a prompt that is made of its
 * strings has no special token, however they are put together. */
#include "text/chat_marks.h"
#include "tokenizer/tokenizer.h"

#include <assert.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

#define PROMPT_MAX (1u << 20)
#define DEPTH_MAX  64

struct prompt {
    char bytes[PROMPT_MAX];
    size_t n;
};

static void put(struct prompt *prompt, const char *text, size_t n)
{
    if (n > PROMPT_MAX - prompt->n)
        return;
    memcpy(prompt->bytes + prompt->n, text, n);
    prompt->n += n;
}

/* All strings, keys included. */
static void collect(struct prompt *prompt, const json_t *value, unsigned depth)
{
    const char *key;
    size_t i;
    json_t *member;
    if (depth > DEPTH_MAX)
        return;
    if (json_is_string(value))
        put(prompt, json_string_value(value), json_string_length(value));
    json_array_foreach(value, i, member) collect(prompt, member, depth + 1);
    json_object_foreach((json_t *)(uintptr_t)value, key, member)
    {
        put(prompt, key, strlen(key));
        collect(prompt, member, depth + 1);
    }
}

static void check_prompt(const struct tokenizer *tokenizer, const struct prompt *prompt,
                         uint32_t mark)
{
    struct encode_input input = {
        .text = prompt->bytes, .text_bytes = prompt->n, .parse_special = true, .mark = mark};
    struct token_buffer tokens = {0};
    struct error error;
    if (tokenizer_encode(tokenizer, &input, &tokens, &error) != STATUS_OK)
        return;
    size_t n_ids = tokens.n_ids;
    uint32_t *ids = malloc((n_ids + 1) * sizeof *ids);
    tokens = (struct token_buffer){.ids = ids, .ids_max = n_ids};
    assert(ids && tokenizer_encode(tokenizer, &input, &tokens, &error) == STATUS_OK);
    for (size_t i = 0; i < n_ids; i++)
        assert(!tokenizer_is_special(tokenizer, ids[i]));
    free(ids);
}

static void without(struct prompt *prompt, uint32_t mark)
{
    const char sign[] = {(char)0xef, (char)0xb7, (char)(0x90 + (mark - 0xfdd0))};
    size_t n = 0;
    for (size_t at = 0; at < prompt->n;) {
        if (prompt->n - at >= 3 && memcmp(prompt->bytes + at, sign, 3) == 0)
            at += 3;
        else
            prompt->bytes[n++] = prompt->bytes[at++];
    }
    prompt->n = n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    static struct tokenizer *tokenizer; /* loaded once, lives as long as the program */
    static struct prompt before, after;
    struct marked_request marked;
    struct error error;

    if (!tokenizer &&
        tokenizer_load(KVFERRY_SOURCE_DIR "/model/demo", NULL, &tokenizer) != STATUS_OK)
        abort();
    const char *json = n_bytes > 0 ? (const char *)data : "";
    enum status status = chat_marks_put(tokenizer, json, n_bytes, 0, 1 << 20, &error, &marked);
    if (status != STATUS_OK) {
        assert(status == STATUS_INVALID_ARGUMENT && error.text[0]);
        return 0;
    }
    const size_t flags = JSON_DECODE_ANY | JSON_ALLOW_NUL | JSON_REJECT_DUPLICATES;
    json_t *root = json_loadb(json, n_bytes, flags, NULL);
    const char *made = marked.json ? marked.json : json;
    json_t *again = json_loadb(made, marked.n_bytes, flags, NULL);
    assert(!root == !again || marked.json); /* marks can make two keys the same no more than one */
    if (root && again) {
        before.n = after.n = 0;
        collect(&before, root, 0);
        collect(&after, again, 0);
        if (after.n <= PROMPT_MAX / 2)
            check_prompt(tokenizer, &after, marked.mark);
        if (marked.mark)
            without(&after, marked.mark);
        assert(after.n == before.n && memcmp(after.bytes, before.bytes, after.n) == 0);
    }
    json_decref(root);
    json_decref(again);
    free(marked.json);
    return 0;
}
