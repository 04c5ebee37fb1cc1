/* api/names: which names resemble one of ours, and what is suggested instead. */
#include "api/names.h"
#include "unit.h"

static const struct api_names names = {
    .own = {"page_size", "connected_only", "stepKey", "q"},
    .other = {{"confirmed", "confirm"}, {"connectionId", "another endpoint"}},
};

static void expect(const char *name, const char *wanted)
{
    const char *right = api_names_right(&names, slice_cstr(name));
    if (!right != !wanted || (right && strcmp(right, wanted) != 0))
        fail_msg("%s: %s, not %s", name, right ? right : "nothing", wanted ? wanted : "nothing");
}

static void what_is_nearly_ours_has_its_name(void **state)
{
    static const char *const near[] = {"pageSize", "PageSize",   "page-size",   "PAGE_SIZE",
                                       "pagesize", "_page_size", "page__size-", "p-a-g-e-s-i-z-e"};
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(near); i++)
        expect(near[i], "page_size");
    expect("step_key", "stepKey");
    expect("Q", "q");
    expect("confirmed", "confirm");
    expect("Confirmed", "confirm");
    expect("connection_id", "another endpoint");
}

static void ours_and_all_others_have_none(void **state)
{
    static const char *const other[] = {
        "page_size", "connected_only", "stepKey", "q", "page", "page_sizes", "pag_esiz",
        "page.size", "page size",      "",        "-", "_",    "confirm",    "qq"};
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(other); i++)
        expect(other[i], NULL);
    assert_null(api_names_right(&names, SLICE_NONE));
    assert_null(api_names_right(&names, slice_of("Q\0", 2)));
    assert_true(api_names_has(&names, SLICE("q")));
    assert_false(api_names_has(&names, SLICE("Q")));
    assert_false(api_names_has(&names, SLICE("confirmed")));
    assert_false(api_names_has(NULL, SLICE("q")));
}

static void names_of_end_users(void **state)
{
    static const char *const users[] = {
        "user", "User", "user_id", "userId", "external_user_id", "Sluice-User"};
    static const char *const others[] = {"users", "use", "id", "external_id", "username", ""};
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(users); i++)
        assert_true(api_names_is_user(slice_cstr(users[i])));
    for (size_t i = 0; i < ARRAY_LEN(others); i++)
        assert_false(api_names_is_user(slice_cstr(others[i])));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_nearly_ours_has_its_name),
        cmocka_unit_test(ours_and_all_others_have_none),
        cmocka_unit_test(names_of_end_users),
    };
    return cmocka_run_group_tests_name("api/names", tests, NULL, NULL);
}
