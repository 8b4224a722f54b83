#include "tests/cli/support/captured.h"

#include <criterion/criterion.h>
#include <unistd.h>

void captured_begin(struct captured *captured, FILE *stream)
{
    fflush(stream);
    *captured = (struct captured){stream, dup(fileno(stream)), tmpfile()};
    cr_assert(captured->saved >= 0 && captured->file);
    cr_assert_geq(dup2(fileno(captured->file), fileno(stream)), 0);
}

void captured_end(struct captured *captured, char *text_out, size_t bytes)
{
    fflush(captured->stream);
    cr_assert_geq(dup2(captured->saved, fileno(captured->stream)), 0);
    close(captured->saved);
    rewind(captured->file);
    text_out[fread(text_out, 1, bytes - 1, captured->file)] = '\0';
    fclose(captured->file);
}
