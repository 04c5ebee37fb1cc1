// Large stored outputs are read separately, once for all readers of the same output, and passed on
// unchanged. Many readers of one account cost little memory, do not make a turn of the loop long,
// and delay no others. On the release build, since the sanitizers' shadow memory would count.
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { readFile, writeFile } from 'node:fs/promises';
import http from 'node:http';
import net from 'node:net';
import { after, before, test } from 'node:test';
import { pause, until } from './support/client.mjs';
import { turnCpuMsMax } from './support/machine.mjs';
import { Scripted, overrides, writeCatalog } from './support/scripted.mjs';
import { Stack } from './support/stack.mjs';

const LARGE = 7 * 1024 * 1024;
const ROUNDS_MAX = 3; // a host that pauses this machine makes a turn long, too
const COUNT = 8; // outputs, each of another request

// Members of a mail, as lists return them.
function body(k) {
  const items = [];
  const text = 'x'.repeat(900);
  for (let i = 0, size = 0; size < LARGE; i++, size += 1000) items.push({ id: `${k}-${i}`, subject: `Mail ${i}`, text });
  return JSON.stringify({ items });
}

let stack, server, serve, account, other, provider;
const readers = []; // all readers, to be repeated on another server
const stored = []; // {id, key, sum, bytes}
let resident; // before anything large was read

before(async () => {
  stack = await Stack.start();
  provider = await Scripted.start((request, reply, url) => {
    reply.setHeader('Content-Type', 'application/json');
    const k = url.searchParams.get('q');
    reply.end(url.pathname === '/large' ? body(k) : '{"items":[]}');
  });
  const catalog = await writeCatalog(stack.dir, { big: { actions: { large: {}, small: {} } } });
  account = await stack.account('large', { apps: [] });
  other = await stack.account('small', { apps: [] });
  serve = () => stack.serve({
    bin: process.env.SLUICE_RELEASE_BIN,
    // the last test but one compares the longest turn with what fresh memory takes on this machine
    env: { SLUICE_CATALOG: catalog, SLUICE_TURNS_OVER_MAX: '1000' },
    // a head may be late while hundreds of connections are opened together
    args: [...overrides(provider.url, 'big'), '--allow-host', '127.0.0.1', '--head-timeout', '60s'],
  });
  server = await serve();
  await server.execute(account.key, 'big', 'small', {});
  resident = await status('VmRSS');
  for (let k = 0; k < COUNT; k++) {
    const key = `large-${k}`;
    const reply = await server.execute(account.key, 'big', 'large', { q: String(k) }, { idempotency_key: key });
    assert.equal(reply.status, 200, reply.text.slice(0, 300));
    const sum = createHash('sha256').update(body(k)).digest('hex');
    stored.push({ id: reply.json.execution_id, key, sum, bytes: body(k).length });
  }
});
after(async () => {
  await provider?.stop();
  await stack?.stopWell(assert);
});

const status = async (name) => {
  const text = await readFile(`/proc/${server.process.pid}/status`, 'utf8');
  return Number(new RegExp(`^${name}:\\s+(\\d+) kB`, 'm').exec(text)[1]) * 1024;
};

// The peak of resident memory while fn runs, minus the value before.
async function peak(fn) {
  await writeFile(`/proc/${server.process.pid}/clear_refs`, '5');
  const begin = await status('VmRSS');
  await fn();
  return (await status('VmHWM')) - begin;
}

async function longestTurnMs() {
  return Number(/^sluice_loop_turn_cpu_seconds_max (\S+)/m.exec(await server.metrics())[1]) * 1000;
}

async function statements(name) {
  const text = await server.metrics();
  return Number(new RegExp(`^${name}(?:\\{[^}]*\\})? (\\d+)`, 'm').exec(text)?.[1] ?? 0);
}

const agent = new http.Agent({ maxSockets: Infinity });
function get(path, key = account.key) {
  return new Promise((resolve, reject) => {
    const options = { port: server.port, host: '127.0.0.1', path, agent, headers: { Authorization: `Bearer ${key}` } };
    http.get(options, (reply) => {
      const parts = [];
      reply.on('data', (part) => parts.push(part));
      reply.on('end', () => resolve({ status: reply.statusCode, headers: reply.headers, text: Buffer.concat(parts).toString() }));
      reply.on('error', reject);
    }).on('error', reject);
  });
}

// Whether a reply has these bytes, compared as they arrive: the client must not process 2 GB of
// them so slowly that the server disconnects a reader.
function isReply(path, expected) {
  return new Promise((resolve, reject) => {
    const options = { port: server.port, host: '127.0.0.1', path, agent, headers: { Authorization: `Bearer ${account.key}` } };
    http.get(options, (reply) => {
      let at = 0, isSame = reply.statusCode === 200;
      reply.on('data', (part) => {
        isSame &&= part.equals(expected.subarray(at, at + part.length));
        at += part.length;
      });
      reply.on('end', () => resolve(isSame && at === expected.length));
      reply.on('error', reject);
    }).on('error', reject);
  });
}

const sumOf = (text) => createHash('sha256').update(JSON.stringify(JSON.parse(text).output)).digest('hex');

function reading(name, fn) {
  readers.push(fn);
  test(name, fn);
}

reading('a stored output comes byte for byte, with its length', async () => {
  for (const one of stored.slice(0, 2)) {
    const reply = await get(`/api/executions/${one.id}`);
    assert.equal(reply.status, 200);
    assert.equal(Number(reply.headers['content-length']), Buffer.byteLength(reply.text));
    assert.equal(sumOf(reply.text), one.sum);
  }
  const head = await server.call(account.key, 'HEAD', `/api/executions/${stored[0].id}`);
  assert.equal(head.status, 200);
});

reading('parts of it', async () => {
  const path = `/api/executions/${stored[3].id}`;
  const one = JSON.parse((await get(`${path}?pointer=/items/17`)).text);
  assert.equal(one.output.id, '3-17');
  const cut = JSON.parse((await get(`${path}?max_output_bytes=20000`)).text).output;
  assert.deepEqual([cut.truncated, cut.bytes, cut.max_output_bytes], [true, stored[3].bytes, 20000]);
  const kept = cut.cuts[0].kept;
  assert.equal(cut.preview.items.length, kept);
  const more = JSON.parse((await get(`${cut.cuts[0].more}&max_output_bytes=20000`)).text).output;
  assert.equal(more.preview[0].id, `3-${kept}`);
  const nowhere = await get(`${path}?pointer=/absent`);
  assert.equal(nowhere.status, 404);
  assert.match(nowhere.text, /has no value at/);
  assert.equal((await get(path, other.key)).status, 404);
});

test('the answer has the whole output, on both endpoints', async () => {
  const fresh = await server.execute(account.key, 'big', 'large', { q: '5' });
  assert.deepEqual([fresh.status, sumOf(fresh.text)], [200, stored[5].sum]);
  const tool = await server.call(account.key, 'POST', '/api/tools/big_large/execute', { arguments: { q: '5' } });
  const sum = (value) => sumOf(JSON.stringify({ output: value }));
  assert.deepEqual([tool.status, sum(tool.json.data), sum(tool.json.canonical.output)], [200, stored[5].sum, stored[5].sum]);
  assert.equal(Number(tool.headers.get('content-length')), Buffer.byteLength(tool.text));
  const asked = await server.execute(account.key, 'big', 'large', { q: '5' }, { max_output_bytes: 1000 });
  assert.deepEqual([asked.json.output.truncated, asked.json.output.max_output_bytes], [true, 1000]);
});

reading('a replay has the whole output, too, or the requested part', async () => {
  const run = (more) => server.execute(account.key, 'big', 'large', { q: '2' }, { idempotency_key: stored[2].key, ...more });
  const again = await run();
  assert.equal(again.status, 200);
  assert.equal(again.headers.get('idempotent-replayed'), 'true');
  assert.equal(sumOf(again.text), stored[2].sum);
  assert.equal(again.json.execution_id, stored[2].id);
  assert.equal((await run({ max_output_bytes: 1000 })).json.output.truncated, true);
  const tool = await server.call(account.key, 'POST', '/api/tools/big_large/execute', { arguments: { q: '2' } }, { 'Idempotency-Key': stored[2].key });
  assert.equal(tool.status, 200);
  assert.deepEqual(tool.json.data, again.json.output);
  assert.equal(tool.json.meta.executionId, stored[2].id);
  assert.ok(Date.parse(again.json.finished_at) - Date.parse(again.json.started_at) === tool.json.meta.durationMs);
});

reading('a batch of fifty replays is limited before they are read', async (t) => {
  const executions = Array.from({ length: 50 }, (_, i) => ({
    integration_id: 'big', action_id: 'large', input: { q: String(i % COUNT) }, idempotency_key: stored[i % COUNT].key,
  }));
  const grown = await peak(async () => {
    const replies = await Promise.all(Array.from({ length: 4 }, () => server.call(account.key, 'POST', '/api/executions/batch', { executions })));
    for (const reply of replies) {
      assert.equal(reply.status, 200, reply.text.slice(0, 300));
      assert.equal(reply.json.results.length, 50);
      reply.json.results.forEach((result, i) => {
        assert.equal(result.status, 200);
        assert.equal(result.idempotent_replayed, true);
        assert.equal(result.summary.execution_id, stored[i % COUNT].id);
      });
      const whole = reply.json.results.filter((result) => !result.truncated).length;
      assert.ok(whole >= 1 && whole <= 4, `${whole} in full`);
    }
  });
  t.diagnostic(`4 batches of 50: ${(grown / 1e6).toFixed(1)} MB`);
  assert.ok(grown < 128 * 1024 * 1024, `${grown} bytes`);
});

reading('300 readers of one output share it', async (t) => {
  const path = `/api/executions/${stored[1].id}`;
  const { text } = await get(path);
  assert.equal(sumOf(text), stored[1].sum);
  const expected = Buffer.from(text);
  const grown = await peak(async () => {
    const replies = await Promise.all(Array.from({ length: 300 }, () => isReply(path, expected)));
    assert.deepEqual([...new Set(replies)], [true]);
  });
  t.diagnostic(`300 readers: ${(grown / 1e6).toFixed(1)} MB`);
  assert.ok(grown < 128 * 1024 * 1024, `${grown} bytes`);
});

reading('clients that do not read cost no copy of it, and are disconnected', async (t) => {
  const sockets = [];
  const grown = await peak(async () => {
    for (let i = 0; i < 100; i++) {
      const socket = net.connect(server.port, '127.0.0.1');
      socket.on('error', () => {});
      socket.write(`GET /api/executions/${stored[4].id} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${account.key}\r\n\r\n`);
      socket.pause();
      sockets.push(socket);
    }
    // for each reader, the kernel has the first bytes
    await until('all are being answered', async () => sockets.every((socket) => socket.bytesWritten > 0));
    const reply = await get(`/api/executions/${stored[4].id}`);
    assert.equal(sumOf(reply.text), stored[4].sum);
  });
  t.diagnostic(`100 that do not read: ${(grown / 1e6).toFixed(1)} MB`);
  assert.ok(grown < 64 * 1024 * 1024, `${grown} bytes`);
  for (const socket of sockets) socket.destroy();
  await until('their connections are closed', async () => (await statements('sluice_http_connections')) <= 305);
});

test('no turn of the loop was long', async (t) => {
  for (let round = 1; ; round++) {
    const longest = await longestTurnMs(), limit = turnCpuMsMax();
    t.diagnostic(`longest turn ${longest.toFixed(1)} of ${limit.toFixed(0)} ms`);
    if (longest <= limit) return;
    assert.ok(round < ROUNDS_MAX, `${longest} ms`);
    await server.stop();
    server = await serve();
    for (const one of readers) await one(t);
  }
});

test('memory is returned', async (t) => {
  let now;
  await until('it is returned', async () => {
    await pause(500);
    now = await status('VmRSS');
    return now < resident + 64 * 1024 * 1024;
  });
  t.diagnostic(`${(now / 1e6).toFixed(1)} MB resident, ${(resident / 1e6).toFixed(1)} MB before`);
});
