// An unconfirmed write (src/api/README.md "Executions") gives policy_blocked and
// confirmation_required for any input. The same answer lists every problem of the input, with the
// caller's own paths. Its idempotency key reveals nothing.
import assert from 'node:assert/strict';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, beforeEach, test } from 'node:test';
import { hold, until } from './support/client.mjs';
import { Stack } from './support/stack.mjs';

const ORIGIN = 'https://paper.example';
const paper = {
  integration_id: 'paper',
  name: 'Paper',
  description: 'Writes to the echo of the emulated provider.',
  category: 'test',
  base_url: ORIGIN,
  auth: { type: 'none' },
  actions: [
    {
      action_id: 'file',
      title: 'File a note',
      description: 'A write that takes files, too.',
      side_effect_level: 'write',
      input_schema: {
        type: 'object',
        additionalProperties: false,
        required: ['note'],
        properties: {
          note: { type: 'string', description: 'Its text.', minLength: 1 },
          copies: { type: 'integer', description: 'How many.', maximum: 5 },
        },
      },
      request: { method: 'POST', path: '/echo', body: { multipart: [{ name: 'note', value: '${input.note}' }] } },
      response: { output: 'body' },
      files: { travel: 'multipart', count_max: 3 },
      display: { title: 'Filed', summary: 'Filed' },
    },
  ],
};
const POLICY = ['blocked', 'policy_blocked', null];
const good = { name: 'a.txt', data: Buffer.from('hello').toString('base64') };

let stack, servers, account;
before(async () => {
  stack = await Stack.start();
  const dir = join(stack.dir, 'catalog');
  await mkdir(dir);
  await writeFile(join(dir, 'paper.json'), JSON.stringify(paper));
  account = await stack.account('a', { apps: ['gmail'] });
  const options = { env: { SLUICE_CATALOG: dir }, args: ['--origin-override', `${ORIGIN}=${stack.provider.url}`] };
  servers = await Promise.all([stack.serve(options), stack.serve(options)]);
});
after(() => stack?.stopWell(assert));
beforeEach(() => stack.provider.faults([]));

// The ways to send an execution: how the summary is returned, and where the body has the input.
const tool = (body, query, headers, server) =>
  server.call(account.key, 'POST', `/api/tools/paper_file/execute${query}`, body, headers);
const DOORS = {
  canonical: {
    input: '/input', confirm: 'confirm', status: 409,
    send: (input, { confirmed, dry, key, server = servers[0] } = {}) =>
      server.execute(account.key, 'paper', 'file', input, { confirm: confirmed, dry_run: dry, idempotency_key: key }),
    summary: (reply) => reply.json,
  },
  'batch item': {
    input: '/executions/1/input', confirm: 'confirm', status: 409,
    send: async (input, { confirmed, dry, key, server = servers[0] } = {}) => {
      const item = { integration_id: 'paper', action_id: 'file', input, confirm: confirmed, dry_run: dry, idempotency_key: key };
      const first = { integration_id: 'nope', action_id: 'x', input: {} };
      const reply = await server.call(account.key, 'POST', '/api/executions/batch', { executions: [first, item] });
      assert.equal(reply.status, 200, reply.text);
      return { ...reply, status: reply.json.results[1].status, json: reply.json.results[1] };
    },
    summary: (reply) => reply.json.summary,
  },
  'tool with arguments': {
    input: '/arguments', confirm: 'confirmed', status: 412,
    send: (input, { confirmed, dry, key, files, server = servers[0] } = {}) =>
      tool({ arguments: input, confirmed, files }, dry ? '?dry_run=true' : '', { 'idempotency-key': key }, server),
    summary: (reply) => reply.json.canonical,
  },
  'tool without arguments': {
    input: '', confirm: 'confirmed', status: 412,
    send: (input, { confirmed, dry, key, files, server = servers[0] } = {}) =>
      tool({ ...input, confirmed, files }, dry ? '?dry_run=true' : '', { 'idempotency-key': key }, server),
    summary: (reply) => reply.json.canonical,
  },
};
const requests = async () => (await stack.provider.control('GET', '/counters')).requests;

// [input, [pointer below the input of the door, message] of each problem, hint]
const FAULTS = [
  [{}, [['', /missing required property "note"/]], /add "note"/],
  [{ note: 7, copies: 9 }, [['/note', /must be string/], ['/copies', /must be at most 5/]], /input_schema/],
  [{ noet: 'x' }, [['', /missing required property "note"/], ['/noet', /unknown property "noet"/]], /rename "noet" to "note"/],
];

for (const [name, door] of Object.entries(DOORS)) {
  test(`${name}: an unconfirmed write is blocked, with everything that is wrong with its input`, async () => {
    const sent = await requests();
    for (const [input, faults, hint] of [...FAULTS, [{ note: 'fine' }, [], null]]) {
      const reply = await door.send(input);
      const summary = door.summary(reply);
      assert.equal(reply.status, door.status, reply.text);
      assert.deepEqual([summary.status, summary.error_code, summary.execution_id], POLICY, reply.text);
      assert.match(summary.message, /^File a note is a write action and was not confirmed.*Nothing was done\.$/);
      for (const [pointer, words] of faults)
        assert.match(summary.message, new RegExp(`[ :]${door.input + pointer || 'the arguments'}: ${words.source}`));
      if (hint) assert.match(summary.hint, hint);
      assert.match(summary.hint, new RegExp(`\\b${door.confirm}: true\\b`));
      if (door.input !== '/input') assert.doesNotMatch(summary.message, /[ :]\/input/);
      assert.equal(/cannot run as requested/.test(summary.message), faults.length > 0, summary.message);
      if (reply.json.error) assert.deepEqual([reply.json.error.type, reply.json.error.code], ['confirmation', 'confirmation_required']);
    }
    assert.equal(await requests(), sent);
  });

  test(`${name}: confirmed, the same input is a validation_error in the same paths`, async () => {
    for (const [input, faults, hint] of FAULTS) {
      const reply = await door.send(input, { confirmed: true });
      const summary = door.summary(reply);
      assert.deepEqual([reply.status, summary.error_code], [409, 'validation_error'], reply.text);
      for (const [pointer, words] of faults)
        assert.match(summary.message, new RegExp(`(^|; )${door.input + pointer || 'the arguments'}: ${words.source}`));
      assert.match(summary.hint, hint);
      assert.match(summary.message, /\. Nothing was done\.$/);
    }
  });

  test(`${name}: an unconfirmed write learns nothing from its key, whether finished, running, or used by another request`, async () => {
    const input = { note: `keyed by ${name}` }, key = `key of ${name}`;
    const held = await hold(stack.provider, { path_prefix: '/echo' });
    const first = DOORS.canonical.send(input, { confirmed: true, key });
    await held.reached(1);
    const refuse = async (what, given) => {
      for (const server of servers) {
        const reply = await door.send(given, { key, server });
        const summary = door.summary(reply);
        assert.deepEqual([reply.status, summary.status, summary.error_code, summary.execution_id], [door.status, ...POLICY], `${what}: ${reply.text}`);
        assert.equal(reply.headers.get('idempotent-replayed'), null);
        assert.doesNotMatch(reply.text, /idempot/i);
      }
    };
    await refuse('running', input); // an answer while the run is held shows that it was not waited for
    await refuse('another request, running', { note: 'other' });
    await held.letGo();
    const done = await first;
    assert.equal(done.status, 200, done.text);
    await refuse('finished', input);
    await refuse('another request, finished', { note: 'other' });
    await refuse('invalid', {});
    const again = await DOORS.canonical.send(input, { confirmed: true, key });
    assert.deepEqual([again.headers.get('idempotent-replayed'), again.text], ['true', done.text], 'the key is as it was');
  });

  test(`${name}: a dry run of a write needs no confirmation`, async () => {
    const sent = await requests();
    for (const confirmed of [undefined, false, true]) {
      const reply = await door.send({ note: 'dry' }, { confirmed, dry: true });
      const shown = reply.json.summary ?? reply.json;
      assert.deepEqual([reply.status, shown.dry_run, shown.request?.method], [200, true, 'POST'], reply.text);
    }
    const invalid = await door.send({ note: 7 }, { dry: true });
    assert.deepEqual([invalid.status, door.summary(invalid).error_code], [409, 'validation_error'], invalid.text);
    assert.equal(await requests(), sent);
  });
}

test('files are checked, too: all of them, decoded', async () => {
  const CASES = [
    [[{ name: 'x' }, { data: good.data }], [/\/files\/0: data is missing/, /\/files\/1: name is missing/]],
    [[good, { name: 'x', data: '!' }, { name: 'y', data: 'QUI' }], [/\/files\/1\/data: must be standard base64/, /\/files\/2\/data: must be standard base64/]],
    [[good, good, good, good], [/takes at most 3 files/], /Correct the files/],
  ];
  for (const name of ['tool with arguments', 'tool without arguments'])
    for (const [files, faults, mends = /standard base64.*"files"/] of CASES)
      for (const confirmed of [false, true]) {
        const reply = await DOORS[name].send({ copies: 9 }, { files, confirmed });
        const { error_code, message, hint } = reply.json.canonical;
        assert.deepEqual([reply.status, error_code], confirmed ? [409, 'validation_error'] : [412, 'policy_blocked'], reply.text);
        for (const words of [...faults, /missing required property "note"/, /\/copies: must be at most 5/]) assert.match(message, words);
        assert.match(hint, mends);
        assert.match(hint, /add "note"/);
      }
  const fine = await DOORS['tool with arguments'].send({ note: 'x' }, { files: [good] });
  assert.doesNotMatch(fine.json.canonical.message, /files|cannot run/);
});

test('an unknown action is reported before the missing confirmation, a missing connection after it', async () => {
  const bare = await stack.account('bare', { apps: [] });
  const run = (integration, action) => servers[0].execute(bare.key, integration, action, {});
  assert.equal((await run('nope', 'x')).json.error_code, 'integration_not_found');
  assert.equal((await run('gmail', 'nope')).json.error_code, 'action_not_found');
  assert.equal((await run('gmail', 'send_message')).json.error_code, 'policy_blocked');
  assert.equal((await run('gmail', 'list_labels')).json.error_code, 'integration_not_connected');
});

test('the audit trail says that the confirmation was missing', async () => {
  const headers = { 'x-request-id': 'unconfirmed-and-invalid' };
  await servers[0].call(account.key, 'POST', '/api/executions', { integration_id: 'paper', action_id: 'file', input: { note: 7 } }, headers);
  const [event] = await until('the event is written', async () => {
    const { json } = await servers[0].call(account.key, 'GET', '/api/audit?kind=execution.blocked&limit=100');
    const found = json.events.filter((one) => one.request_id === headers['x-request-id']);
    return found.length && found;
  });
  assert.deepEqual([event.reason, event.details.integration_id, event.details.action_id], ['confirmation_missing', 'paper', 'file']);
});
