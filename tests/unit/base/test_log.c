/* base/log: lines are valid JSON for all values (checked by a strict reader in this file);
 * buffering, dropping and reporting drops; files, pipes, sockets and a terminal. */
#include "testing.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"
#include "base/log_sink.h"

static char text[4 << 20];

/* ---- a sink in memory ---- */

static int file = -1;

static void open_file(enum log_level level, enum log_format format)
{
    file = memfd_create("log", 0);
    assert_true(file >= 0);
    log_init(level, format);
    log_set_fd(file);
}

/* The present contents of the file. */
static slice file_text(void)
{
    ssize_t len = pread(file, text, sizeof(text) - 1, 0);
    assert_true(len >= 0);
    text[len] = '\0';
    return slice_of(text, (size_t)len);
}

static void close_file(void)
{
    log_set_fd(STDERR_FILENO);
    close(file);
}

/* Everything that can be read from fd without blocking. */
static slice read_all(int fd)
{
    size_t len = 0;
    ssize_t got;
    while ((got = read(fd, text + len, sizeof(text) - 1 - len)) > 0)
        len += (size_t)got;
    text[len] = '\0';
    return slice_of(text, len);
}

/* ---- a strict reader of one flat JSON object ---- */

static bool take_char(slice *rest, char c)
{
    if (rest->len == 0 || rest->ptr[0] != c)
        return false;
    *rest = slice_from(*rest, 1);
    return true;
}

/* A JSON string, unescaped into out. */
static slice take_string(slice *rest, char *out)
{
    size_t len = 0;
    assert_true(take_char(rest, '"'));
    while (!take_char(rest, '"')) {
        size_t size = slice_utf8_first(*rest);
        assert_true(size > 0);
        assert_true((unsigned char)rest->ptr[0] >= 0x20);
        if (!take_char(rest, '\\')) {
            memcpy(out + len, rest->ptr, size);
            len += size;
            *rest = slice_from(*rest, size);
            continue;
        }
        if (take_char(rest, 'u')) {
            unsigned c;
            char hex[5] = {0};
            assert_true(rest->len > 4);
            memcpy(hex, rest->ptr, 4);
            assert_int_equal(strspn(hex, "0123456789abcdef"), 4);
            sscanf(hex, "%4x", &c);
            *rest = slice_from(*rest, 4);
            if (c >= 0x800)
                out[len++] = (char)(0xe0 | c >> 12);
            if (c >= 0x80)
                out[len++] = (char)(c >= 0x800 ? 0x80 | (c >> 6 & 0x3f) : 0xc0 | c >> 6);
            out[len++] = (char)(c >= 0x80 ? 0x80 | (c & 0x3f) : c);
            continue;
        }
        assert_true(rest->len && strchr("\"\\n", rest->ptr[0]));
        out[len++] = rest->ptr[0] == 'n' ? '\n' : rest->ptr[0];
        *rest = slice_from(*rest, 1);
    }
    return slice_of(out, len);
}

static slice take_literal(slice *rest)
{
    size_t len = 0;
    while (len < rest->len && !strchr(",}", rest->ptr[len]))
        len++;
    slice literal = slice_first(*rest, len);
    *rest = slice_from(*rest, len);
    bool is_bool = slice_eq_cstr(literal, "true") || slice_eq_cstr(literal, "false");
    char copy[64] = {0}, *end;
    assert_true(len > 0 && len < sizeof(copy));
    memcpy(copy, literal.ptr, len);
    strtod(copy, &end);
    assert_true(is_bool || (*end == '\0' && strspn(copy, "-.0123456789") == len));
    return literal;
}

struct pair {
    slice key, value;
    bool is_string;
    char key_room[LOG_LINE_MAX], value_room[LOG_LINE_MAX];
};

/* Reads `line` (without newline) into pairs, and returns their number. */
static size_t read_line(slice line, struct pair *pairs, size_t max)
{
    size_t count = 0;
    assert_true(line.len < LOG_LINE_MAX);
    assert_true(take_char(&line, '{'));
    do {
        assert_true(count < max);
        struct pair *pair = &pairs[count++];
        pair->key = take_string(&line, pair->key_room);
        assert_true(take_char(&line, ':'));
        pair->is_string = line.len && line.ptr[0] == '"';
        pair->value = pair->is_string ? take_string(&line, pair->value_room) : take_literal(&line);
    } while (take_char(&line, ','));
    assert_true(take_char(&line, '}'));
    assert_int_equal(line.len, 0);
    return count;
}

static struct pair pairs[64];

static size_t read_next(slice *lines)
{
    assert_true(slice_find_char(*lines, '\n') >= 0);
    size_t count = read_line(slice_split(lines, '\n'), pairs, ARRAY_LEN(pairs));
    assert_slice(pairs[0].key, SLICE("time"));
    assert_int_equal(pairs[0].value.len, 24);
    assert_slice(pairs[1].key, SLICE("level"));
    assert_slice(pairs[2].key, SLICE("msg"));
    return count;
}

/* ---- tests ---- */

static void writes_fields_in_order(void **state)
{
    (void)state;
    open_file(LOG_DEBUG, LOG_AUTO); /* not a terminal: JSON */
    log_event(LOG_INFO, "one", LOG_STR("a", SLICE("x y")), LOG_INT("b", -42), LOG_BOOL("c", true),
              LOG_MS("d", 1234567), LOG_MS("e", -999), LOG_CSTR("f", NULL));
    log_line(LOG_DEBUG, "two", NULL, 0);
    log_event(LOG_INFO, "three", LOG_INT("min", INT64_MIN), LOG_MS("max", INT64_MAX));
    assert_int_equal(file_text().len, 0);
    log_flush();
    slice lines = file_text();
    assert_non_null(strstr(text,
                           "\"level\":\"info\",\"msg\":\"one\",\"a\":\"x y\",\"b\":-42,\"c\":true,"
                           "\"d\":1.234,\"e\":-0.000,\"f\":\"\"}\n"));
    assert_int_equal(read_next(&lines), 9);
    assert_int_equal(read_next(&lines), 3);
    assert_slice(pairs[1].value, SLICE("debug"));
    assert_int_equal(read_next(&lines), 5);
    assert_slice(pairs[3].value, SLICE("-9223372036854775808"));
    assert_slice(pairs[4].value, SLICE("9223372036854.775"));
    assert_int_equal(lines.len, 0);
    close_file();
}

/* A string after escaping and unescaping: bytes that are not UTF-8 become U+FFFD. */
static slice cleaned(slice value, char *out)
{
    size_t len = 0;
    while (value.len) {
        size_t size = slice_utf8_first(value);
        slice part = size ? slice_first(value, size) : SLICE("\xEF\xBF\xBD");
        memcpy(out + len, part.ptr, part.len);
        len += part.len;
        value = slice_from(value, size ? size : 1);
    }
    return slice_of(out, len);
}

static void hostile_values_stay_values(void **state)
{
    (void)state;
    struct chance chance = {11};
    static const char *const pieces[] = {"\"",           "\\",           "\n",
                                         "\r",           "\x1b[2J",      "\x7f",
                                         "\xC2\x9b",     "\xE2\x80\xAE", "\xE2\x80\xA8",
                                         "\xED\xA0\x80", "\xff",         "\xF0\x9F\x98\x80",
                                         "\xC3",         "\"}",          "\\u0000",
                                         "plain ",       "\xE2\x82\xAC"};
    char value[150], want[500];
    open_file(LOG_INFO, LOG_JSON);
    for (int i = 0; i < 3000; i++) {
        size_t len = 0;
        while (len < 120 && chance_below(&chance, 30)) {
            const char *piece = pieces[chance_below(&chance, ARRAY_LEN(pieces))];
            bool is_byte = chance_below(&chance, 2);
            size_t size = is_byte ? 1 : strlen(piece);
            memcpy(value + len, piece, size);
            if (is_byte)
                value[len] = (char)chance_u64(&chance);
            len += size;
        }
        assert_int_equal(ftruncate(file, 0), 0);
        lseek(file, 0, SEEK_SET);
        log_event(LOG_INFO, "m", LOG_STR("k", slice_of(value, len)), LOG_INT("n", i));
        log_flush();
        slice lines = file_text();
        assert_int_equal(read_next(&lines), 5);
        assert_int_equal(lines.len, 0);
        assert_slice(pairs[3].value, cleaned(slice_of(value, len), want));
        /* nothing that a terminal or a reader could interpret as anything but text */
        for (const char *c = text; *c; c++)
            assert_true((unsigned char)*c >= 0x20 || (*c == '\n' && c[1] == '\0'));
        assert_null(strstr(text, "\x7f"));
        assert_null(strstr(text, "\xC2\x9b"));
        assert_null(strstr(text, "\xE2\x80\xAE"));
        assert_null(strstr(text, "\xE2\x80\xA8"));
    }
    close_file();
}

static void long_values_are_cut(void **state)
{
    (void)state;
    static const char *const units[] = {"x", "\x01", "\xE2\x82\xAC", "\xff", "\""};
    static char value[20000];
    open_file(LOG_INFO, LOG_JSON);
    for (size_t u = 0; u < ARRAY_LEN(units); u++) {
        size_t step = strlen(units[u]), len = 0;
        for (; len + step <= sizeof(value); len += step)
            memcpy(value + len, units[u], step);
        assert_int_equal(ftruncate(file, 0), 0);
        lseek(file, 0, SEEK_SET);
        log_event(LOG_INFO, "m", LOG_STR("k", slice_of(value, len)), LOG_INT("n", 1));
        log_flush();
        slice lines = file_text();
        assert_true(lines.len < LOG_VALUE_MAX + 200 && lines.len > LOG_VALUE_MAX);
        assert_int_equal(read_next(&lines), 5);
        assert_true(slice_ends_with(pairs[3].value, SLICE("...")));
        assert_slice(pairs[4].value, SLICE("1"));
    }
    close_file();
}

static void too_many_fields_are_left_out(void **state)
{
    (void)state;
    char value[900];
    memset(value, 'v', sizeof(value));
    for (int is_text = 0; is_text < 2; is_text++) {
        /* every length of the last field that fits, so one of them meets the limit exactly */
        for (size_t last = 300; last < 900; last++) {
            open_file(LOG_INFO, is_text ? LOG_TEXT : LOG_JSON);
            slice v = slice_of(value, sizeof(value));
            log_event(LOG_INFO, "m", LOG_STR("a", v), LOG_STR("b", v), LOG_STR("c", v),
                      LOG_STR("d", v), LOG_STR("e", slice_of(value, last)), LOG_INT("n", 1));
            log_flush();
            slice lines = file_text();
            assert_true(lines.len <= LOG_LINE_MAX && text[lines.len - 1] == '\n');
            bool is_cut = slice_ends_with(lines, is_text ? SLICE(" truncated=true\n")
                                                         : SLICE(",\"truncated\":true}\n"));
            bool is_whole =
                slice_ends_with(lines, is_text ? SLICE(" n=1\n") : SLICE(",\"n\":1}\n"));
            assert_true(is_cut != is_whole);
            assert_true(last < 800 || is_cut);
            assert_true(last > 350 || is_whole);
            if (!is_text)
                assert_in_range(read_next(&lines), 8, 9);
            close_file();
        }
    }
}

static void text_form_quotes_what_it_must(void **state)
{
    (void)state;
    open_file(LOG_INFO, LOG_TEXT);
    log_event(LOG_WARN, "slow turn", LOG_CSTR("path", "/api/x-1"), LOG_CSTR("empty", ""),
              LOG_CSTR("q", "a b\n\x1b[31m=\"x\""), LOG_MS("took", 1500000), LOG_BOOL("ok", false));
    slice line = file_text();
    assert_int_equal(line.ptr[2], ':');
    assert_slice(slice_from(line, 12),
                 SLICE(" WARN  slow turn path=/api/x-1 empty=\"\" q=\"a b\\n\\u001b[31m=\\\"x\\\"\""
                       " took=1.500 ok=false\n"));
    close_file();
}

static void a_terminal_gets_colours(void **state)
{
    (void)state;
    int master = posix_openpt(O_RDWR | O_NOCTTY | O_NONBLOCK);
    assert_true(master >= 0 && grantpt(master) == 0 && unlockpt(master) == 0);
    int slave = open(ptsname(master), O_RDWR | O_NOCTTY);
    assert_true(slave >= 0);
    const char *wanted[] = {"\x1b[31mERROR\x1b[0m bad \x1b[2mn=\x1b[0m1", " ERROR bad n=1"};
    for (int is_plain = 0; is_plain < 2; is_plain++) {
        is_plain ? setenv("NO_COLOR", "1", 1) : unsetenv("NO_COLOR");
        log_init(LOG_INFO, LOG_AUTO);
        log_set_fd(slave);
        log_event(LOG_ERROR, "bad", LOG_INT("n", 1));
        read_all(master);
        assert_non_null(strstr(text, wanted[is_plain]));
    }
    unsetenv("NO_COLOR");
    /* a terminal that is not read fills up; the loop keeps running */
    uint64_t dropped = log_dropped();
    for (int i = 0; i < 20000 && log_dropped() == dropped; i++)
        log_event(LOG_ERROR, "bad", LOG_INT("n", i));
    assert_true(log_dropped() > dropped);
    open_file(LOG_INFO, LOG_JSON);
    log_event(LOG_WARN, "here", LOG_INT("n", 1)); /* where the drops are reported */
    slice lines = file_text();
    read_next(&lines);
    assert_slice(pairs[2].value, SLICE("log lines dropped"));
    close_file();
    close(slave);
    close(master);
}

static void levels_filter(void **state)
{
    (void)state;
    static const char *const names[] = {"trace", "debug", "info", "warn", "error"};
    enum log_level level = LOG_ERROR;
    for (int min = LOG_TRACE; min <= LOG_ERROR; min++) {
        assert_true(log_level_parse(slice_cstr(names[min]), &level));
        assert_int_equal(level, min);
        open_file(level, LOG_JSON);
        assert_int_equal(log_level_get(), min);
        for (int at = LOG_TRACE; at <= LOG_ERROR; at++) {
            log_event((enum log_level)at, "m", LOG_INT("n", at));
            log_line((enum log_level)at, "m", NULL, 0);
        }
        log_flush();
        slice lines = file_text();
        for (int at = min; at <= LOG_ERROR; at++) {
            assert_int_equal(read_next(&lines), 4);
            assert_slice(pairs[1].value, slice_cstr(names[at]));
            assert_int_equal(read_next(&lines), 3);
        }
        assert_int_equal(lines.len, 0);
        close_file();
    }
    assert_false(log_level_parse(SLICE("INFO"), &level));
    assert_false(log_level_parse(SLICE_NONE, &level));
}

static void warnings_and_full_buffers_go_at_once(void **state)
{
    (void)state;
    open_file(LOG_INFO, LOG_JSON);
    log_event(LOG_INFO, "waits", LOG_INT("n", 1));
    assert_int_equal(file_text().len, 0);
    log_event(LOG_WARN, "goes", LOG_INT("n", 2));
    slice lines = file_text();
    assert_int_equal(read_next(&lines), 4);
    assert_int_equal(read_next(&lines), 4);
    assert_int_equal(lines.len, 0);
    for (int i = 0; i < LOG_BUFFER_BYTES / 64; i++)
        log_event(LOG_INFO, "fills", LOG_INT("n", i));
    assert_true(file_text().len > LOG_BUFFER_BYTES / 2);
    close_file();
}

/* Writes to fd until `drops` lines were dropped, without reading. Then it reads everything:
 * every line is complete and in order, and the drops are reported. */
static void check_backlog(int reader, int writer)
{
    int flags = fcntl(writer, F_GETFL);
    log_init(LOG_INFO, LOG_JSON);
    log_set_fd(writer);
    assert_int_equal(fcntl(writer, F_GETFL), flags); /* the file description is shared with
                                                      * others, so its flags stay unchanged */
    fcntl(reader, F_SETFL, O_NONBLOCK);
    uint64_t before = log_dropped(), sent = 0, lines_read = 0, told = 0;
    while (log_dropped() < before + 100)
        log_event(sent % 50 ? LOG_INFO : LOG_WARN, "m", LOG_INT("n", sent++));
    size_t got;
    int64_t last = -1, n;
    do {
        log_flush();
        slice lines = read_all(reader);
        got = lines.len;
        while (lines.len) {
            read_next(&lines);
            assert_true(slice_to_i64(pairs[3].value, &n));
            if (slice_eq_cstr(pairs[3].key, "lines")) {
                assert_slice(pairs[2].value, SLICE("log lines dropped"));
                told += (uint64_t)n;
                continue;
            }
            assert_int_equal(n, last + 1);
            last = n;
            lines_read++;
        }
    } while (got);
    assert_int_equal(told, 100);
    assert_int_equal(lines_read, sent - 100);
    log_set_fd(STDERR_FILENO);
    close(writer);
    close(reader);
}

static void a_full_pipe_drops_and_tells(void **state)
{
    (void)state;
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    check_backlog(ends[0], ends[1]);
    assert_int_equal(pipe2(ends, O_NONBLOCK), 0);
    check_backlog(ends[0], ends[1]);
}

static void a_full_socket_drops_and_tells(void **state)
{
    (void)state;
    int ends[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    check_backlog(ends[0], ends[1]);
}

/* If a pipe cannot be opened a second time, the log polls it before each write. */
static void a_blocking_pipe_is_asked_first(void **state)
{
    (void)state;
    int ends[2];
    struct log_sink sink = {.kind = LOG_SINK_STREAM, .is_blocking = true};
    char line[100];
    memset(line, 'x', sizeof(line));
    line[sizeof(line) - 1] = '\n';
    assert_int_equal(pipe(ends), 0);
    sink.fd = ends[1];
    ssize_t wrote, sum = 0;
    while ((wrote = log_sink_write(&sink, slice_of(line, sizeof(line)))) > 0)
        sum += wrote;
    assert_int_equal(wrote, 0);
    assert_int_equal(sum % (ssize_t)sizeof(line), 0);
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    assert_int_equal(read_all(ends[0]).len, sum);
    assert_int_equal(log_sink_write(&sink, slice_of(line, sizeof(line))), sizeof(line));
    close(ends[0]);
    assert_int_equal(log_sink_write(&sink, slice_of(line, sizeof(line))), -1);
    close(ends[1]);
}

static void a_closed_reader_does_no_harm(void **state)
{
    (void)state;
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    log_init(LOG_INFO, LOG_JSON);
    log_set_fd(ends[1]);
    close(ends[0]);
    uint64_t dropped = log_dropped();
    for (int i = 0; i < 50; i++)
        log_event(LOG_ERROR, "m", LOG_INT("n", i));
    assert_true(log_dropped() >= dropped + 50);
    log_set_fd(-1); /* a missing descriptor does no harm either */
    log_event(LOG_ERROR, "m", LOG_INT("n", 1));
    open_file(LOG_INFO, LOG_JSON);
    log_event(LOG_INFO, "back", LOG_INT("n", 1));
    log_flush();
    slice lines = file_text();
    read_next(&lines);
    assert_non_null(strstr(text, "log lines dropped"));
    assert_non_null(strstr(text, "back"));
    close_file();
    close(ends[1]);
}

static void a_child_does_not_repeat(void **state)
{
    (void)state;
    int status;
    open_file(LOG_INFO, LOG_JSON);
    log_event(LOG_INFO, "parent", LOG_INT("n", 1));
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        log_event(LOG_INFO, "child", LOG_INT("n", 2));
        log_flush();
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    log_flush();
    slice lines = file_text();
    read_next(&lines);
    assert_slice(pairs[2].value, SLICE("parent"));
    read_next(&lines);
    assert_slice(pairs[2].value, SLICE("child"));
    assert_int_equal(lines.len, 0);
    close_file();
}

static void *log_much(void *arg)
{
    for (int i = 0; i < 2000; i++)
        log_event(i % 100 ? LOG_INFO : LOG_WARN, "m", LOG_INT("thread", (intptr_t)arg),
                  LOG_INT("n", i));
    return NULL;
}

static void threads_do_not_mix_lines(void **state)
{
    (void)state;
    pthread_t threads[4];
    int64_t next[ARRAY_LEN(threads)] = {0}, thread, n;
    open_file(LOG_INFO, LOG_JSON);
    for (size_t i = 0; i < ARRAY_LEN(threads); i++)
        assert_int_equal(pthread_create(&threads[i], NULL, log_much, (void *)i), 0);
    for (size_t i = 0; i < ARRAY_LEN(threads); i++)
        pthread_join(threads[i], NULL);
    log_flush();
    slice lines = file_text();
    for (size_t i = 0; i < 2000 * ARRAY_LEN(threads); i++) {
        read_next(&lines);
        assert_true(slice_to_i64(pairs[3].value, &thread) && slice_to_i64(pairs[4].value, &n));
        assert_int_equal(n, next[thread]++);
    }
    assert_int_equal(lines.len, 0);
    close_file();
}

int main(void)
{
    signal(SIGPIPE, SIG_IGN);
    const struct CMUnitTest tests[] = {
        UNIT_TEST(writes_fields_in_order),
        UNIT_TEST(hostile_values_stay_values),
        UNIT_TEST(long_values_are_cut),
        UNIT_TEST(too_many_fields_are_left_out),
        UNIT_TEST(text_form_quotes_what_it_must),
        UNIT_TEST(a_terminal_gets_colours),
        UNIT_TEST(levels_filter),
        UNIT_TEST(warnings_and_full_buffers_go_at_once),
        UNIT_TEST(a_full_pipe_drops_and_tells),
        UNIT_TEST(a_full_socket_drops_and_tells),
        UNIT_TEST(a_blocking_pipe_is_asked_first),
        UNIT_TEST(a_closed_reader_does_no_harm),
        UNIT_TEST(a_child_does_not_repeat),
        UNIT_TEST(threads_do_not_mix_lines),
    };
    return cmocka_run_group_tests_name("base/log", tests, NULL, NULL);
}
