// A mixed load of several accounts on two servers: reads, confirmed writes with keys, and flow
// starts. A client repeats a write until it gets a final answer, as clients must. The answers are
// stored, and check() verifies all of them.
import assert from 'node:assert/strict';
import { pause, until } from './client.mjs';

// Calls check(item) for every item, several at a time.
async function each(items, check) {
  const rest = items[Symbol.iterator]();
  const work = async () => {
    for (let next = rest.next(); !next.done; next = rest.next()) await check(next.value);
  };
  await Promise.all(Array.from({ length: 8 }, work));
}

export class Mixed {
  // rate: rounds per second, each with two executions and one flow start. After an outage, the load
  // catches up. Without a rate, each client begins its next round as soon as the previous one ends.
  // bins: a program for each server.
  static async start(stack, { accounts = 4, clients = 12, rate, bin, bins = [bin, bin] } = {}) {
    const mixed = new Mixed();
    Object.assign(mixed, { stack, clients, rate, turn: 0, accounts: [], writes: new Map(), flows: new Map(), unsure: new Set(), refusals: [], requests: 0 });
    for (let i = 0; i < accounts; i++) mixed.accounts.push(await stack.account(`mixed ${i}`, { apps: ['probe'] }));
    mixed.servers = [await stack.serve({ bin: bins[0] }), await stack.serve({ bin: bins[1] })];
    return mixed;
  }

  // A reply with any status except 503. A 503 is counted, and the request is sent again.
  async #ask(account, method, path, body) {
    for (let n = 0; ; n++) {
      const server = this.servers[(this.requests + n) % this.servers.length];
      this.requests++;
      const reply = await server.call(account.key, method, path, body);
      if (reply.status !== 503) return reply;
      assert.ok(Number(reply.headers.get('retry-after')) >= 1, reply.text);
      this.refusals.push({ account: this.accounts.indexOf(account), at: Date.now() });
      await pause(50);
    }
  }

  async #client(number) {
    for (let n = 0; !this.isOver; n++) {
      const turn = ++this.turn;
      if (this.rate) await pause(Math.max(0, this.begun + (turn * 1000) / this.rate - Date.now()));
      const name = `mixed ${number}.${turn}`;
      const account = this.accounts[(number + n) % this.accounts.length];
      const execute = (action_id, input, more) =>
        this.#ask(account, 'POST', '/api/executions', { integration_id: 'probe', action_id, input, ...more });
      const read = await execute('read_label', { id: 'INBOX' });
      assert.equal(read.status, 200, read.text);
      const write = await execute('send', { subject: name }, { confirm: true, idempotency_key: name });
      this.writes.set(name, { account, reply: write });
      const flow = await this.#ask(account, 'POST', '/api/flows/start', { flowTemplate: 'probe_wait', input: { seconds: 0.2 } });
      // the database's answer was lost for good
      const unsure = flow.status === 500 && /^The flow may have started\. Read the flow ([\w-]+) /.exec(flow.json?.error)?.[1];
      if (unsure) this.unsure.add(unsure);
      else assert.equal(flow.status, 200, flow.text);
      this.flows.set(unsure || flow.json.flowId, account);
    }
  }

  begin() {
    this.isOver = false;
    this.begun = Date.now();
    this.work = Array.from({ length: this.clients }, (_, i) => this.#client(i));
    // A client that fails ends the load. Its error is thrown to the code that waits for the load.
    Promise.all(this.work).catch(() => (this.isOver = true));
  }

  async end() {
    this.isOver = true;
    await Promise.all(this.work);
  }

  async progress(count = 50) {
    const target = this.writes.size + count;
    await until(`${count} more writes have ended`, () => this.isOver || this.writes.size >= target);
    if (this.isOver) await Promise.all(this.work);
  }

  // Whether any server answers a read of the account.
  async answers(account) {
    const server = this.servers[++this.requests % this.servers.length];
    const reply = await server.execute(account.key, 'probe', 'read_label', { id: 'INBOX' });
    return reply.status === 200;
  }

  // Waits until every account is served again, and resolves with the milliseconds that this took.
  async isBack() {
    const begin = Date.now();
    for (const account of this.accounts) await until('an account is served again', () => this.answers(account));
    return Date.now() - begin;
  }

  // Checks that every write that was answered with 200 was made once and is stored as answered.
  // Every other write was answered as unknown, which its record does not contradict, and was not
  // made twice. Every flow whose start was answered with 200 exists, and ends; one that may have
  // started either does not exist or ends.
  async check() {
    const counts = new Map();
    for (const { marker } of await this.stack.provider.ledger()) counts.set(marker, (counts.get(marker) ?? 0) + 1);
    let unknown = 0;
    await each(this.writes, async ([name, { account, reply }]) => {
      const count = counts.get(name) ?? 0;
      const stored = await this.#ask(account, 'GET', `/api/executions/${reply.json?.execution_id}`);
      if (reply.status === 200) {
        assert.equal(count, 1, `${name} was answered with 200 and made ${count} times`);
        assert.equal(stored.text, reply.text);
        return;
      }
      unknown++;
      // The record was written by the server that recovered the run, in its own words, or by a run
      // whose result was stored after its client was answered.
      assert.match(reply.json?.hint ?? '', /outcome is unknown/i, reply.text);
      assert.equal(stored.json.execution_id, reply.json.execution_id, stored.text);
      if (stored.json.status === 'succeeded') assert.equal(count, 1, `${name} is stored as a success and was made ${count} times`);
      else {
        assert.match(stored.json.hint ?? '', /outcome is unknown/i, stored.text);
        assert.deepEqual([stored.json.status, stored.json.error_code], [reply.json.status, reply.json.error_code], stored.text);
      }
    });
    for (const [name, count] of counts) assert.equal(count, 1, `${name} was made ${count} times`);
    await each(this.flows, ([id, account]) =>
      until(`flow ${id} has ended`, async () => {
        const reply = await this.#ask(account, 'GET', `/api/flows/${id}`);
        if (reply.status === 404 && this.unsure.has(id)) return true;
        assert.equal(reply.status, 200, reply.text);
        return reply.json.flow.status === 'completed';
      }),
    );
    return { unknown };
  }
}
