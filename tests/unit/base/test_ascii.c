/* base/ascii: every byte is compared with the listed characters, as char and as unsigned char. */
#include "testing.h"

#include <string.h>

#include "base/ascii.h"

static const char digits[] = "0123456789";
static const char lowers[] = "abcdefghijklmnopqrstuvwxyz";
static const char uppers[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ";
static const char hex[] = "0123456789abcdef", hex_upper[] = "0123456789ABCDEF";

/* Whether the set contains the byte. NUL is excluded, since strchr finds it in every text. */
static bool has(const char *set, int byte)
{
    return byte != 0 && strchr(set, byte) != NULL;
}

static void knows_every_byte(void **state)
{
    (void)state;
    for (int byte = 0; byte < 256; byte++) {
        bool is_digit = has(digits, byte), is_lower = has(lowers, byte);
        bool is_upper = has(uppers, byte), is_hex = has(hex, byte) || has(hex_upper, byte);
        const int forms[] = {byte, (char)byte};
        for (int i = 0; i < 2; i++) {
            int c = forms[i];
            if (ascii_is_digit(c) != is_digit || ascii_is_lower(c) != is_lower ||
                ascii_is_upper(c) != is_upper || ascii_is_letter(c) != (is_lower || is_upper) ||
                ascii_is_alnum(c) != (is_digit || is_lower || is_upper) ||
                ascii_is_hex(c) != is_hex)
                fail_msg("byte %d as %d", byte, c);
        }
    }
}

static void changes_the_case_of_letters_only(void **state)
{
    (void)state;
    for (int byte = 0; byte < 256; byte++) {
        char c = (char)byte;
        char lower = has(uppers, byte) ? lowers[strchr(uppers, byte) - uppers] : c;
        char upper = has(lowers, byte) ? uppers[strchr(lowers, byte) - lowers] : c;
        if (ascii_lower(c) != lower || ascii_upper(c) != upper)
            fail_msg("byte %d", byte);
    }
}

static void reads_hexadecimal_digits(void **state)
{
    (void)state;
    for (int value = 0; value < 16; value++) {
        assert_int_equal(ascii_hex_value(hex[value]), value);
        assert_int_equal(ascii_hex_value(hex_upper[value]), value);
    }
    for (int byte = 0; byte < 256; byte++)
        if (!has(hex, byte) && !has(hex_upper, byte)) {
            assert_int_equal(ascii_hex_value(byte), -1);
            assert_int_equal(ascii_hex_value((char)byte), -1);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(knows_every_byte),
        cmocka_unit_test(changes_the_case_of_letters_only),
        cmocka_unit_test(reads_hexadecimal_digits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
