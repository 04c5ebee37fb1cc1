// Writes over MCP need a person (src/mcp/README.md): a client that shows forms is asked about every
// tool that writes and every start that confirms a write, whatever the model claims. A key that
// refuses unattended writes makes none without a form. Tests every tool of every app, alone and as
// an item of run_actions, and every template, all connected, with a provider that counts calls.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { Mcp, contentOf } from './support/mcp.mjs';
import { until } from './support/client.mjs';
import { Pages } from './support/pages.mjs';
import { apps, manifestOf } from './replay/recordings.mjs';
import { Stage } from './replay/stage.mjs';

const FORM = { capabilities: { elicitation: { form: {} } } };
const yes = { confirmation: { action: 'accept', content: { confirm: true } } };
const no = { confirmation: { action: 'decline' } };
let stage, server, strict, keys;
let calls = 0;

before(async () => {
  stage = await Stage.start(apps.map((app) => ({ app })));
  for (const lane of stage.lanes.values()) stage.answers.set(lane.token, (request) => ((calls += request.method !== 'GET'), answer(request)));
  ({ server } = stage);
  const make = (args) => stage.stack.key(stage.account, args);
  const [refuse, never, allow] = await Promise.all([['--unattended-writes', 'refuse'], ['--forms', 'never'], ['--unattended-writes', 'allow']].map(make));
  keys = { plain: stage.key, refuse, never, allow };
});
after(() => stage?.stop());

// The replies of each app that the flow from mails to a channel needs.
function answer({ path }) {
  const json = (body) => ({ status: 200, body: JSON.stringify(body) });
  if (path.endsWith('/messages')) return json({ messages: [{ id: 'm1', threadId: 't1' }] });
  if (path.includes('/messages/')) return json({ id: 'm1', threadId: 't1', labelIds: [], snippet: 's', payload: { headers: [{ name: 'Subject', value: 'Hello' }, { name: 'From', value: 'a@example.com' }] } });
  if (path.endsWith('/chat.postMessage')) return json({ ok: true, channel: 'C1', ts: '1.2', message: { text: 'x' } });
  return { status: 404, body: '{}' };
}

const actions = apps.flatMap((app) => manifestOf(app).actions.map((action) => ({ ...action, integration_id: app })));
const writes = actions.filter((action) => action.side_effect_level !== 'read');
const nameOf = ({ integration_id, action_id }) => `${integration_id}_${action_id}`;
const inputOf = (action) => action.examples[0].input;
const ask = (key, name, args, more = {}, params = {}) => new Mcp(server.base, key).ask('tools/call', { name, arguments: args, ...params }, more).then(({ result }) => result);
const callOf = (action, args = { confirm: true }) => ({ integration_id: action.integration_id, action_id: action.action_id, input: inputOf(action), ...args });
const run = (key, action, more, args) => ask(key, 'run_action', callOf(action, args), more);
const runAll = (key, items, more) => ask(key, 'run_actions', { actions: items }, more);
// The tools in groups whose writes fit into one form.
const groups = (list) => Array.from({ length: Math.ceil(list.length / 8) }, (_, at) => list.slice(8 * at, 8 * at + 8));
const read = () => callOf(actions.find((action) => nameOf(action) === 'gmail_list_messages'), {});

// Ten at a time.
async function each(list, work) {
  const queue = [...list];
  await Promise.all(Array.from({ length: 10 }, async () => {
    for (let one; (one = queue.shift()); ) await work(one);
  }));
}

test('a client that shows forms is asked about every write, alone and under its own name', async () => {
  assert.ok(writes.length > 350);
  const unasked = [];
  await each(writes, async (action) => {
    const results = [await run(keys.plain, action, FORM), await ask(keys.plain, nameOf(action), { ...inputOf(action), confirm: true }, FORM)];
    for (const result of results) {
      if (result.resultType === 'input_required') assert.ok(result.inputRequests.confirmation, nameOf(action));
      else unasked.push([nameOf(action), contentOf(result).error_code]);
    }
  });
  await each(groups(writes), async (group) => {
    const result = await runAll(keys.plain, [...group.map((action) => callOf(action)), read()], FORM);
    assert.equal(result.resultType, 'input_required', JSON.stringify(result).slice(0, 500));
    const { message } = result.inputRequests.confirmation.params;
    const asked = group.filter((action) => new RegExp(`\\n${action.integration_id} ${action.action_id}(?:,|\\n)`).test(message));
    assert.ok(message.startsWith(`${asked.length} write`), message);
    // an item that the form leaves out does not run after it
    const left = group.filter((action) => !asked.includes(action));
    if (left.length === 0) return;
    const done = await runAll(keys.plain, left.map((action) => callOf(action)), FORM);
    unasked.push(...left.map((action, at) => [nameOf(action), contentOf(done).results[at].error_code]));
  });
  assert.equal(calls, 0);
  // a file cannot be sent over /mcp
  const withFiles = new Set(writes.filter((action) => action.files).map(nameOf));
  for (const [name, code] of unasked) assert.ok(withFiles.has(name) && code === 'validation_error', `${name}: ${code}`);
});

test('a key that refuses unattended writes makes none without a form, and says what can', async () => {
  const check = (action, { status, error_code, message, hint }) => {
    assert.deepEqual([status, error_code], ['blocked', 'policy_blocked'], nameOf(action));
    assert.match(message, /needs the consent of a person, but this client cannot show a form(?:, and the action cannot run as requested: .*)?\. Nothing was done\.$/, nameOf(action));
    assert.match(hint, /Use a client that can show a form \(MCP elicitation\)/);
    assert.doesNotMatch(hint, /confirm: true/);
  };
  await each(writes, async (action) => {
    for (const result of [await run(keys.refuse, action), await run(keys.refuse, action, {}, {}), await ask(keys.refuse, nameOf(action), { ...inputOf(action), confirm: true })]) {
      assert.equal(result.isError, true, nameOf(action));
      check(action, contentOf(result));
    }
  });
  await each(groups(writes), async (group) => {
    const twice = group.flatMap((action) => [action, action]);
    const result = await runAll(keys.refuse, twice.map((action, at) => callOf(action, at % 2 ? {} : { confirm: true })));
    assert.equal(result.isError, true);
    for (const [at, action] of twice.entries()) check(action, contentOf(result).results[at]);
  });
  assert.equal(calls, 0);
  const { hint } = contentOf(await run(keys.refuse, writes.find((action) => nameOf(action) === 'notion_create_page')));
  assert.match(hint, /, or a flow that waits for an approval: .*unread_mail_to_tasks/);
  // with a form it can write, a dry run is not a write, and REST is unchanged
  for (const of of [(more, args) => run(keys.refuse, writes[0], more, args), (more, args) => runAll(keys.refuse, [callOf(writes[0], args)], more)]) {
    assert.equal((await of(FORM)).resultType, 'input_required');
    const dry = contentOf(await of({}, { dry_run: true }));
    assert.equal((dry.results?.[0] ?? dry).dry_run, true);
  }
  const post = writes.find((action) => nameOf(action) === 'slack_post_message');
  const rest = await server.call(keys.refuse, 'POST', '/api/executions', { integration_id: 'slack', action_id: 'post_message', input: inputOf(post), confirm: true });
  assert.equal(rest.status, 200, rest.text);
  calls = 0;
});

test('the setting refuses for all keys but those that say otherwise; forms: never takes confirm', async () => {
  const post = writes.find((action) => nameOf(action) === 'slack_post_message');
  strict = await stage.serve(['--unattended-writes', 'refuse']);
  const one = callOf(post, {});
  const faces = [['run_action', (args) => ({ ...one, ...args }), (result) => contentOf(result)], ['run_actions', (args) => ({ actions: [{ ...one, ...args }] }), (result) => contentOf(result).results[0]]];
  for (const [name, of, content] of faces) {
    const on = (base) => (key, more, args) => new Mcp(base, key).ask('tools/call', { name, arguments: of(args) }, more).then(({ result }) => result);
    const at = on(strict.base), usual = on(server.base);
    assert.equal(content(await at(keys.plain, {}, { confirm: true })).error_code, 'policy_blocked');
    assert.equal(calls, 0);
    assert.equal(content(await at(keys.allow, {}, { confirm: true })).status, 'succeeded');
    assert.equal((await at(keys.allow, FORM, { confirm: true })).resultType, 'input_required');
    assert.equal(calls, 1);
    // no user can be asked, so the client's forms do not count
    assert.equal(content(await usual(keys.never, FORM, { confirm: true })).status, 'succeeded');
    assert.equal(content(await usual(keys.never, FORM, {})).error_code, 'policy_blocked');
    assert.equal(content(await at(keys.never, FORM, { confirm: true })).error_code, 'policy_blocked');
    assert.equal(calls, 2);
    calls = 0;
  }
});

// A value that the schema accepts, with the required members only.
function example(schema) {
  if (schema.const !== undefined) return schema.const;
  if (schema.enum) return schema.enum[0];
  if (schema.anyOf) return example(schema.anyOf[0]);
  if (schema.type === 'object') return Object.fromEntries((schema.required ?? []).map((name) => [name, example(schema.properties[name])]));
  if (schema.type === 'array') return Array.from({ length: schema.minItems ?? 0 }, () => example(schema.items));
  if (schema.format === 'date') return '2027-03-04';
  if (schema.format === 'date-time') return '2027-03-04T05:06:07Z';
  if (schema.format === 'email') return 'a@example.com';
  return { integer: schema.minimum ?? 1, number: schema.minimum ?? 1, boolean: true, string: 'x'.repeat(Math.max(1, schema.minLength ?? 1)) }[schema.type];
}

test('a start that confirms writes is asked about, for every such template, and no other', async () => {
  const { templates } = (await server.call(keys.plain, 'GET', '/api/flows/templates')).json;
  let asked = 0;
  for (const { key } of templates) {
    const template = (await server.call(keys.plain, 'GET', `/api/flows/templates/${key}`)).json;
    const byStart = template.steps.filter((step) => step.confirmed_by === 'start');
    const input = example(template.input_schema);
    const result = await ask(keys.plain, 'start_flow', { template: key, input }, FORM);
    assert.equal(result.resultType === 'input_required', byStart.length > 0, `${key}: ${JSON.stringify(result).slice(0, 500)}`);
    if (byStart.length === 0) continue;
    asked++;
    const { message } = result.inputRequests.confirmation.params;
    for (const step of byStart) assert.ok(message.includes(step.tool), message);
    for (const [name, value] of Object.entries(input)) assert.equal(message.includes(`\n${name}: ${JSON.stringify(value)}`), name !== 'confirm', message);
    const refused = await ask(keys.refuse, 'start_flow', { template: key, input });
    assert.deepEqual([refused.isError, contentOf(refused).error_code], [true, 'policy_blocked']);
    assert.match(contentOf(refused).hint, /Use a client that can show a form/);
  }
  assert.ok(asked >= 2);
  assert.equal(calls, 0);
});

const START = { template: 'unread_mail_to_slack', input: { channel: 'C1' } };
const start = (params, input = START.input, args = {}) => ask(keys.plain, 'start_flow', { ...START, input, ...args }, FORM, params);
const posted = (flowId) => until('the flow has ended', async () => {
  const { flow } = (await server.call(keys.plain, 'GET', `/api/flows/${flowId}`)).json;
  return ['completed', 'failed'].includes(flow.status) && flow;
});

test('yes starts it once, with what the form showed', async () => {
  const asked = await start({});
  assert.deepEqual(asked.inputRequests.confirmation.params.message.split('\n'), [
    'Unread mail digest to Slack', 'start_flow unread_mail_to_slack', 'runs without another question: slack_post_message', 'channel: "C1"',
  ]);
  const more = { requestState: asked.requestState, inputResponses: yes };
  const all = await Promise.all([1, 2, 3].map(() => start(more)));
  const ids = new Set(all.map((result) => contentOf(result).flowId));
  assert.equal(ids.size, 1, JSON.stringify(all).slice(0, 1000));
  const flow = await posted([...ids][0]);
  assert.deepEqual([flow.status, flow.input], ['completed', { channel: 'C1', confirm: true }], JSON.stringify(flow).slice(0, 2000));
  assert.equal(contentOf(await start(more)).flowId, flow.id);
  assert.equal(calls, 1);
  // a confirm argument from the model changes nothing, and the state is valid for one call
  assert.equal((await start({}, { channel: 'C1', confirm: true })).resultType, 'input_required');
  const foreign = [
    start(more, { channel: 'C2' }), start(more, START.input, { idempotency_key: 'k' }), ask(keys.never, 'start_flow', START, FORM, more),
    ask(keys.plain, 'run_action', { integration_id: 'slack', action_id: 'post_message', input: { channel: 'C1', text: 'x' } }, FORM, more),
  ];
  for (const result of await Promise.allSettled(foreign)) assert.ok(result.status === 'rejected' || !result.value || result.value.isError, JSON.stringify(result).slice(0, 500));
  assert.equal(calls, 1);
});

test('a channel that is given by its name is not read', async () => {
  const words = async (channel) => (await ask(keys.plain, 'run_action', { integration_id: 'slack', action_id: 'post_message', input: { channel, text: 'x' } }, FORM)).inputRequests.confirmation.params.message;
  assert.doesNotMatch(await words('#general'), /could not be read/);
  assert.match(await words('C1'), /channel: \(could not be read\)/);
});

test('no starts nothing, nor does a yes after it; faults are not asked about', async () => {
  calls = 0;
  const asked = await start({});
  const refused = await start({ requestState: asked.requestState, inputResponses: no });
  assert.match(contentOf(refused).error, /did not agree\. Nothing was done/);
  const late = await start({ requestState: asked.requestState, inputResponses: yes });
  assert.match(contentOf(late).error, /did not agree to this start\. Nothing was started/);
  const again = await start({ requestState: (await start({})).requestState });
  assert.equal(again.resultType, 'input_required');
  for (const input of [{ channel: 7, confirm: true }, { confirm: true }, { channel: 'C1', other: 1, confirm: true }]) {
    const result = await start({}, input);
    assert.equal(result.isError, true, JSON.stringify(result));
    assert.match(contentOf(result).error, /\/input/);
  }
  assert.equal((await server.call(keys.plain, 'GET', '/api/flows?template=unread_mail_to_slack')).json.flows.length, 1);
  assert.equal(calls, 0);
});

test('a key that refuses unattended writes makes only such keys in the dashboard', async () => {
  const admin = await stage.stack.key(stage.account, ['--scopes', 'read,admin', '--unattended-writes', 'refuse']);
  const options = async (key) => {
    const pages = new Pages(server.base);
    await pages.press(await pages.go('/sign-in'), 'Sign in', { key });
    const { text } = await pages.go('/keys/new');
    return [...text.matchAll(/<option value="(allow|refuse|)"/g)].map(([, value]) => value);
  };
  assert.deepEqual([await options(admin), await options(stage.key)], [['refuse'], ['', 'allow', 'refuse']]);
});

test('a list of keys shows the limits for /mcp', async () => {
  const listed = await stage.stack.must(['keys', 'list', stage.account]);
  for (const limit of ['unattended refuse', 'unattended allow', 'forms never']) assert.equal(listed.split('\n').filter((line) => line.includes(limit)).length, limit === 'unattended refuse' ? 2 : 1, listed);
});
