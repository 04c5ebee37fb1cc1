// `make bench-citus` works: rates of sharded mode against one PostgreSQL, at sizes that say nothing, and nothing
// stays behind. On the release build.
import assert from 'node:assert/strict';
import { chmod, mkdir, readFile, readdir } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { after, before, test } from 'node:test';
import { makeFolder, removeFolder, run } from '../e2e/support/process.mjs';

const suite = new URL('../../bench/suite/sharded.mjs', import.meta.url).pathname;
const release = (name) => join(dirname(process.env.SLUICE_RELEASE_BIN), name);
let out, temporary;

before(async () => {
  out = await makeFolder();
  temporary = join(out, 't');
  await mkdir(temporary);
  for (const dir of [out, temporary]) await chmod(dir, 0o711); // PostgreSQL's user passes through
});
after(() => removeFolder(out));

const bench = (args, env = {}) =>
  run(process.execPath, [suite, '--repetitions', '1', '--seconds', '1', '--out', out, ...args], {
    env: { SLUICE_BIN: release('sluice'), SLUICE_BENCH_BIN: release('sluice-bench'), SLUICE_PROVIDER_BIN: release('sluice-provider'), TMPDIR: temporary, ...env },
  });

test('rates of both are measured, and what they cost', async () => {
  const end = await bench(['--only', 'confirmed writes|GET of a flow']);
  const rows = JSON.parse(await readFile(join(out, 'sharded.json'), 'utf8'));
  assert.deepEqual(rows.map(({ name }) => name), ['confirmed writes', 'GET of a flow'], end.stdout + end.stderr);
  for (const row of rows) {
    for (const mode of ['plain', 'sharded'])
      for (const what of ['rate', 'server_us', 'databases_us']) assert.ok(row[mode][what] > 0, `${row.name}: ${mode} ${what}`);
    assert.equal(row.ratio, row.sharded.rate / row.plain.rate);
    assert.match(end.stdout, new RegExp(`^${row.name}: ${row.ratio.toFixed(2)} `, 'm'));
  }
  assert.equal(end.code, rows[0].is_met ? 0 : 1, 'the bar of writes decides');
  assert.deepEqual(await readdir(temporary), [], 'nothing stays behind');
});

test('what it does not know it says', async () => {
  assert.match((await bench(['--only', 'no such figure'])).stderr, /no figure's name has no such figure/);
  assert.match((await bench([], { SLUICE_CITUS_BIN: '' })).stderr, /SLUICE_CITUS_BIN is not set/);
});
