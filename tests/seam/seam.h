/*
 * seam: src/exec and src/flow run in one thread without PostgreSQL, sockets, threads or real time.
 * A program that includes this header is linked with tests/seam instead of pg's pool, http's client
 * and loop's threads (the Makefile detects the include). The kernel's clocks and its random numbers
 * are replaced too, for everything that is linked, including libuv. The code under test is src,
 * unchanged.
 *
 *   static void a_read_is_recorded_before_it_is_answered(void **state)
 *   {
 *       struct seam_node node;                          // a process: node.h
 *       struct seam_store store;                        // what is in the database: rows.h
 *       struct seam_run run;                            // a client's request: node.h
 *       ...                                             // set_up of tests/unit/exec/test_exec.c
 *       seam_run_exec(&run, &node, "get", "{}");
 *       seam_run_start(&run);
 *       seam_settle(node.loop);                         // runs whatever needs no answer
 *       seam_call_reply(seam_call(node.http, 0), 200, "{}");
 *       seam_settle(node.loop);
 *       struct pg_query *query = seam_query_named(node.pool, "execution_insert");
 *       assert_true(pg_value_is(seam_param(query, "status"), "succeeded"));
 *       assert_false(seam_run_has_ended(&run));
 *       seam_rows_answer(&store, query);                // or seam_query_fail, _lose, _row, _done
 *       seam_settle(node.loop);
 *       assert_int_equal(run.out.reason, EXEC_SUCCEEDED);
 *       seam_run_end(&run);
 *   }
 *
 * Put such a test into tests/unit/exec or tests/unit/flow: `make unit ROOM=exec T=exec` compiles
 * and runs it in seconds. Files: seam.h (time, queries, calls), rows.h (the store as rows: it runs
 * statements, and the test decides about their answers), node.h (a process, its clients, a demo app
 * and a demo template), walk.h (a whole sequence with one fault at a chosen place).
 *
 * Nothing happens by itself. seam_settle turns a loop until it can do nothing more at this moment.
 * seam_pass moves time from timer to timer. A query or a call waits until the test answers it,
 * loses it, fails it or leaves it alone. To wait for something with everything else answered, use
 * seam_walk_* without a place (walk.h).
 *
 * The seam reads only public headers of exec and flow. It sees the internals of loop, pg and http,
 * parts of which it replaces. There may be several nodes: each has a loop, a pool and a client of
 * its own.
 */
#ifndef TESTS_SEAM_SEAM_H
#define TESTS_SEAM_SEAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "http/client.h"
#include "loop/loop.h"
#include "loop/op.h"
#include "pg/pg.h"

/* ---- time and chance (time.c) ---- */

/* Seeds the random numbers: the same seed gives the same numbers. Time continues from its
 * present value. */
void seam_open(uint64_t seed);
/* Returns false if some memory is left that nothing will free. */
bool seam_close(void);
uint64_t seam_now_ns(void);
/* A number below `bound` for the test's own choices, independent of the numbers that src draws. */
uint64_t seam_pick(uint64_t bound);
/* Sets the offset of this machine's wall clock from its correct time. */
void seam_wall_shift_set(int64_t us);
int64_t seam_wall_shift(void);
/* The time of this loop's next timer; UINT64_MAX: it has none. */
uint64_t seam_timer_ns(struct loop *loop);
/* Turns the loop until nothing can run without an event. Time does not move. */
void seam_settle(struct loop *loop);
/* Only moves the time. If there are several loops, the caller settles each of them afterwards. */
void seam_move_to_ns(uint64_t now_ns);
/* Settles, then moves from timer to timer until that much time has passed. */
void seam_pass_ms(struct loop *loop, uint64_t ms);
/* Moves to the loop's next timer and settles. Returns false if there is none within that time. */
bool seam_pass_timer(struct loop *loop, uint64_t ms_max);
/* While threads are held, the tasks of op_offload stay on them. Once released, they run in
 * order. */
void seam_threads_hold(bool is_held);

/* ---- the database (pg.c) ---- */

/* Queries that were sent and wait for an answer, oldest first; NULL past the last. If another
 * query of this pool is changing the same row, a query is listed once the other is answered. */
struct pg_query *seam_query(struct pg_pool *pool, size_t index);
size_t seam_query_count(struct pg_pool *pool);
/* The oldest query of that statement, or NULL. */
struct pg_query *seam_query_named(struct pg_pool *pool, const char *name);
/* The statement as it was sent: after a lost answer, this is the second form. */
const struct pg_stmt *seam_query_stmt(const struct pg_query *query);
/* The value of the statement's parameter of that name (asserted to exist). */
const struct pg_value *seam_param(const struct pg_query *query, const char *name);
bool pg_value_is(const struct pg_value *value, const char *text);
/* Whether no caller waits for the query's rows any more. The query must still be answered. */
bool seam_query_is_abandoned(const struct pg_query *query);

/* Adds one row per call, with cells in the order of the statement's columns. seam_query_done
 * follows. */
void seam_row(struct pg_query *query, const struct pg_value *cells);
/* Adds rows without columns, or with has_event alone, as fenced statements return them. */
void seam_rows(struct pg_query *query, size_t count);
/* The policy of every key, as STORE_KEY_POLICY_TEXT selects it; the test resets it. */
extern slice seam_key_policy;
/* Answers the query with OK and the rows that seam_row has added. */
void seam_query_done(struct pg_query *query);
/* Whether the query was done and its answer is still on its way (seam_rows_do). */
bool seam_query_is_done(const struct pg_query *query);
void seam_query_done_set(struct pg_query *query);
/* Ends the query with ERR_BUSY, ERR_TIMEOUT, ERR_INVALID or ERR_IO: its statement was not done. */
void seam_query_fail(struct pg_query *query, int status);
/* Loses the connection before the answer arrives. The test decides whether the query was done. As
 * in the real pool, the query is sent again in its second form, or ends with ERR_CLOSED. */
void seam_query_lose(struct pg_query *query);
/* Like seam_query_lose, but the query is not sent again before its deadline: ERR_CLOSED. */
void seam_query_lose_for_good(struct pg_query *query);
/* While the database is unreachable, nothing is sent, and a query that waits too long ends with
 * ERR_BUSY. */
void seam_pool_away_set(struct pg_pool *pool, bool is_away);
/* Loses the queries that were sent and refuses all others, permanently: the process is shutting
 * down. */
void seam_pool_refuse(struct pg_pool *pool);

/* ---- providers (http.c) ---- */

/* Calls under way, oldest first; NULL past the last. */
struct http_call *seam_call(struct http_client *client, size_t index);
size_t seam_call_count(struct http_client *client);
/* The request as text: "POST https://...\nName: value\n\nbody". It is allocated, and the caller
 * frees it. */
char *seam_call_text(const struct http_call *call);
slice seam_call_body(const struct http_call *call);
/* Completes the handshake and sends the first byte. A second call is harmless. Returns false if the
 * checks at that moment stopped the call. */
bool seam_call_send(struct http_call *call);
void seam_call_reply(struct http_call *call, unsigned status, const char *body);
/* headers: pairs of name and value, ended by NULL. */
void seam_call_reply_with(struct http_call *call, unsigned status, const char *const *headers,
                          slice body);

enum seam_phase {
    SEAM_RESOLVE,   /* no such host */
    SEAM_DIAL,      /* refused */
    SEAM_HANDSHAKE, /* broken off */
    SEAM_UNSENT,    /* no byte could be sent in time */
    SEAM_SENT,      /* cut after the first byte of the request was sent */
    SEAM_SILENCE,   /* everything was sent, but nothing arrived in time */
    SEAM_MID_REPLY, /* cut within the reply's body */
    SEAM_GARBAGE,   /* the reply is not HTTP */
    SEAM_PHASES
};
const char *seam_phase_name(enum seam_phase phase);
void seam_call_fail(struct http_call *call, enum seam_phase phase);

#endif
