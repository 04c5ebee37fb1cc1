// `make bench`: the figures of README "Performance", each as a ratio to a limit of this machine that
// is measured in the same repetition, because the machine's speed changes from minute to minute.
//
//   node bench/suite/suite.mjs [--repetitions N] [--seconds S] [--only NAME,...]
//
// Starts a PostgreSQL of its own (fsync on), the emulated provider and the release build of the
// server on free ports, as the end-to-end tests do, and stops them again. Writes
// build/bench/report.json: rows of {name, unit, value, base, ratio, ratio_min, ratio_max,
// repetitions}; medians.
import { execFileSync } from 'node:child_process';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { cpus } from 'node:os';
import { join } from 'node:path';

const root = new URL('../..', import.meta.url).pathname;
process.env.SLUICE_BIN ??= join(root, 'build/sluice');
process.env.SLUICE_PROVIDER_BIN ??= join(root, 'build/sluice-provider');
const { Stack, credentials } = await import('../../tests/e2e/support/stack.mjs');
const { startNginx } = await import('../../tests/e2e/support/nginx.mjs');
const { must, run } = await import('../../tests/e2e/support/process.mjs');
const { until } = await import('../../tests/e2e/support/client.mjs');

const options = { repetitions: 5, seconds: 4, only: null };
for (let i = 2; i < process.argv.length; i += 2) {
  const [name, value] = [process.argv[i], process.argv[i + 1]];
  if (name === '--only') options.only = value.split(',');
  else if (name === '--repetitions') options.repetitions = Number(value);
  else if (name === '--seconds') options.seconds = Number(value);
  else throw new Error(`unknown option ${name}`);
}

const bench = join(root, 'build/sluice-bench');
const folder = join(root, 'build/bench');
const taskParent = '1c5f7a3e-9b24-4d68-8f0a-6e2d4c8b9a10';
let stack, server, account, nginx, direct;

// ---- measuring ----

// One run of sluice-bench; its report.
async function load(scenario, { base = server.base, key = account.key, connections = 64, rate, ca } = {}) {
  const json = join(folder, `${scenario.split('/').pop().replace('.json', '')}.json`);
  const args = ['--base', base, '--scenario', scenario, '--connections', connections, '--duration', options.seconds,
    '--warmup', 1, '--json', json, '--html', json.replace(/json$/, 'html'), '--var', `task_parent=${taskParent}`, '--quiet'];
  if (rate) args.push('--rate', rate);
  if (ca) args.push('--ca-file', ca);
  await must(bench, args.map(String), { env: { SLUICE_KEY: key } });
  return JSON.parse(await readFile(json, 'utf8'));
}
// The scenarios of this folder are not compiled in: they need its catalog.
const own = (name) => join(root, `bench/suite/scenarios/${name}.json`);
const rate = async (scenario, more) => (await load(scenario, more)).per_second;

// B: one execution row an insert and a commit, 32 clients, prepared; the id as sluice makes it.
const insertRow = `\\set a random(0, 4095)
\\set b random(0, 1000000000000000000)
insert into sluice.execution (account_id, id, integration_id, action_id, status, started_at, finished_at, owner, summary)
values ('@account', (lpad(to_hex((extract(epoch from clock_timestamp()) * 1000)::bigint), 12, '0') || '7' || lpad(to_hex(:a::bigint), 3, '0')
|| '8' || lpad(to_hex(:b::bigint), 15, '0'))::uuid, 'gmail', 'list_labels', 'succeeded', now(), now(), '@account', '@summary');
`;
async function measureInserts() {
  const file = join(folder, 'insert.sql');
  const row = await stack.cluster.sql(`select summary from sluice.execution limit 1`);
  // a colon before a word would be a variable of pgbench's
  const text = row.replaceAll("'", "''").replaceAll('":', '": ').replaceAll(/:(?=\w)/g, '\\u003a');
  await writeFile(file, insertRow.replaceAll('@account', account.id).replace('@summary', () => text));
  const args = ['-h', stack.cluster.home, '-U', 'sluice', '-n', '-M', 'prepared', '-c', '32', '-j', '2', '-T', String(options.seconds), '-f', file, 'sluice'];
  const said = await must(join(stack.cluster.bin, 'pgbench'), args);
  return Number(/^tps = ([0-9.]+)/m.exec(said)[1]);
}

const median = (values) => {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
};

// ---- the figures: measure() gives {value, base?}; better: which way ----

const B = 'B: pgbench inserts of the same row';
let inserts; // of this repetition
const ofInserts = async (value) => ({ value, base: inserts });

const figures = [
  { name: 'B: single-row inserts, pgbench', unit: '1/s', measure: async () => ({ value: inserts }) },
  { name: 'read executions', unit: '1/s', against: B, least: 1.0, aim: 1.5, measure: async () => ofInserts(await rate('read')) },
  { name: 'confirmed writes', unit: '1/s', against: B, least: 0.6, aim: 1.0, measure: async () => ofInserts(await rate('write')) },
  { name: 'flow starts', unit: '1/s', against: B, least: 1.2, aim: 1.7, measure: async () => ofInserts(await rate(own('flow_start'))) },
  {
    name: 'step transitions, each with its provider call', unit: '1/s', against: B, least: 0.5, aim: 0.85,
    measure: async () => ofInserts(20 * (await rate(own('flow_twenty')))),
  },
  { name: 'GET of an execution', unit: '1/s', against: B, least: 3, aim: 4, measure: async () => ofInserts(await rate('get_execution')) },
  { name: 'GET of a flow', unit: '1/s', against: B, least: 3, aim: 4, measure: async () => ofInserts(await rate(own('get_flow'))) },
  { name: 'idempotent replays', unit: '1/s', against: B, measure: async () => ofInserts(await rate('replay')) },
  { name: 'catalog search', unit: '1/s', against: B, measure: async () => ofInserts(await rate('search')) },
  { name: 'catalog detail', unit: '1/s', against: B, measure: async () => ofInserts(await rate('detail')) },
  { name: 'approvals (start, wait, approve, completed)', unit: '1/s', against: B, measure: async () => ofInserts(await rate(own('flow_approval'))) },
  { name: 'three-step flows', unit: '1/s', against: B, measure: async () => ofInserts(await rate(own('flow_three'))) },
  {
    name: 'provider called directly', unit: '1/s', against: B,
    measure: async () => ofInserts(await rate(direct.scenario, direct)),
  },
  {
    name: 'nginx proxying the same call', unit: '1/s', against: B,
    measure: async () => ofInserts(await rate(direct.scenario, { key: direct.key, base: `http://127.0.0.1:${nginx.port}` })),
  },
  ...[['p50', 0.6, 0.35], ['p99', 3, 2]].map(([percentile, least, aim]) => ({
    name: `added to a direct call at 2,000/s, ${percentile}`, unit: 'ms', isLess: true, least, aim,
    measure: async () => {
      const [with_, without] = await added();
      return { value: (with_.latency_us[percentile] - without.latency_us[percentile]) / 1000 };
    },
  })),
  {
    name: 'one read execution at a time, p50', unit: 'ms', isLess: true,
    measure: async () => ({ value: (await load('read', { connections: 1 })).latency_us.p50 / 1000 }),
  },
  {
    name: 'one three-step flow alone, start to completed, p50', unit: 'ms', isLess: true,
    measure: async () => ({ value: (await load(own('flow_three'), { connections: 1 })).latency_us.p50 / 1000 }),
  },
  { name: 'memory of an idle server', unit: 'MiB', isLess: true, least: 16, aim: 8, measure: measureIdleMemory },
  { name: 'memory of an idle connection', unit: 'KiB', isLess: true, least: 2, aim: 1, measure: measureConnectionMemory },
  { name: 'start to ready on a current schema', unit: 'ms', isLess: true, least: 50, aim: 10, measure: measureStart },
];

// Both percentiles come from one pair of runs.
let addedRuns;
async function added() {
  addedRuns ??= [await load('read', { rate: 2000 }), await load(direct.scenario, { ...direct, rate: 2000 })];
  return addedRuns;
}

const residentKib = async (pid) => Number(/^VmRSS:\s+(\d+)/m.exec(await readFile(`/proc/${pid}/status`, 'utf8'))[1]);

async function measureIdleMemory() {
  const fresh = await serve();
  const value = (await residentKib(fresh.process.pid)) / 1024;
  await stop(fresh);
  return { value };
}

async function measureConnectionMemory() {
  const { connect } = await import('node:net');
  const count = 5000;
  const fresh = await serve();
  const sockets = [];
  const open = () => new Promise((resolve, reject) => {
    const socket = connect(fresh.port, '127.0.0.1', () => resolve(sockets.push(socket))).on('error', reject);
  });
  await open();
  const before = await residentKib(fresh.process.pid);
  while (sockets.length < count) await Promise.all(Array.from({ length: 100 }, open));
  await until('all are accepted', async () => Number(/^sluice_http_connections (\d+)/m.exec(await fresh.metrics())[1]) >= count);
  const value = ((await residentKib(fresh.process.pid)) - before) / count;
  for (const socket of sockets) socket.destroy();
  await stop(fresh);
  return { value };
}

// From the process's first instruction (the dynamic linker's) to the moment that requests are answered.
async function measureStart() {
  const fresh = await serve();
  const said = () => /"ready_ms":([0-9.]+)/.exec(fresh.log)?.[1];
  await until('the log says how long it took', said);
  const value = Number(said());
  await stop(fresh);
  return { value };
}

// ---- the stage ----

const serve = () => stack.serve({ args: ['--catalog', join(root, 'bench/suite/catalog')], env: { SLUICE_TURN_CPU_MS_MAX: '', SLUICE_CATALOG: '' } });

async function stop(one) {
  const end = await one.stop();
  stack.forget(one);
  if (end.code !== 0) throw new Error(`the server ended with ${end.code ?? end.signal}\n${one.log.slice(-4000)}`);
}

async function setUp() {
  await mkdir(folder, { recursive: true });
  stack = await Stack.start({ postgres: { fsync: 'on' } });
  server = await serve();
  account = await stack.account('bench', { apps: ['gmail', 'notion'] });
  const token = credentials.gmail.access_token;
  direct = { base: stack.provider.url, ca: stack.provider.caFile, key: token, scenario: own('provider') };
  nginx = await startNginx(stack.dir, (port) => `
  access_log off;
  upstream provider { server ${new URL(stack.provider.url).host}; keepalive 64; }
  server { listen 127.0.0.1:${port};
    location / { proxy_pass https://provider; proxy_http_version 1.1; proxy_set_header Connection ""; proxy_ssl_session_reuse on; } }`);
  await load('read', { connections: 1 }); // a row for pgbench to copy; everything warm
}

function print(rows) {
  const cell = (text, width) => String(text).padStart(width);
  const number = (value) => (value >= 100 ? Math.round(value).toLocaleString('en') : value.toPrecision(3));
  console.log(`\n${'figure'.padEnd(52)}${cell('median', 10)} ${'unit'.padEnd(5)}${cell('ratio', 7)}${cell('min', 7)}${cell('max', 7)}${cell('least', 7)}${cell('aim', 6)}`);
  for (const row of rows) {
    const ratio = row.ratio === null ? ['', '', ''] : [row.ratio, row.ratio_min, row.ratio_max].map((one) => one.toFixed(2));
    const verdict = row.least === undefined ? '' : row.is_met ? 'ok' : 'SHORT';
    console.log(`${row.name.padEnd(52)}${cell(number(row.value), 10)} ${row.unit.padEnd(5)}${ratio.map((one) => cell(one, 7)).join('')}${cell(row.least ?? '', 7)}${cell(row.aim ?? '', 6)} ${verdict}`);
  }
}

function summarize(figure, samples) {
  const values = samples.map((one) => one.value);
  const ratios = samples.filter((one) => one.base).map((one) => one.value / one.base);
  const row = {
    name: figure.name, unit: figure.unit, value: median(values), base: figure.against ?? null,
    ratio: ratios.length ? median(ratios) : null,
    ratio_min: ratios.length ? Math.min(...ratios) : null,
    ratio_max: ratios.length ? Math.max(...ratios) : null,
    value_min: Math.min(...values), value_max: Math.max(...values),
    repetitions: samples.length, least: figure.least, aim: figure.aim,
  };
  const judged = row.ratio ?? row.value;
  if (figure.least !== undefined) row.is_met = figure.isLess ? judged <= figure.least : judged >= figure.least;
  return row;
}

try {
  await setUp();
  const wanted = figures.filter((figure) => !options.only || options.only.some((word) => figure.name.includes(word)));
  const failures = [];
  const samples = new Map(wanted.map((figure) => [figure, []]));
  for (let i = 1; i <= options.repetitions; i++) {
    inserts = await measureInserts();
    addedRuns = undefined;
    for (const figure of wanted) {
      process.stderr.write(`\r\x1b[K${i} of ${options.repetitions}: ${figure.name}`);
      try {
        samples.get(figure).push(await figure.measure());
      } catch (error) {
        failures.push(`${figure.name}: ${error.message}`);
      }
    }
  }
  process.stderr.write('\r\x1b[K');
  const rows = wanted.filter((figure) => samples.get(figure).length > 0).map((figure) => summarize(figure, samples.get(figure)));
  await writeFile(join(folder, 'report.json'), `${JSON.stringify(rows, null, 1)}\n`);
  const machine = { cores: cpus().length, model: cpus()[0]?.model, commit: execFileSync('git', ['-C', root, 'rev-parse', '--short', 'HEAD']).toString().trim() };
  console.log(`${machine.cores} cores (${machine.model}), which also run PostgreSQL, provider and load; commit ${machine.commit}`);
  print(rows);
  for (const failure of failures) console.log(`\nnot measured: ${failure}`);
  if (failures.length) process.exitCode = 1;
  console.log(`\nwritten to build/bench/report.json; the page of each figure's last run is beside it`);
} finally {
  await nginx?.stop();
  await stack?.stop();
}
