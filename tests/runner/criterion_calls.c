#include "criterion_calls.h"

#include <criterion/alloc.h>
#include <criterion/criterion.h>
#include <criterion/logging.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

struct criterion_options criterion_options;
bool criterion_calls_failed;

int cr_asprintf(char **text_out, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int length = vasprintf(text_out, format, arguments);
    va_end(arguments);
    return length;
}

void cr_asprintf_free(char *text)
{
    free(text);
}

char *cr_translate_assert_msg(int index, ...)
{
    va_list arguments;
    char *text = NULL;
    va_start(arguments, index);
    const char *expression = va_arg(arguments, const char *);
    if (asprintf(&text, "not so: %s", expression) < 0)
        abort();
    va_end(arguments);
    return text;
}

void cr_log(enum criterion_severity severity, const char *format, ...)
{
    (void)severity;
    va_list arguments;
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
}

/* Parameters are made before the fork, so that any memory will do. */
void *cr_malloc(size_t bytes)
{
    return malloc(bytes);
}

void *cr_calloc(size_t n, size_t bytes)
{
    return calloc(n, bytes);
}

void *cr_realloc(void *memory, size_t bytes)
{
    return realloc(memory, bytes);
}

void cr_free(void *memory)
{
    free(memory);
}

void cri_asserts_passed_incr(void)
{
}

void criterion_send_assert(struct criterion_assert_stats *assertion)
{
    if (!assertion->passed)
        fprintf(stderr, "%s:%u: %s\n", assertion->file, assertion->line, assertion->message);
}

void criterion_continue_test(void)
{
    criterion_calls_failed = true;
}

void criterion_abort_test(void)
{
    exit(EXIT_FAILURE); /* and not _exit: the sanitizer has the last word */
}

void criterion_skip_test(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    exit(EXIT_FAILURE); /* a skip is no pass */
}

void criterion_test_die(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    exit(EXIT_FAILURE);
}
