// The plan of every statement on a cluster, from EXPLAIN (test_routing.c), and the share of
// statements that touch one shard under a mixed load, by the nodes' own counts.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { pause } from '../e2e/support/client.mjs';
import { run } from '../e2e/support/process.mjs';
import { Stack } from '../e2e/support/stack.mjs';
import { Mixed } from '../e2e/support/mixed.mjs';

const ROUNDS = 200; // two executions and the start of a flow each
const SECONDS = 60; // the rarest scan runs once in this time, and first when a server has just started
const RATE = 50; // rounds a second for which the share is measured
const SHARDS = 8; // the number of shards in a test deployment

let stack;
before(async () => {
  stack = await Stack.start({ postgres: { shared_preload_libraries: 'citus,pg_stat_statements' } });
});
after(() => stack?.stopWell(assert));

test('the plan of every statement', async (t) => {
  const { code, stdout, stderr } = await run(process.env.SLUICE_ROUTING_BIN, [], { env: stack.env });
  for (const line of (stdout + stderr).split('\n')) if (line.includes('figure: ')) t.diagnostic(line.replace('# ', ''));
  assert.equal(code, 0, stdout + stderr);
});

// A scan of all shards is one statement that touches several shards, although each shard sees one
// statement. Scans run by time and the others by rounds, so the share is measured at a fixed rate,
// whatever the speed of this machine is.
test('of all statements at least 99 of 100 touch one shard', async (t) => {
  const { cluster } = stack;
  await cluster.sql('create extension pg_stat_statements');
  const mixed = await Mixed.start(stack, { accounts: 8, rate: (2 * ROUNDS) / SECONDS });
  for (const name of cluster.names) await cluster.sql('select pg_stat_statements_reset()', 'sluice', name);
  const begun = Date.now();
  mixed.begin();
  await mixed.progress(ROUNDS);
  await pause(Math.max(0, begun + SECONDS * 1000 - Date.now()));
  await mixed.end();
  const seconds = (Date.now() - begun) / 1000;
  const rows = [];
  for (const name of cluster.names) {
    const json = await cluster.sql(
      `select coalesce(json_agg(json_build_object('query', query, 'calls', calls)), '[]') from pg_stat_statements
       where query ~ 'sluice\\.'`,
      'sluice',
      name,
    );
    for (const row of JSON.parse(json)) rows.push({ name, ...row });
  }
  // A shard is a range of hashes. The parts of an account's tables have ids of their own, and
  // copies have no range.
  const ranges = new Map(
    (await cluster.sql('select shardid, shardminvalue from pg_dist_shard where shardminvalue is not null'))
      .split('\n')
      .map((row) => row.split('|')),
  );
  let one = 0;
  let more = 0;
  const scans = new Map();
  for (const { query, calls } of rows) {
    const ids = [...query.matchAll(/sluice\.\w+?_(\d{6})\b/g)].map((match) => match[1]);
    const touched = new Set(ids.map((id) => ranges.get(id)).filter(Boolean));
    if (touched.size === 0) continue;
    assert.equal(touched.size, 1, query);
    if (/account_id = \$|u\(account_id|insert into/.test(query)) one += calls;
    else {
      more += calls / SHARDS;
      const text = query.replace(/_\d{6}\b/g, '').slice(0, 150);
      scans.set(text, (scans.get(text) ?? 0) + calls);
    }
  }
  for (const [text, calls] of scans) t.diagnostic(`${calls} calls of a scan: ${text}`);
  const [perRound, perSecond] = [one / mixed.writes.size, more / seconds];
  const share = (RATE * perRound) / (RATE * perRound + perSecond);
  t.diagnostic(`figure: ${one} statements on one shard, ${Math.round(more)} on all, in ${seconds.toFixed(0)} s`);
  t.diagnostic(`figure: ${(share * 100).toFixed(1)} % on one shard at ${RATE} rounds a second`);
  assert.ok(perRound >= 3, `${perRound} statements a round`);
  assert.ok(share >= 0.99, `${share}`);
});
