#include "kvcache/numerics.h"

#include <assert.h>
#include <string.h>

/* Workers without an id computed on a CPU, with float32 activations, and version 1. */
#define OLDEST_BEGIN "cpu-f32-"
#define OLDEST_END   "-1"

static bool is_id(const char *text, size_t n)
{
    static const char ALPHABET[] = "abcdefghijklmnopqrstuvwxyz0123456789-_.";
    return n > 0 && n < NUMERICS_ID_MAX && strspn(text, ALPHABET) >= n;
}

bool numerics_is_id(const char *text)
{
    return is_id(text, strlen(text));
}

static bool is_word(const char *allow)
{
    return strcmp(allow, "equal") == 0 || strcmp(allow, "any") == 0;
}

enum status numerics_allow_check(const char *allow, struct error *error)
{
    if (is_word(allow))
        return STATUS_OK;
    if (strlen(allow) >= NUMERICS_ALLOW_MAX)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "allow_numerics has %zu bytes; at most %d are taken", strlen(allow),
                         NUMERICS_ALLOW_MAX - 1);
    for (const char *at = allow;; at++) {
        size_t n = strcspn(at, ",");
        if (!is_id(at, n))
            return error_set(
                error, STATUS_INVALID_ARGUMENT,
                "allow_numerics has \"%.*s\"; it must be equal, any, or ids as `kvferry "
                "version` prints one, with commas between them",
                n < NUMERICS_ID_MAX ? (int)n : NUMERICS_ID_MAX, at);
        at += n;
        if (!*at)
            return STATUS_OK;
    }
}

static bool is_listed(const char *id, const char *allow)
{
    size_t n_id = strlen(id);
    for (const char *at = allow; *at;) {
        size_t n = strcspn(at, ",");
        if (n == n_id && memcmp(at, id, n) == 0)
            return true;
        at += n + (at[n] == ',');
    }
    return false;
}

static bool could_be_of_before(const char *id)
{
    size_t n = strlen(id), n_end = strlen(OLDEST_END);
    return strncmp(id, OLDEST_BEGIN, strlen(OLDEST_BEGIN)) == 0 && n > n_end &&
           strcmp(id + n - n_end, OLDEST_END) == 0;
}

bool numerics_is_exact(const char *id)
{
    return !strstr(id, "-cublaslt-");
}

enum numerics_fit numerics_fit(const char *ours, const char *theirs, const char *allow)
{
    assert(ours && theirs && allow);
    assert((!*ours || numerics_is_id(ours)) && "who reads one from a wire has judged it");
    if (*ours && strcmp(ours, theirs) == 0)
        return NUMERICS_EQUAL;
    if (!*ours || strcmp(allow, "any") == 0)
        return NUMERICS_OTHER;
    bool is_taken = *theirs ? is_listed(theirs, allow) : could_be_of_before(ours);
    return is_taken ? NUMERICS_OTHER : NUMERICS_REFUSED;
}
