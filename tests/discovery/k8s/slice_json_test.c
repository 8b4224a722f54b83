/* slice_json: answers in the shape of discovery.k8s.io/v1 become addresses; what has another shape is refused by
 * its key. The files of answers/ are written after the schema of 1.34, not recorded. */
#include "base/regular_file.h"
#include "discovery/k8s/api_answer.h"
#include "discovery/k8s/slice_json.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FOLDER KVFERRY_SOURCE_DIR "/tests/discovery/k8s/answers"

static const struct slice_port CONTROL = {.name = "control"};
static struct slice_set *set;
static struct slice_addresses addresses;
static struct slice_page page;
static struct slice_event event;
static struct error error;

static void begin(void)
{
    cr_assert_eq(slice_set_create(&set), STATUS_OK);
}

static void end(void)
{
    slice_set_destroy(set);
}

static void read_page_file(const char *name, struct slice_port port)
{
    char *text;
    size_t bytes;
    cr_assert_eq(regular_file_read_in(FOLDER, name, 1 << 20, &text, &bytes, &error), STATUS_OK);
    cr_assert_eq(slice_json_page(text, bytes, port, set, &page, &error), STATUS_OK, "%s",
                 error.text);
    free(text);
}

static void expect(const char *wanted)
{
    char all[1024] = "";
    slice_set_addresses(set, &addresses);
    for (uint32_t i = 0; i < addresses.n; i++)
        snprintf(all + strlen(all), sizeof all - strlen(all), "%s ", addresses.list[i]);
    cr_assert_str_eq(all, wanted);
}

Test(slice_json, every_endpoint_counts_whatever_its_conditions, .init = begin, .fini = end)
{
    read_page_file("page_1.json", CONTROL);
    cr_assert_str_eq(page.version, "8124");
    cr_assert(*page.more);
    read_page_file("page_2.json", CONTROL);
    cr_assert_str_eq(page.more, "");
    expect("10.244.0.31:50052 10.244.1.17:50052 10.244.2.9:50052 [fd00:10:244:9::5]:50152 ");
    cr_assert_eq(slice_set_n(set), 4);
    cr_assert_eq(slice_set_n_lacking_port(set), 0, "the empty slice lacks nothing");
}

Test(slice_json, a_port_is_a_name_or_a_number, .init = begin, .fini = end)
{
    read_page_file("page_2.json", (struct slice_port){.name = "health"});
    expect("10.244.0.31:50053 10.244.1.17:50053 10.244.2.9:50053 ");
    cr_assert_eq(slice_set_n_lacking_port(set), 1);
    read_page_file("page_2.json", (struct slice_port){.name = "9", .number = 9});
    expect("10.244.0.31:9 10.244.1.17:9 10.244.2.9:9 [fd00:10:244:9::5]:9 ");
    cr_assert_eq(slice_set_n_lacking_port(set), 0);
}

Test(slice_json, an_empty_service_is_an_empty_set, .init = begin, .fini = end)
{
    read_page_file("empty.json", CONTROL);
    expect("");
    cr_assert_str_eq(page.version, "8124");
}

Test(slice_json, events_change_the_set, .init = begin, .fini = end)
{
    static const enum slice_event_kind KINDS[] = {SLICE_EVENT_CHANGE, SLICE_EVENT_CHANGE,
                                                  SLICE_EVENT_CHANGE, SLICE_EVENT_BOOKMARK};
    static const char *const VERSIONS[] = {"8130", "8133", "8135", "8190"};
    char *text;
    size_t bytes;
    read_page_file("page_1.json", CONTROL);
    read_page_file("page_2.json", CONTROL);
    cr_assert_eq(regular_file_read_in(FOLDER, "watch.jsonl", 1 << 20, &text, &bytes, &error),
                 STATUS_OK);
    const char *line = text;
    for (size_t i = 0; i < 4; i++) {
        const char *line_end = strchr(line, '\n');
        cr_assert_eq(
            slice_json_event(line, (size_t)(line_end - line), CONTROL, set, &event, &error),
            STATUS_OK, "%s", error.text);
        cr_assert_eq(event.kind, KINDS[i]);
        cr_assert_str_eq(event.version, VERSIONS[i]);
        line = line_end + 1;
    }
    free(text);
    expect("10.244.1.17:50052 10.244.2.40:50052 10.244.2.9:50052 ");
}

static enum status read_event(const char *text)
{
    memset(&error, 0, sizeof error);
    return slice_json_event(text, strlen(text), CONTROL, set, &event, &error);
}

Test(slice_json, an_error_says_its_code_and_reason, .init = begin, .fini = end)
{
    char *text, reason[200];
    size_t bytes;
    cr_assert_eq(
        regular_file_read_in(FOLDER, "watch_expired.jsonl", 1 << 20, &text, &bytes, &error),
        STATUS_OK);
    cr_assert_eq(slice_json_event(text, bytes, CONTROL, set, &event, &error), STATUS_OK);
    cr_assert_eq(event.kind, SLICE_EVENT_ERROR);
    cr_assert_eq(event.code, 410);
    cr_assert_str_eq(event.reason, "too old resource version: 8124 (9377)");
    free(text);
    cr_assert_eq(read_event("{\"type\":\"ERROR\",\"object\":{\"code\":1e300}}"), STATUS_OK);
    cr_assert_eq(event.code, 0);
    cr_assert_str_eq(event.reason, "no reason given");

    cr_assert_eq(regular_file_read_in(FOLDER, "forbidden.json", 1 << 20, &text, &bytes, &error),
                 STATUS_OK);
    slice_json_reason(text, bytes, reason, sizeof reason);
    cr_assert_eq(strncmp(reason, "endpointslices.discovery.k8s.io is forbidden: User", 50), 0);
    free(text);
    slice_json_reason("<html>", 6, reason, sizeof reason);
    cr_assert_str_eq(reason, "<html>");
    slice_json_reason(NULL, 0, reason, sizeof reason);
    cr_assert_str_eq(reason, "");
}

#define SLICE(endpoints, ports)                                                                    \
    "{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"name\":\"s\",\"resourceVersion\":\"1\"},"     \
    "\"addressType\":\"IPv4\",\"endpoints\":" endpoints ",\"ports\":" ports "}}"
#define PORTS "[{\"name\":\"control\",\"port\":1}]"

Test(slice_json, what_has_another_shape_is_refused_by_its_key, .init = begin, .fini = end)
{
    static const struct {
        const char *text, *sentence;
    } CASES[] = {
        {"", "not JSON"},
        {"[]", "object is no object"},
        {"{\"type\":\"ADDED\",\"object\":[]}", "object is no object"},
        {"{\"type\":\"ADDED\",\"object\":{}}", "resourceVersion is no text"},
        {"{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"resourceVersion\":1}}}",
         "resourceVersion is no text"},
        {"{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"resourceVersion\":\"1\"}}}",
         "metadata.name is no name"},
        {"{\"type\":\"HELLO\",\"object\":{\"metadata\":{\"resourceVersion\":\"1\"}}}",
         "type is no event"},
        {SLICE("{}", PORTS), "endpoints is no list"},
        {SLICE("[{}]", PORTS), "addresses is no list of texts"},
        {SLICE("[{\"addresses\":[]}]", PORTS), "addresses is no list of texts"},
        {SLICE("[{\"addresses\":[7]}]", PORTS), "addresses is no list of texts"},
        {SLICE("[{\"addresses\":[\"10.1.2\"]}]", PORTS), "\"10.1.2\" is not an address of IPv4"},
        {SLICE("[{\"addresses\":[\"fd00::1\"]}]", PORTS), "\"fd00::1\" is not an address of IPv4"},
        {SLICE("[{\"addresses\":[\"1.2.3.4:5\"]}]", PORTS), "is not an address of IPv4"},
        {SLICE("[]", "7"), "ports is no list"},
        {SLICE("[]", "[{\"name\":\"control\",\"port\":\"1\"}]"), "port is no number"},
        {SLICE("[]", "[{\"name\":\"control\",\"port\":0}]"), "port is no number"},
        {SLICE("[]", "[{\"name\":\"control\",\"port\":65536}]"), "port is no number"},
        {SLICE("[]", "[{\"name\":\"control\",\"port\":1.5}]"), "port is no number"},
        {"{\"type\":\"ADDED\",\"type\":\"ADDED\"}", "duplicate"},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        cr_expect_eq(read_event(CASES[i].text), STATUS_CORRUPT, "%s", CASES[i].text);
        cr_expect(strstr(error.text, CASES[i].sentence), "%s: %s", CASES[i].text, error.text);
    }
    cr_assert_eq(slice_set_n(set), 0);
    cr_assert_eq(slice_json_page("{\"kind\":\"PodList\"}", 18, CONTROL, set, &page, &error),
                 STATUS_CORRUPT);
}

Test(slice_json, other_ports_and_names_of_hosts_are_passed_over, .init = begin, .fini = end)
{
#define ONE "[{\"addresses\":[\"10.0.0.1\",\"10.0.0.2\"]}]"
    cr_assert_eq(read_event(SLICE(ONE, "[{\"name\":\"control\",\"protocol\":\"UDP\",\"port\":1}]")),
                 STATUS_OK);
    expect("");
    cr_assert_eq(slice_set_n_lacking_port(set), 1);
    cr_assert_eq(read_event(SLICE(ONE, "[{\"name\":\"control\",\"port\":null}]")), STATUS_OK);
    expect("");
    cr_assert_eq(read_event(SLICE(ONE, PORTS)), STATUS_OK);
    expect("10.0.0.1:1 ");
    cr_assert_eq(read_event("{\"type\":\"MODIFIED\",\"object\":{\"metadata\":{\"name\":\"s\","
                            "\"resourceVersion\":\"2\"},\"addressType\":\"FQDN\",\"endpoints\":"
                            "[{\"addresses\":[\"a.example\"]}],\"ports\":" PORTS "}}"),
                 STATUS_OK);
    expect("");
}

Test(slice_json, depth_and_endpoints_have_bounds, .init = begin, .fini = end)
{
    static char text[100000];
    memset(text, '[', sizeof text);
    cr_assert_eq(slice_json_event(text, sizeof text, CONTROL, set, &event, &error), STATUS_CORRUPT);
    cr_assert(strstr(error.text, "maximum parsing depth"), "%s", error.text);

    size_t n = (size_t)snprintf(
        text, sizeof text, "%s",
        "{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"name\":\"s\","
        "\"resourceVersion\":\"1\"},\"addressType\":\"IPv4\",\"ports\":" PORTS ",\"endpoints\":[");
    for (int i = 0; i <= 1000; i++)
        n += (size_t)snprintf(text + n, sizeof text - n, "%s{\"addresses\":[\"10.0.0.1\"]}",
                              i ? "," : "");
    n += (size_t)snprintf(text + n, sizeof text - n, "]}}");
    cr_assert_eq(slice_json_event(text, n, CONTROL, set, &event, &error), STATUS_UNSUPPORTED);
    cr_assert(strstr(error.text, "more than 1000 endpoints"), "%s", error.text);
}

Test(slice_json, an_answer_keeps_within_its_bytes)
{
    static const char HEAD[] = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    struct api_answer answer;
    const char *line;
    size_t bytes;
    api_answer_init(&answer, 12);
    cr_assert_eq(api_answer_push(&answer, HEAD, sizeof HEAD - 1, &error), STATUS_OK);
    for (int i = 0; i < 100; i++) {
        cr_assert_eq(api_answer_push(&answer, "9\r\n\n1234567\n\r\n1\r\nx\r\n", 20, &error),
                     STATUS_OK, "%s", error.text);
        cr_assert(api_answer_next_line(&answer, &line, &bytes));
        cr_assert_eq(bytes, i == 0 ? 7 : 1, "%zu", bytes);
        if (i > 0) {
            cr_assert(api_answer_next_line(&answer, &line, &bytes));
            cr_assert_eq(memcmp(line, "1234567", 7), 0);
        }
        cr_assert_not(api_answer_next_line(&answer, &line, &bytes));
    }
    cr_assert_eq(api_answer_push(&answer, "c\r\n0123456789ab\r\n", 17, &error), STATUS_UNSUPPORTED);
    cr_assert(strstr(error.text, "more than 12 bytes"), "%s", error.text);
    api_answer_finish(&answer);
}
