// Migrates a database that an older version distributed: the changes and additions of later
// migrations reach the shards, and the schema equals that of a database that was migrated first and
// then distributed.
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { readFile, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { Stack } from '../e2e/support/stack.mjs';

const OLD = 16; // the oldest version whose tables could be distributed
const folder = join(process.env.SLUICE_ROOT, 'sql');

let stack, cluster;
before(async () => {
  stack = await Stack.start();
  cluster = stack.cluster;
});
after(() => stack?.stopWell(assert));

// The tables' columns, indexes and conditions, on the coordinator and in each node's shards. Parts
// of a shard are named by its id, partitions by their day. Those of former days are left out: a
// migration may leave them without an index (0031), but Citus builds all indexes of what it
// distributes.
async function schema(name) {
  const rows = await cluster.sql(
    `select c.relname, (select json_agg(json_build_array(a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull, pg_get_expr(d.adbin, d.adrelid)) order by a.attnum)
       from pg_attribute a left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum where a.attrelid = c.oid and a.attnum > 0),
       (select json_agg(pg_get_indexdef(indexrelid) order by 1) from (select indexrelid, pg_get_indexdef(indexrelid) from pg_index where indrelid = c.oid order by 2) i),
       (select json_agg(pg_get_constraintdef(oid) order by pg_get_constraintdef(oid)) from pg_constraint where conrelid = c.oid), c.reloptions
     from pg_class c where c.relnamespace = 'sluice'::regnamespace and c.relkind in ('r', 'p')
       and coalesce(substring(c.relname from '_(\\d{8})(_|$)'), '9') >= to_char(now() at time zone 'UTC', 'YYYYMMDD') order by 1`,
    'sluice',
    name,
  );
  return [...new Set(rows.replace(/_\d{6}\b/g, '').split('\n'))].sort();
}

// Applies the first migrations, recorded as `sluice migrate` does, and distributes their tables.
async function makeOld() {
  const files = (await readdir(folder)).filter((name) => /^\d{4}_/.test(name)).sort();
  await cluster.sql('drop schema sluice cascade');
  await cluster.sql(
    `create schema sluice; create table sluice.migration (version integer primary key check (version > 0),
     name text not null, checksum bytea not null, applied_at timestamptz not null)`,
  );
  for (const name of files.slice(0, OLD)) {
    const text = await readFile(join(folder, name), 'utf8');
    const hash = createHash('sha256').update(text).digest('hex');
    await cluster.sql(`${text}\n; insert into sluice.migration values (${Number(name.slice(0, 4))}, '${name}', '\\x${hash}', now())`);
  }
  const tables = new Set((await cluster.sql(`select tablename from pg_tables where schemaname = 'sluice'`)).split('\n'));
  const script = (await readFile(join(folder, 'citus.sql'), 'utf8')).split('\n');
  const isThere = (line) => {
    const table = /^select pg_temp\.\w+\('sluice\.(\w+)'\)/.exec(line)?.[1];
    return !table || tables.has(table);
  };
  await cluster.sql(`set citus.shard_count = 8; ${script.filter(isThere).join('\n')}`);
}

test('later migrations reach a database that is distributed', async () => {
  // one partition more, which a server has created afterwards
  const further = () => cluster.sql('select sluice.partitions_make(8)');
  await further();
  const fresh = await Promise.all(cluster.names.map(schema));
  await makeOld();
  await stack.must(['migrate']);
  await further();
  for (const [i, name] of cluster.names.entries()) assert.deepEqual(await schema(name), fresh[i], name);
});

test('it serves', async () => {
  const server = await stack.serve();
  for (let n = 0; n < 4; n++) {
    const { key } = await stack.account(`upgraded ${n}`, { apps: ['probe'] });
    const reply = await server.execute(key, 'probe', 'send', { subject: `upgraded ${n}` }, { confirm: true, idempotency_key: 'one' });
    assert.equal(reply.status, 200, reply.text);
    const listed = await server.call(key, 'GET', '/api/executions');
    assert.equal(listed.json.executions[0].execution_id, reply.json.execution_id);
  }
});
