// 10,000 timers fire on time and once each, on one node and on two that both have all of them in
// memory. Lateness is measured by the server's clock at the end of the step that waited, which is
// later than its beginning. On the release build. It runs alone, because it measures lateness.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { pause, until } from './support/client.mjs';
import { whileCounting } from './support/machine.mjs';
import { Stack } from './support/stack.mjs';
import { copies } from './support/waiting.mjs';

const TIMERS = 10_000;
const P99_LATE_S_MAX = 2; // 0.1 on a quiet machine. The limit is much higher, since a slow machine is not the server's fault.
const INSTANT_S_MAX = 5; // 0.8 on a quiet machine
const ROUNDS_MAX = 3; // another round if the machine was busy with something else
const STOLEN_MAX = 0.05; // If the host takes this share of the processors in every round, the lateness says nothing about the server.

let stack, account;

before(async () => {
  stack = await Stack.start();
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

async function model(server) {
  const id = await start(server, 'probe_wait', { until: '2999-01-01T00:00:00Z' });
  await until('it waits', async () => {
    const { json } = await server.call(account.key, 'GET', `/api/flows/${id}`);
    return json.flow.status === 'waiting';
  });
  return id;
}

// Checks that each timer ran once: one take, one end, and no other changes. The step began no later
// than it ended.
async function judgeTimers(t, what, which) {
  const of = `from sluice.flow f join sluice.flow_step s on s.account_id = f.account_id and s.flow_id = f.id and s.step_index = 0 where ${which}`;
  const late = `extract(epoch from s.finished_at - f.wake_at)`;
  const row = await stack.cluster.sql(
    `select count(*), count(*) filter (where f.status = 'completed'), count(distinct f.rev), max(f.adoptions),
     min(${late}), percentile_cont(array[0.5, 0.99, 1]) within group (order by ${late}) ${of}`);
  const [count, completed, revs, adoptions, least, quantiles] = row.split('|');
  const [median, p99, most] = quantiles.slice(1, -1).split(',').map(Number);
  assert.deepEqual([count, completed, revs, adoptions], [`${TIMERS}`, `${TIMERS}`, '1', '0']);
  assert.ok(Number(least) >= 0, `${least} s late: before its time`);
  const ms = (s) => Math.round(s * 1000);
  t.diagnostic(`figure: ${TIMERS} timers ${what}: late median ${ms(median)} ms, p99 ${ms(p99)} ms, at most ${ms(most)} ms`);
  return { p99, most };
}

// Runs both sets once, on new servers, and returns how late they were. However busy the machine is,
// each timer runs once. If the servers were ready only after the first timer expired, the next
// round leaves them more time.
let batches = 0;
let ahead = 5; // seconds
async function round(t, nodes, said) {
  const first = await serve();
  const one = await model(first);
  await stop(first);
  const began = Date.now();
  const spread = await copies(stack, one, ++batches, TIMERS, `now() + interval '${ahead} s' + n * interval '1 s' / ${TIMERS}`);
  const instant = await copies(stack, one, ++batches, TIMERS, `now() + interval '${ahead + 4} s'`);
  const servers = await Promise.all(Array.from({ length: nodes }, serve));
  const took = (Date.now() - began) / 1000;
  if (took > ahead) ahead = Math.ceil(2 * took);
  const taken = async () => {
    const counts = await Promise.all(servers.map((one) => metric(one, 'sluice_flow_lateness_seconds_count')));
    return counts.reduce((sum, count) => sum + (count || 0), 0);
  };
  await until('all have been taken', async () => {
    await pause(200);
    return (await taken()) >= 2 * TIMERS;
  });
  await until('all have ended', async () => {
    await pause(200);
    return (await stack.cluster.sql(`select count(*) from sluice.flow where status = 'running'`)) === '0';
  });
  assert.equal(await taken(), 2 * TIMERS, 'none was taken twice');
  const { p99 } = await judgeTimers(t, `spread over 1 s, ${said}`, spread);
  const { most } = await judgeTimers(t, `at one instant, ${said}`, instant);
  for (const server of servers) await stop(server);
  assert.doesNotMatch(stack.cluster.server.log, /deadlock|lock timeout/, 'nodes do not wait for each other');
  return { p99, most };
}

for (const [nodes, said] of [[1, 'one node'], [2, 'two nodes']])
  test(`${TIMERS} timers over one second, then ${TIMERS} at one instant, on ${said}`, async (t) => {
    const best = { p99: Infinity, most: Infinity };
    const isMet = () => best.p99 < P99_LATE_S_MAX && best.most < INSTANT_S_MAX;
    let least = 1;
    for (let i = 0; i < ROUNDS_MAX && !isMet(); i++) {
      const { result, stolen } = await whileCounting(() => round(t, nodes, said));
      best.p99 = Math.min(best.p99, result.p99);
      best.most = Math.min(best.most, result.most);
      least = Math.min(least, stolen);
    }
    if (!isMet() && least > STOLEN_MAX) {
      t.diagnostic(`figure: lateness is not checked: the host took ${Math.round(least * 100)} % of the processors or more`);
      return;
    }
    assert.ok(best.p99 < P99_LATE_S_MAX, `p99 is ${best.p99} s late`);
    assert.ok(best.most < INSTANT_S_MAX, `the last began ${best.most} s late`);
  });
