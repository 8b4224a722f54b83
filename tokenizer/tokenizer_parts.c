/*
 * Each part reads its own field and has its own sentences; this file has their order, and the
 * fields that belong to no part. Fields that no part knows (version) cannot change a result.
 */
#include "tokenizer/tokenizer_parts.h"

#include "tokenizer/files/field.h"

enum status field_refuse_set(const struct field *object, const char *name, struct error *error)
{
    struct field field = field_member(object, name);
    bool is_zero = json_is_number(field.value) && !(json_number_value(field.value) > 0.0);

    if (field_is_blank(&field) || json_is_false(field.value) || is_zero)
        return STATUS_OK;
    return error_set(error, STATUS_UNSUPPORTED, "%s is set, which is not supported", field.path);
}

/* Pieces are bytes where BPE comes right behind ByteLevel and the decoder takes bytes: most files are so. All others
 * have bytes as characters of the byte alphabet, as the files write them. */
static bool is_byte_level(const struct tokenizer *tokenizer, const struct field *model,
                          const struct field *decoder)
{
    return splitter_ends_in_bytes(&tokenizer->splitter) && piece_model_is_bpe(model) &&
           decoder_takes_bytes(decoder);
}

enum status tokenizer_parts_read(struct tokenizer *tokenizer, const struct field *root,
                                 struct error *error)
{
    struct field normalizer = field_member(root, "normalizer");
    struct field pre_tokenizer = field_member(root, "pre_tokenizer");
    struct field post_processor = field_member(root, "post_processor");
    struct field model = field_member(root, "model");
    struct field decoder = field_member(root, "decoder");
    struct field added = field_member(root, "added_tokens");

    TRY(field_need_object(root, error));
    TRY(normalizer_init(&tokenizer->normalizer, &normalizer, error));
    TRY(splitter_init(&tokenizer->splitter, &pre_tokenizer, error));
    bool has_bytes = is_byte_level(tokenizer, &model, &decoder);
    if (has_bytes)
        splitter_leave_bytes(&tokenizer->splitter);
    TRY(piece_model_read(&tokenizer->model, &model, &added, has_bytes, error));
    TRY(token_texts_init(&tokenizer->texts, &decoder, tokenizer->model.vocab, error));
    TRY(added_tokens_init(&tokenizer->added, &added, &tokenizer->normalizer, error));
    return template_init(&tokenizer->template, &post_processor, tokenizer->model.vocab->n_ids,
                         error);
}
