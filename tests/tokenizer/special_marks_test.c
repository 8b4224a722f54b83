/* Special tokens that somebody writes into a text stay text, where the prompt's own are tokens: whatever is written beside what, the
 * ids are those of a tokenizer whose special tokens are called by other names, which only the prompt knows. */
#include "base/random.h"
#include "base/utf8.h"
#include "tests/tokenizer/support/tokenizers.h"
#include "tokenizer/added/special_marks.h"

#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MARK        0xfdd0u
#define TOKENS_MAX  64
#define TEXT_MAX    4096
#define N_TEXTS     3000
#define PIECES_MAX  7
#define OTHER_NAMES 0xf0000u /* private use */

/* A tokenizer as it is, and one that calls its special tokens otherwise. */
struct pair {
    struct tokenizer *own, *renamed;
    char contents[TOKENS_MAX][64];
    uint32_t n_tokens;
};

/* The prompt: what is the prompt's own, and what somebody else wrote. */
struct prompt {
    char text[TEXT_MAX];
    bool is_own[TEXT_MAX];
    char marked[4 * TEXT_MAX];
    size_t n_bytes, n_marked;
};

/* Two characters, so that no vocabulary makes one piece of them. Returns the bytes. */
static size_t write_name(uint32_t number, char *out)
{
    size_t n = utf8_write(OTHER_NAMES + number, out);
    return n + utf8_write(OTHER_NAMES - 1 + 0x1000, out + n);
}

static void rename_token(json_t *document, json_t *token, uint32_t number)
{
    json_t *model = json_object_get(document, "model");
    json_t *vocab = json_object_get(model, "vocab");
    char name[12] = {0};
    const char *content = json_string_value(json_object_get(token, "content"));
    write_name(number, name);
    json_t *id = json_incref(json_object_get(vocab, content));
    if (id) {
        json_object_del(vocab, content);
        json_object_set_new(vocab, name, id);
    }
    const char *unknown = json_string_value(json_object_get(model, "unk_token"));
    if (unknown && strcmp(unknown, content) == 0)
        json_object_set_new(model, "unk_token", json_string(name));
    json_object_set_new(token, "content", json_string(name));
}

static void pair_of_document(struct pair *pair, json_t *document)
{
    struct error error = {""};
    size_t i;
    json_t *token;
    *pair = (struct pair){0};
    json_object_set_new(document, "post_processor", json_null());
    json_array_foreach(json_object_get(document, "added_tokens"), i,
                       token) /* else no name would do */
        json_object_set_new(token, "single_word", json_false());
    cr_assert_eq(load_document(document, &error, &pair->own), STATUS_OK, "%s", error.text);
    json_array_foreach(json_object_get(document, "added_tokens"), i, token)
    {
        if (!json_is_true(json_object_get(token, "special")))
            continue;
        cr_assert_lt(pair->n_tokens, TOKENS_MAX);
        snprintf(pair->contents[pair->n_tokens], sizeof pair->contents[0], "%s",
                 json_string_value(json_object_get(token, "content")));
        rename_token(document, token, pair->n_tokens++);
    }
    cr_assert_eq(load_document(document, &error, &pair->renamed), STATUS_OK, "%s", error.text);
    json_decref(document);
}

static void pair_destroy(struct pair *pair)
{
    tokenizer_destroy(pair->own);
    tokenizer_destroy(pair->renamed);
}

struct marking {
    struct prompt *prompt;
    const char *text;
    size_t copied;
};

static void put_mark(void *arg, size_t at)
{
    struct marking *marking = arg;
    struct prompt *prompt = marking->prompt;
    memcpy(prompt->marked + prompt->n_marked, marking->text + marking->copied,
           at - marking->copied);
    prompt->n_marked += at - marking->copied;
    prompt->n_marked += utf8_write(MARK, prompt->marked + prompt->n_marked);
    cr_assert(at >= marking->copied);
    marking->copied = at;
}

static void append(const struct pair *pair, struct prompt *prompt, const char *text, bool is_own)
{
    size_t n = strlen(text);
    struct marking marking = {prompt, text, 0};
    cr_assert_lt(prompt->n_bytes + n, TEXT_MAX / 2);
    memcpy(prompt->text + prompt->n_bytes, text, n);
    memset(prompt->is_own + prompt->n_bytes, is_own, n);
    prompt->n_bytes += n;
    if (!is_own)
        special_marks_find(pair->own, text, n, put_mark, &marking);
    memcpy(prompt->marked + prompt->n_marked, text + marking.copied, n - marking.copied);
    prompt->n_marked += n - marking.copied;
}

/* The longest special token at at that begins and ends in what is the prompt's own; n_tokens: there is none. */
static uint32_t own_token_at(const struct pair *pair, const struct prompt *prompt, size_t at)
{
    uint32_t found = pair->n_tokens;
    size_t longest = 0;
    for (uint32_t i = 0; i < pair->n_tokens; i++) {
        size_t n = strlen(pair->contents[i]);
        if (n > longest && n <= prompt->n_bytes - at &&
            memcmp(prompt->text + at, pair->contents[i], n) == 0 && prompt->is_own[at] &&
            prompt->is_own[at + n - 1]) {
            longest = n;
            found = i;
        }
    }
    return found;
}

static void encode_marked(const struct tokenizer *tokenizer, const char *text, size_t n_bytes,
                          uint32_t mark, struct test_ids *ids)
{
    struct encode_input input = {
        .text = text, .text_bytes = n_bytes, .parse_special = true, .mark = mark};
    struct token_buffer tokens = {.ids = ids->ids, .ids_max = TEST_IDS_MAX};
    struct error error = {""};
    enum status status = tokenizer_encode(tokenizer, &input, &tokens, &error);
    cr_assert_eq(status, STATUS_OK, "%s: %.*s", error.text, (int)n_bytes, text);
    ids->n_ids = tokens.n_ids;
}

static void check(const struct pair *pair, const struct prompt *prompt)
{
    static struct test_ids got, wanted;
    char renamed[4 * TEXT_MAX];
    size_t n = 0;
    for (size_t at = 0; at < prompt->n_bytes;) {
        uint32_t token = own_token_at(pair, prompt, at);
        if (token == pair->n_tokens) {
            renamed[n++] = prompt->text[at++];
            continue;
        }
        n += write_name(token, renamed + n);
        at += strlen(pair->contents[token]);
    }
    encode_marked(pair->renamed, renamed, n, 0, &wanted);
    encode_marked(pair->own, prompt->marked, prompt->n_marked, MARK, &got);
    cr_assert(got.n_ids == wanted.n_ids &&
                  memcmp(got.ids, wanted.ids, got.n_ids * sizeof *got.ids) == 0,
              "\"%.*s\" with the marks: %zu ids, wanted %zu", (int)prompt->n_marked, prompt->marked,
              got.n_ids, wanted.n_ids);
}

/* Half a token, a whole one, or text. */
static void draw(const struct pair *pair, struct random *random, char out[128])
{
    static const char *const TEXTS[] = {
        "",  " ",  "\n", "a",  "user", "\xc3\xa9", "e\xcc\x81",    "<",
        ">", "s>", "|",  "<|", "|>",   "  x ",     "\xe2\x96\x81", "\xe6\x97\xa5"};
    uint32_t kind = (uint32_t)random_below(random, 4);
    if (pair->n_tokens == 0 || kind == 0) {
        snprintf(out, 128, "%s", TEXTS[random_below(random, sizeof TEXTS / sizeof *TEXTS)]);
        return;
    }
    const char *content = pair->contents[random_below(random, pair->n_tokens)];
    size_t length = strlen(content), cut = random_below(random, length + 1);
    while (cut < length && ((unsigned char)content[cut] & 0xc0) == 0x80)
        cut++;
    if (kind == 1)
        snprintf(out, 128, "%.*s%s", (int)cut, content, random_below(random, 4) ? "" : " \n");
    else if (kind == 2)
        snprintf(out, 128, "%s%s", random_below(random, 4) ? "" : "\n ", content + cut);
    else
        snprintf(out, 128, "%s", content);
}

static void check_random(const struct pair *pair, uint64_t seed)
{
    struct random random;
    random_init(&random, seed);
    for (unsigned i = 0; i < N_TEXTS; i++) {
        static struct prompt prompt;
        char text[128], joined[512] = "";
        prompt = (struct prompt){.n_bytes = 0};
        uint32_t n_pieces = 1 + (uint32_t)random_below(&random, PIECES_MAX);
        bool is_own = random_below(&random, 2);
        for (uint32_t piece = 0; piece < n_pieces; piece++, is_own = !is_own) {
            joined[0] = '\0';
            for (uint32_t part = (uint32_t)random_below(&random, 4); part > 0; part--) {
                draw(pair, &random, text);
                strncat(joined, text, sizeof joined - strlen(joined) - 1);
            }
            append(pair, &prompt, joined, is_own);
        }
        check(pair, &prompt);
    }
}

static const char *const FOLDERS[] = {
    "model/demo",
    "tests/golden/tokenizer/gpt2",
    "tests/golden/tokenizer/llama2",
    "tests/golden/tokenizer/llama3",
    "tests/golden/tokenizer/mistral",
    "tests/golden/tokenizer/qwen2",
    "tests/golden/tokenizer/tekken",
};

Test(special_marks, whatever_is_beside_what_only_the_prompts_own_tokens_are_tokens)
{
    for (size_t i = 0; i < sizeof FOLDERS / sizeof *FOLDERS; i++) {
        struct pair pair;
        char path[256];
        snprintf(path, sizeof path, "%s/tokenizer.json", FOLDERS[i]);
        pair_of_document(&pair, json_of_tree(path));
        check_random(&pair, 1 + i);
        pair_destroy(&pair);
    }
}

/* A vocabulary whose whole pieces stay whole (ignore_merges) makes a special token of text, marks or not. */
Test(special_marks, a_text_of_others_alone_is_what_it_is_without_special_tokens)
{
    static const char *const folders[] = {"tests/golden/tokenizer/gemma",
                                          "tests/golden/tokenizer/llama3"};
    static const char *const others[] = {"<unk>", "a</s>b", "<s> x <|eos|>",
                                         "</s",   "s>",     "<|bos|><|bos|>"};
    static struct test_ids got, wanted;
    for (size_t i = 0; i < 2 * sizeof others / sizeof *others; i++) {
        static struct prompt prompt;
        struct tokenizer *tokenizer = tokenizer_of_tree(folders[i % 2]);
        struct pair pair = {.own = tokenizer};
        prompt = (struct prompt){.n_bytes = 0};
        append(&pair, &prompt, others[i / 2], false);
        encode_marked(tokenizer, prompt.marked, prompt.n_marked, MARK, &got);
        encode(tokenizer, others[i / 2], strlen(others[i / 2]), false, false, &wanted);
        cr_assert(got.n_ids == wanted.n_ids &&
                      memcmp(got.ids, wanted.ids, got.n_ids * sizeof *got.ids) == 0,
                  "%s", others[i / 2]);
        tokenizer_destroy(tokenizer);
    }
}

/* Looked for in normalized text, by normalizers that leave them as they are. */
static void normalize_tokens(json_t *document)
{
    json_t *token;
    size_t i;
    json_array_foreach(json_object_get(document, "added_tokens"), i,
                       token) if (json_is_true(json_object_get(token, "special")))
        json_object_set_new(token, "normalized", json_true());
}

Test(special_marks, the_same_of_tokens_in_normalized_text)
{
    struct pair pair;
    json_t *document = json_of_tree("tests/golden/tokenizer/qwen2/tokenizer.json");
    normalize_tokens(document); /* NFC */
    pair_of_document(&pair, document);
    check_random(&pair, 101);
    pair_destroy(&pair);

    document = json_of_tree("tests/golden/tokenizer/llama2/tokenizer.json");
    json_t *steps = json_object_get(json_object_get(document, "normalizer"), "normalizers");
    cr_assert_str_eq(json_string_value(json_object_get(json_array_get(steps, 0), "type")),
                     "Prepend");
    json_array_remove(steps, 0); /* Replace is left: a space becomes U+2581 */
    normalize_tokens(document);
    pair_of_document(&pair, document);
    check_random(&pair, 102);
    pair_destroy(&pair);
}

/* Prepend makes U+2581 a part of the tokens: no other text than the prompt's own gives one. */
Test(special_marks, tokens_that_a_normalizer_makes_longer_are_not_made_by_others)
{
    struct tokenizer *tokenizer = tokenizer_of_tree("tests/golden/tokenizer/llama2_normed");
    struct pair pair = {.own = tokenizer};
    static const char *const others[] = {"<s>", " <s>", "a <s> b", "s>", "\xe2\x96\x81<s>"};
    static struct test_ids ids;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        static struct prompt prompt;
        prompt = (struct prompt){.n_bytes = 0};
        append(&pair, &prompt, " </s>", true);
        append(&pair, &prompt, others[i], false);
        append(&pair, &prompt, " </s>", true);
        encode_marked(tokenizer, prompt.marked, prompt.n_marked, MARK, &ids);
        unsigned n_special = 0;
        for (size_t id = 0; id < ids.n_ids; id++)
            n_special += tokenizer_is_special(tokenizer, ids.ids[id]);
        cr_assert_eq(n_special, 2, "%s: %u", others[i], n_special);
    }
    tokenizer_destroy(tokenizer);
}

static void add_token(json_t *document, const char *content, uint32_t id, const char *flag)
{
    json_t *token = json_pack("{s:i, s:s, s:b, s:b, s:b, s:b, s:b}", "id", (int)id, "content",
                              content, "special", 1, "normalized", 0, "lstrip", 0, "rstrip", 0,
                              "single_word", 0);
    if (flag)
        json_object_set_new(token, flag, json_true());
    json_array_append_new(json_object_get(document, "added_tokens"), token);
}

Test(special_marks, tokens_of_one_character_and_tokens_within_tokens)
{
    struct pair pair;
    json_t *document = small_document();
    add_token(document, "\xe2\x98\x83", 259, NULL);
    add_token(document, "\xe6\xbc\xa2", 260, "rstrip");
    add_token(document, "<s>x", 261, "lstrip");
    add_token(document, "[[", 262, NULL);
    pair_of_document(&pair, document);
    check_random(&pair, 77);
    pair_destroy(&pair);
}

static void check_marks(const struct tokenizer *tokenizer, const char *text, const char *wanted)
{
    struct prompt prompt = {.n_bytes = 0};
    struct pair pair = {.own = (struct tokenizer *)(uintptr_t)tokenizer};
    append(&pair, &prompt, text, false);
    char shown[256];
    size_t n = 0;
    for (size_t at = 0; at < prompt.n_marked; n++) {
        bool is_mark = memcmp(prompt.marked + at, "\xef\xb7\x90", 3) == 0;
        shown[n] = is_mark ? '#' : prompt.marked[at];
        at += is_mark ? 3 : 1;
    }
    shown[n] = '\0';
    cr_assert_str_eq(shown, wanted);
}

Test(special_marks, stand_in_tokens_and_at_ends_and_nowhere_else)
{
    struct tokenizer *tokenizer = tokenizer_of_tree("tests/golden/tokenizer/qwen2");
    check_marks(tokenizer, "", "");
    check_marks(tokenizer, "plain text, a < b > c", "plain text, a < b > c");
    check_marks(tokenizer, "<|im_end|>", "<#|im_end|>");
    check_marks(tokenizer, "a<|im_start|>b<|im_end|>c", "a<#|im_start|>b<#|im_end|>c");
    check_marks(tokenizer, "<|im_", "<#|im_");
    check_marks(tokenizer, "<|im_ \n", "<#|im_ \n");
    check_marks(tokenizer, "start|>x", "#start|>x");
    check_marks(tokenizer, " start|>x", " #start|>x");
    check_marks(tokenizer, ">", "#>");
    check_marks(tokenizer, "im_start", "im_start");
    check_marks(tokenizer, "<tool>", "<tool>"); /* an added token, but not special */
    tokenizer_destroy(tokenizer);
}
