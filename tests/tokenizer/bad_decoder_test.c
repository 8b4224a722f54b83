/* tokenizer_load: a decoder that cannot be followed is refused with a sentence that names the field. */
#include "tests/tokenizer/support/tokenizers.h"

#include <criterion/criterion.h>
#include <string.h>

static void expect_refused(const char *decoder, enum status expected, const char *sentence)
{
    json_t *document = small_document();
    struct tokenizer *tokenizer = NULL;
    struct error error = {""};
    json_t *value = json_loads(decoder, 0, NULL);

    cr_assert_not_null(value, "%s", decoder);
    json_object_set_new(document, "decoder", value);
    cr_expect_eq(load_document(document, &error, &tokenizer), expected, "%s: %s", decoder,
                 error.text);
    cr_expect(strstr(error.text, sentence), "\"%s\" is not in \"%s\"", sentence, error.text);
    tokenizer_destroy(tokenizer);
    json_decref(document);
}

Test(bad_decoder, its_fields_are_checked)
{
    static const struct {
        const char *decoder;
        enum status status;
        const char *sentence;
    } CASES[] = {
        {"{\"type\": \"CTC\", \"pad_token\": \"\"}", STATUS_UNSUPPORTED,
         "decoder.pad_token has 0 bytes"},
        {"{\"type\": \"CTC\", \"cleanup\": 1}", STATUS_CORRUPT, "decoder.cleanup"},
        {"{\"type\": \"WordPiece\", \"prefix\": \"\"}", STATUS_UNSUPPORTED,
         "decoder.prefix has 0 bytes, supported are 1 to 64"},
        {"{\"type\": \"WordPiece\", \"cleanup\": 1}", STATUS_CORRUPT,
         "decoder.cleanup is not true or false"},
        {"{\"type\": \"BPEDecoder\", \"suffix\": \"a\"}", STATUS_UNSUPPORTED,
         "decoder has the suffix \"a\", which the token of id 256 has before its end"},
        {"{\"type\": \"Strip\", \"content\": \" \", \"start\": -1, \"stop\": 0}", STATUS_CORRUPT,
         "decoder.start is not a whole number of 0 to 1024"},
        {"{\"type\": \"Strip\", \"content\": \"\", \"start\": 1, \"stop\": 0}", STATUS_CORRUPT,
         "decoder.content is \"\", it must be one character"},
    };

    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++)
        expect_refused(CASES[i].decoder, CASES[i].status, CASES[i].sentence);
}

#define SEQUENCE(first, rest) "{\"type\": \"Sequence\", \"decoders\": [" first ", " rest "]}"
#define ALONE(type)           "{\"type\": \"" type "\"}"
#define STRIP(stop)           "{\"type\": \"Strip\", \"content\": \" \", \"start\": 1, \"stop\": " stop "}"
#define REPLACE(kind, text, by)                                                                    \
    "{\"type\": \"Replace\", \"pattern\": {\"" kind "\": \"" text "\"}, \"content\": \"" by "\"}"
#define METASPACE "{\"type\": \"Metaspace\", \"replacement\": \"_\", \"prepend_scheme\": \"first\"}"
#define THREE     STRIP("0") ", " STRIP("0") ", " STRIP("0")

Test(bad_decoder, what_no_stream_can_follow_is_refused)
{
    static const struct {
        const char *decoder, *sentence;
    } CASES[] = {
        {SEQUENCE(ALONE("ByteLevel"), STRIP("9")), "decoders[1].stop is 9, at most 8 is supported"},
        {SEQUENCE(ALONE("ByteLevel"), REPLACE("Regex", "a+", "b")),
         "decoders[1].pattern.Regex is \"a+\"; of a text as a whole only Replace of a text"},
        {SEQUENCE(ALONE("ByteLevel"), REPLACE("String", "a", "bc")),
         "decoders[1] replaces 1 bytes by 2; of a text as a whole 1 to 32 bytes"},
        {SEQUENCE(ALONE("ByteLevel"), REPLACE("String", "", "")),
         "decoders[1] replaces 0 bytes by 0"},
        {SEQUENCE(ALONE("ByteLevel"), THREE ", " THREE ", " THREE),
         "decoders[9] is one too many, at most 8"},
        {SEQUENCE(ALONE("ByteLevel"), ALONE("ByteFallback")),
         "decoders[1] is ByteFallback after another decoder"},
        {SEQUENCE(ALONE("Fuse"), ALONE("ByteLevel")),
         "decoders[1] is ByteLevel after another decoder"},
        {SEQUENCE(METASPACE, STRIP("0")), "decoders[1] is Strip after another decoder"},
        {SEQUENCE(METASPACE, METASPACE), "decoders[1] is Metaspace after another decoder"},
        {SEQUENCE(ALONE("WordPiece"), REPLACE("String", "a", "b")),
         "decoders[1] is Replace after another decoder"},
        {SEQUENCE(ALONE("CTC"), METASPACE), "decoders[1] is Metaspace after another decoder"},
    };

    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++)
        expect_refused(CASES[i].decoder, STATUS_UNSUPPORTED, CASES[i].sentence);
}
