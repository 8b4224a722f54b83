#include "api/http/http_head.h"

#include "base/utf8.h"

#include <assert.h>
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define LINE_AROUND_TARGET 32 /* a method, blanks and the version */
#define LENGTH_DIGITS_MAX  18 /* of Content-Length: no overflow */

/* Refuses with the code and a sentence. */
#define REFUSE(code, ...) (error_write(error, __VA_ARGS__), (unsigned)(code))

/* ---- where a head ends ---- */

static unsigned scan_line_end(struct http_head_scan *scan, bool *is_whole_out, struct error *error)
{
    scan->has_cr = false;
    bool is_empty = scan->n_line == 0;
    *is_whole_out = is_empty && scan->n_lines > 0;
    scan->n_lines += !is_empty;
    scan->n_line = 0;
    if (scan->n_lines > scan->fields_max + 1)
        return REFUSE(431, "more than %u header fields", scan->fields_max);
    return 0;
}

static unsigned scan_byte(struct http_head_scan *scan, uint8_t byte, bool *is_whole_out,
                          struct error *error)
{
    if (++scan->n_bytes > scan->head_bytes_max)
        return REFUSE(431, "the head of the request is longer than %u bytes", scan->head_bytes_max);
    if (scan->has_cr && byte == '\n')
        return scan_line_end(scan, is_whole_out, error);
    if (scan->has_cr || byte == '\n')
        return REFUSE(400, "line %u of the head does not end in CR LF", scan->n_lines + 1);
    scan->has_cr = byte == '\r';
    if (scan->has_cr)
        return 0;
    if ((byte < ' ' && byte != '\t') || byte == 0x7f)
        return REFUSE(400, "line %u of the head has the control character 0x%02x",
                      scan->n_lines + 1, byte);
    scan->n_line++;
    if (scan->n_lines == 0 && scan->n_line > scan->target_bytes_max + LINE_AROUND_TARGET)
        return REFUSE(414, "the target of the request is longer than %u bytes",
                      scan->target_bytes_max);
    return 0;
}

unsigned http_head_scan(struct http_head_scan *scan, const uint8_t *bytes, size_t n,
                        size_t *n_used_out, bool *is_whole_out, struct error *error)
{
    assert(scan->head_bytes_max > 0);
    unsigned code = 0;
    size_t at = 0;
    *is_whole_out = false;
    while (at < n && code == 0 && !*is_whole_out)
        code = scan_byte(scan, bytes[at++], is_whole_out, error);
    *n_used_out = at;
    return code;
}

/* ---- the request line ---- */

static bool is_token(const char *text)
{
    size_t n = strspn(text, "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyz"
                            "ABCDEFGHIJKLMNOPQRSTUVWXYZ");
    return n > 0 && text[n] == '\0';
}

static unsigned parse_verb(const char *word, struct http_head *head, struct error *error)
{
    static const struct {
        const char *word;
        enum http_verb verb;
    } VERBS[] = {{"GET", HTTP_VERB_GET},     {"HEAD", HTTP_VERB_HEAD},
                 {"POST", HTTP_VERB_POST},   {"OPTIONS", HTTP_VERB_OPTIONS},
                 {"PUT", HTTP_VERB_OTHER},   {"PATCH", HTTP_VERB_OTHER},
                 {"DELETE", HTTP_VERB_OTHER}};
    for (size_t i = 0; i < sizeof VERBS / sizeof *VERBS; i++) {
        if (strcmp(word, VERBS[i].word) == 0) {
            head->verb = VERBS[i].verb;
            return 0;
        }
    }
    if (!is_token(word))
        return REFUSE(400, "\"%.40s\" is no method of HTTP", word);
    return REFUSE(501, "the method \"%.40s\" is not supported", word);
}

static unsigned parse_version(const char *word, struct http_head *head, struct error *error)
{
    if (strncmp(word, "HTTP/", 5) != 0 || !isdigit((unsigned char)word[5]) || word[6] != '.' ||
        !isdigit((unsigned char)word[7]) || word[8] != '\0')
        return REFUSE(400, "the request line does not end in a version of HTTP");
    if (word[5] != '1')
        return REFUSE(505, "\"%s\" is not supported: this port speaks HTTP/1.1", word);
    head->is_http_1_0 = word[7] == '0';
    return 0;
}

static int hex_digit(char digit)
{
    if (digit >= '0' && digit <= '9')
        return digit - '0';
    if (digit >= 'a' && digit <= 'f')
        return digit - 'a' + 10;
    return digit >= 'A' && digit <= 'F' ? digit - 'A' + 10 : -1;
}

/* The character at *at_inout, which moves on; -1: no pair of hexadecimal digits behind %. */
static int decode_one(const char **at_inout)
{
    const char *at = *at_inout;
    *at_inout += 1;
    if (*at != '%')
        return (unsigned char)*at;
    int high = hex_digit(at[1]), low = high < 0 ? -1 : hex_digit(at[2]);
    if (low < 0)
        return -1;
    *at_inout += 2;
    return high * 16 + low;
}

/* In place: what is decoded is never longer. */
static unsigned decode_path(char *path, struct error *error)
{
    char *to = path;
    for (const char *from = path; *from;) {
        const char *start = from;
        int byte = decode_one(&from);
        if (byte < 0)
            return REFUSE(400, "the path has \"%.3s\", which is no percent-encoded byte", start);
        if (byte < ' ' || byte == 0x7f)
            return REFUSE(400, "the path has the control character 0x%02x", (unsigned)byte);
        *to++ = (char)byte;
    }
    *to = '\0';
    size_t n = (size_t)(to - path);
    if (utf8_first_invalid(path, n) != n)
        return REFUSE(400, "the path is no UTF-8");
    return 0;
}

/* "http://host/path" as to a proxy: a server takes it, too (RFC 9112, 3.2.2). NULL: another target. */
static char *after_authority(char *target)
{
    size_t scheme = strncasecmp(target, "http://", 7) == 0    ? 7
                    : strncasecmp(target, "https://", 8) == 0 ? 8
                                                              : 0;
    size_t host = scheme ? strcspn(target + scheme, "/?#") : 0;
    if (host == 0 || target[scheme + host] == '#')
        return NULL;
    char *rest = target + scheme + host;
    if (*rest == '/')
        return rest;
    /* A path of its own: the host before it gives the room. */
    *--rest = '/';
    return rest;
}

static unsigned parse_target(char *target, struct http_head *head, struct error *error)
{
    if (strcmp(target, "*") == 0 && head->verb == HTTP_VERB_OPTIONS) {
        head->path = "*";
        head->query = "";
        return 0;
    }
    char *path = *target == '/' ? target : after_authority(target);
    if (!path || strchr(path, '#'))
        return REFUSE(400, "the target \"%.80s\" is no path", target);
    size_t n = strcspn(path, "?");
    head->query = path[n] ? path + n + 1 : path + n;
    path[n] = '\0';
    head->path = path;
    return decode_path(path, error);
}

static unsigned parse_request_line(char *line, struct http_head *head, struct error *error)
{
    char *target = strchr(line, ' ');
    char *version = target ? strchr(target + 1, ' ') : NULL;
    if (!version || strchr(version + 1, ' ') || strchr(line, '\t'))
        return REFUSE(400, "the request line is not METHOD TARGET VERSION: \"%.80s\"", line);
    *target = *version = '\0';
    unsigned code = parse_version(version + 1, head, error);
    if (code == 0)
        code = parse_verb(line, head, error);
    return code ? code : parse_target(target + 1, head, error);
}

/* ---- header fields ---- */

static unsigned parse_field(char *line, struct http_field *field_out, struct error *error)
{
    if (*line == ' ' || *line == '\t')
        return REFUSE(400, "a header field continues in a second line: \"%.60s\"", line);
    char *colon = strchr(line, ':');
    if (!colon)
        return REFUSE(400, "a header field without a colon: \"%.60s\"", line);
    *colon = '\0';
    if (!is_token(line))
        return REFUSE(400, "\"%.60s\" is no name of a header field", line);
    char *value = colon + 1 + strspn(colon + 1, " \t");
    size_t n = strlen(value);
    while (n > 0 && (value[n - 1] == ' ' || value[n - 1] == '\t'))
        n--;
    value[n] = '\0';
    *field_out = (struct http_field){.name = line, .value = value};
    return 0;
}

static bool has_word(const char *list, const char *word)
{
    size_t n_word = strlen(word);
    while (*list) {
        list += strspn(list, ", \t");
        size_t n = strcspn(list, ", \t");
        if (n == n_word && strncasecmp(list, word, n) == 0)
            return true;
        list += n;
    }
    return false;
}

static unsigned take_length(const char *value, struct http_head *head, struct error *error)
{
    size_t n = strspn(value, "0123456789");
    if (n == 0 || value[n] != '\0')
        return REFUSE(400, "Content-Length \"%.40s\" is no number", value);
    if (n > LENGTH_DIGITS_MAX)
        return REFUSE(413, "Content-Length \"%.40s\" is too long", value);
    if (head->framing == HTTP_LENGTH)
        return REFUSE(400, "more than one Content-Length");
    head->framing = HTTP_LENGTH;
    head->length = strtoull(value, NULL, 10);
    return 0;
}

static unsigned take_coding(const char *value, struct http_head *head, struct error *error)
{
    if (strcasecmp(value, "chunked") != 0)
        return REFUSE(501, "Transfer-Encoding \"%.40s\" is not supported: chunked is", value);
    if (head->framing == HTTP_CHUNKED)
        return REFUSE(400, "more than one Transfer-Encoding");
    if (head->is_http_1_0)
        return REFUSE(400, "Transfer-Encoding in a request of HTTP/1.0");
    head->framing = HTTP_CHUNKED;
    return 0;
}

/* What the server itself goes by. */
static unsigned take_field(const struct http_field *field, struct http_head *head,
                           uint32_t *n_hosts, struct error *error)
{
    enum http_framing before = head->framing;
    unsigned code = 0;
    if (strcasecmp(field->name, "Content-Length") == 0) {
        code = take_length(field->value, head, error);
    } else if (strcasecmp(field->name, "Transfer-Encoding") == 0) {
        code = take_coding(field->value, head, error);
    } else if (strcasecmp(field->name, "Host") == 0) {
        ++*n_hosts;
    } else if (strcasecmp(field->name, "Connection") == 0) {
        head->closes = head->closes || has_word(field->value, "close");
    } else if (strcasecmp(field->name, "Expect") == 0) {
        if (strcasecmp(field->value, "100-continue") != 0)
            return REFUSE(417, "Expect \"%.40s\" is not supported", field->value);
        head->expects_continue = !head->is_http_1_0;
    }
    if (code == 0 && before != HTTP_NO_BODY && head->framing != before)
        return REFUSE(400, "both Content-Length and Transfer-Encoding");
    return code;
}

/* Ends the line at `at` and returns the next one. */
static char *end_line(char *at)
{
    char *end = strstr(at, "\r\n");
    assert(end && "the scan has seen it");
    *end = '\0';
    return end + 2;
}

static uint32_t count_lines(const char *at)
{
    uint32_t n = 0;
    while ((at = strstr(at, "\r\n")) != NULL) {
        at += 2;
        n++;
    }
    return n;
}

static unsigned parse_fields(char *at, struct http_head *head, struct error *error)
{
    uint32_t n_hosts = 0;
    while (*at != '\r') {
        char *line = at;
        at = end_line(line);
        struct http_field *field = &head->fields[head->n_fields++];
        unsigned code = parse_field(line, field, error);
        if (code == 0)
            code = take_field(field, head, &n_hosts, error);
        if (code)
            return code;
    }
    if (n_hosts > 1 || (n_hosts == 0 && !head->is_http_1_0))
        return REFUSE(400, n_hosts ? "more than one Host" : "a request of HTTP/1.1 without Host");
    return 0;
}

unsigned http_head_parse(char *text, size_t n, struct http_head *head_out, struct error *error)
{
    assert(n >= 4 && text[n] == '\0' && strlen(text) == n);
    char *line = text + strspn(text, "\r\n");
    char *fields = end_line(line);
    struct http_head head = {.framing = HTTP_NO_BODY};
    unsigned code = parse_request_line(line, &head, error);
    if (code)
        return code;
    head.closes = head.is_http_1_0;
    head.fields = calloc(count_lines(fields), sizeof *head.fields);
    if (!head.fields)
        return REFUSE(503, "out of memory");
    code = parse_fields(fields, &head, error);
    if (code) {
        http_head_finish(&head);
        return code;
    }
    head.lacks_length = head.framing == HTTP_NO_BODY;
    if (head.framing == HTTP_LENGTH && head.length == 0)
        head.framing = HTTP_NO_BODY;
    *head_out = head;
    return 0;
}

void http_head_finish(struct http_head *head)
{
    free(head->fields);
    head->fields = NULL;
    head->n_fields = 0;
}

const char *http_head_field(const struct http_head *head, const char *name)
{
    for (uint32_t i = 0; i < head->n_fields; i++)
        if (strcasecmp(head->fields[i].name, name) == 0)
            return head->fields[i].value;
    return NULL;
}

/* Whether the part of a query from `at` to end has that key; *value_out: behind its =. */
static bool has_key(const char *at, const char *end, const char *key, const char **value_out)
{
    while (at < end && *at != '=') {
        int byte = *at == '+' ? (at++, ' ') : decode_one(&at);
        if (byte <= 0 || at > end || (unsigned char)*key++ != byte)
            return false;
    }
    *value_out = at < end ? at + 1 : end;
    return *key == '\0';
}

size_t http_head_query(const struct http_head *head, const char *key, char *value_out, size_t n_max)
{
    assert(n_max > 0);
    value_out[0] = '\0';
    for (const char *part = head->query; *part;) {
        const char *end = part + strcspn(part, "&"), *at;
        if (!has_key(part, end, key, &at)) {
            part = *end ? end + 1 : end;
            continue;
        }
        size_t n = 0;
        while (at < end) {
            int byte = *at == '+' ? (at++, ' ') : decode_one(&at);
            if (n + 1 >= n_max || byte <= 0 || at > end) {
                value_out[0] = '\0';
                return 1;
            }
            value_out[n++] = (char)byte;
        }
        value_out[n] = '\0';
        return n + 1;
    }
    return 0;
}
