// Runs the same flow of three provider calls on sluice, DBOS and Restate, one after the other on
// this machine, each with durable state. Measures flows per second on 64 strands, and the median
// duration of a single flow.
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { own } from '../suite/stage.mjs';
import { until } from '../../tests/e2e/support/client.mjs';
import { Running, freePort, must } from '../../tests/e2e/support/process.mjs';
import { credentials } from '../../tests/e2e/support/stack.mjs';

const here = new URL('.', import.meta.url).pathname;

// Done once per run: installs the packages, and creates a database for DBOS.
async function prepare(stage) {
  if (!existsSync(join(here, 'node_modules')))
    await must('npm', ['ci', '--no-audit', '--no-fund', '--loglevel=error'], { cwd: here });
  await stage.sql('create database dbos', 'postgres');
}

async function startRestate(stage) {
  const ports = { ingress: await freePort(), admin: await freePort(), node: await freePort() };
  const program = join(here, 'node_modules/.bin/restate-server');
  const server = new Running(program, ['--base-dir', join(stage.stack.dir, 'restate'), '--no-logo', '--listen-mode', 'tcp', '--log-filter', 'error'], {
    env: {
      RESTATE_INGRESS__BIND_ADDRESS: `127.0.0.1:${ports.ingress}`,
      RESTATE_ADMIN__BIND_ADDRESS: `127.0.0.1:${ports.admin}`,
      RESTATE_BIND_ADDRESS: `127.0.0.1:${ports.node}`,
      DO_NOT_TRACK: '1',
    },
  });
  try {
    await until('Restate answers', async () => {
      server.check();
      const reply = await fetch(`http://127.0.0.1:${ports.admin}/health`).catch(() => null);
      return reply?.ok;
    }, 60_000);
  } catch (error) {
    await server.stop();
    throw error;
  }
  return { server, ports };
}

async function runPeer(stage, name, env) {
  const text = await must(process.execPath, [join(here, `${name}.mjs`)], {
    env: {
      PROVIDER_URL: stage.stack.provider.url, PROVIDER_CA: stage.stack.provider.caFile, PROVIDER_TOKEN: credentials.gmail.access_token,
      SECONDS: String(stage.options.seconds), ...env,
    },
  });
  return JSON.parse(text.trim().split('\n').pop());
}

const load = (stage, connections) => stage.load(own('flow_three'), { connections, name: `peers_${connections}` });

// {sluice, dbos, restate}, each {per_second, alone_ms_p50}
export async function measurePeers(stage) {
  stage.preparingPeers ??= prepare(stage);
  await stage.preparingPeers;
  const sluice = { per_second: (await load(stage, 64)).per_second, alone_ms_p50: (await load(stage, 1)).latency_us.p50 / 1000 };
  const dbos = await runPeer(stage, 'dbos', { DATABASE_HOME: stage.stack.cluster.home });
  const { server, ports } = await startRestate(stage);
  try {
    const restate = await runPeer(stage, 'restate', { INGRESS: `http://127.0.0.1:${ports.ingress}`, ADMIN: `http://127.0.0.1:${ports.admin}` });
    return { sluice, dbos, restate };
  } finally {
    await server.stop();
  }
}
