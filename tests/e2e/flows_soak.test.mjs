// Everything at once: flows with writes, fan-outs and waits on two servers, while servers are killed and
// paused and PostgreSQL dies. Then: every flow ends, no confirmed write was made twice, no
// acknowledged start is lost. A short form; SLUICE_SOAK_SECONDS=600 makes it a long one.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { until } from './support/client.mjs';
import { Stack } from './support/stack.mjs';

const SECONDS = Number(process.env.SLUICE_SOAK_SECONDS ?? 8);
const MODES = ['set', 'pipe'];
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

let stack, account;
const servers = [];
const subjects = new Map(); // flow id -> the subjects it sends
let started = 0;
let isOver = false;

before(async () => {
  stack = await Stack.start({ postgres: { max_connections: 100 } });
  account = await stack.account('soak');
  for (const mode of MODES) servers.push(await serve(mode));
});
after(() => stack?.stopWell(assert));

const serve = (mode) => stack.serve({ args: ['--database-batch', mode] });
const call = (server, method, path, body) => server.call(account.key, method, `/api/flows${path}`, body);

const TEMPLATES = [
  (name) => ['probe_chain', { subject: name, confirm: true }, [name]],
  (name) => ['probe_slow', { ms: 200, subject: name, confirm: true }, [name]],
  (name) => ['probe_wait', { seconds: 0.7 }, []],
  (name) => {
    const items = [0, 1, 2, 3].map((i) => `${name} ${i}`);
    return ['probe_fan', { subjects: items, confirm: true }, items];
  },
];

async function startFlows(worker) {
  while (!isOver) {
    const name = `soak ${worker} ${++started}`;
    const [flowTemplate, input, sends] = TEMPLATES[started % TEMPLATES.length](name);
    const server = servers[started % servers.length];
    const reply = await call(server, 'POST', '/start', { flowTemplate, input }).catch(() => null);
    if (reply?.status === 200) subjects.set(reply.json.flowId, sends);
    else await sleep(100);
    await sleep(20);
  }
}

async function kill(i) {
  const server = servers[i];
  server.process.kill('SIGKILL');
  await server.process.gone;
  stack.forget(server);
  servers[i] = await until('another server is up', () => serve(MODES[i]).catch(() => null), 30_000);
}

async function disturb() {
  for (let round = 0; !isOver; round++) {
    await sleep(1500);
    if (round % 3 === 0) await kill(round % 2);
    else if (round % 3 === 1) {
      await stack.cluster.down('immediate');
      await stack.cluster.up();
    } else {
      servers[round % 2].process.kill('SIGSTOP');
      await sleep(round % 4 === 2 ? 300 : 12_000);
      servers[round % 2].process.kill('SIGCONT');
    }
  }
}

test('flows under kills, pauses and a database that dies', async () => {
  const work = [0, 1, 2, 3].map(startFlows);
  const trouble = disturb();
  await sleep(SECONDS * 1000);
  isOver = true;
  await Promise.all([...work, trouble]);
  assert.ok(subjects.size >= SECONDS, `${subjects.size} flows began`);
  const open = () => stack.cluster.sql(`select count(*) from sluice.flow where status in ('running', 'waiting')`);
  await until('all flows have ended', async () => (await open().catch(() => '?')) === '0', 60_000);

  const rows = await stack.cluster.sql(`select id || ' ' || status from sluice.flow`);
  const status = new Map(rows.split('\n').map((row) => row.split(' ')));
  const made = new Map();
  for (const { marker } of await stack.provider.ledger()) made.set(marker, (made.get(marker) ?? 0) + 1);
  assert.deepEqual([...made].filter(([, count]) => count > 1), [], 'a write was made twice');
  for (const [id, sends] of subjects) {
    assert.ok(status.has(id), `the start of ${id} was acknowledged`);
    if (status.get(id) === 'completed') for (const one of sends) assert.equal(made.get(one), 1, one);
  }
  const reasons = await stack.cluster.sql(
    `select distinct s.error->>'message' from sluice.flow f join sluice.flow_step s
     on s.account_id = f.account_id and s.flow_id = f.id and s.step_index = f.step_index
     where f.status = 'failed' and s.error is not null`,
  );
  for (const reason of reasons.split('\n').filter(Boolean)) assert.match(reason, /The server stopped/);
});
