// The resident memory of an idle server, of an idle client connection and of a pooled provider
// connection; and the time until a server is ready.
import { connect } from 'node:net';
import { until } from '../../tests/e2e/support/client.mjs';
import { metric, residentKib } from './stage.mjs';

const POOLED_SHARE = 0.9; // of the connections that may be opened: as many must have been
const LATENCY_MS = 1000; // all of them are under way at a time

export const measureIdleMemory = (stage) =>
  stage.with({}, async (server) => ({ value: (await residentKib(server)) / 1024 }));

export const measureConnectionMemory = (stage) =>
  stage.with({}, async (server) => {
    const count = stage.options.idle;
    const sockets = [];
    const open = () => new Promise((resolve, reject) => {
      const socket = connect(server.port, '127.0.0.1', () => resolve(sockets.push(socket))).on('error', reject);
    });
    await open();
    const before = await residentKib(server);
    while (sockets.length < count) await Promise.all(Array.from({ length: Math.min(100, count - sockets.length) }, open));
    await until('all are accepted', async () => (await metric(server, 'sluice_http_connections')) >= count);
    const value = ((await residentKib(server)) - before) / count;
    for (const socket of sockets) socket.destroy();
    return { value };
  });

// The same number of concurrent executions, once with as many connections to the provider and once
// with one: the difference is the memory of connections that wait in the pool.
export async function measurePooledMemory(stage) {
  const count = stage.options.pooled;
  const rounds = async (server, latencies) => {
    for (const latency_ms of latencies) {
      await stage.stack.provider.faults(latency_ms ? [{ match: { path_prefix: '/gmail/' }, action: { latency_ms } }] : []);
      await Promise.all(Array.from({ length: count }, async () => {
        const reply = await server.execute(stage.account.key, 'gmail', 'get_profile', {});
        if (reply.status !== 200) throw new Error(reply.text);
      }));
    }
  };
  const after = (limit) =>
    stage.with({ args: ['--origin-connections', String(limit), '--account-origin-connections', String(limit)] }, async (server) => {
      await rounds(server, limit > 1 ? [LATENCY_MS, 0] : [0, 0]);
      const idle = await metric(server, 'sluice_provider_connections{state="idle"}');
      if (idle < limit * POOLED_SHARE) throw new Error(`${idle} of ${limit} connections are in the pool`);
      return { kib: await residentKib(server), idle };
    });
  try {
    const [many, one] = [await after(count), await after(1)];
    return { value: (many.kib - one.kib) / (many.idle - one.idle) };
  } finally {
    await stage.stack.provider.faults([]);
  }
}

// The time from the process's first instruction (the dynamic linker's) until requests are answered.
export const measureStart = (stage) =>
  stage.with({}, async (server) => {
    const said = () => /"ready_ms":([0-9.]+)/.exec(server.log)?.[1];
    await until('the log says how long it took', said);
    return { value: Number(said()) };
  });
