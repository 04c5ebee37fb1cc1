// Clients of /mcp with a scripted model. A talk is an async generator: it yields the calls that the
// model makes, and gets what the model was shown. `provide` starts one stack for all clients, and
// `prove` tests each case with each client.
//
// A client is {run(url, key, talk)}: it connects, sets talk.tools to the names that the model is
// given, and asks talk.turn(seen) for a call {id, name, args}, until there is none. If it throws,
// the talk continues with the error in a new run, as a person would try again.
import assert from 'node:assert/strict';
import http from 'node:http';
import { after, before, test } from 'node:test';
import { hold, until } from './client.mjs';
import { Mcp, marked } from './mcp.mjs';
import { Stack } from './stack.mjs';

const RUNS_MAX = 4;

class Talk {
  constructor(lines) {
    this.lines = lines;
    this.count = 0;
    this.broken = 0; // runs that ended with an error
  }

  async step(seen) {
    try {
      const { value, done } = await this.lines.next(seen);
      this.isDone = done;
      return done ? undefined : { id: `call_${++this.count}`, ...value };
    } catch (error) {
      // not into the framework, which could show it to the model
      this.isDone = true;
      this.error = error;
      return undefined;
    }
  }

  async turn(seen) {
    const { pending } = this;
    this.pending = undefined;
    return pending ?? this.step(seen);
  }

  async breakOff(error) {
    this.broken++;
    this.pending = await this.step(String(error?.message ?? error));
  }
}

async function converse(client, url, key, lines) {
  const talk = new Talk(lines);
  while (!talk.isDone) {
    assert.ok(talk.broken < RUNS_MAX, 'the client fails again and again');
    try {
      await client.run(url, key, talk);
      if (!talk.isDone) throw new Error('the client ended before the model did');
    } catch (error) {
      if (!talk.isDone) await talk.breakOff(error);
    }
  }
  if (talk.error) throw talk.error;
  return talk;
}

// Forwards to one of two processes. It breaks the connection of the next call of a tool once
// `reached` resolves, then awaits `broken`.
class Relay {
  async start(servers) {
    Object.assign(this, { servers, agent: new http.Agent({ keepAlive: true }) });
    this.server = http.createServer((request, reply) => this.forward(request, reply));
    await new Promise((resolve) => this.server.listen(0, '127.0.0.1', resolve));
    this.base = `http://127.0.0.1:${this.server.address().port}`;
    return this;
  }

  // Another process answers from now on, and all connections break.
  swap() {
    this.servers.reverse();
    this.server.closeAllConnections();
  }

  async forward(request, reply) {
    const parts = [];
    for await (const part of request) parts.push(part);
    const body = Buffer.concat(parts);
    const { loss } = this;
    const up = http.request(this.servers[0].base + request.url, { method: request.method, headers: request.headers, agent: loss ? false : this.agent });
    up.on('response', (answer) => reply.writeHead(answer.statusCode, answer.headers) && answer.pipe(reply));
    up.on('error', () => reply.destroy());
    reply.on('close', () => up.destroy());
    up.end(body);
    if (!loss || !body.includes('"tools/call"')) return;
    this.loss = undefined;
    await loss.reached();
    up.destroy();
    reply.destroy(); // some clients repeat the call at once
    await loss.broken();
  }

  stop() {
    this.server.closeAllConnections();
    this.agent.destroy();
    return new Promise((resolve) => this.server.close(resolve));
  }
}

export const bearer = (key) => ({ Authorization: `Bearer ${key}` });
export const textsOf = (parts) => parts.map((part) => part.text ?? JSON.stringify(part)).join('\n');

// What a model is shown of a result, as text. Some clients show the whole object.
export function shownOf(value) {
  if (typeof value === 'string' && value.startsWith('{"content":[')) return shownOf(JSON.parse(value));
  if (typeof value === 'string') return value;
  if (Array.isArray(value)) return textsOf(value);
  if (Array.isArray(value?.content)) {
    assert.deepEqual(Object.keys(value).filter((name) => !['content', 'isError', '_meta'].includes(name)), []);
    return textsOf(value.content);
  }
  return value?.text ?? value?.error ?? JSON.stringify(value);
}

// A model of LangChain, from the classes of the copy that the client uses.
export function scriptedChat(BaseChatModel, AIMessage) {
  return class extends BaseChatModel {
    constructor(talk) {
      super({});
      this.talk = talk;
    }
    _llmType() {
      return 'scripted';
    }
    bindTools(tools) {
      this.talk.tools = tools.map((tool) => tool.name);
      return this;
    }
    async _generate(messages) {
      const last = messages.at(-1);
      const call = await this.talk.turn(last.getType() === 'tool' ? shownOf(last.text) : undefined);
      const message = new AIMessage({ content: call ? '' : 'Done.', tool_calls: call ? [{ type: 'tool_call', ...call }] : [] });
      return { generations: [{ text: '', message }] };
    }
  };
}

// The result in what a model was shown. Clients put words of their own around an error.
function resultIn(seen) {
  const found = seen.slice(seen.indexOf('{"')).match(/^\{[^\n]*\}(?:\nBEGIN ([\w-]{8})\n[^\n]*\nEND \1)?/);
  assert.ok(found, seen);
  assert.equal(seen.split('"execution_id"').length, 2, `a result is shown once: ${seen}`);
  return marked(found[0]).json;
}
const call = (name, args) => ({ name, args });

// Each: what is done, and the talk. at: {stack, relay, account, subject, sent, revoke}
export const CASES = {
  'a read is shown once, with its fence': async function* () {
    const seen = yield call('probe_read_label', { id: 'INBOX' });
    assert.match(seen, /BEGIN [\w-]{8}\n/);
    assert.equal(resultIn(seen).output.id, 'INBOX');
    const same = yield call('run_action', { integration_id: 'probe', action_id: 'read_label', input: { id: 'INBOX' } });
    assert.equal(resultIn(same).output.id, 'INBOX');
  },
  'a write without confirm is blocked; with it, it is made': async function* (at) {
    const before = await at.sent();
    const blocked = yield call('probe_send', { subject: at.subject });
    assert.match(blocked, /policy_blocked/);
    assert.match(blocked, /confirm/);
    assert.equal(await at.sent(), before);
    const done = yield call('probe_send', { subject: at.subject, confirm: true });
    assert.equal(resultIn(done).status, 'succeeded');
    assert.equal(await at.sent(), before + 1);
  },
  'a long output is cut, and the address of the rest is in the text': async function* () {
    const value = 'x'.repeat(100_000);
    const run = { integration_id: 'probe', action_id: 'echo', input: { value }, max_output_bytes: 4096 };
    for (const [name, args, most] of [['probe_echo', { value }, 34_000], ['run_action', run, 6_000]]) {
      const seen = yield call(name, args);
      assert.ok(seen.length < most, `${seen.length} characters`);
      assert.match(seen, /sluice:\/\/executions\//);
    }
  },
  'a failed call is shown to the model': async function* (at) {
    await at.stack.provider.faults([{ match: { path_prefix: '/gmail/v1/users/me/labels/' }, count: 1, action: { status: 404, body: '{"error": {"message": "No such label"}}' } }]);
    const seen = yield call('probe_read_label', { id: 'NONE' });
    assert.match(seen, /"error_code":"[a-z_]+"/);
    assert.match(seen, /No such label/);
  },
  'a confirmed write whose reply was lost is made once': async function* (at) {
    const before = await at.sent();
    const held = await hold(at.stack.provider, { method: 'POST', path_prefix: '/gmail/' });
    at.relay.loss = { reached: () => held.reached(1), broken: () => held.letGo() };
    const write = call('probe_send', { subject: `${at.subject}, lost`, confirm: true });
    let seen = yield write;
    if (!seen.includes('execution_id')) seen = yield write; // else the client has repeated it
    const { status, idempotent_replayed } = resultIn(seen);
    assert.deepEqual([status, idempotent_replayed], ['succeeded', true]);
    assert.equal(await at.sent(), before + 1);
  },
  'after a restart another process answers': async function* (at) {
    const read = call('probe_read_label', { id: 'INBOX' });
    assert.equal(resultIn(yield read).output.id, 'INBOX');
    at.relay.swap();
    let seen = yield read;
    if (!seen.includes('execution_id')) seen = yield read;
    assert.equal(resultIn(seen).output.id, 'INBOX');
  },
  'a revoked key does nothing': async function* (at) {
    const before = await at.sent();
    assert.equal(resultIn(yield call('probe_read_label', { id: 'INBOX' })).output.id, 'INBOX');
    await at.revoke();
    const seen = yield call('probe_send', { subject: at.subject, confirm: true });
    assert.match(seen, /401|unauthori[sz]ed|API key|failed/i); // some clients keep the reason to themselves
    assert.equal(await at.sent(), before);
  },
};
// Errors in these are results, so no client may end its run.
const UNBROKEN = Object.keys(CASES).slice(0, 4);

export function prove(clients) {
  const at = {};
  before(async () => {
    at.stack = await Stack.start();
    at.account = await at.stack.account('Acme', { apps: ['probe'] });
    at.servers = await Promise.all([at.stack.serve(), at.stack.serve()]);
    at.relay = await new Relay().start([...at.servers]);
    at.sent = async () => (await at.stack.provider.ledger()).filter((entry) => entry.path.endsWith('/messages/send')).length;
  });
  after(async () => {
    await at.relay?.stop();
    await at.stack?.stopWell(assert);
  });
  for (const [name, client] of Object.entries(clients))
    for (const [what, lines] of Object.entries(CASES))
      test(`${name}: ${what}`, async () => {
        at.relay.loss = undefined;
        await at.stack.provider.faults([]);
        const key = await at.stack.key(at.account.id);
        await at.stack.cluster.sql(`delete from sluice.idempotency_key where account_id = '${at.account.id}' and ascii(key) = 2`);
        const revoke = async () => {
          const { events } = (await at.servers[0].call(at.account.key, 'GET', '/api/audit?kind=key.created&limit=1')).json;
          await at.stack.prepare(['keys', 'revoke', at.account.id, events[0].details.key_id]);
          // each server learns of it by a notification
          for (const one of at.servers) await until('the key is refused', async () => (await one.call(key, 'GET', '/api/executions?limit=1')).status === 401);
        };
        const talk = await converse(client, `${at.relay.base}/mcp?tools=probe`, key, lines({ ...at, subject: `${name}: ${what}`, revoke }));
        if (UNBROKEN.includes(what)) assert.equal(talk.broken, 0);
        for (const one of ['search_actions', 'run_action', 'probe_send']) assert.ok(talk.tools.includes(one), `${talk.tools}`);
      });
  return at;
}

// All tools of all apps, as a client of one app is given them: [{app, tools}].
export async function listsOf({ servers, account }) {
  const { items } = (await servers[0].call(account.key, 'GET', '/api/integrations?page_size=100')).json;
  return Promise.all(items.map(async ({ integration_id: app, capabilities }) => {
    const { tools } = (await new Mcp(servers[0].base, account.key, `/mcp?tools=${app}`).ask('tools/list')).result;
    return { app, tools, actions: capabilities.length };
  }));
}
