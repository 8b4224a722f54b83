/* trace_context: a traceparent is read as W3C Trace Context wants it, and refused whole otherwise. */

#include "base/trace_context.h"

#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <stdlib.h>
#include <string.h>

#define TRACE  "4bf92f3577b34da6a3ce929d0e0e4736"
#define SPAN   "00f067aa0ba902b7"
#define ZERO16 "00000000000000000000000000000000"

struct row {
    char text[112];
    bool is_taken;
    bool is_sampled;
};

ParameterizedTestParameters(trace_context, a_traceparent_is_taken_or_refused_whole)
{
    static struct row rows[] = {
        {"00-" TRACE "-" SPAN "-01", true, true},
        {"00-" TRACE "-" SPAN "-00", true, false},
        {"00-" TRACE "-" SPAN "-03", true, true}, /* other flags are not ours */
        {"00-" TRACE "-" SPAN "-fe", true, false},
        {"cc-" TRACE "-" SPAN "-01", true, true}, /* a later version */
        {"cc-" TRACE "-" SPAN "-01-what-the-future-will-be-like", true, true},
        {"01-" TRACE "-" SPAN "-01-", true, true},
        {"cc-" TRACE "-" SPAN "-01.what", false, false},
        {"cc-" TRACE "-" SPAN "-011", false, false},
        {"00-" TRACE "-" SPAN "-01-", false, false}, /* this version has no more */
        {"00-" TRACE "-" SPAN "-01-more", false, false},
        {"00-" TRACE "-" SPAN "-01 ", false, false},
        {" 00-" TRACE "-" SPAN "-01", false, false},
        {"ff-" TRACE "-" SPAN "-01", false, false}, /* no version at all */
        {"0-" TRACE "-" SPAN "-01", false, false},
        {".0-" TRACE "-" SPAN "-01", false, false},
        {"0A-" TRACE "-" SPAN "-01", false, false},
        {"00-" ZERO16 "-" SPAN "-01", false, false},
        {"00-" TRACE "-0000000000000000-01", false, false},
        {"00-4BF92F3577B34DA6A3CE929D0E0E4736-" SPAN "-01", false, false},
        {"00-" TRACE "-00F067AA0BA902B7-01", false, false},
        {"00-4bf92f3577b34da6a3ce929d0e0e473g-" SPAN "-01", false, false},
        {"00-" TRACE "-00f067aa0ba902bx-01", false, false},
        {"00-" TRACE "-" SPAN "-0x", false, false},
        {"00-" TRACE "-" SPAN "-1", false, false},
        {"00-" TRACE "-" SPAN "-", false, false},
        {"00-" TRACE "-" SPAN, false, false},
        {"00_" TRACE "-" SPAN "-01", false, false},
        {"00-" TRACE "_" SPAN "-01", false, false},
        {"00-" TRACE "-" SPAN "_01", false, false},
        {"00-" TRACE SPAN "--01", false, false},
        {"00-4bf92f3577b34da6a3ce929d0e0e473-" SPAN "-01-", false, false},
        {"00-4bf92f3577b34da6a3ce929d0e0e47367-" SPAN "-1", false, false},
        {"", false, false},
        {"00", false, false},
    };
    return cr_make_param_array(struct row, rows, sizeof rows / sizeof *rows);
}

ParameterizedTest(struct row *row, trace_context, a_traceparent_is_taken_or_refused_whole)
{
    struct trace_context context, before;
    memset(&context, 0x5a, sizeof context);
    context.is_sampled = false;
    before = context;
    /* A copy of the exact size: a sanitizer sees a read behind it. */
    size_t bytes = strlen(row->text);
    char *text = malloc(bytes ? bytes : 1);
    memcpy(text, row->text, bytes);
    bool is_taken = traceparent_parse(text, bytes, &context);
    free(text);
    cr_assert_eq(is_taken, row->is_taken, "%s", row->text);
    if (!is_taken) {
        cr_expect_arr_eq((char *)&context, (char *)&before, sizeof context);
        return;
    }
    cr_expect_eq(context.is_sampled, row->is_sampled);
    cr_expect(trace_context_is_some(&context));
    char id[TRACE_ID_TEXT];
    trace_id_format(&context, id);
    cr_expect_str_eq(id, TRACE);
}

Test(trace_context, what_is_written_is_version_00_and_is_read_back)
{
    struct trace_context context, again;
    char text[TRACEPARENT_BYTES + 1];
    cr_assert(traceparent_parse("cc-" TRACE "-" SPAN "-ff-x", 57, &context));
    traceparent_format(&context, text);
    cr_expect_str_eq(text, "00-" TRACE "-" SPAN "-01");
    cr_assert(traceparent_parse(text, TRACEPARENT_BYTES, &again));
    cr_expect_arr_eq((char *)again.trace_id, (char *)context.trace_id, TRACE_ID_BYTES);
    cr_expect_arr_eq((char *)again.span_id, (char *)context.span_id, SPAN_ID_BYTES);
    context.is_sampled = false;
    traceparent_format(&context, text);
    cr_expect_str_eq(text, "00-" TRACE "-" SPAN "-00");
}

Test(trace_context, one_of_zeros_and_none_are_none)
{
    static const struct trace_context none;
    cr_expect_not(trace_context_is_some(&none));
    cr_expect_not(trace_context_is_some(NULL));
}
