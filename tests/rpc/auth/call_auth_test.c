/* call_auth: a call is taken from who knows a key, once, within 30 s of the clock that is handed in, for this
 * life, method and message; and a reply is one to that call by a life that knows the same key. */
#include "rpc/auth/call_auth.h"
#include "rpc/auth/nonce_cache.h"
#include "tests/rpc/support/test_key.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#define LIFE   0x1234abcd5678ef01u
#define METHOD "/kvferry.probe.Probe/Echo"

static uint64_t server_ms;

static uint64_t server_clock(void)
{
    return server_ms;
}

/* One process that is called, and a caller. */
struct pair {
    struct cluster_key *key;
    struct call_auth *auth;
    struct call_terms terms;
    struct call_bond bond; /* the caller's */
    char text[CALL_TEXT_MAX];
};

static void sign(struct pair *pair, uint64_t at_ms)
{
    cr_assert_eq(call_auth_sign(pair->key, &pair->terms, at_ms, &pair->bond, pair->text),
                 STATUS_OK);
}

static void pair_init(struct pair *pair, uint32_t nonces_max)
{
    *pair = (struct pair){.key = test_key(1), .terms = {.method = METHOD, .callee = LIFE}};
    struct call_auth_options options = {
        .key = pair->key, .life = LIFE, .nonces_max = nonces_max, .now_ms = server_clock};
    server_ms = 1700000000000;
    cr_assert_eq(call_auth_create(&options, &pair->auth), STATUS_OK);
    call_digest("message", 7, &pair->terms.digest);
    sign(pair, server_ms);
}

static void pair_finish(struct pair *pair)
{
    call_auth_destroy(pair->auth);
    cluster_key_destroy(pair->key);
}

static enum status check_text(struct pair *pair, bool takes_any_life, const char *text,
                              size_t bytes, enum call_refusal *refusal_out)
{
    struct call_bond bond;
    struct error error;
    return call_auth_check(pair->auth, pair->terms.method, takes_any_life, text, bytes, &bond,
                           refusal_out, &error);
}

static void expect_refused(struct pair *pair, enum status status, enum call_refusal refusal)
{
    enum call_refusal found = CALL_REFUSALS;
    uint64_t before = call_auth_refused(pair->auth, refusal);
    cr_expect_eq(check_text(pair, false, pair->text, strlen(pair->text), &found), status, "%s",
                 pair->text);
    cr_expect_eq(found, refusal, "%s: %s", pair->text, call_refusal_name(found));
    cr_expect_eq(call_auth_refused(pair->auth, refusal), before + 1);
}

static void expect_taken(struct pair *pair, bool takes_any_life)
{
    enum call_refusal found = CALL_REFUSALS;
    cr_expect_eq(check_text(pair, takes_any_life, pair->text, strlen(pair->text), &found),
                 STATUS_OK, "%s: %s", pair->text,
                 found < CALL_REFUSALS ? call_refusal_name(found) : "?");
}

Test(call_auth, a_call_is_taken_once)
{
    struct pair pair;
    pair_init(&pair, 16);
    expect_taken(&pair, false);
    expect_refused(&pair, STATUS_UNAUTHENTICATED, CALL_REFUSED_REPLAYED);
    server_ms += NONCE_WINDOW_MS;
    expect_refused(&pair, STATUS_UNAUTHENTICATED, CALL_REFUSED_REPLAYED);
    sign(&pair, server_ms);
    expect_taken(&pair, false);
    pair_finish(&pair);
}

Test(call_auth, what_is_older_or_newer_than_thirty_seconds_is_not_taken)
{
    struct pair pair;
    pair_init(&pair, 16);
    uint64_t now = server_ms;
    sign(&pair, now - NONCE_WINDOW_MS);
    expect_taken(&pair, false);
    sign(&pair, now + NONCE_WINDOW_MS);
    expect_taken(&pair, false);
    sign(&pair, now - NONCE_WINDOW_MS - 1);
    expect_refused(&pair, STATUS_UNAUTHENTICATED, CALL_REFUSED_TIME);
    sign(&pair, now + NONCE_WINDOW_MS + 1);
    expect_refused(&pair, STATUS_UNAUTHENTICATED, CALL_REFUSED_TIME);
    pair_finish(&pair);
}

Test(call_auth, another_method_or_key_is_unproven)
{
    struct pair pair;
    pair_init(&pair, 16);
    pair.terms.method = "/kvferry.probe.Probe/Fail";
    expect_refused(&pair, STATUS_UNAUTHENTICATED, CALL_REFUSED_UNPROVEN);
    pair.terms.method = METHOD;
    struct cluster_key *other = test_key(2);
    cr_assert_eq(call_auth_sign(other, &pair.terms, server_ms, &pair.bond, pair.text), STATUS_OK);
    expect_refused(&pair, STATUS_UNAUTHENTICATED, CALL_REFUSED_UNPROVEN);
    cluster_key_destroy(other);
    pair_finish(&pair);
}

Test(call_auth, a_call_is_proven_by_its_headers_and_its_message_must_be_the_proven_one)
{
    struct pair pair;
    struct call_bond bond;
    struct sha256 other;
    enum call_refusal refusal;
    struct error error;
    pair_init(&pair, 16);
    cr_assert_eq(call_auth_check(pair.auth, METHOD, false, pair.text, strlen(pair.text), &bond,
                                 &refusal, &error),
                 STATUS_OK);
    cr_expect_eq(call_auth_check_message(pair.auth, &bond, &pair.terms.digest, &error), STATUS_OK);
    call_digest("massage", 7, &other);
    cr_expect_eq(call_auth_check_message(pair.auth, &bond, &other, &error), STATUS_UNAUTHENTICATED);
    cr_expect_eq(call_auth_refused(pair.auth, CALL_REFUSED_UNPROVEN), 1);
    pair_finish(&pair);
}

Test(call_auth, a_text_that_is_cut_longer_or_changed_anywhere_is_unproven)
{
    struct pair pair;
    enum call_refusal refusal;
    pair_init(&pair, 16);
    char whole[CALL_TEXT_MAX + 1];
    size_t n = strlen(pair.text);
    snprintf(whole, sizeof whole, "%s0", pair.text);
    cr_expect_eq(check_text(&pair, true, NULL, 0, &refusal), STATUS_UNAUTHENTICATED);
    for (size_t cut = 0; cut < n; cut++)
        cr_expect_eq(check_text(&pair, true, whole, cut, &refusal), STATUS_UNAUTHENTICATED);
    cr_expect_eq(check_text(&pair, true, whole, n + 1, &refusal), STATUS_UNAUTHENTICATED);
    for (size_t i = 0; i < n; i++) {
        static const char INSTEAD[] = "0 -g\n";
        for (const char *c = INSTEAD; *c; c++) {
            snprintf(whole, sizeof whole, "%s", pair.text);
            whole[i] = *c;
            if (strcmp(whole, pair.text) != 0)
                cr_expect_eq(check_text(&pair, true, whole, n, &refusal), STATUS_UNAUTHENTICATED,
                             "%s", whole);
        }
    }
    expect_taken(&pair, false);
    pair_finish(&pair);
}

Test(call_auth, another_life_is_told_so_and_whichever_answers_only_where_that_will_do)
{
    struct pair pair;
    pair_init(&pair, 16);
    pair.terms.callee = LIFE + 1;
    sign(&pair, server_ms);
    expect_refused(&pair, STATUS_STALE_PEER, CALL_REFUSED_LIFE);
    expect_refused(&pair, STATUS_UNAUTHENTICATED, CALL_REFUSED_REPLAYED);
    sign(&pair, server_ms);
    enum call_refusal refusal;
    cr_expect_eq(check_text(&pair, true, pair.text, strlen(pair.text), &refusal),
                 STATUS_STALE_PEER);
    pair.terms.callee = CALL_ANY_LIFE;
    sign(&pair, server_ms);
    expect_refused(&pair, STATUS_STALE_PEER, CALL_REFUSED_LIFE);
    sign(&pair, server_ms);
    expect_taken(&pair, true);
    pair_finish(&pair);
}

Test(call_auth, a_full_cache_refuses_rather_than_forgets)
{
    struct pair pair;
    char first[CALL_TEXT_MAX];
    pair_init(&pair, 4);
    snprintf(first, sizeof first, "%s", pair.text);
    for (uint32_t i = 0; i < 4; i++) {
        expect_taken(&pair, false);
        sign(&pair, server_ms);
    }
    expect_refused(&pair, STATUS_QUEUE_FULL, CALL_REFUSED_FULL);
    snprintf(pair.text, sizeof pair.text, "%s", first);
    expect_refused(&pair, STATUS_UNAUTHENTICATED, CALL_REFUSED_REPLAYED);
    pair_finish(&pair);
}

Test(call_auth, unproven_calls_take_no_room)
{
    struct pair pair;
    pair_init(&pair, 1);
    struct cluster_key *own = pair.key;
    pair.key = test_key(3);
    for (uint32_t i = 0; i < 100; i++) {
        sign(&pair, server_ms);
        expect_refused(&pair, STATUS_UNAUTHENTICATED, CALL_REFUSED_UNPROVEN);
    }
    cluster_key_destroy(pair.key);
    pair.key = own;
    sign(&pair, server_ms);
    expect_taken(&pair, false);
    pair_finish(&pair);
}

/* ---- replies ---- */

static struct call_bond bond_of(struct pair *pair)
{
    struct call_bond bond;
    enum call_refusal refusal;
    struct error error;
    cr_assert_eq(call_auth_check(pair->auth, METHOD, false, pair->text, strlen(pair->text), &bond,
                                 &refusal, &error),
                 STATUS_OK);
    return bond;
}

Test(call_auth, a_reply_is_of_that_call_kind_and_message)
{
    struct pair pair;
    char proof[CALL_TEXT_MAX];
    struct sha256 digest, other;
    uint64_t life = 0;
    pair_init(&pair, 16);
    struct call_bond bond = bond_of(&pair);
    call_digest("answer", 6, &digest);
    call_digest("enswer", 6, &other);
    call_proof_make(pair.auth, &bond, CALL_ANSWER_UNARY, &digest, proof);
    size_t n = strlen(proof);
    cr_expect(call_proof_check(&pair.bond, CALL_ANSWER_UNARY, &digest, proof, n, &life));
    cr_expect_eq(life, LIFE);
    cr_expect_not(call_proof_check(&pair.bond, CALL_ANSWER_UNARY, &other, proof, n, &life));
    cr_expect_not(call_proof_check(&pair.bond, CALL_ANSWER_ERROR, &digest, proof, n, &life));
    cr_expect_not(call_proof_check(&pair.bond, CALL_ANSWER_STREAM, NULL, proof, n, &life));
    for (size_t cut = 0; cut < n; cut++)
        cr_expect_not(call_proof_check(&pair.bond, CALL_ANSWER_UNARY, &digest, proof, cut, &life));
    proof[2] = proof[2] == '0' ? '1' : '0'; /* another life */
    cr_expect_not(call_proof_check(&pair.bond, CALL_ANSWER_UNARY, &digest, proof, n, &life));

    call_proof_make(pair.auth, &bond, CALL_ANSWER_STREAM, NULL, proof);
    cr_expect(call_proof_check(&pair.bond, CALL_ANSWER_STREAM, NULL, proof, strlen(proof), &life));
    sign(&pair, server_ms); /* another call */
    cr_expect_not(
        call_proof_check(&pair.bond, CALL_ANSWER_STREAM, NULL, proof, strlen(proof), &life));
    pair_finish(&pair);
}

/* ---- two keys ---- */

static struct cluster_key *keys_of(uint8_t first, uint8_t second)
{
    struct key_set keys = {.n = second ? 2 : 1};
    struct cluster_key *key;
    memset(keys.keys[0], first, CLUSTER_KEY_BYTES);
    memset(keys.keys[1], second, CLUSTER_KEY_BYTES);
    cr_assert_eq(cluster_key_create(&keys, &key), STATUS_OK);
    return key;
}

/* Old alone, both with the old first, both with the new first, new alone: neighbours understand each
 * other in either direction. */
Test(call_auth, a_key_is_changed_in_three_steps_without_a_refused_call)
{
    static const uint8_t STEPS[][2] = {{1, 0}, {1, 2}, {2, 1}, {2, 0}};
    for (int caller = 0; caller < 4; caller++) {
        for (int callee = 0; callee < 4; callee++) {
            struct cluster_key *theirs = keys_of(STEPS[caller][0], STEPS[caller][1]);
            struct cluster_key *ours = keys_of(STEPS[callee][0], STEPS[callee][1]);
            struct call_auth_options options = {.key = ours, .life = LIFE, .now_ms = server_clock};
            struct call_terms terms = {.method = METHOD, .callee = LIFE};
            struct call_bond asked, answered;
            struct call_auth *auth;
            enum call_refusal refusal;
            struct error error;
            char text[CALL_TEXT_MAX], proof[CALL_TEXT_MAX];
            uint64_t life;
            cr_assert_eq(call_auth_create(&options, &auth), STATUS_OK);
            cr_assert_eq(call_auth_sign(theirs, &terms, server_ms, &asked, text), STATUS_OK);
            enum status status = call_auth_check(auth, METHOD, false, text, strlen(text), &answered,
                                                 &refusal, &error);
            bool are_near = caller - callee <= 1 && callee - caller <= 1;
            if (are_near)
                cr_expect_eq(status, STATUS_OK, "%d calls %d", caller, callee);
            if (status == STATUS_OK) {
                call_proof_make(auth, &answered, CALL_ANSWER_STREAM, NULL, proof);
                cr_expect(call_proof_check(&asked, CALL_ANSWER_STREAM, NULL, proof, strlen(proof),
                                           &life));
            }
            call_auth_destroy(auth);
            cluster_key_destroy(theirs);
            cluster_key_destroy(ours);
        }
    }
}

/* What tests/roles/inner_calls.py must make of the same, byte for byte. */
Test(call_auth, the_texts_are_these)
{
    struct pair pair;
    char proof[CALL_TEXT_MAX], expected[CALL_TEXT_MAX];
    pair_init(&pair, 16);
    struct call_bond bond = bond_of(&pair);
    cr_expect_eq(strlen(pair.text), 2 + 17 + 14 + 33 + 65 + 64);
    snprintf(expected, sizeof expected, "2 1234abcd5678ef01 1700000000000 ");
    cr_expect_eq(strncmp(pair.text, expected, strlen(expected)), 0, "%s", pair.text);
    call_proof_make(pair.auth, &bond, CALL_ANSWER_STREAM, NULL, proof);
    cr_expect_eq(strncmp(proof, "1 1234abcd5678ef01 ", 19), 0, "%s", proof);
    cr_expect_eq(strlen(proof), 19 + 64);
    pair_finish(&pair);
}
