// What a call may need or report while it runs (src/mcp/README.md): a form for missing input,
// progress, cancellation, and its trace. In both eras if both have the feature.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { hold, until } from './support/client.mjs';
import { LEGACY, MODERN, Mcp, contentOf, marked } from './support/mcp.mjs';
import { Stack } from './support/stack.mjs';

const FORM = { capabilities: { elicitation: { form: {} } } };
const BOTH = { capabilities: { elicitation: { form: {}, url: {} } } };
let stack, server, account, bare, mcp;

before(async () => {
  stack = await Stack.start();
  account = await stack.account('Acme', { apps: ['gmail', 'probe'] });
  bare = await stack.account('Bare', { apps: [] });
  server = await stack.serve({ args: ['--log-level', 'debug'] });
  mcp = new Mcp(server.base, account.key);
});
after(() => stack?.stopWell(assert));

const ledger = async () => (await stack.provider.ledger()).length;
const ask = async (name, args, more = {}, options = FORM, at = mcp) => (await at.ask('tools/call', { name, arguments: args, ...more }, options)).result;
const accept = (content) => ({ input: { action: 'accept', content } });
const schemaOf = (result) => {
  assert.deepEqual([result.resultType, Object.keys(result.inputRequests)], ['input_required', ['input']], JSON.stringify(result));
  return result.inputRequests.input.params.requestedSchema;
};

test('a person is asked for missing input, and the call runs with the answer', async () => {
  const args = { integration_id: 'probe', action_id: 'read_label', input: {} };
  for (const [name, given] of [['run_action', args], ['probe_read_label', {}]]) {
    const first = await ask(name, given);
    assert.deepEqual(schemaOf(first), { type: 'object', properties: { id: { type: 'string', description: 'The label.', minLength: 1, maxLength: 100 } }, required: ['id'] });
    assert.equal(first.inputRequests.input.params.message, 'Read a label\nprobe_read_label needs more input: id');
    const done = await ask(name, given, { inputResponses: accept({ id: 'INBOX', other: 'not asked for' }) });
    assert.deepEqual([done.isError, contentOf(done)?.output?.id], [undefined, 'INBOX'], JSON.stringify(done));
    for (const inputResponses of [{}, accept({}), accept(undefined), { other: accept({ id: 'INBOX' }).input }]) schemaOf(await ask(name, given, { inputResponses }));
    for (const action of ['decline', 'cancel']) {
      const refused = await ask(name, given, { inputResponses: { input: { action } } });
      assert.deepEqual([refused.isError, contentOf(refused).error_code], [true, 'validation_error']);
    }
    const wrong = await ask(name, given, { inputResponses: accept({ id: 7 }) });
    assert.deepEqual([wrong.isError, contentOf(wrong).error_code], [true, 'validation_error']);
  }
});

test('null for an optional argument counts as absent, in a form and for every tool', async () => {
  const idle = { query: null, labelIds: null, pageToken: null, includeSpamTrash: null };
  const listed = await ask('gmail_list_threads', { maxResults: 2, ...idle });
  assert.equal(contentOf(listed).output?.threads?.length, 2, JSON.stringify(listed));
  const optional = { connection_id: null, idempotency_key: null, dry_run: null, max_output_bytes: null, max_pages: null, confirm: null };
  const run = await ask('run_action', { integration_id: 'gmail', action_id: 'list_threads', input: { maxResults: 2, ...idle }, ...optional });
  assert.equal(contentOf(run).output?.threads?.length, 2, JSON.stringify(run));
  assert.deepEqual(schemaOf(await ask('probe_read_label', { id: null })).required, ['id']);
  const mail = { to: 'ada@example.com', subject: 'nulls', text: 'x', cc: null, html: null };
  const asked = await ask('gmail_send_message', { ...mail, confirm: null });
  assert.deepEqual(asked.inputRequests.confirmation.params.message.split('\n').slice(-3), ['to: "ada@example.com"', 'subject: "nulls"', 'text: "x"']);
  const unasked = await ask('gmail_send_message', { ...mail, confirm: null }, {}, {});
  assert.equal(contentOf(unasked).error_code, 'policy_blocked', JSON.stringify(unasked));
  const others = [
    ['search_actions', { query: 'mail', connected_only: null, limit: null }],
    ['describe_action', { integration_id: 'gmail', action_id: 'list_threads', template: null }],
    ['connect_app', { integration_id: 'gmail', force_reconnect: null, connection_id: null, email: null, subject: null }],
    ['start_flow', { template: 'unread_mail_summary', input: null }],
  ];
  for (const [name, args] of others) {
    const result = await ask(name, args);
    assert.equal(result.isError, undefined, JSON.stringify(result));
    if (name === 'start_flow') assert.equal((await ask('get_flow', { flow_id: contentOf(result).flowId, wait: null })).isError, undefined);
  }
});

test('no form if the client shows none, if a name is wrong, or if no field would help', async () => {
  for (const [name, args, options] of [['probe_read_label', {}, {}], ['probe_read_label', { label: 'INBOX' }, FORM], ['probe_echo', {}, FORM]]) {
    const refused = await ask(name, args, {}, options);
    assert.deepEqual([refused.resultType, refused.isError, contentOf(refused).error_code], ['complete', true, 'validation_error'], name);
  }
});

test('a write that a person filled in is confirmed as a whole, and runs once', async () => {
  const before = await ledger();
  schemaOf(await ask('probe_send', {}));
  const asked = await ask('probe_send', {}, { inputResponses: accept({ subject: 'filled in' }) });
  assert.deepEqual(Object.keys(asked.inputRequests), ['confirmation']);
  assert.equal(asked.inputRequests.confirmation.params.message.split('\n').at(-1), 'subject: "filled in"');
  assert.equal(await ledger(), before);
  const yes = { requestState: asked.requestState, inputResponses: { confirmation: { action: 'accept', content: { confirm: true } } } };
  const again = await ask('probe_send', {}, { requestState: asked.requestState, inputResponses: {} });
  assert.equal(again.inputRequests.confirmation.params.message, asked.inputRequests.confirmation.params.message);
  const done = await ask('probe_send', {}, yes);
  assert.equal(contentOf(done).status, 'succeeded', JSON.stringify(done));
  assert.deepEqual(contentOf(await ask('probe_send', {}, yes)), { idempotent_replayed: true, ...contentOf(done) });
  assert.equal((await mcp.ask('tools/call', { name: 'probe_read_label', arguments: {}, ...yes }, FORM)).error.code, -32602);
  assert.equal(await ledger(), before + 1);
});

test('the person’s answers are kept while an app is connected', async () => {
  const at = new Mcp(server.base, bare.key);
  const link = await ask('probe_read_label', {}, { inputResponses: accept({ id: 'INBOX' }) }, BOTH, at);
  assert.equal(link.inputRequests.connection.params.mode, 'url', JSON.stringify(link));
  await stack.connect(bare.id, 'probe', { token: 'ya29.demo-gmail-full' });
  const more = { requestState: link.requestState, inputResponses: { connection: { action: 'accept' } } };
  const done = await ask('probe_read_label', {}, more, BOTH, at);
  assert.equal(contentOf(done)?.output?.id, 'INBOX', JSON.stringify(done));
  for (const [requestState, name] of [[`${link.requestState}A`, 'probe_read_label'], [link.requestState, 'probe_send']])
    assert.equal((await at.ask('tools/call', { name, arguments: {}, ...more, requestState }, BOTH)).error.code, -32602);
  assert.equal((await mcp.ask('tools/call', { name: 'probe_read_label', arguments: {}, ...more }, BOTH)).error.code, -32602);
});

// The link is refused after queries, when the run has ended.
test('a call whose connection cannot be chosen for a link gets its own result', async () => {
  const dead = await stack.account('Dead', { apps: [] });
  for (const label of ['one', 'two']) await stack.connect(dead.id, 'probe', { token: 'ya29.demo-gmail-full' }, ['--label', label]);
  await stack.cluster.sql(`update sluice.connection set status = 'reauth_required', error = 'gone', is_default = false where account_id = '${dead.id}'`);
  const result = await ask('probe_read_label', { id: 'INBOX' }, {}, BOTH, new Mcp(server.base, dead.key));
  assert.deepEqual([result.isError, contentOf(result).status, contentOf(result).error_code], [true, 'blocked', 'reauth_required'], JSON.stringify(result));
});

// Returns the notifications of a call, and its result.
async function progressOf(stream, first) {
  const seen = first ? [first.params] : [];
  const last = await stream.until((message) => {
    if (message.method) seen.push(message.params);
    return message.id !== undefined;
  });
  assert.equal(last.id, stream.id);
  assert.equal(await stream.next(), undefined);
  for (let at = 1; at < seen.length; at++) assert.ok(seen[at].progress > seen[at - 1].progress);
  return { seen, result: last.result };
}

for (const version of [MODERN, LEGACY]) {
  test(`${version}: each page of a list is progress`, async () => {
    const params = { name: 'run_action', arguments: { integration_id: 'gmail', action_id: 'list_messages', input: { maxResults: 2 }, max_pages: 3 } };
    const stream = await mcp.stream('tools/call', params, { version, meta: { progressToken: 'pages' } });
    assert.ok(stream.isStream);
    const { seen, result } = await progressOf(stream);
    assert.deepEqual(seen.map(({ progressToken, progress, total, message }) => [progressToken, progress, total, message]),
      [['pages', 1, undefined, 'Pages read: 1'], ['pages', 2, undefined, 'Pages read: 2']]);
    assert.equal(contentOf(result).output.messages.length, 6);
    for (const options of [{ version }, { version, meta: { progressToken: 'x' }, headers: { accept: 'application/json' } }, { version, meta: { progressToken: {} } }])
      assert.equal((await mcp.stream('tools/call', params, options)).isStream, false);
  });

  test(`${version}: each step of a flow is progress`, async () => {
    const held = await hold(stack.provider, { path_prefix: '/gmail/' });
    const { flowId } = (await server.call(account.key, 'POST', '/api/flows/start', { flowTemplate: 'api_gate', input: { id: 'INBOX' } })).json;
    await held.reached(1);
    const params = { name: 'get_flow', arguments: { flow_id: flowId, wait: 60 } };
    const stream = await mcp.stream('tools/call', params, { version, meta: { progressToken: 7 } });
    assert.ok(stream.isStream);
    const first = await stream.next(); // The flow has not changed since.
    await held.letGo();
    const { seen, result } = await progressOf(stream, first);
    assert.deepEqual([seen[0].progressToken, seen[0].progress, seen[0].total, seen[0].message], [7, 0, 4, 'Step 1 of 4, label, runs']);
    assert.equal(contentOf(result).flow.status, 'waiting');
  });
}

// Sends the call and closes its connection once the provider, which keeps its reply, has received
// `least` requests.
const lose = (held, name, args, least) => mcp.lose(name, args, () => held.reached(least));
const noted = (ms) => until('the run is noted', async () => (await stack.cluster.sql(`select 1 from sluice.idempotency_key where account_id = '${account.id}' and ascii(key) = 2`)).length > 0, ms);
const active = async (one) => Number((await one.metrics()).match(/^sluice_executions_active (\d+)$/m)?.[1] ?? 0);
const forgotten = () => stack.cluster.sql(`delete from sluice.idempotency_key where account_id = '${account.id}' and ascii(key) = 2`);

test('a write whose reply was lost is not made twice by the same call, on any process', async () => {
  const other = await stack.serve();
  const elsewhere = new Mcp(other.base, account.key), stranger = new Mcp(server.base, await stack.key(account.id));
  const before = await ledger();
  const args = { subject: 'lost once', confirm: true };
  const held = await hold(stack.provider, { path_prefix: '/gmail/' });
  await lose(held, 'probe_send', args, 1);
  await noted();
  // sent again while the first is under way: the later calls wait for the first
  const early = [mcp, elsewhere].map((at) => at.call('probe_send', args));
  await until('the repetitions wait', async () => (await active(server)) === 2 && (await active(other)) === 1);
  await held.letGo();
  const results = [...(await Promise.all(early)), await mcp.call('probe_send', args), await elsewhere.call('run_action', { integration_id: 'probe', action_id: 'send', input: { subject: 'lost once' }, confirm: true })];
  const ids = results.map((result) => contentOf(result).execution_id);
  assert.equal(new Set(ids).size, 1, JSON.stringify(results).slice(0, 2000));
  for (const result of results) assert.deepEqual([contentOf(result).status, contentOf(result).idempotent_replayed], ['succeeded', true]);
  assert.equal(await ledger(), before + 1);
  // without confirm, for another key of the account, or with other arguments, it is a separate call
  assert.equal(contentOf(await mcp.call('probe_send', { subject: 'lost once' })).error_code, 'policy_blocked');
  for (const [at, given] of [[stranger, args], [mcp, { ...args, subject: 'lost twice' }]]) {
    const { status, idempotent_replayed } = contentOf(await at.call('probe_send', given));
    assert.deepEqual([status, idempotent_replayed], ['succeeded', undefined]);
  }
  assert.equal(await ledger(), before + 3);
});

test('a write that is repeated at once, on any process, is made once', async () => {
  const other = await stack.serve(), elsewhere = new Mcp(other.base, account.key);
  const before = await ledger();
  for (let i = 0; i < 20; i++) {
    const args = { subject: `at once ${i}`, confirm: true };
    const held = await hold(stack.provider, { method: 'POST', path_prefix: '/gmail/' });
    await lose(held, 'probe_send', args, 1);
    const again = (i % 2 ? mcp : elsewhere).call('probe_send', args);
    if (i < 10) await until('the repetition waits', async () => (await active(i % 2 ? server : other)) >= (i % 2 ? 2 : 1));
    await held.letGo();
    assert.equal(contentOf(await again).idempotent_replayed, true, `${i}`);
  }
  assert.equal(await ledger(), before + 20);
  await other.stop();
});

test('equal writes that are both meant are both made, at once and one after the other', async () => {
  const other = await stack.serve(), elsewhere = new Mcp(other.base, account.key);
  const before = await ledger(), args = { subject: 'both', confirm: true };
  const all = await Promise.all([mcp, elsewhere, mcp, elsewhere].map((at) => at.call('probe_send', args)));
  for (let i = 0; i < 20; i++) all.push(await (i % 3 ? mcp : elsewhere).call('probe_send', args));
  for (const one of all.map(contentOf)) assert.deepEqual([one.status, one.idempotent_replayed], ['succeeded', undefined], JSON.stringify(one));
  assert.equal(new Set(all.map((one) => contentOf(one).execution_id)).size, 24);
  assert.equal(await ledger(), before + 24);
  await other.stop();
});

test('a start that writes and whose reply was lost is not made twice by the same call', async () => {
  const other = await stack.serve(), elsewhere = new Mcp(other.base, account.key), before = await ledger();
  const args = { template: 'probe_chain', input: { subject: 'lost start', confirm: true } };
  const start = async (at, given = args) => contentOf(await at.call('start_flow', { ...given, wait: 60 }));
  await forgotten();
  const held = await hold(stack.provider, { method: 'POST', path_prefix: '/gmail/' });
  await lose(held, 'start_flow', { ...args, wait: 60 }, 1);
  await noted();
  await held.letGo();
  const both = await Promise.all([mcp, elsewhere].map((at) => start(at)));
  for (const one of both) assert.deepEqual([one.idempotent_replayed, one.flowId, one.flow.flow.status], [true, both[0].flowId, 'completed'], JSON.stringify(one));
  assert.equal(await ledger(), before + 1);
  // other arguments, or another key of the account, start another flow; so does a reply that arrived
  const stranger = new Mcp(server.base, await stack.key(account.id)), again = { ...args, input: { ...args.input, subject: 'another start' } };
  const others = [await start(stranger), await start(mcp, again), await start(mcp, again)];
  assert.deepEqual(others.map((one) => one.idempotent_replayed), [undefined, undefined, undefined]);
  assert.equal(new Set([both[0], ...others].map((one) => one.flowId)).size, 4);
  assert.equal(await ledger(), before + 4);
  await other.stop();
});

test('a start that is repeated at once, on any process, is made once; equal starts that are meant are all made', async () => {
  const other = await stack.serve(), elsewhere = new Mcp(other.base, account.key), before = await ledger();
  await forgotten();
  for (let i = 0; i < 10; i++) {
    const args = { template: 'probe_chain', input: { subject: `start at once ${i}`, confirm: true } };
    const held = await hold(stack.provider, { method: 'POST', path_prefix: '/gmail/' });
    await lose(held, 'start_flow', { ...args, wait: 60 }, 1);
    const again = (i % 2 ? mcp : elsewhere).call('start_flow', { ...args, wait: 60 });
    await held.letGo();
    assert.equal(contentOf(await again).idempotent_replayed, true, `${i}`);
  }
  assert.equal(await ledger(), before + 10);
  const args = { template: 'probe_chain', input: { subject: 'start twice', confirm: true } };
  const held = await hold(stack.provider, { method: 'POST', path_prefix: '/gmail/' });
  // the reply to the first is not delivered before its flow ends
  const all = [mcp.call('start_flow', { ...args, wait: 60 })];
  await held.reached(1);
  all.push(...[mcp, elsewhere, mcp, elsewhere].map((at) => at.call('start_flow', args)));
  const meant = (await Promise.all(all.slice(1))).map(contentOf);
  await held.letGo();
  meant.push(contentOf(await all[0]));
  for (const one of meant) assert.equal(one.idempotent_replayed, undefined, JSON.stringify(one));
  assert.equal(new Set(meant.map((one) => one.flowId)).size, 5);
  await until('all flows have written', async () => (await ledger()) === before + 15);
  await until('no key is left in flight', async () => (await stack.cluster.sql(`select 1 from sluice.idempotency_key where account_id = '${account.id}' and ascii(key) = 2 and state = 'in_flight'`)).length === 0);
  await other.stop();
});

test('a write whose reply arrived, and one that did nothing, run again', async () => {
  await forgotten();
  const before = await ledger();
  const args = { subject: 'twice on purpose', confirm: true };
  const both = [await mcp.call('probe_send', args), await mcp.call('probe_send', args)].map(contentOf);
  assert.notEqual(both[0].execution_id, both[1].execution_id);
  assert.equal(await ledger(), before + 2);
  const held = await hold(stack.provider, { method: 'POST', path_prefix: '/gmail/' }, { action: { status: 400 } });
  await lose(held, 'probe_send', { ...args, subject: 'refused' }, 1);
  await noted();
  await held.letGo();
  await until('its note is removed', async () => (await stack.cluster.sql(`select 1 from sluice.idempotency_key where account_id = '${account.id}' and ascii(key) = 2`)).length === 0);
  assert.deepEqual([contentOf(await mcp.call('probe_send', { ...args, subject: 'refused' })).status], ['succeeded']);
});

// A locked table delays the second check of the key for at most a second (lock_timeout). If the
// machine is too slow for that, the reply arrives, and another attempt follows.
test('a write is noted if its client leaves while its key is checked again', async () => {
  const args = { subject: 'lost at its end', confirm: true };
  const recorded = async () => Number(await stack.cluster.sql(`select count(*) from sluice.execution where account_id = '${account.id}'`));
  const locker = () => stack.cluster.sql(`select pid from pg_locks where relation = 'sluice.api_key'::regclass and mode = 'AccessExclusiveLock' and granted`);
  await until('a run is noted', async () => {
    await forgotten();
    const before = await recorded();
    const held = await hold(stack.provider, { path_prefix: '/gmail/' });
    let lock;
    const isLost = await mcp.lose('probe_send', args, async () => {
      await held.reached(1);
      lock = stack.cluster.psql('begin; lock table sluice.api_key; select pg_sleep(600)');
      await until('the keys are locked', locker);
      await stack.cluster.sql(`select pg_notify('sluice_change', '${account.id}')`); // the key is no longer cached
      await held.letGo();
      await until('it is recorded', async () => (await recorded()) > before);
    }).then(() => true, () => false);
    const isNoted = isLost && (await noted(5000).catch(() => false));
    await stack.cluster.sql(`select pg_terminate_backend(${await locker()})`);
    await lock;
    return isNoted;
  });
  const before = await ledger();
  assert.equal(contentOf(await mcp.call('probe_send', args)).idempotent_replayed, true);
  assert.equal(await ledger(), before);
});

test('a client that closes its stream ends a read, and a write that was sent is recorded', async () => {
  const held = await hold(stack.provider, { path_prefix: '/gmail/' });
  const count = async () => (await server.call(account.key, 'GET', '/api/executions?integration_id=probe&limit=100')).json.executions;
  const before = (await count()).length;
  await lose(held, 'probe_read_label', { id: 'INBOX' }, 1);
  await until('the read has ended without an answer', async () => (await active(server)) === 0);
  await lose(held, 'probe_send', { subject: 'closed', confirm: true }, 2);
  assert.equal(await active(server), 1);
  await held.letGo();
  const recorded = await until('the write is recorded', async () => {
    const now = await count();
    return now.length > before && now;
  });
  assert.deepEqual(recorded.slice(0, recorded.length - before).map((one) => [one.action_id, one.status]), [['send', 'succeeded']]);
});

test('the trace of a call is in the log, taken from _meta and from the header', async () => {
  const parent = (digit) => `00-${digit.repeat(32)}-${'b'.repeat(16)}-01`;
  const line = (digit) => server.log.split('\n').find((one) => one.includes(`"trace_id":"${digit.repeat(32)}"`));
  const args = { name: 'search_actions', arguments: { query: 'mail' } };
  const one = await mcp.ask('tools/call', args, { meta: { traceparent: parent('1'), tracestate: 'a=1' }, headers: { traceparent: parent('2') } });
  const two = await mcp.ask('tools/call', args, { headers: { traceparent: parent('3') } });
  await mcp.ask('tools/call', args, { meta: { traceparent: parent('4').toUpperCase().replace('4', 'G') } });
  await mcp.ask('tools/call', args, { meta: { traceparent: parent('5') } });
  await until('the last one is logged', () => line('5'));
  for (const [digit, reply, state] of [['1', one, 'a=1'], ['3', two, '']]) {
    const logged = JSON.parse(line(digit));
    assert.deepEqual([logged.request_id, logged.name, logged.parent_id, logged.tracestate], [reply.headers.get('x-request-id'), 'search_actions', 'b'.repeat(16), state]);
  }
  assert.deepEqual([line('2'), line('4')], [undefined, undefined]);
});

const LIST = { integration_id: 'gmail', action_id: 'list_messages' };

test('slips in an input are mended, the result names them, and REST refuses them', async () => {
  const input = { labelIds: 'INBOX', maxResults: '2' };
  const own = contentOf(await ask('gmail_list_messages', input));
  assert.deepEqual([own.status, own.coerced], ['succeeded', ['/input/labelIds', '/input/maxResults']], JSON.stringify(own));
  const read = contentOf(await ask('run_action', { ...LIST, input: JSON.stringify({ labelIds: '["INBOX"]', maxResults: 2 }) }));
  assert.deepEqual([read.status, read.coerced], ['succeeded', ['/input', '/input/labelIds']], JSON.stringify(read));
  assert.deepEqual(read.output, own.output);
  const { coerced } = contentOf(await ask('run_action', { ...LIST, input: { labelIds: ['INBOX'], maxResults: 2 } }));
  assert.equal(coerced, undefined);
  const flow = contentOf(await ask('start_flow', { template: 'probe_wait', input: { seconds: '0.1' } }));
  assert.deepEqual(flow.coerced, ['/input/seconds'], JSON.stringify(flow));
  const refused = await server.call(account.key, 'POST', '/api/executions', { ...LIST, input });
  assert.deepEqual([refused.status, refused.json.error_code], [409, 'validation_error'], refused.text);
});

test('slips in the arguments of the tools are mended and named as well', async () => {
  const textOf = async (name, args) => (await ask(name, args)).content[0].text;
  const queries = ['send a mail', 'list labels'];
  const lines = await textOf('search_actions', { queries, limit: 2 });
  assert.equal(await textOf('search_actions', { queries: JSON.stringify(queries), limit: '2' }), `${lines}\n{"coerced":["/queries","/limit"]}`);
  assert.equal(await textOf('search_actions', { queries: queries[0] }), `${await textOf('search_actions', { queries: [queries[0]] })}\n{"coerced":["/queries"]}`);
  const about = contentOf(await ask('describe_action', { ...LIST, include: 'output' }));
  assert.ok(about.output_schema && about.coerced[0] === '/include', JSON.stringify(about));
  const read = { ...LIST, input: { maxResults: 2 } };
  const cut = contentOf(await ask('run_action', { ...read, max_output_bytes: '100' }));
  assert.deepEqual([cut.coerced, cut.output.truncated], [['/max_output_bytes'], true], JSON.stringify(cut));
  const actions = [read, { ...read, input: '{"maxResults":"1"}' }];
  for (const [given, top, first] of [[JSON.stringify(actions), ['/actions'], undefined], [actions.map((one) => JSON.stringify(one)), undefined, ['']], [JSON.stringify(actions[0]), ['/actions'], undefined]]) {
    const { coerced, results } = contentOf(await ask('run_actions', { actions: given }));
    assert.deepEqual([coerced, results[0].status, results[0].coerced], [top, 'succeeded', first], JSON.stringify(results).slice(0, 1000));
    if (results[1]) assert.deepEqual(results[1].coerced, [...(first ?? []), '/input', '/input/maxResults']);
  }
  // a key inside a text is that action's
  const send = { integration_id: 'gmail', action_id: 'send_message', input: { to: 'a@example.com', subject: 'slip', text: 't' }, confirm: true, idempotency_key: 'slip-1' };
  const [alone, inText] = [contentOf(await ask('run_action', send, {}, {})), contentOf(await ask('run_actions', { actions: JSON.stringify([send]) }, {}, {})).results[0]];
  assert.deepEqual([inText.execution_id, inText.idempotent_replayed], [alone.execution_id, true], JSON.stringify([alone, inText]));
  // no consent, and no broken list, is guessed
  for (const [name, args, error] of [
    ['run_action', { ...send, confirm: 'true' }, /^confirm must be /], ['search_actions', { queries: '["a",' }, /^queries must be a list/],
    ['search_actions', { query: 'a mail', limit: 'two' }, /^limit must be /], ['run_actions', { actions: 'all' }, /actions/],
  ])
    assert.match(contentOf(await ask(name, args)).error, error, name);
});

test('start_flow can wait for the flow, and returns it as get_flow does', async () => {
  const started = contentOf(await ask('start_flow', { template: 'probe_wait', input: { seconds: 0.1 }, wait: 60 }));
  assert.deepEqual(Object.keys(started), ['flowId', 'flow']);
  const { flow } = contentOf(await ask('get_flow', { flow_id: started.flowId })), { status } = flow;
  assert.deepEqual(contentOf(await ask('get_flow', { flow_id: started.flowId })), started.flow);
  // the wait of a flow is a state in which it does not run
  assert.ok(['waiting', 'completed'].includes(status), status);
  const done = contentOf(await ask('start_flow', { template: 'unread_mail_summary', input: {}, wait: 60, idempotency_key: 'once' }));
  assert.equal(done.flow.flow.status, 'completed', JSON.stringify(done).slice(0, 500));
  const again = contentOf(await ask('start_flow', { template: 'unread_mail_summary', input: {}, wait: 60, idempotency_key: 'once' }));
  assert.deepEqual(again, { idempotent_replayed: true, ...done });
  const flows = async () => (await server.call(account.key, 'GET', '/api/flows?limit=100')).json.flows.length;
  const before = await flows();
  for (const wait of ['soon', -1, 1.5, {}]) {
    const refused = await ask('start_flow', { template: 'unread_mail_summary', input: {}, wait });
    assert.deepEqual([refused.isError, contentOf(refused).error], [true, 'wait must be a whole number of seconds'], JSON.stringify(refused));
  }
  assert.equal(await flows(), before);
});

test('a flow that was started is returned if the wait is not possible, or ends early', async () => {
  const blind = new Mcp(server.base, await stack.key(account.id, ['--scopes', 'execute']));
  const unread = contentOf(await ask('start_flow', { template: 'unread_mail_summary', input: {}, wait: 60 }, {}, FORM, blind));
  assert.deepEqual([typeof unread.flowId, unread.flow.flow.status], ['string', 'running'], JSON.stringify(unread));
  const made = JSON.parse(await stack.must(['keys', 'create', account.id, '--json']));
  const held = await hold(stack.provider, { path_prefix: '/gmail/v1/users/me/messages' });
  const leaving = ask('start_flow', { template: 'unread_mail_summary', input: {}, wait: 60 }, {}, FORM, new Mcp(server.base, made.key));
  await held.reached(1);
  await stack.must(['keys', 'revoke', account.id, made.id]);
  const { flowId, flow } = contentOf(await leaving);
  assert.deepEqual([typeof flowId, flow.flow.status], ['string', 'running']);
  await held.letGo();
});

test('what only looks like a slip is refused as it is', async () => {
  for (const [input, place] of Object.entries({
    maxResults: ['two', '2.5', '', '501', true],
    labelIds: [7, '[7]', '{}', '["INBOX",]', ''],
  }).flatMap(([name, values]) => values.map((value) => [{ [name]: value }, `/input/${name}`]))) {
    const result = contentOf(await ask('run_action', { ...LIST, input }));
    assert.deepEqual([result.error_code, result.coerced, result.message.includes(place)], ['validation_error', undefined, true], JSON.stringify([input, result]));
  }
  const nested = (depth) => `${'{"a":'.repeat(depth)}1${'}'.repeat(depth)}`;
  // as deep as a request may nest, with the three objects around it; and one deeper
  assert.equal(contentOf(await ask('run_action', { ...LIST, input: nested(61) })).error_code, 'validation_error');
  for (const input of ['[1]', '{"a":', 'text', nested(62)]) {
    const result = await ask('run_action', { ...LIST, input });
    assert.ok(result.isError && result.content[0].text.includes('object'), JSON.stringify(result));
  }
});

test('the form of a write shows the mended input, and its answer belongs to either spelling', async () => {
  const before = await ledger();
  const text = { integration_id: 'probe', action_id: 'send', input: JSON.stringify({ subject: 'as text' }) };
  const object = { ...text, input: { subject: 'as text' } };
  const asked = await ask('run_action', text);
  assert.match(asked.inputRequests.confirmation.params.message, /^subject: "as text"$/m);
  const yes = { requestState: asked.requestState, inputResponses: { confirmation: { action: 'accept', content: { confirm: true } } } };
  const [done, again] = [await ask('run_action', text, yes), await ask('run_action', object, yes)].map(contentOf);
  assert.deepEqual([done.status, done.coerced, again.idempotent_replayed, again.coerced], ['succeeded', ['/input'], true, undefined]);
  assert.equal(again.execution_id, done.execution_id);
  assert.equal(await ledger(), before + 1);
});

test('a read shows what work needs, names the rest, and gives it when asked', async () => {
  const read = (more) => ask('run_action', { integration_id: 'gmail', action_id: 'get_message', input: { id: '19a4b6c7d8e90001' }, ...more }, {}, {}).then(contentOf);
  const lean = await read(), full = await read({ view: 'full' });
  assert.ok(full.output.payload && full.output.text, JSON.stringify(full));
  assert.deepEqual([lean.output.payload, lean.output.text, full.left_out], [undefined, full.output.text, undefined]);
  for (const name of ['payload', 'snippet', 'internalDate']) assert.ok(lean.left_out.includes(name), JSON.stringify(lean.left_out));
  assert.deepEqual(Object.values(lean.output).filter((one) => one === null), []);
  const named = contentOf(await ask('gmail_get_message', { id: '19a4b6c7d8e90001' }));
  assert.deepEqual([named.output, named.left_out], [lean.output, lean.left_out]);
  const resource = async (query) => marked((await mcp.ask('resources/read', { uri: `sluice://executions/${lean.execution_id}${query}` })).result.contents[0].text).json;
  assert.deepEqual([(await resource('')).output, (await resource('?view=full')).output], [lean.output, full.output]);
  assert.deepEqual((await resource('?pointer=/text&offset=3')).output, lean.output.text.slice(3));
  const again = async (more) => contentOf(await ask('read_result', { execution_id: lean.execution_id, ...more }));
  assert.deepEqual([(await again()).output, (await again({ view: 'full' })).output], [lean.output, full.output]);
  assert.deepEqual((await again({ select: 'payload', pointer: '/mimeType' })).output, full.output.payload.mimeType);
  assert.deepEqual((await again({ pointer: '/text', offset: 3 })).output, lean.output.text.slice(3));
  const stored = await server.call(account.key, 'GET', `/api/executions/${lean.execution_id}`);
  assert.deepEqual([stored.json.output, stored.json.left_out], [full.output, undefined]);
  const selected = await read({ select: '{s: subject, type: payload.mimeType}' });
  assert.deepEqual([selected.output, selected.left_out], [{ s: full.output.subject, type: full.output.payload.mimeType }, undefined]);
  const cut = (await read({ view: 'full', max_output_bytes: 500 })).output.cuts[0];
  assert.match(cut.more, /&view=full$/);
  for (const wrong of [{ view: 'all' }, { view: true }, { select: 'a[' }]) for (const call of [read, again]) assert.match((await call(wrong)).error, /^(view must be "full", or left out|select is not a JMESPath expression: )/);
});
