#include "tokenizer/decoder/text_steps.h"

#include "base/utf8.h"

#include <assert.h>
#include <string.h>

/* Where characters go behind the last step. */
struct passing {
    const struct text_steps *steps;
    struct text_run *run;
    char *text_out;
    size_t n_text;
};

static bool is_text_of(const struct text_step *step, const char *bytes, size_t n_bytes)
{
    return n_bytes == step->n_bytes && memcmp(bytes, step->bytes, n_bytes) == 0;
}

static void pass(struct passing *passing, unsigned at, const char *character, size_t n_bytes);

static void pass_all(struct passing *passing, unsigned at, const char *text, size_t n_bytes)
{
    uint32_t codepoint;

    for (size_t i = 0, length; i < n_bytes; i += length) {
        length = utf8_read(text + i, &codepoint);
        pass(passing, at, text + i, length);
    }
}

/* What is held is always the beginning of the step's text. */
static void replace(struct passing *passing, unsigned at, const char *character, size_t n_bytes)
{
    const struct text_step *step = &passing->steps->steps[at];
    struct text_run_step *run = &passing->run->steps[at];

    assert(run->n_held + n_bytes <= sizeof run->held);
    memcpy(run->held + run->n_held, character, n_bytes);
    run->n_held = (uint8_t)(run->n_held + n_bytes);
    if (is_text_of(step, run->held, run->n_held)) {
        run->n_held = 0;
        pass_all(passing, at + 1, step->content, step->n_content);
        return;
    }
    while (run->n_held > 0 &&
           (run->n_held > step->n_bytes || memcmp(run->held, step->bytes, run->n_held) != 0)) {
        char first[4];
        uint32_t codepoint;
        const size_t length = utf8_read(run->held, &codepoint);
        memcpy(first, run->held, length);
        run->n_held = (uint8_t)(run->n_held - length);
        memmove(run->held, run->held + length, run->n_held);
        pass(passing, at + 1, first, length);
    }
}

static void strip(struct passing *passing, unsigned at, const char *character, size_t n_bytes)
{
    const struct text_step *step = &passing->steps->steps[at];
    struct text_run_step *run = &passing->run->steps[at];
    const bool is_its = is_text_of(step, character, n_bytes);

    if (!run->has_begun && is_its && run->n_left_out < step->start_max) {
        run->n_left_out++;
        return;
    }
    run->has_begun = true;
    if (is_its && run->n_held < step->stop_max) {
        run->n_held++;
        return;
    }
    for (; !is_its && run->n_held > 0; run->n_held--)
        pass(passing, at + 1, step->bytes, step->n_bytes);
    pass(passing, at + 1, character, n_bytes);
}

static void pass(struct passing *passing, unsigned at, const char *character, size_t n_bytes)
{
    if (at == passing->steps->n) {
        memcpy(passing->text_out + passing->n_text, character, n_bytes);
        passing->n_text += n_bytes;
        return;
    }
    if (passing->steps->steps[at].kind == TEXT_STEP_REPLACE)
        replace(passing, at, character, n_bytes);
    else
        strip(passing, at, character, n_bytes);
}

bool text_steps_are_over(const struct text_steps *steps, const struct text_run *run)
{
    for (unsigned i = 0; i < steps->n; i++)
        if (steps->steps[i].kind != TEXT_STEP_STRIP || steps->steps[i].stop_max > 0 ||
            !run->steps[i].has_begun)
            return false;
    return true;
}

size_t text_steps_push(const struct text_steps *steps, struct text_run *run, const char *text,
                       size_t n_bytes, char *text_out)
{
    struct passing passing = {steps, run, text_out, 0};

    pass_all(&passing, 0, text, n_bytes);
    assert(passing.n_text <= n_bytes + TEXT_STEPS_HELD_MAX);
    return passing.n_text;
}

size_t text_steps_finish(const struct text_steps *steps, struct text_run *run, char *text_out)
{
    struct passing passing = {steps, run, text_out, 0};

    for (unsigned i = 0; i < steps->n; i++) {
        struct text_run_step *step = &run->steps[i];
        if (steps->steps[i].kind == TEXT_STEP_REPLACE && step->n_held > 0)
            pass_all(&passing, i + 1, step->held, step->n_held);
    }
    assert(passing.n_text <= TEXT_STEPS_HELD_MAX);
    *run = (struct text_run){0};
    return passing.n_text;
}
