/* name_set: a name is what was last found; nobody's silence empties it, and a denial only after a while. */
#include "base/clock.h"
#include "discovery/name_set.h"

#include <criterion/criterion.h>
#include <stdio.h>

static struct name_set name;
static struct address_set found;

static void open_name(void)
{
    address_set_clear(&name.set);
    name.has_nothing_since = false;
    name.empty_after_ns = 5 * NS_PER_S;
}

static bool find(const char *a, const char *b, uint64_t now_ns)
{
    address_set_clear(&found);
    address_set_add(&found, a);
    address_set_add(&found, b);
    return name_set_take(&name, NAME_FOUND, &found, now_ns);
}

Test(name_set, is_another_only_when_its_members_are)
{
    open_name();
    cr_assert(find("a:1", "b:1", 0));
    cr_assert_not(find("a:1", "b:1", 1));
    cr_assert_not(find("b:1", "a:1", 2), "in whatever order");
    cr_assert(find("a:1", "a:1", 3));
    cr_assert_eq(name.set.n, 1);
    cr_assert(find("c:1", "a:1", 4));
    cr_assert(address_set_has(&name.set, "c:1"));
    cr_assert_not(address_set_has(&name.set, "b:1"));
}

Test(name_set, stays_while_nobody_can_tell)
{
    open_name();
    cr_assert(find("a:1", "b:1", 0));
    for (uint64_t s = 1; s < 3600; s++)
        cr_assert_not(name_set_take(&name, NAME_FAILED, NULL, s * NS_PER_S));
    cr_assert_eq(name.set.n, 2);
}

Test(name_set, is_empty_when_it_was_denied_for_a_while)
{
    open_name();
    cr_assert_not(name_set_take(&name, NAME_NOTHING, NULL, 0), "it was empty");
    cr_assert(find("a:1", "b:1", 10 * NS_PER_S));
    cr_assert_not(name_set_take(&name, NAME_NOTHING, NULL, 11 * NS_PER_S));
    cr_assert_not(find("a:1", "b:1", 12 * NS_PER_S));
    cr_assert_not(name_set_take(&name, NAME_NOTHING, NULL, 13 * NS_PER_S), "counted anew");
    cr_assert_not(name_set_take(&name, NAME_FAILED, NULL, 16 * NS_PER_S));
    cr_assert_not(name_set_take(&name, NAME_NOTHING, NULL, 18 * NS_PER_S - 1));
    cr_assert(name_set_take(&name, NAME_NOTHING, NULL, 18 * NS_PER_S));
    cr_assert_eq(name.set.n, 0);
    cr_assert_not(name_set_take(&name, NAME_NOTHING, NULL, 19 * NS_PER_S));
    cr_assert(find("a:1", "b:1", 20 * NS_PER_S));
}

Test(name_set, what_is_one_too_many_is_left_out_and_counted)
{
    char text[32];
    address_set_clear(&found);
    for (int i = 0; i < PROCESS_PEERS_MAX + 3; i++) {
        snprintf(text, sizeof text, "10.0.%d.%d:1", i / 256, i % 256);
        address_set_add(&found, text);
        address_set_add(&found, text);
    }
    cr_assert_eq(found.n, PROCESS_PEERS_MAX);
    cr_assert_eq(found.n_left_out, 6, "what does not fit is not looked up among itself");
}
