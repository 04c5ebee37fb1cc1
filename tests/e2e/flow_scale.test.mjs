// Many flows on the release build: 100,000 waiting flows cost next to nothing, and the row of a
// running flow is updated in place.
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { after, before, test } from 'node:test';
import { pause, until } from './support/client.mjs';
import { Stack } from './support/stack.mjs';
import { copies } from './support/waiting.mjs';

const WAITING = 100_000;
const IN_THE_HEAP = 50_000; // timers due within the next minute, of which at most about this many are in memory
const BYTES_MAX = 20e6;
const TRANSACTIONS_MAX = 3; // per second on an idle node, including its heartbeat
const SETTLE_S = 10; // a connection reports its counts to PostgreSQL at most this much later
const IDLE_S = 8;
const AHEAD_S = 58; // until the first timer is due, so that most are due within the next minute; more on a slow machine
const READY_MS_MAX = 15_000; // 300 on a quiet machine
const HOT_MIN = 0.95;

let stack, account;

before(async () => {
  // Turned off so that its transactions are not counted.
  stack = await Stack.start({ postgres: { autovacuum: 'off' } });
  account = await stack.account('scale', { apps: ['probe'] });
});
after(() => stack?.stopWell(assert));

const serve = () => stack.serve({ bin: process.env.SLUICE_RELEASE_BIN });
const start = async (server, flowTemplate, input) => {
  const reply = await server.call(account.key, 'POST', '/api/flows/start', { flowTemplate, input });
  assert.equal(reply.status, 200, reply.text);
  return reply.json.flowId;
};

async function stop(server) {
  const end = await server.stop();
  assert.deepEqual([end.code, end.signal], [0, null], server.log.slice(-3000));
  stack.forget(server);
}

async function metric(server, name) {
  return Number(new RegExp(`^${name} (\\S+)`, 'm').exec(await server.metrics())?.[1] ?? NaN);
}

async function residentBytes(server) {
  const status = await readFile(`/proc/${server.process.pid}/status`, 'utf8');
  return Number(/^VmRSS:\s+(\d+) kB/m.exec(status)[1]) * 1024;
}

// The first request of a kind has a one-time cost, which is not a flow's cost.
async function warm(server, id) {
  for (let i = 0; i < 20; i++) {
    const reply = await server.call(account.key, 'GET', `/api/flows/${id}`);
    assert.equal(reply.json.flow.status, 'waiting');
  }
}

async function model(server) {
  const id = await start(server, 'probe_wait', { until: '2999-01-01T00:00:00Z' });
  await until('it waits', async () => {
    const { json } = await server.call(account.key, 'GET', `/api/flows/${id}`);
    return json.flow.status === 'waiting';
  });
  return id;
}

// Returns [seconds, transactions], read from another database, whose transactions are not counted.
async function transactions() {
  const row = await stack.cluster.sql(
    `select extract(epoch from clock_timestamp()), xact_commit + xact_rollback
     from pg_stat_database where datname = 'sluice'`, 'postgres');
  return row.split('|').map(Number);
}

async function transactionRate(seconds) {
  const [at, count] = await transactions();
  await pause(seconds * 1000);
  const [at_end, count_end] = await transactions();
  return (count_end - count) / (at_end - at);
}

test(`${WAITING} waiting flows: memory, transactions, restart`, async (t) => {
  let seen;
  for (let ahead = AHEAD_S; !(seen = await costs(ahead)); ahead *= 2) assert.ok(ahead < 8 * AHEAD_S);
  const { ready_ms, grown, rate } = seen;
  t.diagnostic(`figure: ${WAITING} waiting flows: ready after ${ready_ms} ms`);
  t.diagnostic(`figure: ${WAITING} waiting flows: ${(grown / 1e6).toFixed(1)} MB more resident memory`);
  t.diagnostic(`figure: ${WAITING} waiting flows: ${rate.toFixed(2)} transactions a second on an idle node`);
  assert.ok(ready_ms < READY_MS_MAX, `ready after ${ready_ms} ms`);
  assert.ok(grown < BYTES_MAX, `${grown} bytes`);
  assert.ok(rate > 0 && rate <= TRANSACTIONS_MAX, `${rate} transactions a second`);
});

// The cost of WAITING flows. The first timers expire `ahead` seconds after the flows are made.
// Undefined if they expired before the measurement was complete.
async function costs(ahead) {
  const empty = await serve();
  const one = await model(empty);
  await warm(empty, one);
  const before = await residentBytes(empty);
  await stop(empty);

  // Most timers are within the horizon, which costs most, and none expires while the test measures.
  await copies(stack, one, 1, WAITING, `clock_timestamp() + case when n % 4 = 0 then interval '1 hour' else interval '${ahead} s' end`);
  const began = process.hrtime.bigint();
  const server = await serve();
  const ready_ms = Number((process.hrtime.bigint() - began) / 1000000n);
  const isHeld = async () => (await metric(server, 'sluice_flow_timers')) >= IN_THE_HEAP;
  const hasFired = async () => (await metric(server, 'sluice_flow_lateness_seconds_count')) > 0;
  await until('the flows of the next minute are in memory', async () => (await isHeld()) || hasFired(), ahead * 1000 + 60_000);
  await warm(server, one);
  const grown = (await residentBytes(server)) - before;
  await pause(SETTLE_S * 1000);
  const rate = await transactionRate(IDLE_S);
  const isDue = await hasFired();
  await stop(server);
  await stack.cluster.sql(`truncate sluice.flow, sluice.flow_doc, sluice.flow_step`);
  return isDue ? undefined : { ready_ms, grown, rate };
}

test('running -> running updates a row in place', async (t) => {
  const server = await serve();
  await stack.cluster.sql(`truncate sluice.flow, sluice.flow_doc, sluice.flow_step`);
  await stack.cluster.sql(`select pg_stat_reset_single_table_counters('sluice.flow'::regclass)`);
  const flows = 1200;
  let left = flows;
  const worker = async () => {
    while (left-- > 0) await start(server, left % 4 ? 'probe_ladder' : 'probe_chain', left % 4 ? {} : { subject: `hot ${left}`, confirm: true });
  };
  await Promise.all(Array.from({ length: 24 }, worker));
  await until('all have ended', async () => {
    await pause(100);
    return (await stack.cluster.sql(`select count(*) from sluice.flow where status = 'completed'`)) === String(flows);
  });
  await stop(server); // Its connections report their counts when they end.
  // rev counts the changes of a row. The last change was the flow's end.
  const changes = Number(await stack.cluster.sql(`select sum(rev - 1) from sluice.flow`));
  const counts = async () =>
    (await stack.cluster.sql(`select n_tup_upd, n_tup_hot_upd from pg_stat_user_tables where relid = 'sluice.flow'::regclass`)).split('|').map(Number);
  await until('PostgreSQL has counted them', async () => (await counts())[0] >= changes);
  const [updates, hot] = await counts();
  assert.equal(updates, changes);
  const share = hot / (updates - flows);
  t.diagnostic(`figure: ${(100 * share).toFixed(1)} % of ${updates - flows} running -> running updates are HOT`);
  assert.ok(updates - flows >= 5 * flows, `${updates - flows} updates of ${flows} flows`);
  assert.ok(share > HOT_MIN, `${hot} of ${updates - flows}`);
});
