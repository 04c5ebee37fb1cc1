/* The kinds of audit events: each has one unique name, and a group of related kinds. */
#include "store/audit.h"
#include "unit.h"

static void test_names_are_found_again(void **state)
{
    (void)state;
    for (enum audit_kind at = 0; at < AUDIT_KIND_COUNT; at++) {
        assert_int_equal(audit_kind_find(audit_kind_name(at)), at);
        assert_true(audit_kind_sentence(at).len > 0);
    }
    assert_int_equal(audit_kind_find(SLICE("account")), AUDIT_KIND_COUNT);
    assert_int_equal(audit_kind_find(SLICE("")), AUDIT_KIND_COUNT);
}

/* A list of groups, each followed by its kinds, can be built in one pass. */
static void test_a_groups_kinds_are_together(void **state)
{
    (void)state;
    for (enum audit_kind at = 1; at < AUDIT_KIND_COUNT; at++) {
        slice group = audit_kind_group(at);
        assert_true(group.len > 0 && group.len < audit_kind_name(at).len);
        if (slice_eq(group, audit_kind_group(at - 1)))
            continue;
        for (enum audit_kind before = 0; before < at; before++)
            assert_false(slice_eq(group, audit_kind_group(before)));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        UNIT_TEST(test_names_are_found_again),
        UNIT_TEST(test_a_groups_kinds_are_together),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
