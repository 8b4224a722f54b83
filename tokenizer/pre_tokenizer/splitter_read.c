/* Each pre-tokenizer of tokenizer.json becomes one stage or two. */
#include "tokenizer/files/field.h"
#include "tokenizer/pre_tokenizer/splitter.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#define FIXED_LENGTH     5 /* if the file does not say */
#define FIXED_LENGTH_MAX 65535

static const char GPT2_PATTERN[] =
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

/* In PCRE2's words, which is why white space is spelled out: its own has U+180E. */
#define SPACES "\\x{9}-\\x{d}\\x{85}\\p{Z}"
#define WORD   "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\\x{200c}\\x{200d}" /* \w (UTS 18, annex C) */
static const char WHITE_SPACE[] = "[" SPACES "]";
static const char WORDS[] = "[" WORD "]+|[^" WORD SPACES "]+";
static const char PUNCTUATION[] = "[\\p{P}!-/:-@\\[-`{-~]";

/* The scripts of Unicode 9, which the tokenizers package knows, the commonest first; Hira and Kana count as Hani. Characters of newer
 * scripts go with any other, as a space does. */
static const char SCRIPTS[] =
    "Latn Zyyy Cyrl Arab Grek Hang Deva Hebr Thai Zinh Bopo Copt Armn Syrc Thaa Nkoo Samr Mand "
    "Beng Guru "
    "Gujr Orya Taml Telu Knda Mlym Sinh Laoo Tibt Mymr Geor Ethi Cher Cans Ogam Runr Tglg Hano "
    "Buhd Tagb "
    "Khmr Mong Limb Tale Talu Bugi Lana Bali Sund Batk Lepc Olck Brai Glag Tfng Yiii Lisu Vaii "
    "Bamu Sylo "
    "Phag Saur Kali Rjng Java Cham Tavt Mtei Linb Lyci Cari Ital Goth Perm Ugar Xpeo Dsrt Shaw "
    "Osma Osge "
    "Elba Aghb Lina Cprt Armi Palm Nbat Hatr Phnx Lydi Mero Merc Khar Sarb Narb Mani Avst Prti "
    "Phli Phlp "
    "Orkh Hung Brah Kthi Sora Cakm Mahj Shrd Khoj Mult Sind Gran Newa Tirh Sidd Modi Takr Ahom "
    "Wara Pauc "
    "Bhks Marc Xsux Egyp Hluw Mroo Bass Hmng Plrd Tang Dupl Sgnw Mend Adlm";
#define HAN "\\p{sc:Hani}\\p{sc:Hira}\\p{sc:Kana}\\x{30fc}"

/* The next stage, zero. */
static enum status add_stage(struct splitter *splitter, const struct field *field,
                             struct error *error, struct split_stage **stage_out)
{
    if (splitter->n_stages == SPLIT_STAGES_MAX)
        return error_set(error, STATUS_UNSUPPORTED, "%s is one too many, at most %d are supported",
                         field->path, SPLIT_STAGES_MAX);
    *stage_out = &splitter->stages[splitter->n_stages++];
    return STATUS_OK;
}

static enum status read_behavior(const struct field *split, struct error *error,
                                 enum split_behavior *behavior_out)
{
    static const char *const names[] = {
        [SPLIT_REMOVED] = "Removed",
        [SPLIT_ISOLATED] = "Isolated",
        [SPLIT_MERGED_WITH_PREVIOUS] = "MergedWithPrevious",
        [SPLIT_MERGED_WITH_NEXT] = "MergedWithNext",
        [SPLIT_CONTIGUOUS] = "Contiguous",
    };
    struct field behavior = field_member(split, "behavior");
    const char *name;

    TRY(field_text(&behavior, error, &name, NULL));
    for (unsigned i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(name, names[i]) == 0) {
            *behavior_out = (enum split_behavior)i;
            return STATUS_OK;
        }
    }
    return field_refuse(&behavior, error, name);
}

/* Split: {"pattern": {"Regex" or "String": ..}, "behavior": .., "invert": ..}. */
static enum status read_split(struct splitter *splitter, const struct field *split,
                              struct error *error)
{
    struct field pattern = field_member(split, "pattern");
    struct field invert = field_member(split, "invert");
    struct split_stage *stage;

    TRY(add_stage(splitter, split, error, &stage));
    TRY(split_pattern_read(&pattern, error, &stage->pattern));
    TRY(field_bool(&invert, error, &stage->invert));
    return read_behavior(split, error, &stage->behavior);
}

/* Digits: every character of N, one by one or in runs. */
static enum status read_digits(struct splitter *splitter, const struct field *digits,
                               struct error *error)
{
    struct field individual_field = field_member(digits, "individual_digits");
    struct split_stage *stage;
    bool individual = false;

    TRY(field_bool(&individual_field, error, &individual));
    TRY(add_stage(splitter, digits, error, &stage));
    stage->behavior = individual ? SPLIT_ISOLATED : SPLIT_CONTIGUOUS;
    return split_pattern_create_native("\\p{N}", &stage->pattern);
}

/* ByteLevel: its defaults are those of the tokenizers package. */
static enum status read_byte_level(struct splitter *splitter, const struct field *byte_level,
                                   struct error *error)
{
    struct field prefix_field = field_member(byte_level, "add_prefix_space");
    struct field regex_field = field_member(byte_level, "use_regex");
    struct split_stage *stage;
    bool add_prefix = true;
    bool use_regex = true;

    TRY(field_bool(&prefix_field, error, &add_prefix));
    TRY(field_bool(&regex_field, error, &use_regex));
    if (add_prefix || use_regex)
        TRY(add_stage(splitter, byte_level, error, &stage));
    if (add_prefix) {
        stage->space[0] = ' ';
        stage->n_space = 1;
        stage->prepend = PREPEND_ALWAYS;
    }
    if (use_regex) {
        stage->behavior = SPLIT_ISOLATED;
        TRY(split_pattern_create(GPT2_PATTERN, sizeof GPT2_PATTERN - 1, byte_level->path, error,
                                 &stage->pattern));
    }
    TRY(add_stage(splitter, byte_level, error, &stage));
    stage->spells_bytes = true;
    return STATUS_OK;
}

/* Metaspace: cut before each of its characters, unless split is false. */
static enum status read_metaspace(struct splitter *splitter, const struct field *metaspace,
                                  struct error *error)
{
    struct field split_field = field_member(metaspace, "split");
    struct split_stage *stage;
    bool split = true;

    TRY(field_bool(&split_field, error, &split));
    TRY(add_stage(splitter, metaspace, error, &stage));
    TRY(metaspace_read(metaspace, error, stage->space, &stage->n_space, &stage->prepend));
    stage->behavior = SPLIT_MERGED_WITH_NEXT;
    return split ? split_pattern_create_literal(stage->space, stage->n_space, metaspace->path,
                                                error, &stage->pattern)
                 : STATUS_OK;
}

/* A stage that cuts by a pattern of our own. */
static enum status add_native(struct splitter *splitter, const struct field *field,
                              const char *pattern, enum split_behavior behavior, bool invert,
                              struct error *error)
{
    struct split_stage *stage;

    TRY(add_stage(splitter, field, error, &stage));
    stage->behavior = behavior;
    stage->invert = invert;
    return split_pattern_create_native(pattern, &stage->pattern);
}

/* BertPreTokenizer: without white space, and every sign of punctuation alone. */
static enum status read_bert(struct splitter *splitter, const struct field *field,
                             struct error *error)
{
    TRY(add_native(splitter, field, WHITE_SPACE, SPLIT_REMOVED, false, error));
    return add_native(splitter, field, PUNCTUATION, SPLIT_ISOLATED, false, error);
}

/* Whitespace: runs of word characters, and runs of what is neither those nor white space. */
static enum status read_whitespace(struct splitter *splitter, const struct field *field,
                                   struct error *error)
{
    return add_native(splitter, field, WORDS, SPLIT_REMOVED, true, error);
}

static enum status read_whitespace_split(struct splitter *splitter, const struct field *field,
                                         struct error *error)
{
    return add_native(splitter, field, WHITE_SPACE, SPLIT_REMOVED, false, error);
}

static enum status read_punctuation(struct splitter *splitter, const struct field *field,
                                    struct error *error)
{
    struct field behavior_field = field_member(field, "behavior");
    enum split_behavior behavior = SPLIT_ISOLATED;

    if (!field_is_absent(&behavior_field))
        TRY(read_behavior(field, error, &behavior));
    return add_native(splitter, field, PUNCTUATION, behavior, false, error);
}

static enum status read_delimiter(struct splitter *splitter, const struct field *field,
                                  struct error *error)
{
    struct field delimiter = field_member(field, "delimiter");
    struct split_stage *stage;
    char text[4];
    size_t n_bytes;

    TRY(field_character(&delimiter, error, text, &n_bytes));
    TRY(add_stage(splitter, field, error, &stage));
    stage->behavior = SPLIT_REMOVED;
    return split_pattern_create_literal(text, n_bytes, delimiter.path, error, &stage->pattern);
}

/* FixedLength: as many characters each, fewer in the last piece. */
static enum status read_fixed_length(struct splitter *splitter, const struct field *field,
                                     struct error *error)
{
    struct field length_field = field_member(field, "length");
    json_int_t length = FIXED_LENGTH;
    char pattern[32];

    if (!field_is_absent(&length_field)) {
        length = json_integer_value(length_field.value);
        if (!json_is_integer(length_field.value) || length < 1 || length > FIXED_LENGTH_MAX)
            return error_set(error, STATUS_UNSUPPORTED, "%s is not a whole number of 1 to %d",
                             length_field.path, FIXED_LENGTH_MAX);
    }
    snprintf(pattern, sizeof pattern, "(?s).{1,%d}", (int)length);
    return add_native(splitter, field, pattern, SPLIT_ISOLATED, false, error);
}

/* Appends a form of each script, in which %1$.4s is its name. */
static size_t add_scripts(char *pattern, size_t at, size_t max, const char *form)
{
    for (const char *script = SCRIPTS; *script; script += script[4] ? 5 : 4)
        at += (size_t)snprintf(pattern + at, max - at, form, script);
    return at;
}

/* UnicodeScripts: cut where the script changes. Spaces, and what has no script, belong to the piece before; at the start of a text they
 * are left out, as the tokenizers package does. */
static enum status read_scripts(struct splitter *splitter, const struct field *field,
                                struct error *error)
{
    char pattern[16384];
    size_t at = (size_t)snprintf(pattern, sizeof pattern, "(?(DEFINE)(?<any>(?: |[^" HAN);
    at = add_scripts(pattern, at, sizeof pattern, "\\p{sc:%1$.4s}");
    at += (size_t)snprintf(pattern + at, sizeof pattern - at,
                           "])++))[" HAN "]++(?:(?&any)[" HAN "]++)*+(?&any)?+");
    at = add_scripts(
        pattern, at, sizeof pattern,
        "|[^\\P{sc:%1$.4s} \\x{30fc}]++(?:(?&any)[^\\P{sc:%1$.4s} \\x{30fc}]++)*+(?&any)?+");
    assert(at < sizeof pattern);
    return add_native(splitter, field, pattern, SPLIT_REMOVED, true, error);
}

typedef enum status (*read_stages)(struct splitter *splitter, const struct field *field,
                                   struct error *error);

/* NULL: there is no such pre-tokenizer here. */
static read_stages find_reader(const char *type)
{
    static const struct {
        const char *type;
        read_stages read;
    } known[] = {
        {"Split", read_split},
        {"Digits", read_digits},
        {"Metaspace", read_metaspace},
        {"ByteLevel", read_byte_level},
        {"BertPreTokenizer", read_bert},
        {"Whitespace", read_whitespace},
        {"WhitespaceSplit", read_whitespace_split},
        {"Punctuation", read_punctuation},
        {"CharDelimiterSplit", read_delimiter},
        {"FixedLength", read_fixed_length},
        {"UnicodeScripts", read_scripts},
    };

    for (unsigned i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(type, known[i].type) == 0)
            return known[i].read;
    return NULL;
}

static enum status read_one(void *arg, const struct field *field, const char *type,
                            struct error *error)
{
    read_stages read = find_reader(type);
    return read ? read(arg, field, error) : field_refuse(field, error, type);
}

enum status splitter_init(struct splitter *splitter, const struct field *pre_tokenizer,
                          struct error *error)
{
    *splitter = (struct splitter){0};
    enum status status = STATUS_OK;

    if (!field_is_absent(pre_tokenizer))
        status = field_read_steps(pre_tokenizer, "pretokenizers", read_one, splitter, error);
    if (status != STATUS_OK)
        splitter_finish(splitter);
    return status;
}
