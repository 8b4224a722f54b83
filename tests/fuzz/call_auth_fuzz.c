/* call_auth - of a caller who knows the key: his text counts once, for the life and within the time that it says,
 * and no other text does, nor another proof than the one that answers him.
 *
 *     input: [flags 1][seconds between the clocks 1, signed] then edits [place 1][xor 1]..., or with IS_RAW
 *            a text
 */
#include "rpc/auth/call_auth.h"

#include <stdlib.h>
#include <string.h>

#define LIFE   0x1234abcd5678ef01u
#define NOW_MS 1700000000000u

enum { TAKES_ANY_LIFE = 1, FOR_ANY_LIFE = 2, FOR_ANOTHER = 4, EDITS_PROOF = 8, IS_RAW = 16 };

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes);

static uint64_t server_ms(void)
{
    return NOW_MS;
}

static void check(bool is_so)
{
    if (!is_so)
        abort();
}

struct bed {
    struct cluster_key *key;
    struct call_auth *auth;
    struct call_terms terms;
    unsigned flags;
    int skew_s;
    const uint8_t *edits;
    size_t n_edits; /* bytes of them */
};

/* A copy of what is sent, as it arrives; the caller frees. */
static char *edit(const struct bed *bed, bool is_meant, const char *sent, size_t *n_out)
{
    size_t n = strlen(sent);
    if (is_meant && bed->flags & IS_RAW) {
        sent = (const char *)bed->edits;
        n = bed->n_edits;
    }
    char *text = malloc(n ? n : 1);
    check(text);
    memcpy(text, sent, n);
    for (size_t i = 0; is_meant && !(bed->flags & IS_RAW) && i + 1 < bed->n_edits; i += 2)
        text[bed->edits[i] % n] ^= (char)bed->edits[i + 1];
    *n_out = n;
    return text;
}

static bool is_same(const char *text, size_t n, const char *sent)
{
    return n == strlen(sent) && memcmp(text, sent, n) == 0;
}

static void check_proof(const struct bed *bed, const struct call_bond *asked,
                        const struct call_bond *answered)
{
    char sent[CALL_TEXT_MAX];
    size_t n;
    uint64_t life;
    call_proof_make(bed->auth, answered, CALL_ANSWER_STREAM, NULL, sent);
    char *text = edit(bed, bed->flags & EDITS_PROOF, sent, &n);
    bool is_proof = call_proof_check(asked, CALL_ANSWER_STREAM, NULL, text, n, &life);
    check(is_proof == is_same(text, n, sent));
    check(!is_proof || life == LIFE);
    free(text);
}

static enum status expected(const struct bed *bed, bool is_untouched)
{
    if (!is_untouched || bed->skew_s > (int)CALL_SKEW_S || bed->skew_s < -(int)CALL_SKEW_S)
        return STATUS_UNAUTHENTICATED;
    bool is_meant = bed->flags & FOR_ANY_LIFE ? bed->flags & TAKES_ANY_LIFE
                                              : !(bed->flags & FOR_ANOTHER);
    return is_meant ? STATUS_OK : STATUS_STALE_PEER;
}

static void call(struct bed *bed)
{
    char sent[CALL_TEXT_MAX];
    struct call_bond asked, answered;
    enum call_refusal refusal;
    struct error error;
    size_t n;
    bool takes_any = bed->flags & TAKES_ANY_LIFE;
    uint64_t at_ms = (uint64_t)((int64_t)NOW_MS + bed->skew_s * 1000);
    check(call_auth_sign(bed->key, &bed->terms, at_ms, &asked, sent) == STATUS_OK);
    char *text = edit(bed, !(bed->flags & EDITS_PROOF), sent, &n);
    enum status status = call_auth_check(bed->auth, bed->terms.method, takes_any, text, n,
                                         &answered, &refusal, &error);
    check(status == expected(bed, is_same(text, n, sent)));
    if (status != STATUS_UNAUTHENTICATED) {
        check_proof(bed, &asked, &answered);
        check(call_auth_check(bed->auth, bed->terms.method, takes_any, text, n, &answered, &refusal,
                              &error) == STATUS_UNAUTHENTICATED);
        check(refusal == CALL_REFUSED_REPLAYED);
    }
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes)
{
    struct key_set keys = {.n = 2, .keys = {{1}, {2}}};
    struct bed bed = {.terms = {.method = "/kvferry.probe.Probe/Echo"}};
    if (n_bytes < 2)
        return 0;
    bed.flags = bytes[0];
    bed.skew_s = (int8_t)bytes[1];
    bed.edits = bytes + 2;
    bed.n_edits = n_bytes - 2;
    bed.terms.callee = bed.flags & FOR_ANY_LIFE  ? CALL_ANY_LIFE
                       : bed.flags & FOR_ANOTHER ? LIFE + 1
                                                 : LIFE;
    call_digest("message", 7, &bed.terms.digest);
    check(cluster_key_create(&keys, &bed.key) == STATUS_OK);
    struct call_auth_options options = {
        .key = bed.key, .life = LIFE, .nonces_max = 4, .now_ms = server_ms};
    check(call_auth_create(&options, &bed.auth) == STATUS_OK);
    call(&bed);
    call_auth_destroy(bed.auth);
    cluster_key_destroy(bed.key);
    return 0;
}
