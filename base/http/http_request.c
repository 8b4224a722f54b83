#include "base/http/http_request.h"

#include "base/http/http_host.h"

#include <string.h>
#include <strings.h>

/* Takes the word before `end` from the start of *text; false: there is none. */
static bool take_word(const char **text, size_t *n, char end, const char **word_out,
                      size_t *word_bytes_out)
{
    const char *found = memchr(*text, end, *n);
    if (!found || found == *text)
        return false;
    *word_out = *text;
    *word_bytes_out = (size_t)(found - *text);
    *n -= *word_bytes_out + 1;
    *text = found + 1;
    return true;
}

static bool is_word(const char *word, size_t n, const char *wanted)
{
    return n == strlen(wanted) && memcmp(word, wanted, n) == 0;
}

static bool is_upper_case(const char *word, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (word[i] < 'A' || word[i] > 'Z')
            return false;
    return true;
}

/* ---- Host ---- */

static bool is_host_line(const char *line, size_t n)
{
    return n >= strlen("host:") && strncasecmp(line, "host:", strlen("host:")) == 0;
}

/* lines: those after the request line. Of several Hosts each must be local. */
static bool is_local(const char *lines, size_t n)
{
    while (n > 0) {
        const char *feed = memchr(lines, '\n', n);
        size_t line_bytes = feed ? (size_t)(feed - lines) : n;
        const char *line = lines, *end = lines + line_bytes;
        lines += feed ? line_bytes + 1 : n;
        n -= feed ? line_bytes + 1 : n;
        if (!is_host_line(line, line_bytes))
            continue;
        line += strlen("host:");
        while (line < end && (*line == ' ' || *line == '\t'))
            line++;
        while (line < end && (end[-1] == ' ' || end[-1] == '\t' || end[-1] == '\r'))
            end--;
        if (!http_host_is_local(line, (size_t)(end - line)))
            return false;
    }
    return true;
}

bool http_request_parse(const char *head, size_t n, struct http_request *request_out)
{
    const char *method, *target, *version;
    size_t method_bytes, target_bytes, version_bytes;
    if (!take_word(&head, &n, ' ', &method, &method_bytes) ||
        !is_upper_case(method, method_bytes) ||
        !take_word(&head, &n, ' ', &target, &target_bytes) || *target != '/' ||
        !take_word(&head, &n, '\r', &version, &version_bytes) || n == 0 || *head != '\n' ||
        (!is_word(version, version_bytes, "HTTP/1.1") &&
         !is_word(version, version_bytes, "HTTP/1.0")))
        return false;

    const char *query = memchr(target, '?', target_bytes);
    size_t path_bytes = query ? (size_t)(query - target) : target_bytes;
    struct http_request request = {.method = HTTP_OTHER, .is_local = is_local(head + 1, n - 1)};
    if (is_word(method, method_bytes, "GET"))
        request.method = HTTP_GET;
    else if (is_word(method, method_bytes, "HEAD"))
        request.method = HTTP_HEAD;
    if (path_bytes < sizeof request.path && !memchr(target, '\0', path_bytes))
        memcpy(request.path, target, path_bytes);
    *request_out = request;
    return true;
}
