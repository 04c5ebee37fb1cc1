// Nodes of the database are killed under a mixed load: a worker, the coordinator, and all of them.
// One comes back at another address. No confirmed write is made twice, no acknowledged result is
// lost, and once a node is back its accounts are served. This is the short form. SOAK_SECONDS=300
// kills a node every ten seconds for that long, on the release build, under 100 executions and 50
// flow starts per second (SOAK_RATE: rounds of two executions and one start). It runs alone,
// because it keeps both processors busy.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { pause } from '../e2e/support/client.mjs';
import { Stack } from '../e2e/support/stack.mjs';
import { Mixed } from '../e2e/support/mixed.mjs';

const SOAK_SECONDS = Number(process.env.SOAK_SECONDS ?? 0);
const SOAK = { clients: 64, rate: Number(process.env.SOAK_RATE ?? 50), bin: process.env.SLUICE_RELEASE_BIN };
const EVERY_MS = 10_000;

let stack, cluster, mixed;
before(async () => {
  stack = await Stack.start();
  cluster = stack.cluster;
  mixed = await Mixed.start(stack, { accounts: 8, ...(SOAK_SECONDS ? SOAK : {}) });
  mixed.begin();
  await mixed.progress();
});
after(() => stack?.stopWell(assert));

const kill = (names) => Promise.all(names.map((name) => cluster.killOne(name)));
const restart = (names) => Promise.all(names.map((name) => cluster.upOne(name)));

test('accounts of the other worker are served while one is down', async () => {
  const nodes = await Promise.all(mixed.accounts.map(({ id }) => cluster.nodeOf(id)));
  const others = mixed.accounts.filter((_, i) => nodes[i] !== 'w1');
  assert.ok(others.length > 0 && others.length < mixed.accounts.length, `${nodes}`);
  await kill(['w1']);
  for (let n = 0; n < 5; n++) for (const account of others) assert.ok(await mixed.answers(account));
  await restart(['w1']);
  await mixed.isBack();
  await mixed.progress();
});

test('a worker, the coordinator, all nodes are killed', async (t) => {
  const rounds = SOAK_SECONDS ? Math.ceil((SOAK_SECONDS * 1000) / EVERY_MS) : 3;
  const back = [];
  const [begun, from] = [Date.now(), mixed.writes.size];
  for (let n = 0; n < rounds; n++) {
    const begin = Date.now();
    const names = [['w2'], ['c'], cluster.names][n % 3];
    await kill(names);
    await pause(500);
    await restart(names);
    back.push(await mixed.isBack());
    await mixed.progress();
    if (SOAK_SECONDS) await pause(Math.max(0, begin + EVERY_MS - Date.now()));
  }
  const rate = ((mixed.writes.size - from) / (Date.now() - begun)) * 1000;
  t.diagnostic(`figure: served again ${back.join(', ')} ms after the start of the nodes, ${rate.toFixed(1)} rounds a second`);
});

test('a worker comes back at another address', async () => {
  await cluster.readdress('w1');
  await mixed.isBack();
  await mixed.progress();
});

test('no acknowledged result was lost, and no write was made twice', async (t) => {
  await mixed.end();
  const { unknown } = await mixed.check();
  t.diagnostic(`figure: ${mixed.writes.size} writes, ${unknown} of unknown outcome, ${mixed.flows.size} flows`);
});
