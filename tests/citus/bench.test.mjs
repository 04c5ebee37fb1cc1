// `make bench-citus` works: it measures the rates of sharded mode and of one PostgreSQL, at sizes
// too small to be meaningful here, and leaves no files. On the release build.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { BenchRun } from '../e2e/support/bench.mjs';

const SMALL = ['--repetitions', '1', '--seconds', '1'];
let suite;
before(async () => (suite = await BenchRun.prepare(new URL('../../bench/suite/sharded.mjs', import.meta.url).pathname)));
after(() => suite?.remove());

const bench = (args, env) => suite.run([...SMALL, ...args], env);

test('the rates and the costs of both are measured', async () => {
  const end = await bench(['--only', 'confirmed writes|GET of a flow']);
  const rows = await suite.report('sharded.json');
  assert.deepEqual(rows.map(({ name }) => name), ['confirmed writes', 'GET of a flow'], end.stdout + end.stderr);
  for (const row of rows) {
    for (const mode of ['plain', 'sharded'])
      for (const what of ['rate', 'server_us', 'databases_us']) assert.ok(row[mode][what] > 0, `${row.name}: ${mode} ${what}`);
    assert.equal(row.ratio, row.sharded.rate / row.plain.rate);
    assert.match(end.stdout, new RegExp(`^${row.name}: ${row.ratio.toFixed(2)} `, 'm'));
  }
  assert.equal(end.code, rows[0].is_met ? 0 : 1, 'the limit for writes decides');
  assert.deepEqual(await suite.left(), [], 'no files are left');
});

test('an unknown figure is reported', async () => {
  assert.match((await bench(['--only', 'no such figure'])).stderr, /no figure's name has no such figure/);
  assert.match((await bench([], { SLUICE_CITUS_BIN: '' })).stderr, /SLUICE_CITUS_BIN is not set/);
});
