#include "rpc/auth/call_auth.h"

#include "base/hex.h"
#include "base/random.h"
#include "base/secret.h"
#include "rpc/auth/nonce_cache.h"

#include <assert.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LIFE_DIGITS  16u
#define NONCE_DIGITS (2 * NONCE_BYTES)
#define TIME_DIGITS  15u /* until the year 33658 */
#define METHOD_MAX   256u
#define COVERED_MAX  (METHOD_MAX + 320u) /* bytes that a MAC covers */
#define FIELDS_MAX   6u

_Static_assert(CALL_SKEW_S * 1000 == NONCE_WINDOW_MS, "one window");

struct call_auth {
    struct call_auth_options options;
    pthread_mutex_t mutex; /* nonces */
    struct nonce_cache *nonces;
    atomic_uint_fast64_t refused[CALL_REFUSALS];
};

void call_digest(const void *bytes, size_t n_bytes, struct sha256 *digest_out)
{
    enum status status = sha256_of(bytes, n_bytes, digest_out);
    assert(status == STATUS_OK); /* it fails only without SHA-256 in OpenSSL, or without memory */
}

void call_bond_wipe(struct call_bond *bond)
{
    secret_wipe(bond, sizeof *bond);
}

/* ---- texts ---- */

struct field {
    const char *text;
    size_t bytes;
};

static bool read_hex(struct field field, uint8_t *bytes_out, size_t n)
{
    return hex_parse(field.text, field.bytes, bytes_out, n);
}

static bool read_life(struct field field, uint64_t *life_out)
{
    uint8_t bytes[LIFE_DIGITS / 2];
    uint64_t life = 0;
    if (!read_hex(field, bytes, sizeof bytes))
        return false;
    for (size_t i = 0; i < sizeof bytes; i++)
        life = life << 8 | bytes[i];
    *life_out = life;
    return life != CALL_ANY_LIFE;
}

static bool read_time(struct field field, uint64_t *ms_out)
{
    uint64_t ms = 0;
    if (field.bytes == 0 || field.bytes > TIME_DIGITS)
        return false;
    for (size_t i = 0; i < field.bytes; i++) {
        if (field.text[i] < '0' || field.text[i] > '9')
            return false;
        ms = ms * 10 + (uint64_t)(field.text[i] - '0');
    }
    *ms_out = ms;
    return true;
}

/* Splits text into exactly n fields with one blank between them; the first field must be that
 * digit. */
static bool split(const char *text, size_t bytes, char version, struct field *fields_out, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const char *blank = memchr(text, ' ', bytes);
        size_t length = blank ? (size_t)(blank - text) : bytes;
        if (length == 0 || (blank == NULL) != (i + 1 == n))
            return false;
        fields_out[i] = (struct field){text, length};
        length += blank != NULL;
        text += length;
        bytes -= length;
    }
    return fields_out[0].bytes == 1 && fields_out[0].text[0] == version;
}

static void write_life(uint64_t life, char text_out[LIFE_DIGITS + 1])
{
    if (life == CALL_ANY_LIFE)
        snprintf(text_out, LIFE_DIGITS + 1, "-");
    else
        snprintf(text_out, LIFE_DIGITS + 1, "%016" PRIx64, life);
}

/* ---- MACs ---- */

static void mac_of(const uint8_t key[CLUSTER_KEY_BYTES], const char *covered,
                   struct sha256 *mac_out)
{
    enum status status = sha256_mac(key, CLUSTER_KEY_BYTES, covered, strlen(covered), mac_out);
    assert(status == STATUS_OK); /* as call_digest */
}

/* method: at most METHOD_MAX bytes; callee, time and nonce as they are sent. */
static void write_covered(const struct call_terms *terms, const char *callee, uint64_t made_ms,
                          const char *nonce, char covered_out[COVERED_MAX])
{
    char digest[SHA256_TEXT];
    sha256_format(&terms->digest, digest);
    int n = snprintf(covered_out, COVERED_MAX, "kvferry call 2\n%s\n%s\n%" PRIu64 "\n%s\n%s\n",
                     terms->method, callee, made_ms, nonce, digest);
    assert(n > 0 && (size_t)n < COVERED_MAX);
}

static void mac_of_answer(const struct call_bond *bond, enum call_answer answer, uint64_t life,
                          const struct sha256 *digest, struct sha256 *mac_out)
{
    static const char *const KINDS[] = {[CALL_ANSWER_UNARY] = "unary",
                                        [CALL_ANSWER_STREAM] = "stream",
                                        [CALL_ANSWER_ERROR] = "error"};
    struct sha256 nothing;
    char covered[COVERED_MAX], call[SHA256_TEXT], digits[SHA256_TEXT];
    char life_text[LIFE_DIGITS + 1];
    if (!digest)
        call_digest("", 0, &nothing);
    sha256_format(&bond->mac, call);
    sha256_format(digest ? digest : &nothing, digits);
    write_life(life, life_text);
    int n = snprintf(covered, sizeof covered, "kvferry reply 1\n%s\n%s\n%s\n%s\n", KINDS[answer],
                     call, life_text, digits);
    assert(n > 0 && (size_t)n < sizeof covered);
    mac_of(bond->key, covered, mac_out);
}

/* ---- caller ---- */

enum status call_auth_sign(struct cluster_key *key, const struct call_terms *terms, uint64_t now_ms,
                           struct call_bond *bond_out, char text_out[CALL_TEXT_MAX])
{
    uint8_t nonce[NONCE_BYTES];
    char covered[COVERED_MAX], callee[LIFE_DIGITS + 1], nonce_text[NONCE_DIGITS + 1];
    char digest[SHA256_TEXT], mac[SHA256_TEXT];
    assert(strlen(terms->method) <= METHOD_MAX);
    TRY(random_secret(nonce, sizeof nonce, NULL));
    write_life(terms->callee, callee);
    hex_format(nonce, sizeof nonce, nonce_text);
    write_covered(terms, callee, now_ms, nonce_text, covered);

    struct key_set keys;
    cluster_key_get(key, &keys);
    assert(keys.n > 0);
    memcpy(bond_out->key, keys.keys[0], CLUSTER_KEY_BYTES);
    key_set_wipe(&keys);
    mac_of(bond_out->key, covered, &bond_out->mac);
    sha256_format(&bond_out->mac, mac);
    bond_out->digest = terms->digest;
    sha256_format(&terms->digest, digest);
    int n = snprintf(text_out, CALL_TEXT_MAX, "2 %s %" PRIu64 " %s %s %s", callee, now_ms,
                     nonce_text, digest, mac);
    assert(n > 0 && (size_t)n < CALL_TEXT_MAX);
    return STATUS_OK;
}

bool call_proof_check(const struct call_bond *bond, enum call_answer answer,
                      const struct sha256 *digest, const char *text, size_t bytes,
                      uint64_t *life_out)
{
    struct field fields[3];
    uint64_t life;
    struct sha256 mac, expected;
    if (!split(text, bytes, '1', fields, 3) || !read_life(fields[1], &life) ||
        !read_hex(fields[2], mac.bytes, SHA256_BYTES))
        return false;
    mac_of_answer(bond, answer, life, digest, &expected);
    if (!sha256_equal(&mac, &expected))
        return false;
    *life_out = life;
    return true;
}

/* ---- callee ---- */

enum status call_auth_create(const struct call_auth_options *options, struct call_auth **auth_out)
{
    assert(options->key && options->life != CALL_ANY_LIFE);
    struct call_auth *auth = calloc(1, sizeof *auth);
    if (!auth)
        return STATUS_NO_MEMORY;
    auth->options = *options;
    if (!auth->options.now_ms)
        auth->options.now_ms = clock_unix_ms;
    if (auth->options.nonces_max == 0)
        auth->options.nonces_max = CALL_NONCES_USED;
    pthread_mutex_init(&auth->mutex, NULL);
    enum status status = nonce_cache_create(auth->options.nonces_max, &auth->nonces);
    if (status != STATUS_OK) {
        call_auth_destroy(auth);
        return status;
    }
    *auth_out = auth;
    return STATUS_OK;
}

void call_auth_destroy(struct call_auth *auth)
{
    if (!auth)
        return;
    nonce_cache_destroy(auth->nonces);
    pthread_mutex_destroy(&auth->mutex);
    free(auth);
}

/* The parsed metadata of a call. */
struct claim {
    bool is_for_any_life;
    uint64_t callee, made_ms;
    char callee_text[LIFE_DIGITS + 1];
    char nonce_text[NONCE_DIGITS + 1];
    uint8_t nonce[NONCE_BYTES];
    struct sha256 digest;
    struct sha256 mac;
};

static bool read_claim(const char *text, size_t bytes, struct claim *claim_out)
{
    struct field fields[FIELDS_MAX];
    struct claim claim = {.callee = CALL_ANY_LIFE};
    if (!split(text, bytes, '2', fields, FIELDS_MAX))
        return false;
    claim.is_for_any_life = fields[1].bytes == 1 && fields[1].text[0] == '-';
    if (!claim.is_for_any_life && !read_life(fields[1], &claim.callee))
        return false;
    if (!read_time(fields[2], &claim.made_ms) ||
        !read_hex(fields[3], claim.nonce, sizeof claim.nonce) ||
        !read_hex(fields[4], claim.digest.bytes, SHA256_BYTES) ||
        !read_hex(fields[5], claim.mac.bytes, SHA256_BYTES))
        return false;
    write_life(claim.callee, claim.callee_text);
    hex_format(claim.nonce, sizeof claim.nonce, claim.nonce_text);
    *claim_out = claim;
    return true;
}

/* Tries every key. */
static bool is_proven(struct call_auth *auth, const char *method, const struct claim *claim,
                      struct call_bond *bond_out)
{
    const struct call_terms terms = {.method = method, .digest = claim->digest};
    char covered[COVERED_MAX];
    struct key_set keys;
    bool is_one = false;
    write_covered(&terms, claim->callee_text, claim->made_ms, claim->nonce_text, covered);
    cluster_key_get(auth->options.key, &keys);
    for (uint32_t i = 0; i < keys.n; i++) {
        struct sha256 mac;
        mac_of(keys.keys[i], covered, &mac);
        if (sha256_equal(&mac, &claim->mac)) {
            memcpy(bond_out->key, keys.keys[i], CLUSTER_KEY_BYTES);
            bond_out->mac = mac;
            bond_out->digest = claim->digest;
            is_one = true;
        }
    }
    key_set_wipe(&keys);
    return is_one;
}

static enum status refuse(struct call_auth *auth, enum call_refusal refusal,
                          enum call_refusal *refusal_out)
{
    static const enum status STATUSES[CALL_REFUSALS] = {
        [CALL_REFUSED_UNPROVEN] = STATUS_UNAUTHENTICATED,
        [CALL_REFUSED_TIME] = STATUS_UNAUTHENTICATED,
        [CALL_REFUSED_REPLAYED] = STATUS_UNAUTHENTICATED,
        [CALL_REFUSED_FULL] = STATUS_QUEUE_FULL,
        [CALL_REFUSED_LIFE] = STATUS_STALE_PEER,
    };
    assert(refusal < CALL_REFUSALS);
    atomic_fetch_add_explicit(&auth->refused[refusal], 1, memory_order_relaxed);
    *refusal_out = refusal;
    return STATUSES[refusal];
}

static enum status use_nonce(struct call_auth *auth, const struct claim *claim, uint64_t now_ms)
{
    pthread_mutex_lock(&auth->mutex);
    enum status status = nonce_cache_use(auth->nonces, claim->nonce, claim->made_ms, now_ms);
    pthread_mutex_unlock(&auth->mutex);
    return status;
}

static void say_unproven(struct error *error)
{
    error_write(error, "the caller did not authenticate with the cluster key");
}

enum status call_auth_check(struct call_auth *auth, const char *method, bool takes_any_life,
                            const char *text, size_t bytes, struct call_bond *bond_out,
                            enum call_refusal *refusal_out, struct error *error)
{
    struct claim claim;
    struct call_bond bond;
    say_unproven(error);
    if (!text || strlen(method) > METHOD_MAX || !read_claim(text, bytes, &claim) ||
        !is_proven(auth, method, &claim, &bond))
        return refuse(auth, CALL_REFUSED_UNPROVEN, refusal_out);

    uint64_t now_ms = auth->options.now_ms();
    uint64_t off_ms = now_ms > claim.made_ms ? now_ms - claim.made_ms : claim.made_ms - now_ms;
    enum status used = STATUS_OK;
    enum status status = STATUS_OK;
    if (off_ms > NONCE_WINDOW_MS)
        status = refuse(auth, CALL_REFUSED_TIME, refusal_out);
    else if ((used = use_nonce(auth, &claim, now_ms)) != STATUS_OK)
        status = refuse(auth, used == STATUS_QUEUE_FULL ? CALL_REFUSED_FULL : CALL_REFUSED_REPLAYED,
                        refusal_out);
    if (status == STATUS_OK) {
        *bond_out = bond;
        bool is_ours = claim.callee == auth->options.life;
        if (!is_ours && !(claim.is_for_any_life && takes_any_life)) {
            error_write(error, "the call is for an earlier run of this process");
            status = refuse(auth, CALL_REFUSED_LIFE, refusal_out);
        }
    }
    call_bond_wipe(&bond);
    return status;
}

enum status call_auth_check_message(struct call_auth *auth, const struct call_bond *bond,
                                    const struct sha256 *digest, struct error *error)
{
    enum call_refusal refusal;
    if (sha256_equal(&bond->digest, digest))
        return STATUS_OK;
    say_unproven(error);
    return refuse(auth, CALL_REFUSED_UNPROVEN, &refusal);
}

void call_proof_make(const struct call_auth *auth, const struct call_bond *bond,
                     enum call_answer answer, const struct sha256 *digest,
                     char text_out[CALL_TEXT_MAX])
{
    struct sha256 mac;
    char digits[SHA256_TEXT], life[LIFE_DIGITS + 1];
    mac_of_answer(bond, answer, auth->options.life, digest, &mac);
    sha256_format(&mac, digits);
    write_life(auth->options.life, life);
    int n = snprintf(text_out, CALL_TEXT_MAX, "1 %s %s", life, digits);
    assert(n > 0 && (size_t)n < CALL_TEXT_MAX);
}

uint64_t call_auth_refused(const struct call_auth *auth, enum call_refusal refusal)
{
    assert(refusal < CALL_REFUSALS);
    return atomic_load_explicit(&auth->refused[refusal], memory_order_relaxed);
}

const char *call_refusal_name(enum call_refusal refusal)
{
    static const char *const NAMES[CALL_REFUSALS] = {
        [CALL_REFUSED_UNPROVEN] = "unproven", [CALL_REFUSED_TIME] = "time",
        [CALL_REFUSED_REPLAYED] = "replayed", [CALL_REFUSED_FULL] = "full",
        [CALL_REFUSED_LIFE] = "life",
    };
    assert(refusal < CALL_REFUSALS);
    return NAMES[refusal];
}
