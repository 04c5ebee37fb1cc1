/*
 * Conninfo strings: parsed by libpq (URI or key=value), host lists split here, defaults from the
 * environment. Settings that libpq would resolve by itself, which blocks, are refused (service
 * files).
 *
 * Passwords are only in libpq's options (target->options) and in its PGconn. No message of this
 * file quotes the conninfo.
 */
#include "pg/target.h"

#include <stdlib.h>

#include "base/mem.h"

static const char *option_get(const PQconninfoOption *options, const char *keyword)
{
    for (const PQconninfoOption *o = options; o && o->keyword; o++)
        if (slice_eq(slice_cstr(o->keyword), slice_cstr(keyword)))
            return o->val && o->val[0] ? o->val : NULL;
    return NULL;
}

/* ---- host lists ---- */

static size_t list_count(slice list)
{
    size_t count = 1;
    for (size_t i = 0; i < list.len; i++)
        count += list.ptr[i] == ',';
    return count;
}

/* Returns item i of a comma-separated list; a list with a single item applies to all. */
static slice list_item(slice list, size_t i)
{
    if (list_count(list) == 1)
        return list;
    slice item = slice_split(&list, ',');
    while (i--)
        item = slice_split(&list, ',');
    return item;
}

static int host_init(struct pg_host *host, slice name, slice address, slice port)
{
    host->name = mem_strndup(name.ptr, name.len);
    host->address = mem_strndup(address.ptr, address.len);
    host->port = mem_strndup(port.ptr, port.len);
    return host->name && host->address && host->port ? OK : ERR_NOMEM;
}

static void host_deinit(struct pg_host *host)
{
    mem_free(host->name);
    mem_free(host->address);
    mem_free(host->port);
}

static int target_split_hosts(struct pg_target *target, slice names, slice addresses, slice ports,
                              struct err *err)
{
    /* Pairs the lists as libpq does: hostaddr and host item by item, one port for all or one for
     * each host. */
    size_t count = list_count(names.len ? names : addresses);
    if (count > PG_HOSTS_MAX)
        return err_set(err, ERR_INVALID,
                       "the database address lists %zu hosts, and at most %d are supported", count,
                       PG_HOSTS_MAX);
    if (names.len && addresses.len && list_count(addresses) != count)
        return err_set(err, ERR_INVALID,
                       "the database address has %zu host and %zu hostaddr values", count,
                       list_count(addresses));
    if (list_count(ports) != 1 && list_count(ports) != count)
        return err_set(err, ERR_INVALID, "the database address has %zu hosts but %zu ports", count,
                       list_count(ports));
    for (size_t i = 0; i < count; i++) {
        target->host_count++;
        slice name = names.len ? list_item(names, i) : SLICE("");
        slice address = addresses.len && count > 1 ? list_item(addresses, i) : addresses;
        if (host_init(&target->hosts[i], name, address, list_item(ports, i)) != OK)
            return err_set(err, ERR_NOMEM, "out of memory");
    }
    return OK;
}

static int target_find_hosts(struct pg_target *target, struct err *err)
{
    /* PQconninfoParse fills in no defaults. They apply only if the conninfo names neither host nor
     * hostaddr: a PGHOST next to an explicit hostaddr would name another server. */
    PQconninfoOption *defaults = PQconndefaults();
    if (!defaults)
        return err_set(err, ERR_NOMEM, "out of memory");
    const char *names = option_get(target->options, "host");
    const char *addresses = option_get(target->options, "hostaddr");
    const char *ports = option_get(target->options, "port");
    if (!names && !addresses) {
        names = option_get(defaults, "host");
        addresses = option_get(defaults, "hostaddr");
    }
    if (!ports)
        ports = option_get(defaults, "port");
    int rc = target_split_hosts(target, slice_cstr(names), slice_cstr(addresses),
                                slice_cstr(ports ? ports : "5432"), err);
    PQconninfoFree(defaults);
    return rc;
}

bool pg_host_needs_lookup(const struct pg_host *host)
{
    /* '/' begins a directory of Unix sockets, '@' a socket in Linux's abstract namespace. */
    return !host->address[0] && host->name[0] && host->name[0] != '/' && host->name[0] != '@';
}

/* ---- the target ---- */

static int target_parse(struct pg_target *target, const char *conninfo, struct err *err)
{
    char *why = NULL;
    target->options = PQconninfoParse(conninfo, &why);
    if (!target->options) {
        /* libpq's message may quote the text, including the password */
        PQfreemem(why);
        return err_set(err, ERR_INVALID,
                       "the database address is neither a postgresql:// URI nor key=value pairs");
    }
    /* libpq would read the service file while connecting and take hosts from it, which it would
     * then resolve with a blocking call. */
    if (option_get(target->options, "service") || getenv("PGSERVICE"))
        return err_set(err, ERR_INVALID,
                       "the database address names a service; write its host and dbname out");
    return target_find_hosts(target, err);
}

struct pg_target *pg_target_new(const char *conninfo, const char *application_name,
                                const char *settings, struct err *err)
{
    struct pg_target *target = mem_zalloc(sizeof(*target));
    if (!target)
        return err_null(err, ERR_NOMEM, "out of memory");
    if (target_parse(target, conninfo, err) != OK)
        goto fail;
    /* Set by a statement, not in the startup packet, because poolers refuse it there. */
    struct buf text;
    buf_init(&text, 64 * 1024);
    buf_printf(&text,
               "select set_config(s.name, w.value, false) from (values %s) w(name, value) "
               "join pg_catalog.pg_settings s on s.name = w.name and s.source <> 'client'",
               settings);
    target->settings = buf_take(&text, NULL);
    buf_deinit(&text);
    target->application_name = mem_strdup(application_name ? application_name : "sluice");
    if (target->settings && target->application_name)
        return target;
    err_set(err, ERR_NOMEM, "out of memory");
fail:
    pg_target_free(target);
    return NULL;
}

static void target_free_hosts(struct pg_target *target)
{
    for (size_t i = 0; i < target->host_count; i++)
        host_deinit(&target->hosts[i]);
}

bool pg_target_point_to(struct pg_target *target, const char *host, const char *port)
{
    struct pg_host one = {0};
    if (host_init(&one, slice_cstr(host), SLICE(""), slice_cstr(port)) != OK) {
        host_deinit(&one);
        return false;
    }
    target_free_hosts(target);
    target->hosts[0] = one;
    target->host_count = 1;
    return true;
}

bool pg_target_points_to(const struct pg_target *target, const char *host, const char *port)
{
    const struct pg_host *first = &target->hosts[0];
    return target->host_count == 1 && strcmp(first->name, host) == 0 &&
           strcmp(first->port, port) == 0;
}

void pg_target_free(struct pg_target *target)
{
    if (!target)
        return;
    target_free_hosts(target);
    if (target->options)
        PQconninfoFree(target->options);
    mem_free(target->application_name);
    mem_free(target->settings);
    mem_free(target);
}

/* ---- endpoints ---- */

enum { LIST_BYTES_MAX = 64 * 1024 };

void pg_endpoints_init(struct pg_endpoints *endpoints)
{
    endpoints->count = 0;
    for (size_t i = 0; i < ARRAY_LEN(endpoints->lists); i++)
        buf_init(&endpoints->lists[i], LIST_BYTES_MAX);
}

void pg_endpoints_deinit(struct pg_endpoints *endpoints)
{
    for (size_t i = 0; i < ARRAY_LEN(endpoints->lists); i++)
        buf_deinit(&endpoints->lists[i]);
}

void pg_endpoints_clear(struct pg_endpoints *endpoints)
{
    endpoints->count = 0;
    for (size_t i = 0; i < ARRAY_LEN(endpoints->lists); i++)
        buf_clear(&endpoints->lists[i]);
}

void pg_endpoints_add(struct pg_endpoints *endpoints, const struct pg_host *host,
                      const char *address)
{
    const char *const texts[] = {host->name, address, host->port};
    if (endpoints->count == PG_ENDPOINTS_MAX)
        return;
    /* A host with several addresses has as many entries: libpq requires three lists of equal
     * length. */
    const char *comma = endpoints->count++ ? "," : "";
    for (size_t i = 0; i < ARRAY_LEN(texts); i++)
        buf_printf(&endpoints->lists[i], "%s%s", comma, texts[i]);
}

/* ---- connecting ---- */

/* libpq knows some fifty keywords; nine are added here, and a NULL ends the lists. */
enum { KEYWORDS_MAX = 80 };

struct keywords {
    const char *names[KEYWORDS_MAX], *values[KEYWORDS_MAX];
    size_t count;
};

static void keyword_add(struct keywords *k, const char *name, const char *value)
{
    ASSERT(k->count < KEYWORDS_MAX - 1);
    k->names[k->count] = name;
    k->values[k->count++] = value;
}

/* target_keywords itself sets these, so the conninfo's values must not reach libpq as well. */
static bool keyword_is_ours(const char *name)
{
    slice ours = SLICE("host hostaddr port client_encoding service gssencmode");
    return slice_has_word(ours, slice_cstr(name));
}

/* Returns false if a list did not fit. */
static bool target_keywords(const struct pg_target *target, struct pg_endpoints *endpoints,
                            struct keywords *k)
{
    /* Placed before the conninfo's options: if a keyword is given twice, libpq takes the last. */
    keyword_add(k, "fallback_application_name", target->application_name);
    keyword_add(k, "connect_timeout", "10");
    for (const PQconninfoOption *o = target->options; o->keyword; o++)
        if (o->val && o->val[0] && !keyword_is_ours(o->keyword))
            keyword_add(k, o->keyword, o->val);
    static const char *const names[] = {"host", "hostaddr", "port"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        buf_append_char(&endpoints->lists[i], '\0');
        if (!buf_is_ok(&endpoints->lists[i]))
            return false;
        keyword_add(k, names[i], endpoints->lists[i].ptr);
    }
    keyword_add(k, "client_encoding", "UTF8");
    keyword_add(k, "gssencmode", "disable"); /* its probe blocks */
    return true;
}

PGconn *pg_target_connect_start(const struct pg_target *target, struct pg_endpoints *endpoints)
{
    struct keywords k = {.count = 0};
    if (!target_keywords(target, endpoints, &k))
        return NULL;
    /* 0: dbname is a name only, not another conninfo to be expanded. */
    return PQconnectStartParams(k.names, k.values, 0);
}

PGconn *pg_target_connect_blocking(const struct pg_target *target)
{
    struct keywords k = {.count = 0};
    struct pg_endpoints endpoints;
    pg_endpoints_init(&endpoints);
    for (size_t i = 0; i < target->host_count; i++)
        pg_endpoints_add(&endpoints, &target->hosts[i], target->hosts[i].address);
    bool fits = target_keywords(target, &endpoints, &k);
    PGconn *conn = fits ? PQconnectdbParams(k.names, k.values, 0) : NULL;
    pg_endpoints_deinit(&endpoints);
    /* An error does not close the connection: the command's own statements will meet the same
     * cause. */
    if (conn && PQstatus(conn) == CONNECTION_OK)
        PQclear(PQexec(conn, target->settings));
    return conn;
}
