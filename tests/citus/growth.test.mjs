// A cluster grows while it serves requests: a busy account's shard moves and is split, a worker is
// added, and the shards are rebalanced. No request is refused, and nothing is lost.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { until } from '../e2e/support/client.mjs';
import { Stack } from '../e2e/support/stack.mjs';
import { Mixed } from '../e2e/support/mixed.mjs';

let stack, cluster, mixed;
before(async () => {
  stack = await Stack.start();
  cluster = stack.cluster;
  mixed = await Mixed.start(stack, { accounts: 6 });
  mixed.begin();
});
after(() => stack?.stopWell(assert));

const portOf = (shard) =>
  cluster.sql(
    `select n.nodeport from pg_dist_placement p join pg_dist_node n on n.groupid = p.groupid where p.shardid = ${shard}`,
  );

test('a busy shard moves there and back', async (t) => {
  await mixed.progress();
  const [{ id }] = mixed.accounts;
  const shard = await cluster.sql(`select get_shard_id_for_distribution_column('sluice.connection', '${id}')`);
  for (let n = 0; n < 2; n++) {
    await until('the remains of a move are removed', async () => {
      await cluster.sql('call citus_cleanup_orphaned_resources()');
      return (await cluster.sql('select count(*) from pg_dist_cleanup')) === '0';
    });
    const from = Number(await portOf(shard));
    const to = from === cluster.port + 1 ? cluster.port + 2 : cluster.port + 1;
    await cluster.sql(`select citus_move_shard_placement(${shard}, '127.0.0.1', ${from}, '127.0.0.1', ${to}, 'force_logical')`);
    assert.equal(Number(await portOf(shard)), to);
    await mixed.progress();
  }
  t.diagnostic(`figure: ${mixed.requests} requests, ${mixed.refusals.length} refused`);
  assert.deepEqual(mixed.refusals, []);
});

// Splits onto the other worker. If a part stays on the shard's own node, Citus 13.2 waits forever
// when a row is changed between the creation of the replication slot and that of the part's primary
// key, as happens in a busy shard.
test('a busy shard is split', async (t) => {
  const [{ id }] = mixed.accounts;
  const row = await cluster.sql(
    `select shardid, shardminvalue, shardmaxvalue from pg_dist_shard
     where shardid = get_shard_id_for_distribution_column('sluice.connection', '${id}')`,
  );
  const [shard, first, last] = row.split('|').map(Number);
  const other = await cluster.sql(
    `select nodeid from pg_dist_node where groupid > 0 and nodeport <> ${await portOf(shard)}`,
  );
  await cluster.sql(
    `select citus_split_shard_by_split_points(${shard}, array['${Math.floor((first + last) / 2)}'], array[${other}, ${other}], 'force_logical')`,
  );
  assert.equal(await cluster.sql(`select count(*) from pg_dist_placement where shardid = ${shard}`), '0');
  await mixed.progress();
  t.diagnostic(`figure: ${mixed.requests} requests, ${mixed.refusals.length} refused`);
  assert.deepEqual(mixed.refusals, []);
});

test('a worker is added, and takes its share of the shards', async (t) => {
  await cluster.add('w3');
  await cluster.sql(`select citus_rebalance_start(shard_transfer_mode => 'force_logical')`);
  await cluster.sql('select citus_rebalance_wait()');
  const count = await cluster.sql(
    `select count(*) from pg_dist_placement p join pg_dist_node n on n.groupid = p.groupid
     join pg_dist_shard s on s.shardid = p.shardid
     where s.logicalrelid = 'sluice.connection'::regclass and n.nodeport = ${cluster.port + 3}`,
  );
  assert.ok(Number(count) >= 2, `${count} shards`);
  await mixed.progress(200);
  t.diagnostic(`figure: ${mixed.requests} requests, ${mixed.refusals.length} refused`);
  assert.deepEqual(mixed.refusals, []);
});

test('no write was lost or made twice', async () => {
  await mixed.end();
  assert.equal((await mixed.check()).unknown, 0);
  const [flow] = mixed.flows.keys();
  assert.equal(JSON.parse(await stack.must(['flow', 'explain', flow, '--json'])).flow_id, flow);
  await until('the servers have connected to the new worker', async () => {
    const count = await cluster.sql(`select count(*) from pg_stat_activity where application_name like 'sluice%'`, 'sluice', 'w3');
    return Number(count) > 0;
  });
});
