#include "engine/encoder_line.h"

#include <string.h>

uint32_t encoder_line_reply_at(const struct encoder_line *line, uint32_t n_text)
{
    if (line->text_max == 0)
        return 0;
    return (n_text + line->block_tokens - 1) / line->block_tokens * line->block_tokens;
}

uint32_t encoder_line_tokens(const struct encoder_line *line, uint32_t n_text)
{
    return line->text_max == 0 ? n_text : encoder_line_reply_at(line, n_text) + 1;
}

uint32_t encoder_line_longest(const struct encoder_line *line)
{
    return encoder_line_tokens(line, line->text_max);
}

uint32_t encoder_line_context(const struct encoder_line *line)
{
    return encoder_line_longest(line) + line->reply_max;
}

void encoder_line_write(const struct encoder_line *line, const uint32_t *text, uint32_t n_text,
                        uint32_t *tokens_out)
{
    const uint32_t n = encoder_line_tokens(line, n_text);
    memcpy(tokens_out, text, n_text * sizeof *text);
    for (uint32_t i = n_text; i < n; i++)
        tokens_out[i] = line->start_id;
}
