// Confirmation by means of the protocol (src/mcp/README.md): the client shows a form, and a sealed
// state runs once, whichever process receives it.
import assert from 'node:assert/strict';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { until } from './support/client.mjs';
import { HIDDEN, HOSTILE, visible } from './support/hostile.mjs';
import { MODERN, Mcp, connect, inside, contentOf } from './support/mcp.mjs';
import { Stack } from './support/stack.mjs';

const FORM = { capabilities: { elicitation: { form: {} } } };
const SEND = { integration_id: 'probe', action_id: 'send' };
let stack, server, second, account, other, mcp, connection;

before(async () => {
  stack = await Stack.start();
  account = await stack.account('Acme', { apps: ['gmail'] });
  connection = await stack.connect(account.id, 'probe', { token: 'ya29.demo-gmail-full' }, ['--label', 'work']);
  other = await stack.account('Other', { apps: ['probe'] });
  [server, second] = await Promise.all([stack.serve(), stack.serve()]);
  mcp = new Mcp(server.base, account.key);
});
after(() => stack?.stopWell(assert));

const ledger = async () => (await stack.provider.ledger()).length;
const yes = { confirmation: { action: 'accept', content: { confirm: true } } };
// A call of run_action from a client that shows forms. more: requestState, inputResponses.
const ask = (args, more = {}, at = mcp) => at.ask('tools/call', { name: 'run_action', arguments: args, ...more }, FORM);
const send = (subject, more, at) => ask({ ...SEND, input: { subject } }, more, at);
const stateOf = async (subject) => (await send(subject)).result.requestState;

async function refused(reply, pattern = /^requestState .*Nothing was run/) {
  const { error } = await reply;
  assert.equal(error?.code, -32602, JSON.stringify(await reply).slice(0, 2000));
  assert.match(error.message, pattern);
}

test('the person is asked about a write, sees what will be done, and the write runs when they agree', async () => {
  const before = await ledger();
  const { result } = await send('agreed "one"');
  assert.equal(result.resultType, 'input_required');
  const { method, params } = result.inputRequests.confirmation;
  assert.deepEqual([method, params.mode, params.requestedSchema.required], ['elicitation/create', 'form', ['confirm']]);
  const lines = params.message.split('\n');
  assert.deepEqual(lines, [
    'Send', `probe send, with the connection ${connection}: "work"`,
    'POST https://gmail.googleapis.com/gmail/v1/users/me/messages/send', 'subject: "agreed \\"one\\""',
  ]);
  assert.equal(await ledger(), before);
  const done = await send('agreed "one"', { requestState: result.requestState, inputResponses: yes });
  assert.equal(contentOf(done.result).status, 'succeeded', JSON.stringify(done));
  assert.equal(await ledger(), before + 1);
});

test('the same state with the same answer returns the first result, also on another process', async () => {
  const before = await ledger();
  const more = { requestState: await stateOf('once'), inputResponses: yes };
  const elsewhere = new Mcp(second.base, account.key);
  const all = await Promise.all([mcp, elsewhere, mcp, elsewhere, mcp, elsewhere].map((at) => send('once', more, at)));
  assert.equal(new Set(all.map((one) => contentOf(one.result).execution_id)).size, 1);
  const late = await send('once', more, elsewhere);
  assert.deepEqual({ ...contentOf(late.result), idempotent_replayed: true }, { ...contentOf(all[0].result), idempotent_replayed: true });
  assert.equal(await ledger(), before + 1);
});

test('a person that declines is not asked again, one that does not answer is', async () => {
  const before = await ledger();
  const requestState = await stateOf('no');
  for (const confirmation of [{ action: 'decline' }, { action: 'cancel' }, { action: 'accept', content: { confirm: false } }]) {
    const { result } = await send('no', { requestState, inputResponses: { confirmation } });
    assert.equal(result.isError, true);
    assert.match(contentOf(result).error, /did not agree/);
  }
  for (const inputResponses of [undefined, {}, { confirmation: { action: 'accept' } }, { confirmation: { action: 'accept', content: { confirm: 'yes' } } }, { other: { action: 'accept', content: { confirm: true } } }]) {
    const { result } = await send('no', { requestState, ...(inputResponses && { inputResponses }) });
    assert.equal(result.resultType, 'input_required', JSON.stringify(inputResponses));
    assert.notEqual(result.requestState, requestState);
  }
  assert.equal(await ledger(), before);
});

test('a state that was declined cannot be accepted later, not even on another process', async () => {
  const before = await ledger();
  const no = { confirmation: { action: 'decline' } };
  const elsewhere = new Mcp(second.base, account.key);
  for (const more of [{}, { idempotency_key: 'declined-1' }]) {
    const call = (inputResponses, requestState, at = mcp) => ask({ ...SEND, input: { subject: 'spent' }, ...more }, { requestState, inputResponses }, at);
    const { requestState } = (await ask({ ...SEND, input: { subject: 'spent' }, ...more })).result;
    for (const at of [mcp, elsewhere]) assert.match(contentOf((await call(no, requestState, at)).result).error, /did not agree/);
    for (const at of [mcp, elsewhere]) {
      const { result } = await call(yes, requestState, at);
      assert.equal(result.isError, true);
      assert.deepEqual([contentOf(result).status, contentOf(result).error_code], ['blocked', 'policy_blocked']);
      assert.match(contentOf(result).message, /person who was asked did not agree.*Nothing was done/);
      assert.doesNotMatch(JSON.stringify(contentOf(result)), /key/);
    }
  }
  assert.equal(await ledger(), before);
  const requestState = await stateOf('then no');
  assert.equal(contentOf((await send('then no', { requestState, inputResponses: yes })).result).status, 'succeeded');
  assert.match(contentOf((await send('then no', { requestState, inputResponses: no })).result).error, /came too late/);
  assert.equal(contentOf((await send('then no', { requestState, inputResponses: yes })).result).status, 'succeeded');
  assert.equal(await ledger(), before + 1);
});

// However short the lifetime of keys is, a state is valid for ten minutes, and its key lives longer
// than that.
test('an answer is final for as long as its state is good', async () => {
  const before = await ledger();
  const brief = await stack.serve({ args: ['--idempotency-ttl', '1s'] });
  const at = new Mcp(brief.base, account.key), plain = { confirm: true, idempotency_key: 'brief' };
  const late = [];
  for (const [subject, more] of [['brief yes', {}], ['brief no', {}], ['keyed yes', { idempotency_key: 'keyed yes' }], ['keyed no', { idempotency_key: 'keyed no' }]]) {
    const call = (inputResponses, requestState) => ask({ ...SEND, input: { subject }, ...more }, { ...(requestState && { requestState, inputResponses }) }, at);
    const { requestState } = (await call()).result;
    const isYes = subject.endsWith('yes');
    const answered = await call(isYes ? yes : { confirmation: { action: 'decline' } }, requestState);
    assert.equal(answered.result.isError ?? false, !isYes, JSON.stringify(answered));
    late.push({ isYes, first: contentOf(answered.result), again: () => call(yes, requestState) });
  }
  const left = await stack.cluster.sql(`select count(*) >= 4 and min(expires_at) > now() + interval '590 s' and max(expires_at) < now() + interval '640 s'
    from sluice.idempotency_key where account_id = '${account.id}' and expires_at < now() + interval '1 h'`);
  assert.equal(left, 't');
  assert.equal((await brief.execute(account.key, 'probe', 'send', { subject: 'brief' }, plain)).status, 200);
  await until('an ordinary key has expired', async () => {
    const row = await stack.cluster.sql("select count(*) from sluice.idempotency_key where key = 'brief' and expires_at > now()");
    return row === '0';
  });
  for (const { isYes, first, again } of late) {
    const content = contentOf((await again()).result);
    if (isYes) assert.deepEqual(content, { ...first, idempotent_replayed: true });
    else assert.equal(content.error_code, 'policy_blocked', JSON.stringify(content));
  }
  assert.equal(await ledger(), before + 3);
});

test('a state of another call, another key or another account is refused, and is not run', async () => {
  const before = await ledger();
  const requestState = await stateOf('mine'), more = { requestState, inputResponses: yes };
  await refused(send('another', more));
  await refused(ask({ ...SEND, input: { subject: 'mine' }, connection_id: connection }, more));
  await refused(ask({ ...SEND, input: { subject: 'mine' }, idempotency_key: 'x' }, more));
  await refused(ask({ integration_id: 'gmail', action_id: 'send_message', input: { to: 'a@example.com', subject: 'mine', text: 'x' } }, more));
  await refused(ask({ integration_id: 'probe', action_id: 'nope', input: { subject: 'mine' } }, more));
  await refused(send('mine', more, new Mcp(server.base, await stack.key(account.id))));
  await refused(send('mine', more, new Mcp(server.base, other.key)));
  for (const one of ['', 'x', 'x'.repeat(10000), `${requestState}A`, requestState.slice(0, -1), requestState.toUpperCase(), Buffer.from('{}').toString('base64url')])
    await refused(send('mine', { requestState: one, inputResponses: yes }));
  for (let at = 0; at < requestState.length; at += 8) {
    const altered = requestState.slice(0, at) + (requestState[at] === 'A' ? 'B' : 'A') + requestState.slice(at + 1);
    await refused(send('mine', { requestState: altered, inputResponses: yes }));
  }
  assert.equal(await ledger(), before);
  assert.equal(contentOf((await send('mine', more)).result).status, 'succeeded');
});

test('the order of members does not matter, and a tool called by its own name is the same call', async () => {
  const call = (args, more) => mcp.ask('tools/call', { name: 'gmail_send_message', arguments: args, ...more }, FORM);
  const { result } = await call({ to: 'a@example.com', subject: 's', text: 't\nsubject: forged' });
  assert.match(result.inputRequests.confirmation.params.message, /\nto: "a@example.com"\nsubject: "s"\ntext: "t\\nsubject: forged"$/);
  const done = await call({ text: 't\nsubject: forged', subject: 's', to: 'a@example.com' }, { requestState: result.requestState, inputResponses: yes });
  assert.equal(contentOf(done.result).status, 'succeeded');
});

/* ---- a person decides on exactly what they read ---- */

// An app with arbitrary texts, such as an import may contain or a model may write.
const field = (more) => ({ type: 'object', required: ['f'], properties: { f: { type: 'string', ...more } } });
const shaped = (action_id, more) => ({
  action_id, title: 'Say', description: 'Says it.', side_effect_level: 'write', request: { method: 'POST', path: '/echo/${input.part || `x`}', body: { json: '${input}' } },
  input_schema: { type: 'object', properties: { part: { description: 'Anything.' } } }, display: { title: 'Said', summary: 'Said' }, ...more,
});
const SHAPED = {
  integration_id: 'shaped', name: 'Shaped', description: 'Texts of all kinds.', category: 'test', base_url: 'https://shaped.example', auth: { type: 'bearer' },
  actions: [
    shaped('say'),
    ...HOSTILE.flatMap((text, i) => [
      shaped(`title_${i}`, { title: text }),
      shaped(`field_${i}`, { title: text, input_schema: field({ title: text, description: text }) }),
      shaped(`default_${i}`, { input_schema: field({ default: text }) }),
      shaped(`choice_${i}`, { input_schema: field({ enum: [text, 'other'] }) }),
      shaped(`name_${i}`, { input_schema: { type: 'object', required: [text], properties: { [text]: { type: 'string' } } } }),
    ]),
  ],
};

// Each part of a form that shows text from others: how the text gets into the form, and the lines
// that show it.
const json = (text) => visible(JSON.stringify(text));
const name = (text) => (/^[\w.$-]+$/.test(text) ? text : json(text));
const HEAD = (title, action, label = 'work') => [title, `shaped ${action}, with the connection CONNECTION: ${json(label)}`, 'POST https://shaped.example/echo/x'];
const PLACES = {
  'a member’s value': (text) => ({ input: { said: text }, lines: [...HEAD('Say', 'say'), `said: ${json(text)}`] }),
  'values inside another': (text) => ({ input: { all: [text, { [text]: text }], more: 1 }, lines: [...HEAD('Say', 'say'), `all: ${visible(JSON.stringify([text, { [text]: text }]))}`, 'more: 1'] }),
  'a member’s name': (text) => ({ input: { [text]: 1 }, lines: [...HEAD('Say', 'say'), `${name(text)}: 1`] }),
  'a part of the address': (text) => ({
    input: { part: text },
    lines: [...HEAD('Say', 'say').slice(0, 2), `POST https://shaped.example/echo/${encodeURIComponent(text).replace(/[!'()*]/g, (c) => `%${c.charCodeAt(0).toString(16).toUpperCase()}`)}`, `part: ${json(text)}`],
  }),
  'the label of the connection': async (text) => ({ label: text, input: {}, lines: HEAD('Say', 'say', text) }),
  'the title of the action': (text, i) => ({ action: `title_${i}`, input: {}, lines: HEAD(visible(text), `title_${i}`) }),
  'the title and the description of what is missing': (text, i) => ({
    action: `field_${i}`, input: {}, lines: [visible(text), `shaped_field_${i} needs more input: f`],
    field: { title: visible(text.replace(/[\n\r\t]/g, ' ')), description: visible(text.replace(/[\n\r\t]/g, ' ')) },
  }),
  // A form does not ask for a value that would not be returned as it was shown, for example one
  // with hidden characters.
  'the default of what is missing': (text, i) => ({ action: `default_${i}`, input: {}, lines: ['Say', `shaped_default_${i} needs more input: f`], field: { default: text }, isAsked: visible(text) === text }),
  'a choice of what is missing': (text, i) => ({ action: `choice_${i}`, input: {}, lines: ['Say', `shaped_choice_${i} needs more input: f`], field: { enum: [text, 'other'] }, isAsked: visible(text) === text }),
  'the name of what is missing': (text, i) => ({ action: `name_${i}`, input: {}, lines: ['Say', `shaped_name_${i} needs more input: ${text}`], isAsked: visible(text) === text }),
};

// All texts in an object, names and values.
const texts = (value) => (typeof value === 'string' ? [value] : value && typeof value === 'object' ? Object.entries(value).flatMap(([key, one]) => [key, ...texts(one)]) : []);

test('no text from an app, a model or a person changes the structure of a form', async () => {
  assert.ok(HOSTILE.length >= 40);
  const dir = join(stack.dir, 'shaped');
  await mkdir(dir);
  await writeFile(join(dir, 'shaped.json'), JSON.stringify(SHAPED));
  const options = { env: { SLUICE_CATALOG: dir }, args: ['--origin-override', `https://shaped.example=${stack.provider.url}`] };
  const one = await stack.serve(options);
  const id = await stack.connect(account.id, 'shaped', { token: 'ya29.demo-gmail-full' }, ['--label', 'work'], options);
  const at = new Mcp(one.base, account.key);
  const before = await ledger();
  let labelled = 'work';
  for (const [place, of] of Object.entries(PLACES))
    for (const [i, text] of HOSTILE.entries()) {
      const { action = 'say', input, label = 'work', lines, field: shown, isAsked = true } = await of(text, i);
      const where = `${place}, ${JSON.stringify(text)}`;
      if (label !== labelled) {
        const changed = await one.call(account.key, 'PATCH', `/api/connections/${id}`, { label });
        if (changed.status === 400) continue; // not a valid label
        assert.equal(changed.status, 200, changed.text);
        labelled = label;
      }
      const { result } = await ask({ integration_id: 'shaped', action_id: action, input }, {}, at);
      assert.equal(Boolean(result.inputRequests), isAsked, `${where}: ${JSON.stringify(result)}`);
      if (!isAsked) continue;
      const [{ params }] = Object.values(result.inputRequests);
      assert.deepEqual(params.message.split('\n'), lines.map((line) => line.replace('CONNECTION', id)), where);
      for (const read of texts(params)) assert.doesNotMatch(read.replaceAll('\n', ''), HIDDEN, where);
      if (shown) assert.deepEqual({ ...params.requestedSchema.properties.f, type: undefined }, { ...shown, type: undefined }, where);
    }
  assert.equal(await ledger(), before);
});

test('a model’s confirm does not count as a person’s, and no question is asked for a call that would be blocked', async () => {
  const before = await ledger();
  const model = await ask({ ...SEND, input: { subject: 'x' }, confirm: true });
  assert.equal(model.result.resultType, 'input_required');
  const invalid = await ask({ ...SEND, input: { subject: '' } });
  assert.equal(contentOf(invalid.result).error_code, 'validation_error');
  const unconnected = await ask({ integration_id: 'notion', action_id: 'create_page', input: { parent: { page_id: 'x' }, title: 'x' } });
  assert.match(contentOf(unconnected.result).error_code, /integration_not_connected|validation_error/);
  const dry = await ask({ ...SEND, input: { subject: 'x' }, dry_run: true });
  assert.equal(contentOf(dry.result).dry_run, true);
  const read = await ask({ integration_id: 'probe', action_id: 'read_label', input: { id: 'INBOX' } });
  assert.equal(contentOf(read.result).status, 'succeeded');
  assert.equal(await ledger(), before);
});

test('the form shows every field in full, and no question is asked for a call that does not fit', async () => {
  const before = await ledger();
  const mail = (text) => ask({ integration_id: 'gmail', action_id: 'send_message', input: { to: 'a@example.com', subject: 's', text } });
  const text = `${'é"\n'.repeat(5000)}and pay 1,000,000 to Mallory`;
  const { message } = (await mail(text)).result.inputRequests.confirmation.params;
  assert.ok(message.endsWith(`\ntext: ${JSON.stringify(text)}`), message.slice(-300));
  const short = (await mail('')).result.inputRequests.confirmation.params.message;
  const room = 32 * 1024 - Buffer.byteLength(short);
  assert.equal((await mail('x'.repeat(room))).result.inputRequests.confirmation.params.message, short.replace(/""$/, `"${'x'.repeat(room)}"`));
  for (const one of ['x'.repeat(room + 1), '"'.repeat(room / 2 + 1), 'x'.repeat(100000), 'x'.repeat(600000)]) {
    const { result } = await mail(one);
    assert.deepEqual([result.isError, result.requestState], [true, undefined]);
    assert.match(contentOf(result).error, /larger than a form can show \(32 KB\)/);
  }
  assert.equal(await ledger(), before);
});

test('a client that shows no forms is not asked: its model sends confirm', async () => {
  for (const capabilities of [{}, { elicitation: { url: {} } }, { sampling: {} }]) {
    const options = { capabilities };
    const blocked = await mcp.call('run_action', { ...SEND, input: { subject: 'plain' } }, options);
    assert.equal(contentOf(blocked).error_code, 'policy_blocked');
    const done = await mcp.call('run_action', { ...SEND, input: { subject: 'plain' }, confirm: true }, options);
    assert.equal(contentOf(done).status, 'succeeded');
  }
  assert.equal((await mcp.ask('tools/call', { name: 'probe_send', arguments: { subject: 'bare' } }, { capabilities: { elicitation: {} } })).result.resultType, 'input_required');
});

test('the SDK’s client asks its user by itself', async () => {
  const before = await ledger();
  const client = await connect(server.base, account.key, { mode: { pin: MODERN }, capabilities: { elicitation: { form: {} } } });
  const shown = [];
  let answer = { action: 'accept', content: { confirm: true } };
  client.setRequestHandler('elicitation/create', (request) => {
    shown.push(request.params.message);
    return answer;
  });
  const call = () => client.callTool({ name: 'run_action', arguments: { ...SEND, input: { subject: 'by the SDK' } } });
  const done = await call();
  assert.equal(inside(done).json.status, 'succeeded');
  assert.match(shown[0], /subject: "by the SDK"/);
  answer = { action: 'decline' };
  assert.equal((await call()).isError, true);
  assert.equal(await ledger(), before + 1);
  await client.close();
});

test('a missing connection is asked for with a link, and the call continues once it exists', async () => {
  const options = { capabilities: { elicitation: { url: {} } } };
  const search = { name: 'run_action', arguments: { integration_id: 'notion', action_id: 'search', input: { query: 'x' } } };
  const call = (more) => mcp.ask('tools/call', { ...search, ...more }, options);
  const { result } = await call();
  const { method, params } = result.inputRequests.connection;
  assert.deepEqual([result.resultType, result.requestState, method, params.mode], ['input_required', undefined, 'elicitation/create', 'url']);
  assert.match(params.message, /^Connect notion/);
  const page = await fetch(params.url);
  assert.equal(page.status, 200);
  assert.match(await page.text(), /Notion/);
  for (const action of ['accept', 'decline']) {
    const again = await call({ inputResponses: { connection: { action } } });
    assert.equal(contentOf(again.result).error_code, 'integration_not_connected');
  }
  const plain = await mcp.ask('tools/call', search, FORM);
  assert.deepEqual([plain.result.isError, contentOf(plain.result).recommended_next_action.input], [true, { integration_id: 'notion' }]);
  const client = await connect(server.base, account.key, { mode: { pin: MODERN }, capabilities: options.capabilities });
  const opened = [];
  client.setRequestHandler('elicitation/create', async (request) => {
    opened.push(request.params.url);
    await stack.connect(account.id, 'notion', { access_token: 'ntn_demo_notion' });
    await until('the connection is known', async () =>
      (await server.call(account.key, 'GET', '/api/search?query=notion')).json.items.some((item) => item.integration_id === 'notion' && item.connected));
    return { action: 'accept' };
  });
  const found = await client.callTool(search);
  assert.deepEqual([opened.length, contentOf(found).status], [1, 'succeeded'], JSON.stringify(found));
  await client.close();
});
