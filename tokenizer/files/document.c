#include "tokenizer/files/document.h"

json_t *document_added_token(const struct document_token *token, bool is_special)
{
    return json_pack("{s:I, s:o, s:b, s:b, s:b, s:b, s:b}", "id", (json_int_t)token->id, "content",
                     json_stringn(token->text, token->n_bytes), "single_word", 0, "lstrip", 0,
                     "rstrip", 0, "normalized", 0, "special", is_special);
}

json_t *document_space_normalizers(bool prepends)
{
    json_t *list = json_array();

    if (prepends)
        json_array_append_new(
            list, json_pack("{s:s, s:s}", "type", "Prepend", "prepend", DOCUMENT_SPACE));
    json_array_append_new(list, json_pack("{s:s, s:{s:s}, s:s}", "type", "Replace", "pattern",
                                          "String", " ", "content", DOCUMENT_SPACE));
    return list;
}

json_t *document_space_decoder(bool prepends)
{
    json_t *list = json_pack("[{s:s, s:{s:s}, s:s}, {s:s}, {s:s}]", "type", "Replace", "pattern",
                             "String", DOCUMENT_SPACE, "content", " ", "type", "ByteFallback",
                             "type", "Fuse");

    if (prepends)
        json_array_append_new(list, json_pack("{s:s, s:s, s:i, s:i}", "type", "Strip", "content",
                                              " ", "start", 1, "stop", 0));
    return document_sequence("decoders", list);
}

json_t *document_byte_level(bool splits)
{
    return json_pack("{s:s, s:b, s:b, s:b}", "type", "ByteLevel", "add_prefix_space", 0,
                     "trim_offsets", 1, "use_regex", splits);
}

json_t *document_split(const char *pattern)
{
    return json_pack("{s:s, s:{s:s}, s:s, s:b}", "type", "Split", "pattern", "Regex", pattern,
                     "behavior", "Isolated", "invert", 0);
}

json_t *document_sequence(const char *name, json_t *members)
{
    return json_pack("{s:s, s:o}", "type", "Sequence", name, members);
}

static void add_special(const struct document_token *token, json_t *template, json_t *special)
{
    json_t *text = json_stringn(token->text, token->n_bytes);

    json_array_append_new(template,
                          json_pack("{s:{s:O, s:i}}", "SpecialToken", "id", text, "type_id", 0));
    json_object_set_new(
        special, json_string_value(text) ? json_string_value(text) : "",
        json_pack("{s:O, s:[I], s:[O]}", "id", text, "ids", (json_int_t)token->id, "tokens", text));
    json_decref(text);
}

json_t *document_template(const struct document_token *before, const struct document_token *after)
{
    if (!before->text && !after->text)
        return json_null();
    json_t *template = json_array(), *special = json_object();
    if (before->text)
        add_special(before, template, special);
    json_array_append_new(template,
                          json_pack("{s:{s:s, s:i}}", "Sequence", "id", "A", "type_id", 0));
    if (after->text)
        add_special(after, template, special);
    return json_pack("{s:s, s:o, s:[{s:{s:s, s:i}}, {s:{s:s, s:i}}], s:o}", "type",
                     "TemplateProcessing", "single", template, "pair", "Sequence", "id", "A",
                     "type_id", 0, "Sequence", "id", "B", "type_id", 1, "special_tokens", special);
}
