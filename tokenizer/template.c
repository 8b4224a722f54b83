/*
 * A template is stored as its result for one text: ids before and ids after. Several in a Sequence
 * wrap each other, the later ones outside.
 */
#include "tokenizer/template.h"

#include "tokenizer/files/field.h"

#include <assert.h>
#include <string.h>

static enum status side_add(struct template_side *side, uint32_t id, const char *where,
                            struct error *error)
{
    if (side->n_ids == TEMPLATE_IDS_MAX)
        return error_set(error, STATUS_UNSUPPORTED,
                         "%s adds more than %d tokens on one side, which is not supported", where,
                         TEMPLATE_IDS_MAX);
    side->ids[side->n_ids++] = id;
    return STATUS_OK;
}

static enum status check_id(const struct field *field, uint32_t id, uint32_t n_ids,
                            struct error *error)
{
    if (id < n_ids)
        return STATUS_OK;
    return error_set(error, STATUS_CORRUPT, "%s is %u, but ids go up to %u", field->path, id,
                     n_ids - 1);
}

/* The ids of a special token, which the template names. */
static enum status read_special(const struct field *special, const struct field *known,
                                uint32_t n_ids, struct error *error, struct template_side *side)
{
    struct field name_field = field_member(special, "id");
    const char *name;

    TRY(field_text(&name_field, error, &name, NULL));
    struct field token = field_member(known, name);
    struct field ids = field_member(&token, "ids");
    TRY(field_need_array(&ids, error));
    for (size_t i = 0; i < field_length(&ids); i++) {
        struct field id_field = field_element(&ids, i);
        uint32_t id;
        TRY(field_id(&id_field, error, &id));
        TRY(check_id(&id_field, id, n_ids, error));
        TRY(side_add(side, id, special->path, error));
    }
    return STATUS_OK;
}

/* One step of a template, the ids before and after the text of its own. */
static enum status read_steps(const struct field *processor, uint32_t n_ids, struct error *error,
                              struct template *step)
{
    struct field single = field_member(processor, "single");
    struct field known = field_member(processor, "special_tokens");
    bool has_text = false;

    TRY(field_need_array(&single, error));
    TRY(field_need_object(&known, error));
    for (size_t i = 0; i < field_length(&single); i++) {
        struct field piece = field_element(&single, i);
        struct field special = field_member(&piece, "SpecialToken");
        struct field sequence = field_member(&piece, "Sequence");
        if (!field_is_absent(&special)) {
            TRY(read_special(&special, &known, n_ids, error,
                             has_text ? &step->after : &step->before));
            continue;
        }
        struct field which = field_member(&sequence, "id");
        const char *name;
        TRY(field_text(&which, error, &name, NULL));
        if (strcmp(name, "A") != 0)
            return field_refuse(&which, error, name);
        if (has_text)
            return error_set(error, STATUS_UNSUPPORTED, "%s has the text twice", single.path);
        has_text = true;
    }
    if (!has_text)
        return error_set(error, STATUS_CORRUPT, "%s has no Sequence A", single.path);
    return STATUS_OK;
}

/* BertProcessing and RobertaProcessing: {"sep": [text, id], "cls": [text, id]}, the one behind and the other before. */
static enum status read_frame(const struct field *processor, uint32_t n_ids, struct error *error,
                              struct template *step)
{
    static const char *const names[] = {"cls", "sep"};
    struct template_side *const sides[] = {&step->before, &step->after};

    for (unsigned i = 0; i < 2; i++) {
        struct field pair = field_member(processor, names[i]);
        struct field id_field = field_element(&pair, 1);
        uint32_t id;
        TRY(field_need_array(&pair, error));
        TRY(field_id(&id_field, error, &id));
        TRY(check_id(&id_field, id, n_ids, error));
        TRY(side_add(sides[i], id, pair.path, error));
    }
    return STATUS_OK;
}

/* What comes later goes around what is there. */
static enum status wrap(struct template *template, const struct template *step, const char *where,
                        struct error *error)
{
    struct template_side before = step->before;
    assert(template->after.n_ids <= TEMPLATE_IDS_MAX);

    for (uint32_t i = 0; i < template->before.n_ids; i++)
        TRY(side_add(&before, template->before.ids[i], where, error));
    for (uint32_t i = 0; i < step->after.n_ids; i++)
        TRY(side_add(&template->after, step->after.ids[i], where, error));
    template->before = before;
    return STATUS_OK;
}

struct reading {
    struct template *template;
    uint32_t n_ids;
};

static enum status read_one(void *arg, const struct field *field, const char *type,
                            struct error *error)
{
    const struct reading *reading = arg;
    const bool is_frame = strcmp(type, "BertProcessing") == 0 ||
                          strcmp(type, "RobertaProcessing") == 0;
    struct template step = {0};

    if (strcmp(type, "ByteLevel") == 0) /* moves offsets, not ids */
        return STATUS_OK;
    if (!is_frame && strcmp(type, "TemplateProcessing") != 0)
        return field_refuse(field, error, type);
    TRY(is_frame ? read_frame(field, reading->n_ids, error, &step)
                 : read_steps(field, reading->n_ids, error, &step));
    return wrap(reading->template, &step, field->path, error);
}

enum status template_init(struct template *template, const struct field *post_processor,
                          uint32_t n_ids, struct error *error)
{
    struct reading reading = {template, n_ids};

    *template = (struct template){0};
    return field_is_absent(post_processor)
               ? STATUS_OK
               : field_read_steps(post_processor, "processors", read_one, &reading, error);
}

bool template_has(const struct template_side *side, uint32_t id)
{
    for (uint32_t i = 0; i < side->n_ids; i++)
        if (side->ids[i] == id)
            return true;
    return false;
}
