/* k8s_target: a name has a service, and may have a namespace and a port; what is none is refused with its value. */
#include "discovery/k8s/k8s_target.h"

#include <criterion/criterion.h>
#include <string.h>

static struct k8s_target target;
static struct error error;

static enum status parse(const char *text)
{
    memset(&target, 0, sizeof target);
    return k8s_target_parse(text, &target, &error);
}

Test(k8s_target, has_namespace_service_and_port)
{
    cr_assert_eq(parse("k8s:///llm/kv-context:grpc"), STATUS_OK, "%s", error.text);
    cr_assert_str_eq(target.name_space, "llm");
    cr_assert_str_eq(target.service, "kv-context");
    cr_assert_str_eq(target.port, "grpc");
    cr_assert_eq(parse("k8s:///a/9:50052"), STATUS_OK, "%s", error.text);
    cr_assert_str_eq(target.service, "9");
    cr_assert_str_eq(target.port, "50052");
}

Test(k8s_target, without_a_namespace_or_port_has_the_defaults)
{
    cr_assert_eq(parse("k8s:///kv-context"), STATUS_OK, "%s", error.text);
    cr_assert_str_eq(target.name_space, "");
    cr_assert_str_eq(target.service, "kv-context");
    cr_assert_str_eq(target.port, "control");
}

#define L63 "aaaaaaaaaabbbbbbbbbbccccccccccddddddddddeeeeeeeeeeffffffffff123"

Test(k8s_target, has_names_of_63_bytes_and_none_longer)
{
    cr_assert_eq(parse("k8s:///" L63 "/" L63 ":" L63), STATUS_OK, "%s", error.text);
    cr_assert_str_eq(target.name_space, L63);
    cr_assert_str_eq(target.port, L63);
    cr_assert_eq(parse("k8s:///" L63 "4/a"), STATUS_INVALID_ARGUMENT);
    cr_assert_eq(parse("k8s:///a/" L63 "4"), STATUS_INVALID_ARGUMENT);
    cr_assert_eq(parse("k8s:///a/b:" L63 "4"), STATUS_INVALID_ARGUMENT);
}

Test(k8s_target, that_is_none_is_refused_with_what_is_wrong)
{
    static const struct {
        const char *text, *sentence;
    } CASES[] = {
        {"k8s://llm/kv", "is not k8s:///NAMESPACE/SERVICE[:PORT]"},
        {"k8s:kv", "is not k8s:///NAMESPACE/SERVICE[:PORT]"},
        {"k8s:///", "service \"\" is not a name"},
        {"k8s:////kv", "namespace \"\" is not a name"},
        {"k8s:///llm/", "service \"\" is not a name"},
        {"k8s:///llm/kv/x", "service \"kv/x\" is not a name"},
        {"k8s:///LLM/kv", "namespace \"LLM\" is not a name"},
        {"k8s:///llm/-kv", "service \"-kv\" is not a name"},
        {"k8s:///llm/kv-", "service \"kv-\" is not a name"},
        {"k8s:///llm/kv.svc", "service \"kv.svc\" is not a name"},
        {"k8s:///llm/kv?watch=1", "service \"kv?watch=1\" is not a name"},
        {"k8s:///llm/kv:", "port \"\" is not a name"},
        {"k8s:///llm/kv:0", "port \"0\" is not a number from 1 to 65535"},
        {"k8s:///llm/kv:65536", "port \"65536\" is not a number"},
        {"k8s:///llm/kv:123456789012345678901", "is not a number"},
        {"k8s:///llm/kv:a:b", "port \"a:b\" is not a name"},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        cr_expect(k8s_target_is_meant(CASES[i].text));
        cr_expect_eq(parse(CASES[i].text), STATUS_INVALID_ARGUMENT, "%s", CASES[i].text);
        cr_expect(strstr(error.text, CASES[i].sentence), "%s: %s", CASES[i].text, error.text);
        cr_expect(strstr(error.text, CASES[i].text), "%s", error.text);
    }
    cr_assert_not(k8s_target_is_meant("k8s.example:50052"));
}
