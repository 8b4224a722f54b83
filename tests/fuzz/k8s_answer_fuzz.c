/* k8s_answer - any bytes from an API server, cut anywhere, are refused, or give a set within its bounds whose addresses are
 * sorted, each once. The first byte says what was asked for and how the others are cut. */
#include "discovery/k8s/api_answer.h"
#include "discovery/k8s/slice_json.h"

#include <stdlib.h>
#include <string.h>

#define BYTES_MAX 65536u

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes);

static void check(bool is_so)
{
    if (!is_so)
        abort();
}

static void check_set(const struct slice_set *set)
{
    static struct slice_addresses addresses;
    slice_set_addresses(set, &addresses);
    check(slice_set_n(set) <= SLICE_SET_SLICES_MAX && addresses.n <= SLICE_SET_ADDRESSES_MAX);
    for (uint32_t i = 0; i < addresses.n; i++) {
        check(memchr(addresses.text[i], '\0', SLICE_ADDRESS_TEXT) != NULL);
        check(addresses.list[i] == addresses.text[i]);
        check(i == 0 || strcmp(addresses.list[i - 1], addresses.list[i]) < 0);
    }
}

static bool take_lines(struct api_answer *answer, struct slice_port port, struct slice_set *set)
{
    const char *line;
    size_t bytes;
    struct error error;
    while (api_answer_next_line(answer, &line, &bytes)) {
        struct slice_event event;
        check(bytes > 0 && bytes < BYTES_MAX && !memchr(line, '\n', bytes));
        if (slice_json_event(line, bytes, port, set, &event, &error) != STATUS_OK)
            return false;
        check(event.kind == SLICE_EVENT_ERROR ? event.code <= 999 : event.version[0] != '\0');
    }
    return true;
}

static void end_page(const struct api_answer *answer, struct slice_port port, struct slice_set *set)
{
    struct slice_page page;
    struct error error;
    char reason[64];
    slice_json_reason(answer->text, answer->n, reason, sizeof reason);
    check(memchr(reason, '\0', sizeof reason) != NULL);
    if (slice_json_page(answer->text, answer->n, port, set, &page, &error) == STATUS_OK)
        check(page.version[0] != '\0' && memchr(page.more, '\0', sizeof page.more));
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes)
{
    struct api_answer answer;
    struct slice_set *set;
    struct error error;
    if (n_bytes == 0 || slice_set_create(&set) != STATUS_OK)
        return 0;
    bool is_watch = bytes[0] & 1;
    struct slice_port port = {.name = "control", .number = bytes[0] & 2 ? 7 : 0};
    size_t piece = 1 + (size_t)(bytes[0] >> 2) * 16;
    bool is_good = true;
    api_answer_init(&answer, BYTES_MAX);
    for (size_t at = 1; at < n_bytes && is_good; at += piece) {
        size_t n = n_bytes - at < piece ? n_bytes - at : piece;
        char *copy = malloc(n); /* so that the sanitizer sees its end */
        if (!copy)
            break;
        memcpy(copy, bytes + at, n);
        is_good = api_answer_push(&answer, copy, n, &error) == STATUS_OK &&
                  (!is_watch || take_lines(&answer, port, set));
        free(copy);
        check(answer.n <= BYTES_MAX);
    }
    if (is_good && !is_watch && api_answer_is_done(&answer))
        end_page(&answer, port, set);
    check_set(set);
    api_answer_finish(&answer);
    slice_set_destroy(set);
    return 0;
}
