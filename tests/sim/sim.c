/*
 * The event loop and the program: `sim` runs SEEDS seeds, beginning with FIRST, each in a separate
 * process, JOBS at a time. SEED=n runs one seed, with its whole history on stdout. FLOWS and
 * EXECUTIONS set the amount of work in each, and BUG=1..7 plants a fault (seam/rows.h). `sim bugs`
 * plants each in turn.
 */
#include "sim/sim.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/log.h"
#include "base/mem.h"

enum {
    EVENTS_MAX = 3000000,
    STORM_MS = 240000,
    END_MS = 4 * 3600 * 1000,
    HISTORY_BYTES_MAX = 64 * 1024 * 1024,
    ENDPOINT_MS = 20 * 1000, /* the accounts make an endpoint, or delete it, this often */
    TOLD_BYTES =
        64 * 1024, /* how much of a failed history is printed, unless the whole is requested */
    FLOWS = 200,
    EXECUTIONS = 200,
    BUG_SEEDS_MAX = 1000,
    JOBS_MAX = 64,
};

static struct {
    char *text;
    size_t len, cap;
    bool is_shown;
} history;

/* ---- history ---- */

static void add_history(const char *text, size_t len)
{
    if (history.len + len > history.cap) {
        history.cap = history.cap ? history.cap * 2 : 1024 * 1024;
        history.text = realloc(history.text, history.cap);
    }
    if (history.len + len <= HISTORY_BYTES_MAX) {
        memcpy(history.text + history.len, text, len);
        history.len += len;
    }
}

void sim_note(const struct sim *sim, const char *format, ...)
{
    char line[600];
    va_list args;
    uint64_t us = (seam_now_ns() - sim->began_ns) / 1000;
    int len = snprintf(line, sizeof(line), "%6llu.%06llu  ", (unsigned long long)us / 1000000,
                       (unsigned long long)us % 1000000);
    va_start(args, format);
    len += vsnprintf(line + len, sizeof(line) - (size_t)len - 1, format, args);
    va_end(args);
    if (len > (int)sizeof(line) - 2)
        len = (int)sizeof(line) - 2;
    line[len++] = '\n';
    add_history(line, (size_t)len);
}

static void tell_history(void)
{
    size_t from = 0;
    if (!history.is_shown && history.len > TOLD_BYTES)
        from = history.len - TOLD_BYTES;
    (void)!write(STDOUT_FILENO, history.text + from, history.len - from);
}

_Noreturn void sim_fail(const struct sim *sim, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    tell_history();
    printf("# seed %llu: ", (unsigned long long)sim->seed);
    vprintf(format, args);
    printf(" (SEED=%llu make sim)\n", (unsigned long long)sim->seed);
    fflush(stdout);
    va_end(args);
    _exit(1);
}

static void on_abort(int signum)
{
    (void)signum;
    tell_history();
}

bool sim_chance(const struct sim *sim, unsigned of_thousand)
{
    return !sim->is_calm && of_thousand > 0 && seam_pick(1000) < of_thousand;
}

const char *sim_short(struct uuid id, char text[16])
{
    (void)snprintf(text, 16, "%02x%02x%02x%02x", id.bytes[12], id.bytes[13], id.bytes[14],
                   id.bytes[15]);
    return text;
}

/* ---- events ---- */

/* Each seed has its own rates of faults: some faults are frequent, some do not occur. */
static unsigned some(unsigned most)
{
    return seam_pick(3) == 0 ? 0 : (unsigned)seam_pick(most + 1);
}

static struct sim_storm draw_storm(void)
{
    return (struct sim_storm){
        .crash = some(6),
        .pause = some(6),
        .step = some(4),
        .refuse = some(40),
        .rollback = some(40),
        .lose = some(80),
        .for_good = some(400),
        .late = some(600),
        .call_fail = some(200),
        .refused = some(150),
        .handshake = some(990),
        .time = 20 + (unsigned)seam_pick(200),
    };
}

static uint64_t next_ns(const struct sim *sim)
{
    uint64_t next = sim_clients_next_ns(sim);
    for (size_t i = 0; i < SIM_NODES; i++) {
        const struct sim_node *node = &sim->nodes[i];
        bool runs = node->is_up && !node->is_paused;
        uint64_t at = runs ? seam_timer_ns(node->on.loop) : node->back_ns;
        next = at < next ? at : next;
    }
    return next;
}

/* Moves to the next timer, return of a node or action of a client, but at most this far. */
static void pass_time(struct sim *sim, uint64_t most_ns)
{
    uint64_t now = seam_now_ns(), next = next_ns(sim);
    uint64_t to = next > now ? next : now;
    seam_move_to_ns(to - now > most_ns ? now + most_ns : to);
    for (size_t i = 0; i < SIM_NODES; i++) {
        sim_node_return(sim, &sim->nodes[i]);
        sim_node_settle(sim, &sim->nodes[i]);
    }
}

/* Picks a query or a call. Returns false if none is waiting. */
static bool answer_some(struct sim *sim)
{
    size_t counts[SIM_NODES][2] = {{0}}, all = 0;
    for (size_t i = 0; i < SIM_NODES; i++) {
        const struct sim_node *node = &sim->nodes[i];
        if (!node->is_up)
            continue;
        all += counts[i][0] = seam_query_count(node->on.pool);
        all += counts[i][1] = node->is_paused ? 0 : seam_call_count(node->on.http);
    }
    if (all == 0)
        return false;
    size_t at = seam_pick(all);
    for (size_t i = 0; i < SIM_NODES; i++) {
        if (at < counts[i][0]) {
            sim_database_event(sim, &sim->nodes[i], at);
            return true;
        }
        at -= counts[i][0];
        if (at < counts[i][1]) {
            sim_provider_event(sim, &sim->nodes[i], at);
            return true;
        }
        at -= counts[i][1];
    }
    return true;
}

/* While accounts have endpoints, a transition with an event needs a statement that can write it. In
 * the end, those of every other seed have one. The database of tests/integration/test_sim.c has
 * none. */
static void move_endpoints(struct sim *sim)
{
    uint64_t turn = (seam_now_ns() - sim->began_ns) / (ENDPOINT_MS * UINT64_C(1000000));
    if (sim->is_calm)
        turn = 0;
    sim->store.has_endpoint = !getenv("RECORD") && (turn + sim->seed) % 2 == 0;
}

static void one_event(struct sim *sim)
{
    sim->events++;
    seam_move_to_ns(seam_now_ns() + (1 + seam_pick(20)) * 1000); /* no two events at exactly the
                                                                  * same moment */
    move_endpoints(sim);
    if (!sim->is_calm)
        sim_fault_event(sim);
    if (sim_chance(sim, sim->storm.time)) {
        pass_time(sim, (1 + seam_pick(400)) * 1000000);
    } else if (seam_pick(6) != 0 || !sim_client_event(sim)) {
        if (!answer_some(sim))
            pass_time(sim, UINT64_C(5000) * 1000000);
    }
}

static void calm_down(struct sim *sim)
{
    sim_note(sim, "the storm is over");
    sim->is_calm = true;
    for (size_t i = 0; i < SIM_NODES; i++) {
        sim->nodes[i].back_ns = seam_now_ns();
        sim->nodes[i].wall_shift_us = 0;
        sim_node_return(sim, &sim->nodes[i]);
    }
}

static void run_events(struct sim *sim)
{
    uint64_t storm_ns = sim->began_ns + (STORM_MS / 2 + seam_pick(STORM_MS)) * 1000000;
    uint64_t end_ns = storm_ns + END_MS * UINT64_C(1000000);
    while (sim->events < EVENTS_MAX && seam_now_ns() < end_ns) {
        if (!sim->is_calm && seam_now_ns() >= storm_ns)
            calm_down(sim);
        if (sim->is_calm && sim->events % 64 == 0 && sim_all_have_ended(sim))
            break;
        one_event(sim);
    }
    for (uint64_t until_ns = seam_now_ns() + UINT64_C(60000000000); seam_now_ns() < until_ns;)
        one_event(sim); /* events that nothing waits for */
}

/* ---- one seed ---- */

#define INPUT                                                                                  \
    "\"input\":{\"type\":\"object\",\"required\":[\"of\",\"confirm\"],\"properties\":{\"of\":" \
    "{\"type\":\"string\",\"description\":\"d\"},\"confirm\":{\"const\":true,\"description\":" \
    "\"d\"}},\"additionalProperties\":false},"
#define HEAD(key) \
    "{\"key\":\"" key "\",\"name\":\"" key "\",\"description\":\"d\"," INPUT "\"steps\":["
#define READ          "{\"key\":\"read\",\"type\":\"tool_call\",\"tool\":\"demo_get\",\"input\":{}}"
#define WAIT(seconds) "{\"key\":\"rest\",\"type\":\"wait\",\"for\":" seconds "}"

static const char *const template_texts[] = {
    HEAD("demo") READ "," WAIT("30") ",{\"key\":\"ask\",\"type\":\"approval\",\"title\":\"t\","
                                     "\"summary\":\"s\",\"expires_in\":3600},{\"key\":\"write\","
                                     "\"type\":\"tool_call\",\"tool\":"
                                     "\"demo_put\",\"confirmed_by\":\"approval:ask\",\"input\":{"
                                     "\"of\":\"${input.of}\"}}]}",
    HEAD("fan") READ
    ",{\"key\":\"writes\",\"type\":\"tool_call\",\"tool\":\"demo_put\",\"for_each\":"
    "\"steps.read.items\",\"concurrency\":2,\"confirmed_by\":\"start\",\"input\":{\"of\":"
    "\"${input.of}\",\"item\":\"${item}\"}}]}",
    HEAD("safe") "{\"key\":\"set\",\"type\":\"tool_call\",\"tool\":\"demo_set\",\"confirmed_by\":"
                 "\"start\",\"input\":{\"of\":\"${input.of}\"}}," WAIT(
                     "5") ",{\"key\":\"write\",\"type\":"
                          "\"tool_call\",\"tool\":\"demo_put\",\"confirmed_by\":\"start\","
                          "\"input\":{\"of\":"
                          "\"${input.of}\"}}]}",
    HEAD("paid") "{\"key\":\"pay\",\"type\":\"tool_call\",\"tool\":\"demo_pay\",\"confirmed_by\":"
                 "\"start\",\"input\":{\"of\":\"${input.of}\"}}," WAIT(
                     "5") ",{\"key\":\"remove\",\"type\":\"tool_call\",\"tool\":\"demo_del\","
                          "\"confirmed_by\":\"start\",\"input\":{\"of\":\"${input.of}\"}}]}",
    NULL,
};

static uint64_t setting(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text && *text ? strtoull(text, NULL, 10) : otherwise;
}

static void run_seed(struct sim *sim)
{
    seam_open(sim->seed);
    sim->storm = draw_storm();
    sim->began_ns = seam_now_ns();
    seam_store_init(&sim->store);
    sim->store.bug = sim->bug;
    sim->store.on_flow = sim_check_flow;
    sim->store.on_done = sim_record;
    sim_record_open();
    sim->store.owner = sim;
    sim_apps_connect(sim);
    sim_clients_init(sim, setting("EXECUTIONS", EXECUTIONS), setting("FLOWS", FLOWS));
    for (size_t i = 0; i < SIM_NODES; i++)
        sim_node_open(sim, &sim->nodes[i]);
    run_events(sim);
    sim_check_end(sim);
    for (size_t i = 0; i < SIM_NODES; i++)
        sim_node_close(sim, &sim->nodes[i]);
    sim_record_close();
}

/* Runs in the child. The process's exit status is the verdict. */
static void run_alone(struct sim *sim)
{
    (void)signal(SIGABRT, on_abort);
    run_seed(sim);
    if (history.is_shown) {
        tell_history();
        printf("# seed %llu: %zu events, %zu crashes, %zu answers lost, %zu writes, %.0f s\n",
               (unsigned long long)sim->seed, sim->events, sim->crashes, sim->lost, sim->writes,
               (double)(seam_now_ns() - sim->began_ns) / 1e9);
    }
    fflush(stdout);
    _exit(0);
}

/* is_quiet: its output is dropped. */
static pid_t begin_child(struct sim *sim, bool is_quiet)
{
    fflush(stdout);
    pid_t pid = fork();
    ASSERT(pid >= 0);
    if (pid == 0 && is_quiet &&
        (!freopen("/dev/null", "w", stdout) || !freopen("/dev/null", "w", stderr)))
        _exit(2);
    if (pid == 0)
        run_alone(sim);
    return pid;
}

static bool run_in_child(struct sim *sim, bool is_quiet)
{
    int status = 0;
    (void)waitpid(begin_child(sim, is_quiet), &status, 0);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* Plants each bug in turn. One of BUG_SEEDS_MAX seeds has to find it. */
static unsigned hunt_bugs(struct sim *sim, uint64_t seeds)
{
    unsigned missed = 0;
    printf("1..%d\n", SEAM_BUGS - 1);
    for (unsigned bug = SEAM_BUG_NONE + 1; bug < SEAM_BUGS; bug++) {
        sim->bug = (enum seam_bug)bug;
        sim->seed = 1;
        while (sim->seed <= seeds && run_in_child(sim, true))
            sim->seed++;
        missed += sim->seed > seeds;
        printf("%s %u - bug %u is found by seed %llu\n", sim->seed > seeds ? "not ok" : "ok", bug,
               bug, (unsigned long long)sim->seed);
    }
    return missed;
}

static bool end_seed(uint64_t number, uint64_t seed, int status)
{
    bool is_ok = WIFEXITED(status) && WEXITSTATUS(status) == 0;
    if (!is_ok && !(WIFEXITED(status) && WEXITSTATUS(status) == 1))
        printf("# seed %llu: the process died with status %d (SEED=%llu make sim)\n",
               (unsigned long long)seed, status, (unsigned long long)seed);
    printf("%s %llu - seed %llu\n", is_ok ? "ok" : "not ok", (unsigned long long)number,
           (unsigned long long)seed);
    return is_ok;
}

/* Runs JOBS at a time. */
static unsigned run_seeds(struct sim *sim, uint64_t first, uint64_t count)
{
    struct {
        pid_t pid;
        uint64_t seed;
    } jobs[JOBS_MAX] = {{0}};
    size_t jobs_max = setting("JOBS", 1), active = 0;
    unsigned failed = 0;
    jobs_max = jobs_max < 1 ? 1 : jobs_max > JOBS_MAX ? JOBS_MAX : jobs_max;
    printf("1..%llu\n", (unsigned long long)count);
    for (uint64_t begun = 0, ended = 0; ended < count;) {
        for (size_t i = 0; i < jobs_max && begun < count; i++)
            if (jobs[i].pid == 0) {
                sim->seed = jobs[i].seed = first + begun++;
                jobs[i].pid = begin_child(sim, false);
                active++;
            }
        int status;
        pid_t pid = wait(&status);
        ASSERT(pid > 0 && active > 0);
        for (size_t i = 0; i < jobs_max; i++)
            if (jobs[i].pid == pid) {
                failed += !end_seed(++ended, jobs[i].seed, status);
                jobs[i].pid = 0;
                active--;
            }
    }
    return failed;
}

int main(int argc, char **argv)
{
    struct sim *sim = calloc(1, sizeof(*sim));
    uint64_t first = setting("FIRST", 1), count = setting("SEEDS", 50);
    log_init(getenv("SIM_LOG") ? LOG_DEBUG : LOG_ERROR, LOG_JSON);
    history.is_shown = getenv("SEED") && *getenv("SEED");
    if (history.is_shown) {
        first = setting("SEED", 1);
        count = 1;
    }
    sim->catalog = sim_apps_catalog();
    sim->templates = sim_apps_templates(sim->catalog, template_texts);
    sim->ring = sim_apps_ring();
    sim->bug = (enum seam_bug)setting("BUG", SEAM_BUG_NONE);
    bool is_hunt = argc > 1 && strcmp(argv[1], "bugs") == 0;
    unsigned failed = is_hunt ? hunt_bugs(sim, BUG_SEEDS_MAX) : run_seeds(sim, first, count);
    flow_template_set_free(sim->templates);
    catalog_unref(sim->catalog);
    vault_ring_free(sim->ring);
    free(sim);
    (void)seam_close();
    return failed ? 1 : 0;
}
