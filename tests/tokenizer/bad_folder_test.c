/* tokenizer_load: a folder that is not what it must be is refused with a sentence that names the
 * field, and nothing is kept of it. */
#include "tests/tokenizer/support/tokenizers.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct change {
    const char *path;  /* member names, parted by a point */
    const char *value; /* JSON, NULL: the member goes */
    enum status status;
    const char *sentence; /* a part of it */
};

static void apply(json_t *document, const struct change *change)
{
    char path[128];
    char *rest = path;
    char *key;

    snprintf(path, sizeof path, "%s", change->path);
    while ((key = strsep(&rest, ".")) && rest)
        document = json_object_get(document, key);
    cr_assert(json_is_object(document), "%s", change->path);
    if (!change->value) {
        cr_assert_eq(json_object_del(document, key), 0, "%s", change->path);
        return;
    }
    json_t *value = json_loads(change->value, JSON_DECODE_ANY, NULL);
    cr_assert_not_null(value, "%s", change->value);
    json_object_set_new(document, key, value);
}

static void expect_refusal(enum status status, const struct error *error, enum status expected,
                           const char *sentence)
{
    cr_expect_eq(status, expected, "%s: %s, not %s: %s", sentence, status_name(status),
                 status_name(expected), error->text);
    cr_expect_not_null(strstr(error->text, sentence), "\"%s\" is not in \"%s\"", sentence,
                       error->text);
}

static void expect_all_refused(const struct change *changes, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        json_t *document = small_document();
        struct tokenizer *tokenizer = NULL;
        struct error error = {""};
        apply(document, &changes[i]);
        expect_refusal(load_document(document, &error, &tokenizer), &error, changes[i].status,
                       changes[i].sentence);
        cr_expect_null(tokenizer);
        tokenizer_destroy(tokenizer);
        json_decref(document);
    }
}

#define EXPECT_ALL_REFUSED(changes) expect_all_refused(changes, sizeof(changes) / sizeof *(changes))

Test(bad_folder, small_document_itself_is_fine)
{
    json_t *document = small_document();
    struct tokenizer *tokenizer = NULL;
    struct error error = {""};

    cr_assert_eq(load_document(document, &error, &tokenizer), STATUS_OK, "%s", error.text);
    cr_assert_eq(tokenizer_n_ids(tokenizer), 259);
    tokenizer_destroy(tokenizer);
    json_decref(document);
}

Test(bad_folder, model_is_checked)
{
    static const struct change changes[] = {
        {"model", NULL, STATUS_CORRUPT, "model is missing, it must be an object"},
        {"model", "[]", STATUS_CORRUPT, "model is not an object"},
        {"model.type", "\"CTC\"", STATUS_UNSUPPORTED, "model.type is CTC"},
        {"model.type", "\"Unigram\"", STATUS_CORRUPT, "model.vocab is not an array"},
        {"model.type", "7", STATUS_CORRUPT, "model.type is not a string"},
        {"model.dropout", "0.1", STATUS_UNSUPPORTED, "model.dropout is set"},
        {"model.byte_fallback", "1", STATUS_CORRUPT, "model.byte_fallback is not true or false"},
        {"model.continuing_subword_prefix", "\"##\"", STATUS_CORRUPT,
         "model.merges[0] ends with \"b\", which is no longer than "
         "model.continuing_subword_prefix"},
        {"model.continuing_subword_prefix", "3", STATUS_CORRUPT,
         "model.continuing_subword_prefix is not a string"},
        {"model.end_of_word_suffix", "\"</w> \"", STATUS_UNSUPPORTED,
         "model.end_of_word_suffix is \"</w> \", which bytes are not written with"},
        {"model.end_of_word_suffix",
         "\"1234567890123456789012345678901234567890123456789012345678901234567890\"",
         STATUS_UNSUPPORTED, "model.end_of_word_suffix has 70 bytes, at most 64 are supported"},
        {"model.unk_token", "7", STATUS_CORRUPT, "model.unk_token is not a string"},
        {"model.fuse_unk", "1", STATUS_CORRUPT, "model.fuse_unk is not true or false"},
        {"model.ignore_merges", "1", STATUS_CORRUPT, "model.ignore_merges is not true or false"},
        {"model.vocab", NULL, STATUS_CORRUPT, "model.vocab is missing"},
        {"model.vocab", "[1]", STATUS_CORRUPT, "model.vocab is not an object"},
        {"model.vocab", "{}", STATUS_CORRUPT, "model.merges[0] names \"a\""},
        {"model.vocab.ab", "-1", STATUS_CORRUPT, "the id of \"ab\" is not a whole number"},
        {"model.vocab.ab", "1048576", STATUS_CORRUPT, "the id of \"ab\""},
        {"model.vocab.ab", "9223372036854775807", STATUS_CORRUPT, "the id of \"ab\""},
        {"model.vocab.ab", "256.0", STATUS_CORRUPT, "the id of \"ab\""},
        {"model.vocab.ab", "\"256\"", STATUS_CORRUPT, "the id of \"ab\""},
        {"model.vocab.ab", "12", STATUS_CORRUPT, "model.vocab gives id 12 to"},
        {"model.vocab.a", NULL, STATUS_CORRUPT, "model.merges[0] names \"a\""},
        {"model.vocab.", "259", STATUS_CORRUPT, "has an empty token, id 259"},
        {"model.merges", NULL, STATUS_CORRUPT, "model.merges is missing"},
        {"model.merges", "{}", STATUS_CORRUPT, "model.merges is not an array"},
        {"model.merges", "[\"ab\"]", STATUS_CORRUPT, "model.merges[0] is neither"},
        {"model.merges", "[\"a b\", \"a b c\"]", STATUS_CORRUPT, "model.merges[1] is neither"},
        {"model.merges", "[[\"a\"]]", STATUS_CORRUPT, "model.merges[0] is neither"},
        {"model.merges", "[[\"a\", 1]]", STATUS_CORRUPT, "model.merges[0] is neither"},
        {"model.merges", "[\"x ab\"]", STATUS_CORRUPT, "model.merges[0] names \"xab\""},
        {"model.merges", "[\"zz ab\"]", STATUS_CORRUPT, "model.merges[0] names \"zz\""},
        {"model.merges", "[\" a\"]", STATUS_CORRUPT, "model.merges[0] names \"\""},
    };
    EXPECT_ALL_REFUSED(changes);
}

Test(bad_folder, unknown_token_that_is_not_there_is_refused_only_if_a_byte_needs_it)
{
    json_t *document = small_document();
    json_t *vocab = json_object_get(json_object_get(document, "model"), "vocab");
    struct tokenizer *tokenizer = NULL;
    struct error error = {""};

    json_object_set_new(json_object_get(document, "model"), "unk_token", json_string("<s>"));
    cr_assert_eq(load_document(document, &error, &tokenizer), STATUS_OK, "%s", error.text);
    tokenizer_destroy(tokenizer);
    json_object_del(vocab, "a");
    json_object_set_new(vocab, "zz", json_integer(64));
    json_object_set_new(json_object_get(document, "model"), "merges", json_array());
    expect_refusal(load_document(document, &error, &tokenizer), &error, STATUS_CORRUPT,
                   "model.unk_token is \"<s>\", which model.vocab does not have, as little as the "
                   "byte 0x61");
    json_decref(document);
}

Test(bad_folder, other_parts_are_checked)
{
    static const struct change changes[] = {
        {"normalizer", "{\"type\": \"NFX\"}", STATUS_UNSUPPORTED, "normalizer is NFX"},
        {"normalizer", "\"NFC\"", STATUS_CORRUPT, "normalizer is not an object"},
        {"normalizer", "{\"type\": \"Sequence\", \"normalizers\": [{\"type\": \"Uppercase\"}]}",
         STATUS_UNSUPPORTED, "normalizer.normalizers[0] is Uppercase"},
        {"normalizer", "{\"type\": \"BertNormalizer\", \"strip_accents\": 1}", STATUS_CORRUPT,
         "normalizer.strip_accents is not true or false"},
        {"normalizer", "{\"type\": \"Precompiled\", \"precompiled_charsmap\": 7}", STATUS_CORRUPT,
         "normalizer.precompiled_charsmap is not a string"},
        {"normalizer", "{\"type\": \"Precompiled\", \"precompiled_charsmap\": \"AAAA\"}",
         STATUS_CORRUPT, "normalizer.precompiled_charsmap is no base64 of a table of characters"},
        {"normalizer",
         "{\"type\": \"Precompiled\", \"precompiled_charsmap\": \"CAAAAAAAAAA=\"}", /* 8 of 4 */
         STATUS_CORRUPT, "normalizer.precompiled_charsmap is no base64 of a table of characters"},
        {"normalizer", "{\"type\": \"Prepend\"}", STATUS_CORRUPT,
         "normalizer.prepend is missing, it must be a string"},
        {"normalizer", "{\"type\": \"Replace\", \"pattern\": \" \", \"content\": \"_\"}",
         STATUS_CORRUPT, "normalizer.pattern is not an object"},
        {"normalizer", "{\"type\": \"Replace\", \"pattern\": {\"String\": \" \"}}", STATUS_CORRUPT,
         "normalizer.content is missing"},
        {"normalizer",
         "{\"type\": \"Replace\", \"pattern\": {\"Regex\": \"^ \"}, \"content\": \"\"}",
         STATUS_UNSUPPORTED, "normalizer.pattern.Regex uses an anchor at byte 0"},
        {"post_processor", "{\"type\": \"Pairs\"}", STATUS_UNSUPPORTED, "post_processor is Pairs"},
        {"post_processor", "{\"type\": \"BertProcessing\"}", STATUS_CORRUPT,
         "post_processor.cls is missing, it must be an array"},
        {"post_processor",
         "{\"type\": \"RobertaProcessing\", \"cls\": [\"a\", 64], \"sep\": [\"x\", 999]}",
         STATUS_CORRUPT, "post_processor.sep[1] is 999, but ids go up to 258"},
        {"post_processor",
         "{\"type\": \"RobertaProcessing\", \"cls\": [\"a\", 64], \"sep\": [\"x\"]}",
         STATUS_CORRUPT, "post_processor.sep[1] is missing"},
        {"post_processor", "{\"type\": \"TemplateProcessing\", \"single\": 1}", STATUS_CORRUPT,
         "post_processor.single is not an array"},
        {"post_processor",
         "{\"type\": \"TemplateProcessing\", \"single\": [], \"special_tokens\": {}}",
         STATUS_CORRUPT, "post_processor.single has no Sequence A"},
        {"post_processor",
         "{\"type\": \"TemplateProcessing\", \"single\": [{\"SpecialToken\": {\"id\": \"<x>\"}}], "
         "\"special_tokens\": {}}",
         STATUS_CORRUPT, "post_processor.special_tokens.<x>.ids is missing"},
        {"post_processor",
         "{\"type\": \"TemplateProcessing\", \"single\": [{\"SpecialToken\": {\"id\": \"<x>\"}}], "
         "\"special_tokens\": {\"<x>\": {\"ids\": [999]}}}",
         STATUS_CORRUPT, "post_processor.special_tokens.<x>.ids[0] is 999"},
    };
    EXPECT_ALL_REFUSED(changes);
}

Test(bad_folder, pre_tokenizer_is_checked)
{
    static const struct change changes[] = {
        {"pre_tokenizer", "{\"type\": \"UnicodeScript\"}", STATUS_UNSUPPORTED,
         "pre_tokenizer is UnicodeScript"},
        {"pre_tokenizer", "{\"type\": \"Punctuation\", \"behavior\": \"Gone\"}", STATUS_UNSUPPORTED,
         "pre_tokenizer.behavior is Gone"},
        {"pre_tokenizer", "{\"type\": \"CharDelimiterSplit\"}", STATUS_CORRUPT,
         "pre_tokenizer.delimiter is missing"},
        {"pre_tokenizer", "{\"type\": \"FixedLength\", \"length\": 0}", STATUS_UNSUPPORTED,
         "pre_tokenizer.length is not a whole number of 1 to 65535"},
        {"pre_tokenizer", "{\"type\": \"Metaspace\"}", STATUS_CORRUPT,
         "pre_tokenizer.replacement is missing"},
        {"pre_tokenizer", "{\"type\": \"Metaspace\", \"replacement\": \"ab\"}", STATUS_CORRUPT,
         "pre_tokenizer.replacement is \"ab\", it must be one character"},
        {"pre_tokenizer",
         "{\"type\": \"Metaspace\", \"replacement\": \"_\", \"prepend_scheme\": \"last\"}",
         STATUS_UNSUPPORTED, "pre_tokenizer.prepend_scheme is last"},
        {"pre_tokenizer",
         "{\"type\": \"Metaspace\", \"replacement\": \"_\", \"prepend_scheme\": \"first\", "
         "\"add_prefix_space\": false}",
         STATUS_CORRUPT, "pre_tokenizer.prepend_scheme is first, but add_prefix_space is false"},
        {"pre_tokenizer.use_regex", "\"yes\"", STATUS_CORRUPT,
         "pre_tokenizer.use_regex is not true or false"},
        {"pre_tokenizer", "{\"type\": \"Split\"}", STATUS_CORRUPT,
         "pre_tokenizer.pattern is missing"},
        {"pre_tokenizer", "{\"type\": \"Split\", \"pattern\": {\"Regex\": 3}}", STATUS_CORRUPT,
         "pre_tokenizer.pattern.Regex is not a string"},
        {"pre_tokenizer",
         "{\"type\": \"Split\", \"pattern\": {\"Regex\": \"a\"}, \"behavior\": \"Gone\"}",
         STATUS_UNSUPPORTED, "pre_tokenizer.behavior is Gone"},
    };
    EXPECT_ALL_REFUSED(changes);
}

Test(bad_folder, added_tokens_are_checked)
{
    static const struct change changes[] = {
        {"added_tokens", "{}", STATUS_CORRUPT, "added_tokens is not an array"},
        {"added_tokens", "[3]", STATUS_CORRUPT, "added_tokens[0] is not an object"},
        {"added_tokens", "[{\"content\": \"x\"}]", STATUS_CORRUPT, "added_tokens[0].id is missing"},
        {"added_tokens", "[{\"id\": -3, \"content\": \"<s>\"}]", STATUS_CORRUPT,
         "added_tokens[0].id is -3"},
        {"added_tokens", "[{\"id\": 258}]", STATUS_CORRUPT, "added_tokens[0].content is missing"},
        {"added_tokens", "[{\"id\": 258, \"content\": \"\"}]", STATUS_CORRUPT, "empty token"},
        {"added_tokens", "[{\"id\": 3, \"content\": \"<s>\"}]", STATUS_CORRUPT,
         "added_tokens[0] gives id 3"},
        {"added_tokens", "[{\"id\": 3, \"content\": \"ab\"}]", STATUS_CORRUPT,
         "added_tokens[0].id is 3, but model.vocab says 256"},
        {"added_tokens", "[{\"id\": 256, \"content\": \"ab\"}, {\"id\": 256, \"content\": \"ab\"}]",
         STATUS_CORRUPT, "added_tokens[1].content repeats \"ab\""},
        {"added_tokens", "[{\"id\": 258, \"content\": \"<s>\", \"special\": 1}]", STATUS_CORRUPT,
         "added_tokens[0].special is not true or false"},
        {"added_tokens", "[{\"id\": 258, \"content\": \"<s>\", \"lstrip\": \"\"}]", STATUS_CORRUPT,
         "added_tokens[0].lstrip is not true or false"},
    };
    EXPECT_ALL_REFUSED(changes);
}

Test(bad_folder, added_token_that_is_empty_once_normalized_is_refused)
{
    static const char *const NORMALIZERS[] = {
        "{\"type\": \"Replace\", \"pattern\": {\"String\": \"_\"}, \"content\": \"\"}",
        "{\"type\": \"Replace\", \"pattern\": {\"Regex\": \"_+\"}, \"content\": \"\"}",
        ("{\"type\": \"Sequence\", \"normalizers\": [{\"type\": \"Replace\", \"pattern\": "
         "{\"String\": \"_\"}, \"content\": \"\"}, {\"type\": \"Prepend\", \"prepend\": \"x\"}]}"),
    };
    for (size_t i = 0; i < sizeof NORMALIZERS / sizeof *NORMALIZERS; i++) {
        json_t *document = small_document();
        struct tokenizer *tokenizer = NULL;
        struct error error = {""};
        json_t *tokens = json_object_get(document, "added_tokens");
        json_object_set_new(document, "normalizer", json_loads(NORMALIZERS[i], 0, NULL));
        json_array_append_new(
            tokens, json_pack("{s:i, s:s, s:b}", "id", 259, "content", "__", "normalized", 0));
        cr_assert_eq(load_document(document, &error, &tokenizer), STATUS_OK, "%s", error.text);
        tokenizer_destroy(tokenizer);
        tokenizer = NULL;
        json_object_set_new(json_array_get(tokens, 1), "normalized", json_true());
        expect_refusal(load_document(document, &error, &tokenizer), &error, STATUS_UNSUPPORTED,
                       "added_tokens[1].content is empty once normalized");
        json_decref(document);
    }
}

Test(bad_folder, patterns_that_differ_between_engines_are_refused)
{
    static const struct {
        const char *pattern;
        enum status status;
        const char *sentence;
    } cases[] = {
        {"(a", STATUS_CORRUPT, "a ( does not end"},
        {"a)", STATUS_CORRUPT, "a ) too many"},
        {"[a", STATUS_CORRUPT, "a class does not end"},
        {"[z-a]", STATUS_CORRUPT, "pattern.Regex is not a pattern"},
        {"a{3,1}", STATUS_CORRUPT, "pattern.Regex is not a pattern"},
        {"(?<=a*)b", STATUS_CORRUPT, "pattern.Regex is not a pattern"},
        {"*a", STATUS_UNSUPPORTED, "a repeat of a repeat or of nothing"},
        {"a**", STATUS_UNSUPPORTED, "a repeat of a repeat or of nothing"},
        {"a{2}+", STATUS_UNSUPPORTED, "a sign after a repeat count"},
        {"a{,2}", STATUS_UNSUPPORTED, "a brace that is not a repeat count"},
        {"^a", STATUS_UNSUPPORTED, "an anchor"},
        {"\\w+", STATUS_UNSUPPORTED, "an escape"},
        {"\\h", STATUS_UNSUPPORTED, "an escape"},
        {"(a)\\1", STATUS_UNSUPPORTED, "an escape"},
        {"a\\", STATUS_UNSUPPORTED, "an escape"},
        {"[\\S]", STATUS_UNSUPPORTED, "\\S within a class"},
        {"[a&&b]", STATUS_UNSUPPORTED, "an intersection of classes"},
        {"[[a]]", STATUS_UNSUPPORTED, "a class within a class"},
        {"[]a]", STATUS_UNSUPPORTED, "an empty class"},
        {"(?i:ss)", STATUS_UNSUPPORTED, "letters without case that fold to one"},
        {"(?i:[a])", STATUS_UNSUPPORTED, "a class without case"},
        {"(?i:\xc3\xa9)", STATUS_UNSUPPORTED, "a character beyond ASCII without case"},
        {"(?m:a)", STATUS_UNSUPPORTED, "a group"},
        {"(?<n>a)", STATUS_UNSUPPORTED, "a group"},
        {"(*UCP)a", STATUS_UNSUPPORTED, "a group"},
        {"\\p{Greek}", STATUS_UNSUPPORTED, "a property"},
        {"\\pL", STATUS_UNSUPPORTED, "a property without braces"},
        {"\\p{^L}", STATUS_UNSUPPORTED, "a property"},
        {"\\x{110000000}", STATUS_UNSUPPORTED, "a malformed \\x"},
        {"\\x{110000}", STATUS_CORRUPT, "pattern.Regex is not a pattern"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        json_t *document = small_document();
        struct tokenizer *tokenizer = NULL;
        struct error error = {""};
        json_object_set_new(document, "pre_tokenizer",
                            json_pack("{s:s, s:{s:s}, s:s}", "type", "Split", "pattern", "Regex",
                                      cases[i].pattern, "behavior", "Isolated"));
        expect_refusal(load_document(document, &error, &tokenizer), &error, cases[i].status,
                       cases[i].sentence);
        json_decref(document);
    }
}

Test(bad_folder, what_is_no_json_is_refused_with_its_line)
{
    static const struct {
        const char *text;
        const char *sentence;
    } cases[] = {
        {"", "tokenizer.json is not JSON: line 1"},
        {"{\"model\": {\"type\": \"BPE\"", "tokenizer.json is not JSON"},
        {"{\"model\": {}, \"model\": {}}", "duplicate object key"},
        {"{\"model\": {\"vocab\": {\"a\": 1, \"a\": 2}}}", "duplicate object key"},
        {"{\"\xff\": 1}", "unable to decode byte 0xff"},
        {"{\"a\": \"\xed\xa0\x80\"}", "unable to decode byte 0xed"},
        {"{\"a\": \"\\ud800\"}", "tokenizer.json is not JSON"},
        {"{} x", "end of file expected"},
        {"[]", "tokenizer.json is not an object"},
        {"{\"a\": 1e999}", "real number overflow"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct tokenizer *tokenizer = NULL;
        struct error error = {""};
        expect_refusal(load_texts(cases[i].text, NULL, &error, &tokenizer), &error, STATUS_CORRUPT,
                       cases[i].sentence);
    }
}

Test(bad_folder, a_token_that_holds_nul_is_not_supported_and_said_so)
{
    struct tokenizer *tokenizer = NULL;
    struct error error = {""};

    expect_refusal(load_texts("{\"a\\u0000b\": 1}", NULL, &error, &tokenizer), &error,
                   STATUS_UNSUPPORTED, "tokenizer.json has a key with U+0000");
}

Test(bad_folder, depth_is_bounded)
{
    char text[20001];
    struct tokenizer *tokenizer = NULL;
    struct error error = {""};

    memset(text, '[', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    expect_refusal(load_texts(text, NULL, &error, &tokenizer), &error, STATUS_CORRUPT,
                   "maximum parsing depth");
}

Test(bad_folder, nested_sequences_are_bounded)
{
    json_t *document = small_document();
    json_t *inner = json_pack("{s:s}", "type", "ByteLevel");
    struct tokenizer *tokenizer = NULL;
    struct error error = {""};

    for (int i = 0; i < 500; i++)
        inner = json_pack("{s:s, s:[o]}", "type", "Sequence", "pretokenizers", inner);
    json_object_set_new(document, "pre_tokenizer", inner);
    expect_refusal(load_document(document, &error, &tokenizer), &error, STATUS_UNSUPPORTED,
                   "nested too deep");
    json_decref(document);
}

Test(bad_folder, config_must_agree_with_the_tokenizer)
{
    static const struct {
        const char *config;
        enum status status;
        const char *sentence;
    } cases[] = {
        {"[]", STATUS_CORRUPT, "tokenizer_config.json is not an object"},
        {"{", STATUS_CORRUPT, "tokenizer_config.json is not JSON"},
        {"{\"bos_token\": 3}", STATUS_CORRUPT, "tokenizer_config.json: bos_token is not a string"},
        {"{\"eos_token\": \"<t>\"}", STATUS_CORRUPT, "eos_token is \"<t>\""},
        {"{\"pad_token\": {}}", STATUS_CORRUPT, "pad_token.content is missing"},
        {"{\"tokenizer_class\": \"LlamaTokenizerFast\", \"add_bos_token\": true}", STATUS_CORRUPT,
         "add_bos_token is true, but no bos_token is named"},
        {"{\"tokenizer_class\": \"GPTNeoXTokenizer\", \"add_eos_token\": true}", STATUS_CORRUPT,
         "add_eos_token is true, but no eos_token is named"},
        {"{\"add_bos_token\": 1}", STATUS_CORRUPT, "add_bos_token is not true or false"},
        {"{\"split_special_tokens\": true}", STATUS_UNSUPPORTED, "split_special_tokens is set"},
        {"{\"add_prefix_space\": true}", STATUS_UNSUPPORTED, "add_prefix_space is true"},
        {"{\"added_tokens_decoder\": {\"259\": {\"content\": \"<s>\"}}}", STATUS_UNSUPPORTED,
         "added_tokens_decoder.259 is \"<s>\""},
        {"{\"added_tokens_decoder\": {\"256\": {\"content\": \"<t>\"}}}", STATUS_CORRUPT,
         "added_tokens[1] gives id 256 to \"<t>\", which \"ab\" has"},
        {"{\"added_tokens_decoder\": {\"x\": {\"content\": \"<t>\"}}}", STATUS_UNSUPPORTED,
         "added_tokens_decoder.x is \"<t>\""},
        {"{\"mask_token\": {\"content\": \"<t>\"}}", STATUS_CORRUPT, "mask_token is \"<t>\""},
        {"{\"additional_special_tokens\": [\"<s>\", \"<t>\"]}", STATUS_CORRUPT,
         "additional_special_tokens[1] is \"<t>\", which tokenizer.json does not have"},
        {"{\"extra_special_tokens\": {\"image_token\": \"<t>\"}}", STATUS_CORRUPT,
         "extra_special_tokens.image_token is \"<t>\""},
        {"{\"extra_special_tokens\": \"<s>\"}", STATUS_CORRUPT,
         "extra_special_tokens is neither an array nor an object"},
        {"{\"model_specific_special_tokens\": {\"a\": 3}}", STATUS_CORRUPT,
         "model_specific_special_tokens.a is not a string"},
        {"{\"added_tokens_decoder\": {\"258\": {}}}", STATUS_CORRUPT,
         "added_tokens_decoder.258.content is missing"},
    };
    json_t *document = small_document();
    char *text = json_dumps(document, 0);

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct tokenizer *tokenizer = NULL;
        struct error error = {""};
        expect_refusal(load_texts(text, cases[i].config, &error, &tokenizer), &error,
                       cases[i].status, cases[i].sentence);
    }
    free(text);
    json_decref(document);
}

/* Folders on the disk */

static void in_folder(const char *folder, const char *name, char path[256])
{
    snprintf(path, 256, "%s/%s", folder, name);
}

static void write_small_tokenizer(const char *folder)
{
    json_t *document = small_document();
    char path[256];

    in_folder(folder, "tokenizer.json", path);
    cr_assert_eq(json_dump_file(document, path, 0), 0);
    json_decref(document);
}

/* Each refused by its name, as tokenizer.json and as the file beside it. */
Test(bad_folder, a_fifo_a_device_or_a_far_link_is_refused_at_once, .timeout = 30)
{
    static const char *const NAMES[] = {"tokenizer.json", "tokenizer_config.json"};
    char folder[] = "/tmp/kvferry-tokenizer-XXXXXX";
    char path[256];

    cr_assert_not_null(mkdtemp(folder));
    for (int i = 0; i < 2; i++) {
        struct tokenizer *tokenizer = NULL;
        struct error error = {""};
        in_folder(folder, NAMES[i], path);
        cr_assert_eq(mkfifo(path, 0600), 0);
        expect_refusal(tokenizer_load(folder, &error, &tokenizer), &error, STATUS_CORRUPT,
                       "is not a regular file");
        cr_expect_not_null(strstr(error.text, NAMES[i]), "%s", error.text);
        unlink(path);
        cr_assert_eq(symlink("/dev/zero", path), 0);
        expect_refusal(tokenizer_load(folder, &error, &tokenizer), &error, STATUS_CORRUPT,
                       "is a link out of the model's folder");
        cr_expect_not_null(strstr(error.text, NAMES[i]), "%s", error.text);
        unlink(path);
        write_small_tokenizer(folder);
    }
    in_folder(folder, NAMES[0], path);
    unlink(path);
    cr_assert_eq(rmdir(folder), 0);
}

Test(bad_folder, files_that_are_none_are_refused)
{
    char folder[] = "/tmp/kvferry-tokenizer-XXXXXX";
    char path[256];
    struct tokenizer *tokenizer = NULL;
    struct error error = {""};

    cr_assert_not_null(mkdtemp(folder));
    in_folder(folder, "none", path);
    expect_refusal(tokenizer_load(path, &error, &tokenizer), &error, STATUS_NOT_FOUND,
                   "none: No such file");
    in_folder(folder, "tokenizer.json", path);
    cr_assert_eq(mkdir(path, 0700), 0);
    expect_refusal(tokenizer_load(folder, &error, &tokenizer), &error, STATUS_CORRUPT,
                   "tokenizer.json is not a regular file");
    cr_assert_eq(rmdir(path), 0);

    int descriptor = open(path, O_CREAT | O_WRONLY, 0600);
    cr_assert_geq(descriptor, 0);
    expect_refusal(tokenizer_load(folder, &error, &tokenizer), &error, STATUS_CORRUPT,
                   "tokenizer.json is not JSON");
    cr_assert_eq(ftruncate(descriptor, (off_t)TOKENIZER_FILE_BYTES_MAX + 1), 0);
    expect_refusal(tokenizer_load(folder, &error, &tokenizer), &error, STATUS_CORRUPT,
                   "tokenizer.json has 67108865 bytes");
    close(descriptor);
    cr_assert_eq(unlink(path), 0);
    cr_assert_eq(rmdir(folder), 0);
}

Test(bad_folder, prefix_space_of_the_config_is_that_of_the_normalizer_too)
{
    static const char no_prefix[] = "{\"add_prefix_space\": false}";
    json_t *document = json_of_tree("tests/golden/tokenizer/llama2/tokenizer.json");
    char *text = json_dumps(document, 0);
    struct tokenizer *tokenizer = NULL;
    struct error error = {""};

    expect_refusal(load_texts(text, no_prefix, &error, &tokenizer), &error, STATUS_UNSUPPORTED,
                   "add_prefix_space is false, but normalizer and pre_tokenizer of tokenizer.json");
    cr_assert_eq(load_texts(text, "{\"add_prefix_space\": true}", &error, &tokenizer), STATUS_OK);
    tokenizer_destroy(tokenizer);
    free(text);
    json_decref(document);
}

Test(bad_folder, demo_model_cut_anywhere_is_refused)
{
    json_t *root = json_of_tree("model/demo/tokenizer.json");
    char *text = json_dumps(root, JSON_COMPACT);
    size_t length = strlen(text);

    for (size_t cut = 0; cut < length; cut += 997) {
        struct text_buffer file = {.bytes = text, .n_bytes = cut};
        struct tokenizer *tokenizer = NULL;
        struct error error = {""};
        cr_assert_eq(tokenizer_load_bytes(TOKENIZER_JSON, &file, NULL, &error, &tokenizer),
                     STATUS_CORRUPT);
        cr_assert_null(tokenizer);
    }
    free(text);
    json_decref(root);
}
