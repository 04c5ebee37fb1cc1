// Checks that run when the first byte of a request is about to be sent, not when its call begins.
// In between, a connection is made, whose handshake may take seconds, and the process may be
// paused. Nothing is sent for a flow that another node cancelled in that time, or by a node whose
// lease has expired.
import assert from 'node:assert/strict';
import net from 'node:net';
import { after, before, beforeEach, test } from 'node:test';
import { until } from './support/client.mjs';
import { Stack } from './support/stack.mjs';

// A proxy in front of the provider. While `isHolding` is set, it delays the bytes of clients, so
// their handshakes take long.
class Gate {
  static async start(target) {
    const gate = new Gate();
    gate.pairs = new Set();
    gate.kept = 0; // connections whose first bytes wait
    gate.isHolding = false;
    gate.server = net.createServer((socket) => gate.take(socket, Number(target.port)));
    await new Promise((resolve) => gate.server.listen(0, '127.0.0.1', resolve));
    gate.url = `https://127.0.0.1:${gate.server.address().port}`;
    return gate;
  }

  take(socket, port) {
    const pair = { socket, behind: net.connect(port, '127.0.0.1'), waiting: [] };
    this.pairs.add(pair);
    let isKept = false;
    socket.on('data', (bytes) => {
      if (!this.isHolding) return pair.behind.write(bytes);
      if (!isKept) this.kept++;
      isKept = true;
      pair.waiting.push(bytes);
    });
    pair.behind.on('data', (bytes) => socket.write(bytes));
    const end = () => {
      this.pairs.delete(pair);
      socket.destroy();
      pair.behind.destroy();
    };
    for (const one of [socket, pair.behind]) one.on('close', end).on('error', end);
  }

  // Closes all connections. Further requests open new connections, whose handshakes are delayed.
  hold() {
    for (const { socket } of this.pairs) socket.destroy();
    this.kept = 0;
    this.isHolding = true;
  }

  letGo() {
    this.isHolding = false;
    for (const pair of this.pairs) for (const bytes of pair.waiting.splice(0)) pair.behind.write(bytes);
  }

  stop() {
    for (const { socket } of this.pairs) socket.destroy();
    return new Promise((resolve) => this.server.close(resolve));
  }
}

let stack, gate, account, slow, other;

before(async () => {
  stack = await Stack.start();
  account = await stack.account('handshakes', { apps: ['probe'] });
  gate = await Gate.start(new URL(stack.provider.url));
  const args = ['--origin-override', `https://gmail.googleapis.com=${gate.url}`];
  slow = await stack.serve({ args });
  other = await stack.serve();
});
beforeEach(() => gate.letGo());
after(async () => {
  const stopped = stack?.stopWell(assert);
  await gate?.stop();
  await stopped;
});

const post = (server, path, body = {}) => server.call(account.key, 'POST', `/api/flows/${path}`, body);
const sent = async (subject) => (await stack.provider.ledger()).filter((entry) => entry.marker === subject).length;
const figure = async (server, name) => Number(new RegExp(`^${name} (\\d+)`, 'm').exec(await server.metrics())?.[1] ?? 0);
const running = () => figure(slow, 'sluice_flows_running');

// Runs a flow up to its write, and waits until the connection for the write is being made.
async function atItsWrite(subject) {
  const id = (await post(slow, 'start', { flowTemplate: 'probe_approve', input: { subject } })).json.flowId;
  await until('it asks', async () => (await post(slow, `${id}/approve`)).status === 200);
  return id;
}

test('a flow that another node has cancelled during the handshake sends nothing', async () => {
  gate.hold();
  const id = await atItsWrite('cancelled');
  await until('the handshake is under way', () => gate.kept > 0);
  const reply = await post(other, `${id}/cancel`);
  assert.equal(reply.json.flow.status, 'cancelled');
  gate.letGo();
  await until('the node has given the flow up', async () => (await running()) === 0);
  assert.equal(await sent('cancelled'), 0);
});

test('one that was not cancelled continues after a long handshake, and sends once', async () => {
  gate.hold();
  const id = await atItsWrite('patient');
  await until('the handshake is under way', () => gate.kept > 0);
  const [begun] = (await stack.cluster.sql(`select extract(epoch from updated_at) from sluice.flow where id = '${id}'`)).split('\n');
  await until('the cached row is outdated', () => Date.now() / 1000 > Number(begun) + 2);
  gate.letGo();
  await until('it has ended', async () => (await stack.cluster.sql(`select status from sluice.flow where id = '${id}'`)) === 'completed');
  assert.equal(await sent('patient'), 1);
});

test('a node that was paused past its lease during a handshake sends nothing', async () => {
  gate.hold();
  const ask = { confirm: true, idempotency_key: 'paused write' };
  const write = slow.execute(account.key, 'probe', 'send', { subject: 'paused write' }, ask);
  const id = await atItsWrite('paused flow');
  await until('both handshakes are under way', () => gate.kept > 1);
  slow.process.kill('SIGSTOP');
  let answer;
  try {
    // the other node ends the claim and also takes the flow over
    answer = await until('the key answers', async () => {
      const reply = await other.execute(account.key, 'probe', 'send', { subject: 'paused write' }, ask);
      return reply.status !== 503 && reply;
    });
    assert.match(answer.json.hint, /outcome is unknown/i);
    await until('the flow has failed', async () => (await stack.cluster.sql(`select status from sluice.flow where id = '${id}'`)) === 'failed');
    gate.letGo();
  } finally {
    slow.process.kill('SIGCONT');
  }
  assert.equal((await write).status, 503, (await write).text);
  await until('the node has given its flow up', async () => (await running()) === 0);
  await until('it has registered again', async () => (await fetch(`${slow.base}/readyz`)).status === 200);
  for (const subject of ['paused write', 'paused flow']) assert.equal(await sent(subject), 0, subject);
  const again = await slow.execute(account.key, 'probe', 'send', { subject: 'paused write' }, ask);
  assert.equal(again.text, answer.text);
});
