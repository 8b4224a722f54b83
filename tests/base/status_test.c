/* status: one table gives name, text, reason and gRPC code, and errors are one printable line. */

#include "base/status.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <signal.h>
#include <string.h>

static const enum status ALL[] = {
#define X(name, grpc, reason, text) STATUS_##name,
    STATUS_TABLE(X)
#undef X
};
enum { N_ALL = sizeof ALL / sizeof *ALL };

Test(status, every_reason_leads_back_to_its_row)
{
    for (int i = 0; i < N_ALL; i++)
        cr_expect_eq(status_from_reason(status_reason(ALL[i])), ALL[i], "%s", status_name(ALL[i]));
}

Test(status, names_reasons_and_texts_are_unique)
{
    for (int i = 0; i < N_ALL; i++) {
        for (int k = 0; k < i; k++) {
            cr_expect_str_neq(status_name(ALL[i]), status_name(ALL[k]));
            cr_expect_str_neq(status_reason(ALL[i]), status_reason(ALL[k]));
            cr_expect_str_neq(status_text(ALL[i]), status_text(ALL[k]));
        }
    }
}

Test(status, only_ok_maps_to_the_ok_code)
{
    for (int i = 0; i < N_ALL; i++) {
        int code = status_grpc_code(ALL[i]);
        cr_expect(code >= 0 && code <= 16, "%s", status_name(ALL[i]));
        cr_expect_eq(code == 0, ALL[i] == STATUS_OK, "%s", status_name(ALL[i]));
    }
    cr_expect_eq(status_grpc_code(STATUS_NO_BLOCKS), 8);
    cr_expect_str_eq(status_name(STATUS_NO_BLOCKS), "NO_BLOCKS");
    cr_expect_str_eq(status_reason(STATUS_NO_BLOCKS), "KV_FULL");
}

Test(status, an_unknown_reason_is_a_bug)
{
    cr_expect_eq(status_from_reason("NO_SUCH_REASON"), STATUS_BUG);
}

Test(status, a_foreign_number_asserts, .signal = SIGABRT)
{
    status_name((enum status)N_ALL);
}

Test(status, errno_is_translated_once)
{
    cr_expect_eq(errno_status(0), STATUS_OK);
    cr_expect_eq(errno_status(ENOENT), STATUS_NOT_FOUND);
    cr_expect_eq(errno_status(ENOMEM), STATUS_NO_MEMORY);
    cr_expect_eq(errno_status(ECONNRESET), STATUS_PEER_LOST);
    cr_expect_eq(errno_status(EIO), STATUS_IO_FAILED);
    cr_expect_eq(errno_status(12345), STATUS_IO_FAILED);
}

static enum status refuse(struct error *error, const char *text)
{
    return error_set(error, STATUS_CORRUPT, "field \"%s\"", text);
}

Test(error, the_sentence_is_bounded_and_printable)
{
    struct error error;
    char longer[1000];

    cr_expect_eq(refuse(&error, "a\n\x1b[31mb\x7f"), STATUS_CORRUPT);
    cr_expect_str_eq(error.text, "field \"a??[31mb?\"");

    memset(longer, 'x', sizeof longer - 1);
    longer[sizeof longer - 1] = '\0';
    cr_expect_eq(refuse(&error, longer), STATUS_CORRUPT);
    cr_expect_eq(strlen(error.text), sizeof error.text - 1);
}

Test(error, nobody_has_to_listen_and_errno_stays)
{
    errno = ENOENT;
    cr_expect_eq(refuse(NULL, "x"), STATUS_CORRUPT);
    cr_expect_eq(errno, ENOENT);
}
