// `make bench-peers`: the same flow of three provider calls on sluice, DBOS and Restate, one after
// the other on this machine, each with durable state: flows a second on 64 strands, and the median
// of one alone. Prints ratios; writes build/bench/peers.json.
//
//   node bench/peers/peers.mjs [--repetitions N] [--seconds S]
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { existsSync } from 'node:fs';
import { join } from 'node:path';

const root = new URL('../..', import.meta.url).pathname;
process.env.SLUICE_BIN ??= join(root, 'build/sluice');
process.env.SLUICE_PROVIDER_BIN ??= join(root, 'build/sluice-provider');
const { Stack, credentials } = await import('../../tests/e2e/support/stack.mjs');
const { Running, freePort, must } = await import('../../tests/e2e/support/process.mjs');
const { until } = await import('../../tests/e2e/support/client.mjs');

const options = { repetitions: 5, seconds: 5 };
for (let i = 2; i < process.argv.length; i += 2) options[process.argv[i].slice(2)] = Number(process.argv[i + 1]);

const here = join(root, 'bench/peers');
const folder = join(root, 'build/bench');
let stack, server, account, restateServer, ports;

async function startRestate() {
  ports = { ingress: await freePort(), admin: await freePort(), node: await freePort() };
  const program = join(here, 'node_modules/.bin/restate-server');
  restateServer = new Running(program, ['--base-dir', join(stack.dir, 'restate'), '--no-logo', '--listen-mode', 'tcp', '--log-filter', 'error'], {
    env: {
      RESTATE_INGRESS__BIND_ADDRESS: `127.0.0.1:${ports.ingress}`,
      RESTATE_ADMIN__BIND_ADDRESS: `127.0.0.1:${ports.admin}`,
      RESTATE_BIND_ADDRESS: `127.0.0.1:${ports.node}`,
      DO_NOT_TRACK: '1',
    },
  });
  await until('Restate answers', async () => {
    restateServer.check();
    const reply = await fetch(`http://127.0.0.1:${ports.admin}/health`).catch(() => null);
    return reply?.ok;
  }, 60_000);
}

async function runPeer(name, env) {
  const text = await must(process.execPath, [join(here, `${name}.mjs`)], {
    env: {
      PROVIDER_URL: stack.provider.url, PROVIDER_CA: stack.provider.caFile, PROVIDER_TOKEN: credentials.gmail.access_token,
      SECONDS: String(options.seconds), ...env,
    },
  });
  return JSON.parse(text.trim().split('\n').pop());
}

async function load(connections) {
  const json = join(folder, 'peers-sluice.json');
  const args = ['--base', server.base, '--scenario', join(root, 'bench/suite/scenarios/flow_three.json'), '--quiet', '--json', json];
  const timing = ['--connections', connections, '--duration', options.seconds, '--warmup', 2].map(String);
  await must(join(root, 'build/sluice-bench'), [...args, ...timing], { env: { SLUICE_KEY: account.key } });
  return JSON.parse(await readFile(json, 'utf8'));
}

const peers = {
  sluice: async () => ({ per_second: (await load(64)).per_second, alone_ms_p50: (await load(1)).latency_us.p50 / 1000 }),
  dbos: () => runPeer('dbos', { DATABASE_HOME: stack.cluster.home }),
  restate: () => runPeer('restate', { INGRESS: `http://127.0.0.1:${ports.ingress}`, ADMIN: `http://127.0.0.1:${ports.admin}` }),
};

const median = (values) => [...values].sort((a, b) => a - b)[values.length >> 1];

try {
  if (!existsSync(join(here, 'node_modules'))) throw new Error('the peers are not installed: make bench-peers does it');
  await mkdir(folder, { recursive: true });
  stack = await Stack.start({ postgres: { fsync: 'on' } });
  await stack.cluster.sql('create database dbos', 'postgres');
  server = await stack.serve({ args: ['--catalog', join(root, 'bench/suite/catalog')], env: { SLUICE_TURN_CPU_MS_MAX: '', SLUICE_CATALOG: '' } });
  account = await stack.account('peers', { apps: ['gmail'] });
  await startRestate();
  const samples = Object.fromEntries(Object.keys(peers).map((name) => [name, []]));
  for (let i = 1; i <= options.repetitions; i++)
    for (const [name, run] of Object.entries(peers)) {
      process.stderr.write(`\r\x1b[K${i} of ${options.repetitions}: ${name}`);
      samples[name].push(await run());
    }
  process.stderr.write('\r\x1b[K');
  const ratio = (name, field) => samples.sluice.map((one, i) => one[field] / samples[name][i][field]);
  const rows = Object.keys(peers).map((name) => ({
    name,
    per_second: median(samples[name].map((one) => one.per_second)),
    alone_ms_p50: median(samples[name].map((one) => one.alone_ms_p50)),
    sluice_times_faster: median(ratio(name, 'per_second')),
    sluice_alone_ratio: median(ratio(name, 'alone_ms_p50')),
    repetitions: options.repetitions,
  }));
  await writeFile(join(folder, 'peers.json'), `${JSON.stringify(rows, null, 1)}\n`);
  console.log('three-step flow     flows/s   alone p50   sluice: times as many, of its time alone');
  for (const row of rows)
    console.log(`${row.name.padEnd(16)}${row.per_second.toFixed(0).padStart(11)}${row.alone_ms_p50.toFixed(2).padStart(9)} ms${row.sluice_times_faster.toFixed(1).padStart(10)} x${row.sluice_alone_ratio.toFixed(2).padStart(12)}`);
} finally {
  await restateServer?.stop();
  await stack?.stop();
}
