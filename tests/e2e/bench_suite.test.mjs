// `make bench` works: it measures every kind of figure, at sizes too small to be meaningful here,
// and leaves no files. On the release build.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { BenchRun } from './support/bench.mjs';

const { figures } = await import('../../bench/suite/figures.mjs');
const SMALL = ['--repetitions', '1', '--seconds', '1', '--warmup', '0', '--flows', '1000', '--pooled', '50', '--idle', '200', '--users', '40'];
// One figure of each kind. The others differ only in the scenario.
const KINDS = ['B of the small row', 'read executions (small', 'flow starts', 'step transitions', 'proxying', '(small) at 2,000/s', 'one read', 'longest turn',
  'fresh TLS handshakes', 'one: catalog search', 'share: catalog detail', 'of 50 users: read', '1,000 users', 'policy of 20 rules: read', 'delivered: three-step', 'beside strangers', 'tools/call (0.2 KB', 'dashboard', 'memory', 'start to ready', 'waiting flows'];
let suite;
before(async () => (suite = await BenchRun.prepare(new URL('../../bench/suite/suite.mjs', import.meta.url).pathname)));
after(() => suite?.remove());

const bench = (...args) => suite.run([...SMALL, ...args]);
const report = () => suite.report('report.json');

test('figures are measured, and the report has them', async () => {
  const end = await bench('--only', KINDS.join('|'));
  assert.equal(end.code, 0, end.stdout + end.stderr);
  const rows = await report();
  const names = figures.map((one) => one.name).filter((name) => KINDS.some((kind) => name.includes(kind)));
  assert.deepEqual(rows.map((row) => row.name), names);
  for (const row of rows) {
    for (const member of ['name', 'unit', 'value', 'base', 'ratio', 'ratio_min', 'ratio_max', 'repetitions']) assert.ok(member in row, `${row.name}: ${member}`);
    assert.ok(Number.isFinite(row.value), `${row.name}: ${row.value}`);
    assert.equal(row.ratio === null, row.base === null, row.name);
    assert.equal(row.repetitions, 1);
  }
  const rate = (part) => rows.find((row) => row.name.includes(part)).value;
  assert.ok(rate('wakes when due') > 0);
  assert.deepEqual(await suite.left(), [], 'no files are left');
});

test('a figure that cannot be measured is reported, and the others are measured', async () => {
  const end = await bench('--only', 'pooled|idle server', '--pooled', '100000');
  assert.equal(end.code, 1, end.stdout + end.stderr);
  assert.match(end.stdout, /not measured: memory of a pooled TLS connection: /);
  assert.deepEqual((await report()).map((row) => row.name), ['memory of an idle server']);
});

test('an unknown figure is reported', async () => {
  assert.match((await bench('--only', 'no such figure')).stderr, /no figure's name has no such figure/);
  assert.match((await bench('--colour', 'red')).stderr, /unknown option --colour/);
});
