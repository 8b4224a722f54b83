#include "rpc/tls/tls_identity.h"

#include <criterion/criterion.h>
#include <string.h>

#define LONG_TENANT                                                                                \
    "kvferry://prod/tenant/xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"

static bool read_uri(const char *uri, struct tls_identity *identity)
{
    return tls_identity_read(uri, strlen(uri), "prod", identity);
}

Test(tls_identity, roles_and_tenants_of_the_cluster)
{
    struct tls_identity identity;
    cr_expect(read_uri("kvferry://prod/role/router", &identity));
    cr_expect_eq(identity.roles, TLS_ROLE_BIT(ROUTER));
    cr_expect(read_uri("kvferry://prod/role/context", &identity));
    cr_expect_eq(identity.roles, TLS_ROLE_BIT(CONTEXT));
    cr_expect(read_uri("kvferry://prod/role/generation", &identity));
    cr_expect_eq(identity.roles, TLS_ROLE_BIT(GENERATION));
    cr_expect(read_uri("kvferry://prod/role/operator", &identity));
    cr_expect_eq(identity.roles, TLS_ROLE_BIT(OPERATOR));
    cr_expect(read_uri("kvferry://prod/tenant/acme-2", &identity));
    cr_expect_eq(identity.roles, 0);
    cr_expect_str_eq(identity.tenant, "acme-2");
}

Test(tls_identity, anything_else_is_nobody)
{
    static const char *const URIS[] = {
        "",
        "kvferry://prod",
        "kvferry://prod/role/",
        "kvferry://prod/role/routers",
        "kvferry://prod/role/Router",
        "kvferry://prod/role/router/",
        "kvferry://prod/role/router?x",
        "kvferry://prod2/role/router",
        "kvferry://pro/role/router",
        "kvferry:///role/router",
        "KVFERRY://prod/role/router",
        "https://prod/role/router",
        "kvferry://prod//role/router",
        "kvferry://prod/tenant/",
        "kvferry://prod/tenant/a/b",
        "kvferry://prod/tenant/a%20b",
        "kvferry://prod/tenant/a b",
        LONG_TENANT,
    };
    struct tls_identity identity;
    for (size_t i = 0; i < sizeof URIS / sizeof *URIS; i++)
        cr_expect_not(read_uri(URIS[i], &identity), "%s", URIS[i]);
    cr_expect_not(
        tls_identity_read("kvferry://prod/role/router", 25, "prod", &identity)); /* route */
    cr_expect_not(tls_identity_read("kvferry://prod/role/router\0", 27, "prod", &identity));
}

Test(tls_identity, of_several_none_counts)
{
    static const char *const URIS[] = {"https://a", "kvferry://prod/role/router", "spiffe://b",
                                       "kvferry://test/role/router"};
    cr_expect_null(tls_identity_only(URIS, 0));
    cr_expect_null(tls_identity_only(URIS, 1));
    cr_expect_str_eq(tls_identity_only(URIS, 3), URIS[1]);
    cr_expect_null(tls_identity_only(URIS, 4), "of whichever cluster");
}

Test(tls_identity, names_and_words)
{
    char text[TLS_ROLES_TEXT];
    cr_expect(tls_cluster_name_is_valid("prod-eu.1"));
    cr_expect_not(tls_cluster_name_is_valid(""));
    cr_expect_not(tls_cluster_name_is_valid("a/b"));
    cr_expect_not(tls_cluster_name_is_valid(
        "a123456789a123456789a123456789a123456789a123456789a123456789abcd"));
    tls_roles_format(TLS_ROLES_ALL, text);
    cr_expect_str_eq(text, "router or context or generation or operator");
    tls_roles_format(TLS_ROLE_BIT(GENERATION), text);
    cr_expect_str_eq(text, "generation");
    tls_roles_format(0, text);
    cr_expect_str_eq(text, "nobody");
}
