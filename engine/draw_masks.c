#include "engine/draw_masks.h"

#include "text/constraint/constraint.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

struct mask_row {
    struct constraint *constraint; /* NULL: only_id alone */
    uint32_t only_id;
    const uint32_t *accepted; /* [n_back] */
    uint32_t n_back;
    uint32_t *mask;
    enum status status;
    struct error error;
};

struct draw_masks {
    struct thread_pool *threads;
    uint32_t rows_max, n_words, n;
    uint32_t *words; /* [rows_max][n_words] */
    struct mask_row *rows;
};

enum status draw_masks_create(uint32_t rows_max, uint32_t vocabulary, struct thread_pool *threads,
                              struct draw_masks **masks_out)
{
    assert(rows_max > 0 && vocabulary > 0);
    struct draw_masks *masks = calloc(1, sizeof *masks);
    if (!masks)
        return STATUS_NO_MEMORY;
    masks->threads = threads;
    masks->rows_max = rows_max;
    masks->n_words = (vocabulary + 31) / 32;
    masks->words = calloc((size_t)rows_max * masks->n_words, sizeof *masks->words);
    masks->rows = calloc(rows_max, sizeof *masks->rows);
    if (!masks->words || !masks->rows) {
        draw_masks_destroy(masks);
        return STATUS_NO_MEMORY;
    }
    *masks_out = masks;
    return STATUS_OK;
}

void draw_masks_destroy(struct draw_masks *masks)
{
    if (!masks)
        return;
    free(masks->words);
    free(masks->rows);
    free(masks);
}

void draw_masks_clear(struct draw_masks *masks)
{
    masks->n = 0;
}

const uint32_t *draw_masks_add(struct draw_masks *masks, struct constraint *constraint,
                               const uint32_t *accepted, uint32_t n_back)
{
    assert(masks->n < masks->rows_max && constraint);
    struct mask_row *row = &masks->rows[masks->n];
    row->constraint = constraint;
    row->accepted = accepted;
    row->n_back = n_back;
    row->mask = masks->words + (size_t)masks->n++ * masks->n_words;
    return row->mask;
}

const uint32_t *draw_masks_add_only(struct draw_masks *masks, uint32_t token_id)
{
    assert(masks->n < masks->rows_max && token_id / 32 < masks->n_words);
    struct mask_row *row = &masks->rows[masks->n];
    *row = (struct mask_row){.only_id = token_id,
                             .mask = masks->words + (size_t)masks->n++ * masks->n_words};
    return row->mask;
}

static enum status make(struct mask_row *row)
{
    if (row->n_back > 0)
        TRY(constraint_rollback(row->constraint, row->n_back, &row->error));
    TRY(constraint_mask(row->constraint, row->mask, &row->error));
    for (uint32_t i = 0; i < row->n_back; i++)
        TRY(constraint_accept(row->constraint, row->accepted[i], &row->error));
    return STATUS_OK;
}

static void make_row(void *arg, uint32_t index)
{
    struct draw_masks *masks = arg;
    struct mask_row *row = &masks->rows[index];
    row->error.text[0] = '\0';
    if (!row->constraint) {
        row->status = STATUS_OK;
        memset(row->mask, 0, masks->n_words * sizeof *row->mask);
        row->mask[row->only_id / 32] = 1u << row->only_id % 32;
        return;
    }
    row->status = make(row);
    if (row->status != STATUS_OK)
        memset(row->mask, 0, masks->n_words * sizeof *row->mask);
}

void draw_masks_make(struct draw_masks *masks)
{
    if (masks->threads && masks->n > 1) {
        thread_pool_run(masks->threads, masks->n, make_row, masks);
        return;
    }
    for (uint32_t i = 0; i < masks->n; i++)
        make_row(masks, i);
}

const char *draw_masks_fault(const struct draw_masks *masks, const uint32_t *mask)
{
    const struct mask_row *row = &masks->rows[(size_t)(mask - masks->words) / masks->n_words];
    assert(row < masks->rows + masks->n && row->mask == mask);
    if (row->status == STATUS_OK)
        return NULL;
    return row->error.text[0] ? row->error.text : status_text(row->status);
}
