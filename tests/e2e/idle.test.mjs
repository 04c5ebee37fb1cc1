// 10,000 idle keep-alive connections cost less than 100 MB of resident memory, and do not delay
// others. 100,000 users that send nothing cost none. On the release build, since the sanitizers'
// shadow memory would count.
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import net from 'node:net';
import { after, before, test } from 'node:test';
import { until } from './support/client.mjs';
import { must } from './support/process.mjs';
import { Stack } from './support/stack.mjs';

const CONNECTIONS = 10_000;
const AT_ONCE = 200;
const BYTES_MAX = 100e6;
const DESCRIPTORS = CONNECTIONS + 1000;
const USERS = 100_000;
const USERS_BYTES_MAX = 2e6; // 20 for each; two starts of the same server differ by half of it

let stack, server, account;
const sockets = [];

before(async () => {
  stack = await Stack.start({ catalog: false });
  account = await stack.account('idle', { apps: ['gmail'] });
  server = await stack.serve({
    bin: process.env.SLUICE_RELEASE_BIN,
    env: { SLUICE_IDLE_TIMEOUT: '1h', SLUICE_HEAD_TIMEOUT: '1h' },
  });
});
after(async () => {
  for (const socket of sockets) socket.destroy();
  await stack?.stopWell(assert);
});

async function residentBytes(at = server) {
  const status = await readFile(`/proc/${at.process.pid}/status`, 'utf8');
  return Number(/^VmRSS:\s+(\d+) kB/m.exec(status)[1]) * 1024;
}

async function longestTurnMs() {
  return Math.round(Number(/^sluice_loop_turn_cpu_seconds_max (\S+)/m.exec(await server.metrics())[1]) * 1e4) / 10;
}

const REQUEST = 'GET /healthz HTTP/1.1\r\nHost: idle\r\n\r\n';

// Opens a connection that makes one request and then stays idle.
function openOne() {
  return new Promise((resolve, reject) => {
    const socket = net.connect(server.port, '127.0.0.1', () => socket.write(REQUEST));
    let text = '';
    sockets.push(socket);
    socket.setEncoding('latin1');
    socket.on('error', reject);
    socket.on('close', () => reject(new Error('the server closed an idle connection')));
    socket.on('data', (part) => {
      text += part;
      if (text.endsWith('}')) resolve(socket);
    });
  });
}

// A server that has just started has scanned for what is due, in users' rows, too.
async function bytesAtStart() {
  const fresh = await stack.serve({ bin: process.env.SLUICE_RELEASE_BIN });
  await fresh.metrics();
  const bytes = await residentBytes(fresh);
  await fresh.stop();
  return bytes;
}

test(`${USERS} users with a connection each`, async (t) => {
  const without = await bytesAtStart();
  const id = `('00000000-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid`;
  const columns = 'integration_id, label, is_default, auth_kind, sealed, key_id, scopes, params, status, error, expires_at, rev, op_token, created_at, updated_at';
  await stack.cluster.sql(
    `insert into sluice.account_user (account_id, external_id, user_id, created_at)
       select '${account.id}', 'user-' || n, ${id}, now() from generate_series(1, ${USERS}) n;
     insert into sluice.connection (account_id, id, parent_id, ${columns})
       select ${id}, n, '${account.id}', ${columns} from sluice.connection, generate_series(1, ${USERS}) n`,
  );
  const more = (await bytesAtStart()) - without;
  t.diagnostic(`figure: ${Math.round(more / 1e3)} KB more`);
  assert.ok(more < USERS_BYTES_MAX, `${more} bytes`);
});

test(`${CONNECTIONS} idle connections`, async (t) => {
  const limit = (await must('sh', ['-c', 'ulimit -Hn'])).trim();
  if (limit !== 'unlimited' && Number(limit) < DESCRIPTORS) return t.skip(`only ${limit} descriptors are allowed`);
  // the one-time cost of a first request is not a connection's cost
  for (let i = 0; i < 20; i++) await server.execute(account.key, 'gmail', 'list_labels', {});
  const before = await residentBytes();
  for (let i = 0; i < CONNECTIONS; i += AT_ONCE) await Promise.all(Array.from({ length: AT_ONCE }, openOne));
  t.diagnostic(`opening: longest turn ${await longestTurnMs()} ms`);
  const count = Number(/^sluice_http_connections (\d+)/m.exec(await server.metrics())[1]);
  assert.ok(count >= CONNECTIONS, `${count} connections`);
  const grown = (await residentBytes()) - before;
  t.diagnostic(`${CONNECTIONS} connections: ${(grown / 1e6).toFixed(1)} MB, ${Math.round(grown / CONNECTIONS)} bytes each`);
  assert.ok(grown < BYTES_MAX, `${grown} bytes for ${CONNECTIONS} connections`);

  const replies = await Promise.all(
    Array.from({ length: 50 }, () => server.execute(account.key, 'gmail', 'list_labels', {})),
  );
  for (const reply of replies) assert.equal(reply.status, 200, reply.text);

  t.diagnostic(`others: longest turn ${await longestTurnMs()} ms`);
  // the connections are alive, and the server frees them when they close
  const last = sockets[sockets.length - 1];
  const answered = new Promise((resolve) => last.once('data', resolve));
  last.write(REQUEST);
  assert.match(await answered, /^HTTP\/1\.1 200/);
  const going = sockets.splice(0, CONNECTIONS / 2);
  for (const socket of going) {
    socket.removeAllListeners();
    socket.on('error', () => {});
    socket.destroy();
  }
  await until('the server has noticed', async () => {
    const left = Number(/^sluice_http_connections (\d+)/m.exec(await server.metrics())[1]);
    return left < CONNECTIONS / 2 + 100;
  });
  t.diagnostic(`half of them gone: longest turn ${await longestTurnMs()} ms`);

  // a drain closes the remaining connections and resets none, and no turn is long, as the exit code
  // shows
  const ends = sockets.map((socket) => {
    socket.removeAllListeners();
    return new Promise((resolve, reject) => {
      socket.on('error', reject);
      socket.on('end', resolve);
      socket.resume();
    });
  });
  server.process.kill('SIGTERM');
  await Promise.all(ends);
  const end = await server.process.gone;
  assert.deepEqual([end.code, end.signal], [0, null], server.log);
});
