#include "gguf/gguf_pieces.h"

#include "base/utf8.h"
#include "tokenizer/files/document.h"
#include "tokenizer/files/piece_model.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TOKENS "tokenizer.ggml.tokens"

/* Tokens for gaps: of T5, and of UMT5. */
enum { GAPS = 100, GAPS_OF_UMT5 = 300 };

#define COUNT(array) (sizeof(array) / sizeof *(array))

bool gguf_pieces_are_in(const struct gguf_file *file)
{
    struct gguf_text model = {NULL, 0};
    struct error ignored = {""};
    return gguf_text(file, "tokenizer.ggml.model", &model, &ignored) == STATUS_OK && model.bytes &&
           gguf_text_is(model, "t5");
}

/* ---- pieces ---- */

/* Arrays with an element for each token. */
struct token_arrays {
    const struct gguf_key *texts, *types, *scores;
};

static enum status find_arrays(const struct gguf_file *file, struct token_arrays *arrays_out,
                               struct error *error)
{
    struct token_arrays arrays;
    TRY(gguf_array(file, TOKENS, &arrays.texts, error));
    TRY(gguf_array(file, "tokenizer.ggml.token_type", &arrays.types, error));
    TRY(gguf_array(file, "tokenizer.ggml.scores", &arrays.scores, error));
    if (!arrays.texts || arrays.texts->kind != GGUF_TEXT || arrays.texts->n == 0)
        return error_set(error, STATUS_CORRUPT, "key " TOKENS " is missing, or no array of texts");
    const struct {
        const char *key;
        const struct gguf_key *found;
    } NUMBERS[] = {{"tokenizer.ggml.token_type", arrays.types},
                   {"tokenizer.ggml.scores", arrays.scores}};
    for (size_t i = 0; i < COUNT(NUMBERS); i++) {
        const struct gguf_key *found = NUMBERS[i].found;
        if (!found || found->kind == GGUF_TEXT || found->n != arrays.texts->n)
            return error_set(error, STATUS_CORRUPT,
                             "key %s is missing, or has not a number for each of %" PRIu64
                             " tokens",
                             NUMBERS[i].key, arrays.texts->n);
    }
    *arrays_out = arrays;
    return STATUS_OK;
}

static enum status read_piece(const struct token_arrays *arrays, uint64_t id, struct gguf_text text,
                              struct piece *piece_out, struct error *error)
{
    const double type = gguf_number_at(arrays->types, id);
    const double score = gguf_number_at(arrays->scores, id);
    if (text.n == 0 || utf8_first_invalid(text.bytes, text.n) != text.n)
        return error_set(error, STATUS_CORRUPT, TOKENS ": token %" PRIu64 " is empty, or not UTF-8",
                         id);
    if (!(type >= PIECE_NORMAL && type <= PIECE_BYTE) || type != floor(type))
        return error_set(error, STATUS_CORRUPT,
                         "tokenizer.ggml.token_type is %g for token %" PRIu64 ", there are 1 to 6",
                         type, id);
    if (!isfinite((float)score))
        return error_set(error, STATUS_CORRUPT,
                         "tokenizer.ggml.scores is %g for token %" PRIu64
                         ", no finite number of 32 bits",
                         score, id);
    *piece_out = (struct piece){text.bytes, text.n, (float)score, (enum piece_type)(int)type};
    return STATUS_OK;
}

/* "[PAD7]" of token 7: it fills the vocabulary up, as no piece of SentencePiece does. */
static bool is_filling(const struct piece *piece, uint64_t id)
{
    char name[32];
    const int n = snprintf(name, sizeof name, "[PAD%" PRIu64 "]", id);
    return piece->type == PIECE_UNUSED && piece->n_bytes == (size_t)n &&
           memcmp(piece->text, name, piece->n_bytes) == 0;
}

/* What a file has for each token: pieces, then filling, then tokens that were added to the model later. */
struct token_list {
    struct piece *pieces; /* [n] */
    uint64_t n, n_pieces, n_filling;
};

static enum status read_pieces(const struct gguf_file *file, struct token_list *list,
                               struct error *error)
{
    struct token_arrays arrays;
    TRY(find_arrays(file, &arrays, error));
    const uint8_t *at = arrays.texts->at;
    list->n = arrays.texts->n;
    list->pieces = calloc(list->n, sizeof *list->pieces);
    if (!list->pieces)
        return STATUS_NO_MEMORY;
    for (uint64_t id = 0; id < list->n; id++)
        TRY(read_piece(&arrays, id, gguf_next_text(&at), &list->pieces[id], error));
    while (list->n_pieces < list->n && !is_filling(&list->pieces[list->n_pieces], list->n_pieces))
        list->n_pieces++;
    uint64_t id = list->n_pieces;
    while (id < list->n && is_filling(&list->pieces[id], id))
        id++;
    list->n_filling = id - list->n_pieces;
    return STATUS_OK;
}

static void take_pieces(const struct token_list *list, struct piece_model *model)
{
    model->pieces = list->pieces;
    model->n_pieces = list->n_pieces;
    for (size_t id = 0; id < model->n_pieces; id++) {
        model->byte_fallback |= model->pieces[id].type == PIECE_BYTE;
        if (model->unk == UINT64_MAX && model->pieces[id].type == PIECE_UNKNOWN)
            model->unk = id;
    }
}

/* A list of tokenizer.json. */
static void add_later_tokens(const struct token_list *list, json_t *added)
{
    for (uint64_t id = list->n_pieces + list->n_filling; id < list->n; id++) {
        const struct piece *piece = &list->pieces[id];
        const struct document_token token = {id, piece->text, piece->n_bytes};
        if (piece->type == PIECE_OF_USER || piece->type == PIECE_CONTROL)
            json_array_append_new(added,
                                  document_added_token(&token, piece->type == PIECE_CONTROL));
    }
}

/* ---- settings ---- */

static enum status read_ids(const struct gguf_file *file, struct piece_model *model)
{
    const struct {
        const char *key;
        uint64_t *id;
    } IDS[] = {
        {"tokenizer.ggml.bos_token_id", &model->bos},
        {"tokenizer.ggml.eos_token_id", &model->eos},
        {"tokenizer.ggml.unknown_token_id", &model->unk},
        {"tokenizer.ggml.padding_token_id", &model->pad},
    };
    for (size_t i = 0; i < COUNT(IDS); i++) {
        if (!gguf_find(file, IDS[i].key))
            continue;
        TRY(gguf_u64(file, IDS[i].key, 0, UINT32_MAX, IDS[i].id, model->error));
        if (*IDS[i].id >= model->n_pieces)
            return error_set(model->error, STATUS_CORRUPT,
                             "key %s is %" PRIu64 ", there are %zu tokens that are used",
                             IDS[i].key, *IDS[i].id, model->n_pieces);
    }
    return STATUS_OK;
}

static enum status require_bool(const struct gguf_file *file, const char *key, bool *value_out,
                                struct error *error)
{
    if (!gguf_find(file, key))
        return error_set(error, STATUS_CORRUPT,
                         "key %s is missing: how texts are normalized is not known", key);
    return gguf_bool(file, key, value_out, error);
}

static enum status read_normalizer(const struct gguf_file *file, struct piece_model *model)
{
    static const char CHARSMAP[] = "tokenizer.ggml.precompiled_charsmap";
    const struct gguf_key *charsmap;
    TRY(require_bool(file, "tokenizer.ggml.add_space_prefix", &model->prepends, model->error));
    TRY(require_bool(file, "tokenizer.ggml.remove_extra_whitespaces", &model->collapses,
                     model->error));
    TRY(gguf_array(file, CHARSMAP, &charsmap, model->error));
    if (!charsmap)
        return STATUS_OK;
    if (charsmap->kind != GGUF_U8 && charsmap->kind != GGUF_I8)
        return error_set(model->error, STATUS_CORRUPT, "key %s is no array of bytes", CHARSMAP);
    model->charsmap = charsmap->at;
    model->n_charsmap = (size_t)charsmap->n;
    return STATUS_OK;
}

/* The names of the tokens for gaps are not in the file. */
static int n_gaps(const struct gguf_file *file, uint64_t n_filling)
{
    const bool is_umt5 = gguf_find_tensor(file, "enc.blk.1.attn_rel_b.weight");
    const int n = is_umt5 ? GAPS_OF_UMT5 : GAPS;
    return n_filling >= (uint64_t)n ? n : 0;
}

/* What a folder's tokenizer_config.json would say. */
static enum status make_settings(const struct gguf_file *file, const struct piece_model *model,
                                 uint64_t n_filling, json_t **settings_out)
{
    bool adds_bos = false, adds_eos = true;
    TRY(gguf_bool(file, "tokenizer.ggml.add_bos_token", &adds_bos, model->error));
    TRY(gguf_bool(file, "tokenizer.ggml.add_eos_token", &adds_eos, model->error));
    if ((adds_bos && model->bos >= model->n_pieces) || (adds_eos && model->eos >= model->n_pieces))
        return error_set(model->error, STATUS_CORRUPT,
                         "key tokenizer.ggml.%s_token_id is missing, though each text gets it",
                         adds_bos && model->bos >= model->n_pieces ? "bos" : "eos");
    *settings_out = json_pack("{s:s, s:b, s:b, s:i}", "tokenizer_class", "T5Tokenizer",
                              "add_bos_token", adds_bos, "add_eos_token", adds_eos, "extra_ids",
                              n_gaps(file, n_filling));
    return *settings_out ? STATUS_OK : STATUS_NO_MEMORY;
}

static enum status read_all(const struct gguf_file *file, struct token_list *list,
                            struct piece_model *model, json_t **settings_out)
{
    TRY(read_pieces(file, list, model->error));
    take_pieces(list, model);
    TRY(read_ids(file, model));
    TRY(read_normalizer(file, model));
    return make_settings(file, model, list->n_filling, settings_out);
}

/* One of the two documents: piece_model_fill of a whole vocabulary takes long. */
static enum status make(const struct gguf_file *file, bool is_config, json_t **root_out,
                        struct error *error)
{
    struct token_list list = {0};
    struct piece_model model = {.name = TOKENS,
                                .error = error,
                                .type = MODEL_UNIGRAM,
                                .escapes = true,
                                .bos = UINT64_MAX,
                                .eos = 1,
                                .unk = UINT64_MAX};
    json_t *settings = NULL, *root = NULL;
    enum status status = read_all(file, &list, &model, &settings);
    if (status == STATUS_OK) {
        root = is_config ? piece_model_config(&model, settings) : json_object();
        status = root ? STATUS_OK : STATUS_NO_MEMORY;
    }
    if (status == STATUS_OK && !is_config)
        status = piece_model_fill(&model, settings, root);
    if (status == STATUS_OK) {
        if (!is_config)
            add_later_tokens(&list, json_object_get(root, "added_tokens"));
        *root_out = json_incref(root);
    }
    json_decref(settings);
    json_decref(root);
    free(list.pieces);
    return status;
}

enum status gguf_pieces_make(const struct gguf_file *file, json_t **root_out, struct error *error)
{
    return make(file, false, root_out, error);
}

enum status gguf_pieces_config_make(const struct gguf_file *file, json_t **root_out,
                                    struct error *error)
{
    return make(file, true, root_out, error);
}
