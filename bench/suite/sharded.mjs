// `make bench-citus`: sharded mode on a Citus cluster of three against set mode on one PostgreSQL,
// both on this machine and its cores, with the same settings (fsync on). Both servers run at once
// and are loaded alternately, so that a slow moment of the machine affects both. The load is that
// of eight accounts at a time, whose shards both workers have.
//
//   node bench/suite/sharded.mjs [--repetitions N] [--seconds S] [--only NAME|NAME...] [--out DIR]
//
// Prints each rate as a ratio, and what processor time an operation costs the server and the databases:
// where both processors are busy, that is what the rest of the rate is spent on. Writes sharded.json to
// build/bench (or --out). Exit status 1 where a ratio is under its bar.
import { mkdir, writeFile } from 'node:fs/promises';
import { cpus } from 'node:os';
import { join } from 'node:path';
import { Stage, own, root } from './stage.mjs';
import { family, rises, sum } from './workers.mjs';

const ACCOUNTS = 8;
const CONNECTIONS = 8; // of each
const ORDER = ['plain', 'sharded', 'sharded', 'plain'];
const FIGURES = [
  { name: 'read executions (small reply)', scenario: 'read_small', least: 0.6 },
  { name: 'read executions (3 KB reply)', scenario: 'read', least: 0.6 },
  { name: 'confirmed writes', scenario: 'write', least: 0.4 },
  { name: 'flow starts', scenario: own('flow_start'), least: 0.5 },
  { name: 'three-step flows', scenario: own('flow_three') },
  { name: 'GET of a flow', scenario: own('get_flow') },
];

const options = { repetitions: 3, seconds: 4, warmup: 1, only: null, out: join(root, 'build/bench') };
for (let i = 2; i < process.argv.length; i += 2) {
  const [name, value] = [process.argv[i].replace(/^--/, ''), process.argv[i + 1]];
  if (!(name in options) || value === undefined) throw new Error(`unknown option ${process.argv[i]}`);
  options[name] = name === 'only' ? value.split('|') : name === 'out' ? value : Number(value);
}
if (!process.env.SLUICE_CITUS_BIN) throw new Error('SLUICE_CITUS_BIN is not set: the programs of a PostgreSQL with Citus, which `make bench-citus` finds');
const median = (values) => [...values].sort((a, b) => a - b)[values.length >> 1];

async function begin(isSharded) {
  const stage = await Stage.start(options, { isSharded });
  try {
    const names = Array.from({ length: ACCOUNTS }, (_, n) => `tenant ${n}`);
    stage.accounts = await Promise.all(names.map((name) => stage.stack.account(name, { apps: ['gmail', 'notion'] })));
    if (isSharded) {
      const nodes = await Promise.all(stage.accounts.map(({ id }) => stage.stack.cluster.nodeOf(id)));
      stage.spread = new Set(nodes).size;
      if (stage.spread < 2) throw new Error(`all accounts are on ${nodes[0]}; run it again`);
    }
  } catch (error) {
    await stage.stop();
    throw error;
  }
  return stage;
}

const postmasters = ({ stack: { cluster } }) => Object.values(cluster.servers ?? { one: cluster.server }).map(({ pid }) => pid);
const used = async (pids) => Promise.all(pids.map(family));
const rise = (before, after) => sum(after.flatMap((one, i) => rises(before[i], one)));

// One slice: operations, seconds, and processor seconds of the server and of the databases.
async function slice(stage, scenario) {
  await stage.settle();
  const [server, databases] = [[stage.server.process.pid], postmasters(stage)];
  const before = [await used(server), await used(databases)];
  const reports = await Promise.all(
    stage.accounts.map(({ key }, n) => stage.load(scenario, { key, connections: CONNECTIONS, name: `sharded_${n}` })),
  );
  const after = [await used(server), await used(databases)];
  const rate = sum(reports.map((one) => one.per_second));
  // the processor time includes the warm-up
  const operations = rate * (options.seconds + options.warmup);
  return { rate, server_us: (1e6 * rise(before[0], after[0])) / operations, databases_us: (1e6 * rise(before[1], after[1])) / operations };
}

async function measure(stages, { name, scenario, least }) {
  const slices = { plain: [], sharded: [] };
  for (let i = 0; i < options.repetitions; i++) for (const mode of ORDER) slices[mode].push(await slice(stages[mode], scenario));
  const of = (mode, what) => median(slices[mode].map((one) => one[what]));
  const modes = Object.fromEntries(Object.keys(slices).map((mode) => [mode, Object.fromEntries(['rate', 'server_us', 'databases_us'].map((what) => [what, of(mode, what)]))]));
  const ratios = slices.sharded.map((one, i) => one.rate / slices.plain[i].rate);
  const row = { name, ...modes, ratio: modes.sharded.rate / modes.plain.rate, ratio_min: Math.min(...ratios), ratio_max: Math.max(...ratios), least };
  if (least !== undefined) row.is_met = row.ratio >= least;
  return row;
}

function print(row) {
  const describe = ({ rate, server_us, databases_us }) =>
    `${Math.round(rate).toLocaleString('en')}/s (${server_us.toFixed(0)} µs of the server, ${databases_us.toFixed(0)} of databases)`;
  const verdict = row.least === undefined ? '' : `, at least ${row.least}: ${row.is_met ? 'ok' : 'SHORT'}`;
  console.log(`${row.name}: ${row.ratio.toFixed(2)} (${row.ratio_min.toFixed(2)} to ${row.ratio_max.toFixed(2)}${verdict})`);
  console.log(`    one PostgreSQL ${describe(row.plain)}; sharded ${describe(row.sharded)}`);
}

const wanted = FIGURES.filter((figure) => !options.only || options.only.some((word) => figure.name.includes(word)));
if (wanted.length === 0) throw new Error(`no figure's name has ${options.only}`);
await mkdir(options.out, { recursive: true });
const stages = {};
const stop = () => Promise.all(Object.values(stages).map((stage) => stage.stop()));
const leave = () => stop().finally(() => process.exit(130));
process.once('SIGINT', leave).once('SIGTERM', leave);
try {
  stages.plain = await begin(false);
  stages.sharded = await begin(true);
  console.log(`${cpus().length} cores (${cpus()[0]?.model}), which also run the databases, providers and load; ${ACCOUNTS} accounts on ${stages.sharded.spread} workers`);
  const rows = [];
  for (const figure of wanted) {
    rows.push(await measure(stages, figure));
    print(rows.at(-1));
  }
  await writeFile(join(options.out, 'sharded.json'), `${JSON.stringify(rows, null, 1)}\n`);
  if (rows.some((row) => row.is_met === false)) process.exitCode = 1;
} finally {
  await stop();
}
