// Many waiting flows: the memory that they add to the server, the time until a server with them is
// ready, and the rate at which it takes and finishes those whose timer fires.
import { copies } from '../../tests/e2e/support/waiting.mjs';
import { until } from '../../tests/e2e/support/client.mjs';
import { metric, residentKib } from './stage.mjs';

const WAKE_SHARE = 1 / 8; // of them come due at a time, so that many wait during this
const SETTLE_S = 5; // time for the server's start and its first scans
const ROWS_PER_S = 20_000; // at least, that become due in an UPDATE
const WAKE_MS = 120_000;
const COMPLETED = 'sluice_flow_transitions_total{to="completed"}';

// A waiting flow, made by the server itself. The others are copies of it.
async function makeModel(stage, server) {
  const start = await server.call(stage.account.key, 'POST', '/api/flows/start',
    { flowTemplate: 'bench_wait', input: { until: '2999-01-01T00:00:00Z' } });
  if (start.status !== 200) throw new Error(start.text);
  await until('it waits', async () => (await view(stage, server, start.json.flowId)).status === 'waiting');
  return start.json.flowId;
}

async function view(stage, server, id) {
  const reply = await server.call(stage.account.key, 'GET', `/api/flows/${id}`);
  return reply.json.flow;
}

// The first request of a kind has a one-time cost, which is not a flow's cost.
async function memoryKib(stage, server) {
  for (let i = 0; i < 20; i++) await view(stage, server, stage.model);
  return residentKib(server);
}

// Adds copies up to the wanted number, which fire in an hour: servers hold no timers so far ahead.
async function seed(stage) {
  const waiting = Number(await stage.sql(`select count(*) from sluice.flow where status = 'waiting'`)) - 1;
  stage.batches = (stage.batches ?? 0) + 1;
  if (waiting < stage.options.flows)
    await copies(stage.stack, stage.model, stage.batches, stage.options.flows - waiting, `now() + interval '1 hour' + n * interval '1 ms'`);
}

// An eighth of them fire at one moment, which is returned.
async function makeDue(stage, count) {
  const lead = SETTLE_S + count / ROWS_PER_S;
  const moment = Number(await stage.sql(`select extract(epoch from now() + interval '${lead} s')`));
  await stage.sql(`
    update sluice.flow f set wake_at = to_timestamp(${moment}) from (select w.account_id, w.id from sluice.flow w
      where w.status = 'waiting' and w.id <> '${stage.model}' limit ${count}) w where f.account_id = w.account_id and f.id = w.id;
    `);
  await stage.sql('vacuum analyze sluice.flow');
  await stage.sql('checkpoint');
  return moment;
}

// Measured together, since each measurement needs the previous one: {added_mib, ready_ms,
// wakes_per_s}. No other server may run then, because it would take some of the flows.
export async function measureWaiting(stage) {
  for (const server of [stage.server, stage.fairness?.server])
    if (server?.process.isRunning) await stage.end(server);
  if (!stage.model) {
    await stage.sql('truncate sluice.flow, sluice.flow_doc, sluice.flow_step');
    stage.emptyKib = await stage.with({}, async (server) => {
      stage.model = await makeModel(stage, server);
      return memoryKib(stage, server);
    });
  }
  await seed(stage);
  const count = Math.ceil(stage.options.flows * WAKE_SHARE);
  const moment = await makeDue(stage, count);
  const begun = process.hrtime.bigint();
  return stage.with({}, async (server) => {
    const ready_ms = Number(process.hrtime.bigint() - begun) / 1e6;
    await until('the next ones are held', async () => (await metric(server, 'sluice_flow_timers')) >= Math.min(count, 50_000));
    const added_mib = ((await memoryKib(stage, server)) - stage.emptyKib) / 1024;
    if (Date.now() / 1000 >= moment) throw new Error('the moment had come before the server was there');
    await until('all have ended', async () => (await metric(server, COMPLETED)) >= count, WAKE_MS);
    const last = Number(await stage.sql(`select extract(epoch from max(completed_at)) from sluice.flow where completed_at >= to_timestamp(${moment})`));
    return { added_mib, ready_ms, wakes_per_s: count / (last - moment) };
  });
}
