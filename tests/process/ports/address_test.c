/* address: what people write is read as they mean it, or refused with the text. */
#include "process/ports/address.h"

#include <criterion/criterion.h>
#include <string.h>

static const struct {
    const char *text;
    const char *host;
    uint16_t port;
    bool is_loopback;
} GOOD[] = {
    {"127.0.0.1:50051", "127.0.0.1", 50051, true},
    {":9400", "127.0.0.1", 9400, true},
    {"localhost:0", "localhost", 0, true},
    {"[::1]:65535", "::1", 65535, true},
    {"0.0.0.0:1", "0.0.0.0", 1, false},
    {"[::]:1", "::", 1, false},
    {"worker-3.pool:50052", "worker-3.pool", 50052, false},
};

Test(address, reads_what_people_write)
{
    for (size_t i = 0; i < sizeof GOOD / sizeof *GOOD; i++) {
        struct address address;
        cr_assert_eq(address_parse(GOOD[i].text, &address, NULL), STATUS_OK, "%s", GOOD[i].text);
        cr_assert_str_eq(address.host, GOOD[i].host);
        cr_assert_eq(address.port, GOOD[i].port);
        cr_assert_eq(address_is_loopback(&address), GOOD[i].is_loopback, "%s", GOOD[i].text);
    }
}

Test(address, no_host_is_every_interface_to_listen_on)
{
    struct address address;
    cr_assert_eq(address_parse_listen(":50051", &address, NULL), STATUS_OK);
    cr_assert(strcmp(address.host, "::") == 0 || strcmp(address.host, "0.0.0.0") == 0);
    cr_assert_eq(address.port, 50051);
    cr_assert_not(address_is_loopback(&address));
    cr_assert_eq(address_parse_listen("127.0.0.1:1", &address, NULL), STATUS_OK);
    cr_assert(address_is_loopback(&address));
    cr_assert_eq(address_parse_listen("[]:1", &address, NULL), STATUS_INVALID_ARGUMENT);
}

Test(address, refuses_what_is_none)
{
    static const char *const BAD[] = {"",         "127.0.0.1",        "127.0.0.1:", "host:65536",
                                      "host:-1",  "host:99999999999", "::1:80",     "[::1:80",
                                      "host:80x", "host: 80",         "[]:80"};
    for (size_t i = 0; i < sizeof BAD / sizeof *BAD; i++) {
        struct address address;
        struct error error = {0};
        cr_assert_eq(address_parse(BAD[i], &address, &error), STATUS_INVALID_ARGUMENT, "%s",
                     BAD[i]);
        cr_assert_not_null(strstr(error.text, BAD[i]));
    }
}

Test(address, a_url_is_refused_by_what_to_leave_out)
{
    struct address address;
    struct error error = {0};
    cr_assert_eq(address_parse("http://127.0.0.1:50051", &address, &error),
                 STATUS_INVALID_ARGUMENT);
    cr_assert_str_eq(error.text, "address \"http://127.0.0.1:50051\": leave \"http://\" out "
                                 "and give only HOST:PORT");
    cr_assert_eq(address_parse_listen("https://a:1/", &address, &error), STATUS_INVALID_ARGUMENT);
    cr_assert_not_null(strstr(error.text, "other settings turn on TLS"));
    cr_assert_eq(address_parse("unix:///run/kvferry", &address, &error), STATUS_OK);
}

Test(address, formats_so_that_it_reads_again)
{
    for (size_t i = 0; i < sizeof GOOD / sizeof *GOOD; i++) {
        struct address address, again;
        char text[ADDRESS_TEXT_MAX];
        cr_assert_eq(address_parse(GOOD[i].text, &address, NULL), STATUS_OK);
        address_format(&address, text);
        cr_assert_eq(address_parse(text, &again, NULL), STATUS_OK);
        cr_assert_str_eq(again.host, address.host);
        cr_assert_eq(again.port, address.port);
    }
}

Test(address, lists_are_walked)
{
    const char *list = "a:1,b:2, c:3";
    char text[ADDRESS_TEXT_MAX];
    cr_assert(address_list_next(&list, text));
    cr_assert_str_eq(text, "a:1");
    cr_assert(address_list_next(&list, text));
    cr_assert_str_eq(text, "b:2");
    cr_assert(address_list_next(&list, text));
    cr_assert_str_eq(text, "c:3");
    cr_assert_not(address_list_next(&list, text));
    list = "";
    cr_assert_not(address_list_next(&list, text));
}
