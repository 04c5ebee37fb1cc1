// The figures: measure(stage) returns {value, base?}; against describes base; least and aim apply
// to the ratio if there is one, otherwise to the value; isLess: lower is better.
import { measurePeers } from '../peers/measure.mjs';
import { measureFairness } from './fairness.mjs';
import { measureStrangers } from './strangers.mjs';
import { own } from './stage.mjs';
import { measureConnectionMemory, measureIdleMemory, measurePooledMemory, measureStart } from './memory.mjs';
import { measureMcp } from './mcp.mjs';
import { measurePages } from './pages.mjs';
import { measurePolicy } from './policies.mjs';
import { measureTurns } from './turns.mjs';
import { measureUsers } from './users.mjs';
import { measureWaiting } from './waiting.mjs';
import { measureWebhooks } from './webhooks.mjs';
import { measureWorkers } from './workers.mjs';

// Values that several figures of one repetition share.
function shared(stage, name, measure) {
  if (!stage.shared.has(name)) stage.shared.set(name, measure());
  return stage.shared.get(name);
}

// The row of a read with a reply of 3 KB, which most figures use, and the row of a read with a
// small reply. Each figure is compared with the value measured just before it.
const B = 'B: pgbench inserts of the same row';
const B_SMALL = 'B of the small row';
const limit = (action) => async (stage) => {
  await stage.settle();
  return stage.inserts('gmail', action);
};
const inserts = limit('list_labels');
const insertsSmall = limit('get_profile');

const rate = async (stage, scenario, more) => {
  await stage.settle();
  return (await stage.load(scenario, more)).per_second;
};
const toB = (scenario, times = 1) => async (stage) => ({ base: await inserts(stage), value: times * (await rate(stage, scenario)) });

const added = (scenario, direct, percentile) => async (stage) => {
  const [with_, without] = await shared(stage, `added ${scenario}`, async () => {
    await stage.settle();
    return [
      await stage.load(scenario, { rate: 2000, name: `added_${scenario}` }),
      await stage.load(own(direct), { ...stage.direct, rate: 2000, name: `added_${direct}` }),
    ];
  });
  return { value: (with_.latency_us[percentile] - without.latency_us[percentile]) / 1000 };
};
const alone = (scenario) => async (stage) => ({ value: (await stage.load(scenario, { connections: 1, name: 'alone' })).latency_us.p50 / 1000 });
const part = (name, measure, key) => async (stage) => ({ value: (await shared(stage, name, () => measure(stage)))[key] });

const peer = (name, field) => async (stage) => {
  const all = await shared(stage, 'peers', () => measurePeers(stage));
  return { value: all.sluice[field], base: all[name][field] };
};

export const figures = [
  { name: 'B: single-row inserts, pgbench', unit: '1/s', measure: async (stage) => ({ value: await inserts(stage) }) },
  { name: 'B of the small row', unit: '1/s', measure: async (stage) => ({ value: await insertsSmall(stage) }) },
  { name: 'read executions (3 KB reply)', unit: '1/s', against: B, least: 1.0, aim: 1.5, measure: toB('read') },
  {
    name: 'read executions (small reply)', unit: '1/s', against: B_SMALL, least: 1.0, aim: 1.5,
    measure: async (stage) => ({ base: await insertsSmall(stage), value: await rate(stage, 'read_small') }),
  },
  { name: 'confirmed writes', unit: '1/s', against: B, least: 0.6, aim: 1.0, measure: toB('write') },
  { name: 'flow starts', unit: '1/s', against: B, least: 1.2, aim: 1.7, measure: toB(own('flow_start')) },
  { name: 'step transitions, each with its provider call', unit: '1/s', against: B, least: 0.5, aim: 0.85, measure: toB(own('flow_twenty'), 20) },
  { name: 'GET of an execution', unit: '1/s', against: B, least: 3, aim: 4, measure: toB('get_execution') },
  { name: 'GET of a flow', unit: '1/s', against: B, least: 3, aim: 4, measure: toB(own('get_flow')) },
  { name: 'idempotent replays', unit: '1/s', against: B, measure: toB('replay') },
  { name: 'catalog search', unit: '1/s', against: B, measure: toB('search') },
  { name: 'catalog detail', unit: '1/s', against: B, measure: toB('detail') },
  { name: 'approvals (start, wait, approve, completed)', unit: '1/s', against: B, measure: toB(own('flow_approval')) },
  { name: 'three-step flows', unit: '1/s', against: B, measure: toB(own('flow_three')) },
  {
    name: 'provider called directly', unit: '1/s', against: B,
    measure: async (stage) => ({ base: await inserts(stage), value: await rate(stage, own('provider'), stage.direct) }),
  },
  {
    name: 'nginx proxying the same call', unit: '1/s', against: B,
    measure: async (stage) => ({ base: await inserts(stage), value: await rate(stage, own('provider'), { ...(await stage.proxy()), name: 'nginx' }) }),
  },
  ...[['read', 'provider', '3 KB'], ['read_small', 'provider_small', 'small']].flatMap(([scenario, direct, size]) =>
    [['p50', 0.6, 0.35], ['p99', 3, 2]].map(([percentile, least, aim]) => ({
      name: `added to a direct call (${size}) at 2,000/s, ${percentile}`, unit: 'ms', isLess: true, least, aim,
      measure: added(scenario, direct, percentile),
    })),
  ),
  { name: 'one read execution at a time, p50', unit: 'ms', isLess: true, measure: alone('read') },
  { name: 'one three-step flow alone, start to completed, p50', unit: 'ms', isLess: true, measure: alone(own('flow_three')) },
  ...[['Restate', 'restate', 5, 8], ['DBOS', 'dbos', 10, 20]].map(([name, key, least, aim]) => ({
    name: `three-step flows against ${name}`, unit: '1/s', against: name, least, aim, measure: peer(key, 'per_second'),
  })),
  ...[['Restate', 'restate'], ['DBOS', 'dbos']].map(([name, key]) => ({
    name: `one three-step flow alone against ${name}, p50`, unit: 'ms', against: name, isLess: true, least: 0.5, aim: 0.25, measure: peer(key, 'alone_ms_p50'),
  })),
  { name: 'longest turn, fresh TLS handshakes: CPU', unit: 'ms', isLess: true, least: 5, aim: 1, measure: part('turns', measureTurns, 'cpu_ms') },
  { name: 'longest turn, fresh TLS handshakes: wall, at most', unit: 'ms', isLess: true, measure: part('turns', measureTurns, 'wall_ms') },
  { name: 'fresh TLS handshakes meanwhile', unit: '1/s', measure: part('turns', measureTurns, 'handshakes_per_s') },
  { name: 'two workers against one: catalog search', unit: 'x', least: 1.5, aim: 1.8, measure: (stage) => measureWorkers(stage, 'search', false) },
  { name: 'two workers against one, a core each: catalog search', unit: 'x', least: 1.5, aim: 1.8, measure: (stage) => measureWorkers(stage, 'search', true) },
  { name: 'two workers against one, a core each: replays', unit: 'x', least: 1.5, aim: 1.8, measure: (stage) => measureWorkers(stage, 'replay', true) },
  // no minimum: for a replay, PostgreSQL uses more of the two cores than the workers do
  { name: 'two workers against one: replays (database the limit)', unit: 'x', measure: (stage) => measureWorkers(stage, 'replay', false) },
  ...[['read executions', 'read_small'], ['confirmed writes', 'write'], ['flow starts', own('flow_start')], ['catalog search', 'search'], ['catalog detail', 'detail']].map(([what, scenario]) => ({
    name: `median beside an account at ten times its share: ${what}`, unit: 'ms', against: 'beside one at its share', isLess: true, least: 1.5, aim: 1.1,
    measure: (stage) => measureFairness(stage, scenario),
  })),
  ...[['read executions', 'read_small'], ['confirmed writes', 'write']].map(([what, scenario]) => ({
    name: `median beside an account at ten times its share, of 50 users: ${what}`, unit: 'ms', against: 'without users', isLess: true, least: 1.15, aim: 1.05,
    measure: (stage) => measureFairness(stage, scenario, 50),
  })),
  ...[['1,000', 0.05, 0.9, 1], ['20,000', 1, 0.7, 0.9]].map(([count, share, least, aim]) => ({
    name: `read executions of ${count} users in turn`, unit: '1/s', against: 'of the account itself', least, aim,
    measure: (stage) => measureUsers(stage, share),
  })),
  ...[['read executions', 'read_small', 0.9, 0.98], ['three-step flows', own('flow_three'), 0.95, 1], ['lists of actions', own('list'), 0.9, 0.98], ['catalog search', 'search', 0.9, 0.98]].map(([what, scenario, least, aim]) => ({
    name: `under a policy of 20 rules: ${what}`, unit: '1/s', against: 'without a policy', least, aim,
    measure: (stage) => measurePolicy(stage, scenario),
  })),
  ...[['starts', 'flow_start'], ['twenty-step flows', 'flow_twenty'], ['three-step flows', 'flow_three']].map(([what, scenario]) => ({
    name: `one endpoint, all its events delivered: ${what}`, unit: '1/s', against: 'without an endpoint', least: 0.4,
    measure: (stage) => measureWebhooks(stage, own(scenario)),
  })),
  {
    name: 'median beside strangers: read executions', unit: 'ms', against: 'beside the same flood under one key', isLess: true, least: 1.5, aim: 1.1,
    measure: (stage) => measureStrangers(stage, 'read_small'),
  },
  // no minimum for the reply of 3 KB: a result contains the text twice, for programs and for models
  ...[['0.2 KB', 'mcp_small', 'read_small', 1.15], ['3 KB', 'mcp', 'read', undefined]].map(([size, call, rest, least]) => ({
    name: `server CPU of a tools/call (${size} reply)`, unit: 'µs', against: 'POST /api/executions', isLess: true, least,
    measure: (stage) => measureMcp(stage, own(call), rest),
  })),
  { name: 'pages of the dashboard, p99 of the slowest: server time', unit: 'ms', isLess: true, least: 5, aim: 3, measure: measurePages },
  { name: 'memory of an idle server', unit: 'MiB', isLess: true, least: 16, aim: 8, measure: measureIdleMemory },
  { name: 'memory of an idle connection', unit: 'KiB', isLess: true, least: 2, aim: 1, measure: measureConnectionMemory },
  { name: 'memory of a pooled TLS connection', unit: 'KiB', isLess: true, least: 48, aim: 40, measure: measurePooledMemory },
  { name: 'start to ready on a current schema', unit: 'ms', isLess: true, least: 50, aim: 10, measure: measureStart },
  ...[['memory added', 'MiB', 'added_mib', 64, 32, true], ['ready after restart', 'ms', 'ready_ms', 2000, 1000, true],
    ['wakes when due (due to completed)', '1/s', 'wakes_per_s', 15_000, 30_000, false]].map(([what, unit, key, least, aim, isLess]) => ({
    name: `1,000,000 waiting flows: ${what}`, unit, least, aim, isLess, isLast: true, measure: part('waiting', measureWaiting, key),
  })),
];
