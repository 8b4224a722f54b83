#include "tokenizer/files/piece_model.h"

#include "base/base64.h"
#include "tokenizer/files/document.h"
#include "tokenizer/files/scored_merges.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* T5's tokens for gaps, if the folder does not say how many, and the most that it may say. */
enum { GAPS = 100, GAPS_MAX = 1000 };

static bool is_added(enum piece_type type)
{
    return type == PIECE_UNKNOWN || type == PIECE_CONTROL || type == PIECE_OF_USER;
}

static bool has_piece(const struct piece_model *model, uint64_t id)
{
    return id < model->n_pieces;
}

static struct document_token token_of(const struct piece_model *model, uint64_t id)
{
    return (struct document_token){id, model->pieces[id].text, model->pieces[id].n_bytes};
}

static bool has_gaps(const struct piece_model *model)
{
    static const char GAP[] = "<extra_id_";

    for (size_t id = 0; id < model->n_pieces; id++)
        if (model->pieces[id].n_bytes >= sizeof GAP &&
            memcmp(model->pieces[id].text, GAP, sizeof GAP - 1) == 0)
            return true;
    return false;
}

static json_t *text_of(const struct piece_model *model, uint64_t id)
{
    return json_stringn(model->pieces[id].text, model->pieces[id].n_bytes);
}

static bool flag_of(const json_t *config, const char *name, bool otherwise)
{
    const json_t *value = json_object_get(config, name);
    return json_is_boolean(value) ? json_is_true(value) : otherwise;
}

static bool is_class(const json_t *config, const char *part)
{
    const char *name = json_string_value(json_object_get(config, "tokenizer_class"));
    return name && strstr(name, part) != NULL;
}

/* T5's tokens for gaps, which stand behind the pieces, the first one last. A folder may say how many, and a model may have them. */
static void add_gaps(const struct piece_model *model, const json_t *config, json_t *list)
{
    const json_t *told = json_object_get(config, "extra_ids");
    const json_int_t wanted = json_is_integer(told) ? json_integer_value(told) : GAPS;
    const size_t n = wanted > 0 && wanted <= GAPS_MAX ? (size_t)wanted : 0;

    if (!is_class(config, "T5") || has_gaps(model))
        return;
    for (size_t i = 0; i < n; i++) {
        char text[32];
        const int n_bytes = snprintf(text, sizeof text, "<extra_id_%zu>", n - 1 - i);
        const struct document_token token = {model->n_pieces + i, text, (size_t)n_bytes};
        json_array_append_new(list, document_added_token(&token, true));
    }
}

static json_t *added_tokens(const struct piece_model *model, const json_t *config)
{
    json_t *list = json_array();

    for (size_t id = 0; id < model->n_pieces; id++) {
        const struct document_token token = token_of(model, id);
        if (is_added(model->pieces[id].type))
            json_array_append_new(
                list, document_added_token(&token, model->pieces[id].type != PIECE_OF_USER));
    }
    add_gaps(model, config, list);
    return list;
}

static enum status add_charsmap(const struct piece_model *model, json_t *normalizers)
{
    if (model->n_charsmap == 0)
        return STATUS_OK;
    char *text = base64_encode(model->charsmap, model->n_charsmap);
    if (!text)
        return STATUS_NO_MEMORY;
    json_array_append_new(normalizers, json_pack("{s:s, s:b, s:s}", "type", "Precompiled",
                                                 "takes_longest", 1, "precompiled_charsmap", text));
    free(text);
    return STATUS_OK;
}

/* As SentencePiece does it: the charsmap, then spaces at the ends go and several become one, then one comes in front, and all are
 * written as U+2581. */
static json_t *normalizers(const struct piece_model *model, bool prepends)
{
    json_t *list = json_array(), *spaces = document_space_normalizers(prepends);

    if (add_charsmap(model, list) != STATUS_OK) {
        json_decref(list);
        list = NULL;
    }
    if (model->collapses) {
        json_array_append_new(list, json_pack("{s:s, s:b}", "type", "Strip", "only_spaces", 1));
        json_array_append_new(list, json_pack("{s:s, s:{s:s}, s:s}", "type", "Replace", "pattern",
                                              "Regex", " {2,}", "content", " "));
    }
    json_array_extend(list, spaces);
    json_decref(spaces);
    return list ? document_sequence("normalizers", list) : NULL;
}

/* Metaspace puts the space in front of a text alone where the folder says legacy: false, not of what follows a special token. */
static json_t *pre_tokenizer(bool prepends_first)
{
    if (!prepends_first)
        return json_null();
    return json_pack("{s:s, s:s, s:s, s:b}", "type", "Metaspace", "replacement", DOCUMENT_SPACE,
                     "prepend_scheme", "first", "split", 0);
}

static enum status add_merges(const struct piece_model *model, json_t *list)
{
    struct scored_token *tokens = calloc(model->n_pieces, sizeof *tokens);
    size_t n = 0;

    if (!tokens)
        return STATUS_NO_MEMORY;
    for (size_t id = 0; id < model->n_pieces; id++) {
        const struct piece *piece = &model->pieces[id];
        if (piece->type == PIECE_NORMAL || piece->type == PIECE_OF_USER)
            tokens[n++] = (struct scored_token){piece->text, piece->n_bytes, piece->score};
    }
    enum status status = scored_merges_add(tokens, n, list);
    free(tokens);
    return status;
}

static enum status fill_bpe(const struct piece_model *model, json_t *part)
{
    json_t *vocab = json_object(), *merges = json_array();

    json_object_set_new(part, "type", json_string("BPE"));
    json_object_set_new(part, "fuse_unk", json_true());
    json_object_set_new(part, "byte_fallback", json_boolean(model->byte_fallback));
    if (has_piece(model, model->unk))
        json_object_set_new(part, "unk_token", text_of(model, model->unk));
    json_object_set_new(part, "vocab", vocab);
    json_object_set_new(part, "merges", merges);
    for (size_t id = 0; id < model->n_pieces; id++) {
        const struct piece *piece = &model->pieces[id];
        if (json_object_getn(vocab, piece->text, piece->n_bytes))
            return error_set(model->error, STATUS_CORRUPT,
                             "%s has the token \"%.*s\" twice, %zu is the second", model->name,
                             piece->n_bytes > 60 ? 60 : (int)piece->n_bytes, piece->text, id);
        if (json_object_setn_new(vocab, piece->text, piece->n_bytes,
                                 json_integer((json_int_t)id)) != 0)
            return STATUS_NO_MEMORY;
    }
    return add_merges(model, merges);
}

static enum status fill_unigram(const struct piece_model *model, json_t *part)
{
    json_t *vocab = json_array();

    json_object_set_new(part, "type", json_string("Unigram"));
    json_object_set_new(part, "byte_fallback", json_boolean(model->byte_fallback));
    json_object_set_new(part, "bytes_in_text", json_false());
    json_object_set_new(part, "sums_in_float32", json_true());
    if (has_piece(model, model->unk))
        json_object_set_new(part, "unk_id", json_integer((json_int_t)model->unk));
    json_object_set_new(part, "vocab", vocab);
    for (size_t id = 0; id < model->n_pieces; id++)
        if (json_array_append_new(vocab, json_pack("[o, f]", text_of(model, id),
                                                   (double)model->pieces[id].score)) != 0)
            return STATUS_NO_MEMORY;
    return STATUS_OK;
}

/* What stands around a text if the folder does not say: bos before it of BPE, as Llama has it; eos behind it of T5. */
static json_t *post_processor(const struct piece_model *model, const json_t *config)
{
    struct document_token before = {0}, after = {0};

    if (flag_of(config, "add_bos_token", model->type == MODEL_BPE) && has_piece(model, model->bos))
        before = token_of(model, model->bos);
    if (flag_of(config, "add_eos_token", is_class(config, "T5")) && has_piece(model, model->eos))
        after = token_of(model, model->eos);
    return document_template(&before, &after);
}

enum status piece_model_fill(const struct piece_model *model, const json_t *config, json_t *root)
{
    const bool prepends_first = model->prepends && !flag_of(config, "legacy", true);
    json_t *part = json_object();

    json_object_set_new(root, "version", json_string("1.0"));
    json_object_set_new(root, "added_tokens", added_tokens(model, config));
    json_object_set_new(root, "normalizer", normalizers(model, model->prepends && !prepends_first));
    json_object_set_new(root, "pre_tokenizer", pre_tokenizer(prepends_first));
    json_object_set_new(root, "post_processor", post_processor(model, config));
    json_object_set_new(root, "decoder", document_space_decoder(model->prepends));
    json_object_set_new(root, "model", part);
    if (!part || !json_object_get(root, "normalizer"))
        return STATUS_NO_MEMORY;
    return model->type == MODEL_BPE ? fill_bpe(model, part) : fill_unigram(model, part);
}

json_t *piece_model_config(const struct piece_model *model, const json_t *config)
{
    const struct {
        const char *name;
        uint64_t id;
    } names[] = {{"bos_token", model->bos},
                 {"eos_token", model->eos},
                 {"unk_token", model->unk},
                 {"pad_token", model->pad}};
    json_t *made = config ? json_copy((json_t *)(uintptr_t)config) : json_object();

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!json_object_get(config, names[i].name) && has_piece(model, names[i].id) &&
            is_added(model->pieces[names[i].id].type))
            json_object_set_new(made, names[i].name, text_of(model, names[i].id));
    return made;
}
