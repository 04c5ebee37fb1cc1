// What a key's policy lets it do: every decision by every kind of condition, on every surface, for
// the account and for one of its users, equal to a model (support/policy.mjs); hidden actions, which
// no reply names; and what an adversary tries.
import assert from 'node:assert/strict';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { until } from './support/client.mjs';
import { Mcp, contentOf } from './support/mcp.mjs';
import { Pages, formsOf } from './support/pages.mjs';
import { ACTIONS, DECISIONS, KINDS, decide, foresee, policyOf } from './support/policy.mjs';
import { Stack } from './support/stack.mjs';

const LOOSE = { default: 'allow', rules: [] };
const USER = { 'sluice-user': 'ada' };
const FORM = { capabilities: { elicitation: { form: {} } } };
const YES = { confirmation: { action: 'accept', content: { confirm: true } } };
const STRUCTURED = { meta: { 'sluice/structured': true } };
let stack, server, account;

// A template for each action of the matrix: one call, confirmed by an approval if it writes.
const templateOf = (action) => ({
  key: `call_${action.id}`,
  name: `Call ${action.id}`,
  description: `Makes one call of ${action.tool}.`,
  input: { type: 'object', properties: {}, additionalProperties: false },
  steps: [
    ...(action.level === 'write' ? [{ key: 'ask', type: 'approval', title: 'Call', summary: 'One call' }] : []),
    { key: 'call', type: 'tool_call', tool: action.tool, input: action.input, ...(action.level === 'write' && { confirmed_by: 'approval:ask' }) },
  ],
});

before(async () => {
  stack = await Stack.start({ catalog: false });
  stack.catalogDir = join(stack.dir, 'catalog');
  await mkdir(join(stack.catalogDir, 'templates'), { recursive: true });
  for (const action of ACTIONS) await writeFile(join(stack.catalogDir, 'templates', `call_${action.id}.json`), JSON.stringify(templateOf(action)));
  server = await stack.serve();
  account = await stack.account('With policies', { apps: [] });
  const id = await stack.connect(account.id, 'gmail', { access_token: 'ya29.demo-gmail-full' });
  const shared = await call(account.key, 'PATCH', `/api/connections/${id}`, { shared: true });
  assert.equal(shared.status, 200, shared.text);
});
after(() => stack?.stopWell(assert));

const call = (key, method, path, body, headers) => server.call(key, method, path, body, headers);
const sent = async () => (await stack.provider.ledger()).length;

async function setPolicy(name, policy) {
  const reply = await call(account.key, 'PUT', `/api/policies/${name}`, { policy });
  assert.ok(reply.status < 300, reply.text);
  return reply.json;
}

// Returns {key, id}.
async function keyWith(policy, more = {}) {
  const made = await call(account.key, 'POST', '/api/keys', { name: `with ${policy}`, policy, scopes: ['read', 'execute', 'approve'], ...more });
  assert.equal(made.status, 201, made.text);
  return made.json;
}

/* ---- the matrix: without an input ---- */

// What the surfaces without an input show of the three actions, as the model's words.
async function shownWithout(key, as) {
  const mcp = new Mcp(server.base, key, '/mcp?tools=gmail');
  const get = async (path) => (await call(key, 'GET', path, undefined, as)).json;
  const [list, apps, search, tools, found, templates] = await Promise.all([
    get('/api/actions?integration_id=gmail'),
    get('/api/integrations?query=gmail'),
    get('/api/search?query=label%20message%20mail&limit=100'),
    mcp.ask('tools/list', {}, { headers: as }),
    mcp.call('search_actions', { query: 'label message mail', limit: 100 }, { ...STRUCTURED, headers: as }),
    get('/api/flows/templates'),
  ]);
  const listed = new Set(list.items.map((one) => one.action_id));
  const capable = new Set(apps.items.find((one) => one.integration_id === 'gmail').capabilities);
  const idsOf = (items) => new Set(items.filter((one) => one.integration_id === 'gmail').map((one) => one.action_id));
  const named = new Map(tools.result.tools.map((one) => [one.name, one]));
  const start = tools.result.tools.find((one) => one.name === 'start_flow').description;
  return Promise.all(
    ACTIONS.map(async (action) => {
      const detail = await get(`/api/actions/gmail/${action.id}`);
      const described = contentOf(await mcp.call('describe_action', { integration_id: 'gmail', action_id: action.id }, { headers: as }));
      const tool = named.get(action.tool);
      return {
        list: listed.has(action.id), capabilities: capable.has(action.id), search: idsOf(search.items).has(action.id),
        'supports_action': (await get(`/api/integrations?supports_action=${action.tool}`)).items.length === 1,
        'tools/list': tool !== undefined, search_actions: idsOf(found.structuredContent.items).has(action.id),
        templates: templates.templates.some((one) => one.key === `call_${action.id}`),
        start_flow: start.includes(`\n- call_${action.id}: `),
        detail: detail.policy && [detail.policy.decision, detail.policy.rule, detail.requires_confirmation],
        described: described.policy && [described.policy.decision, described.policy.rule ?? null, described.requires_confirmation],
        tool: tool && [tool._meta?.['sluice/policy'].decision, tool._meta?.['sluice/policy'].rule, 'confirm' in tool.inputSchema.properties],
      };
    }),
  );
}

function expectedWithout(kind, decision, action) {
  const { decision: all, rule, mayConfirm } = foresee(kind, decision, action);
  const isListed = all !== 'deny', confirms = action.level === 'write' || mayConfirm;
  const isStarted = isListed && !(all === 'hold' && action.level === 'read'); // no approval of its template confirms a read
  return {
    list: isListed, capabilities: isListed, search: isListed, supports_action: isListed, 'tools/list': isListed, search_actions: isListed, templates: isStarted, start_flow: isStarted,
    detail: [all, rule, confirms], described: [all, rule, confirms], tool: isListed ? [all, rule, confirms] : undefined,
  };
}

/* ---- the matrix: with an input ---- */

// What each surface does with a call, in four words: "done", "asks" (for a confirmation), "held",
// "denied".
const wordOf = (summary) => (summary.approval ? 'held' : summary.status === 'succeeded' ? 'done' : summary.error_code !== 'policy_blocked' ? JSON.stringify(summary) : /confirm/.test(summary.hint ?? '') ? 'asks' : 'denied');

async function shownWith(key, action, takesConfirm, as) {
  const mcp = new Mcp(server.base, key);
  const input = action.input, body = { integration_id: 'gmail', action_id: action.id, input };
  const post = async (more) => wordOf((await call(key, 'POST', '/api/executions', { ...body, ...more }, as)).json);
  const tool = async (confirmed) => {
    const { status, json } = await call(key, 'POST', `/api/tools/${action.tool}/execute`, { arguments: input, confirmed }, as);
    return status === 200 ? 'done' : status === 412 && json.error.code === 'confirmation_required' ? 'asks' : status === 409 && json.error.code === 'approval_required' ? 'held' : status === 409 && json.error.code === 'policy_denied' ? 'denied' : JSON.stringify(json);
  };
  const batch = async (confirm) => {
    const { json } = await call(key, 'POST', '/api/executions/batch', { executions: [{ ...body, confirm }] }, as);
    return wordOf(json.results[0].summary);
  };
  const run = async (confirm) => wordOf(contentOf(await mcp.call('run_action', { ...body, confirm }, { headers: as })));
  const several = async (confirm) => wordOf(contentOf(await mcp.call('run_actions', { actions: [{ ...body, confirm }] }, { headers: as })).results[0]);
  const own = async (confirm) => wordOf(contentOf(await mcp.call(action.tool, { ...input, ...(confirm && takesConfirm && { confirm }) }, { headers: as })));
  // a client with forms: what the person is asked about, and what their yes does
  const inForm = async (name, args, summaryOf) => {
    const asked = (await mcp.ask('tools/call', { name, arguments: args }, { ...FORM, headers: as })).result;
    if (asked.resultType !== 'input_required') return Array(2).fill(wordOf(summaryOf(contentOf(asked))));
    const done = await mcp.ask('tools/call', { name, arguments: args, requestState: asked.requestState, inputResponses: YES }, { ...FORM, headers: as });
    return ['asks', wordOf(summaryOf(contentOf(done.result)))];
  };
  const dry = (await call(key, 'POST', '/api/executions', { ...body, dry_run: true }, as)).json;
  const names = ['executions', 'tool', 'batch', 'run_action', 'run_actions', 'own tool'];
  const shown = {
    'dry run': dry.dry_run ? [dry.policy.decision, dry.policy.rule] : wordOf(dry),
    'run_action in a form': await inForm('run_action', body, (one) => one),
    'run_actions in a form': await inForm('run_actions', { actions: [body] }, (one) => one.results[0]),
  };
  for (const [name, one] of [post, tool, batch, run, several, own].entries())
    shown[names[name]] = [await (one === post ? one({}) : one(false)), await (one === post ? one({ confirm: true }) : one(true))];
  return shown;
}

function expectedWith(kind, decision, action) {
  const { decision: one, rule } = decide(kind, decision, action);
  const words = one === 'deny' ? ['denied', 'denied'] : one === 'hold' ? ['held', 'held'] : one === 'confirm' || action.level === 'write' ? ['asks', 'done'] : ['done', 'done'];
  const names = ['executions', 'tool', 'batch', 'run_action', 'run_actions', 'own tool', 'run_action in a form', 'run_actions in a form'];
  const expected = { 'dry run': one === 'deny' ? 'denied' : [one, rule], ...Object.fromEntries(names.map((name) => [name, words])) };
  if (one === 'hold' && action.level === 'write') expected.tool = ['asks', 'held']; // elsewhere the approval is the confirmation
  return expected;
}

for (const kind of KINDS)
  test(`the matrix: ${kind}`, async () => {
    for (const decision of DECISIONS) {
      const name = `${kind}-${decision}`.replaceAll(' ', '-');
      await setPolicy(name, policyOf(kind, decision));
      const { key } = await keyWith(name);
      for (const as of [undefined, USER]) {
        const shown = await shownWithout(key, as);
        for (const [at, action] of ACTIONS.entries()) {
          const about = `${name}, ${action.id}, ${as ? 'a user' : 'the account'}`;
          assert.deepEqual(shown[at], expectedWithout(kind, decision, action), about);
          const before = await sent();
          assert.deepEqual(await shownWith(key, action, expectedWithout(kind, decision, action).detail[2], as), expectedWith(kind, decision, action), about);
          // what was denied or asks reached no app
          const words = action.level === 'write' ? Object.values(expectedWith(kind, decision, action)) : []; // the provider lists writes
          assert.equal((await sent()) - before, words.filter((word) => word.includes('done')).length, about);
        }
      }
    }
  });

/* ---- the matrix: calls of flows ---- */

// What a flow with one call does: "refused" (409), or how the call ended once a person approved it.
async function shownByFlow(key, action, as) {
  const started = await call(key, 'POST', '/api/flows/start', { flowTemplate: `call_${action.id}` }, as);
  if (started.status === 409) return 'refused';
  assert.equal(started.status, 200, started.text);
  const id = started.json.flowId;
  if (action.level === 'write') {
    await until('the flow waits', async () => (await call(account.key, 'GET', `/api/flows/${id}`, undefined, as)).json.flow.status === 'waiting');
    const approved = await call(account.key, 'POST', `/api/flows/${id}/approve`, {}, as);
    assert.equal(approved.status, 200, approved.text);
  }
  const view = await until('the flow has ended', async () => {
    const { json } = await call(account.key, 'GET', `/api/flows/${id}`, undefined, as);
    return ['completed', 'failed'].includes(json.flow.status) && json;
  });
  const { status, error } = view.steps.at(-1);
  return status === 'completed' ? 'done' : error.code === 'policy_blocked' ? 'blocked' : JSON.stringify(error);
}

// The confirmation of a template is its approval. A read has none.
function expectedByFlow(kind, decision, action) {
  const { decision: one } = decide(kind, decision, action);
  const all = foresee(kind, decision, action).decision, isRead = action.level === 'read';
  if (all === 'deny' || (all === 'hold' && isRead)) return 'refused';
  return one === 'deny' || (one !== 'allow' && isRead) ? 'blocked' : 'done';
}

/* ---- the matrix: what is stored ---- */

// What another key's call and flow have left: an execution and a flow for each action.
async function store(as) {
  return Promise.all(
    ACTIONS.map(async (action) => {
      const body = { integration_id: 'gmail', action_id: action.id, input: action.input, confirm: true, idempotency_key: `stored-${action.id}` };
      const run = await call(account.key, 'POST', '/api/executions', body, as);
      assert.equal(run.status, 200, run.text);
      const flow = await call(account.key, 'POST', '/api/flows/start', { flowTemplate: `call_${action.id}` }, as);
      assert.equal(flow.status, 200, flow.text);
      return { execution: run.json.execution_id, flow: flow.json.flowId, body };
    }),
  );
}

async function shownOfStored(key, action, { execution, flow, body }, as) {
  const mcp = new Mcp(server.base, key);
  const get = async (path) => call(key, 'GET', path, undefined, as);
  const read = async (uri) => (await mcp.ask('resources/read', { uri }, { headers: as })).result !== undefined;
  // whether any is listed: a list has a page, and the cells fill it
  const isAny = (executions) => executions.some((one) => one.integration_id === 'gmail' && one.action_id === action.id);
  const history = await mcp.call('history', { limit: 100 }, { ...STRUCTURED, headers: as });
  return {
    execution: (await get(`/api/executions/${execution}`)).status === 200,
    executions: isAny((await get('/api/executions?limit=100')).json.executions),
    flow: (await get(`/api/flows/${flow}`)).status === 200,
    flows: (await get('/api/flows?limit=100')).json.flows.some((one) => one.templateKey === `call_${action.id}`),
    events: await (async () => {
      const gone = new AbortController();
      const reply = await fetch(`${server.base}/api/flows/${flow}/events`, { headers: { authorization: `Bearer ${key}`, ...as }, signal: gone.signal });
      gone.abort();
      return reply.status === 200;
    })(),
    read_result: !(await mcp.call('read_result', { execution_id: execution }, { headers: as })).isError,
    get_flow: !(await mcp.call('get_flow', { flow_id: flow }, { headers: as })).isError,
    'execution resource': await read(`sluice://executions/${execution}`),
    'flow resource': await read(`sluice://flows/${flow}`),
    history: isAny(history.structuredContent.executions),
    // the stored result of the same request: given only to a key that may make it
    replay: (await call(key, 'POST', '/api/executions', body, as)).headers.get('idempotent-replayed') === 'true',
  };
}

function expectedOfStored(kind, decision, action) {
  const isGiven = foresee(kind, decision, action).decision !== 'deny';
  const names = ['execution', 'executions', 'flow', 'flows', 'events', 'read_result', 'get_flow', 'execution resource', 'flow resource', 'history'];
  return { ...Object.fromEntries(names.map((name) => [name, isGiven])), replay: decide(kind, decision, action).decision !== 'deny' };
}

test('the matrix: flows, and what is stored', async () => {
  const stored = { account: await store(undefined), user: await store(USER) };
  for (const kind of KINDS)
    for (const decision of DECISIONS) {
      const name = `${kind}-${decision}`.replaceAll(' ', '-');
      const { key } = await keyWith(name);
      for (const as of [undefined, USER])
        await Promise.all(
          ACTIONS.map(async (action, at) => {
            const about = `${name}, ${action.id}, ${as ? 'a user' : 'the account'}`;
            assert.equal(await shownByFlow(key, action, as), expectedByFlow(kind, decision, action), about);
            assert.deepEqual(await shownOfStored(key, action, stored[as ? 'user' : 'account'][at], as), expectedOfStored(kind, decision, action), about);
          }),
        );
    }
});

/* ---- a hidden action ---- */

const HIDDEN = 'update_draft', TITLE = /update_draft|Update a draft/i;

// The requests whose replies are compared. The reply to a search has no order here, and no
// relevance: both come from statistics over all words of the catalog.
async function repliesOf(at, key) {
  const mcp = new Mcp(at.base, key, '/mcp?tools=gmail,gmail_update_draft');
  const rest = (method, path, body) => at.call(key, method, path, body).then(({ status, text }) => ({ status, text }));
  const unordered = ({ items, ...more }) => ({ ...more, items: items.map(({ relevance, ...one }) => JSON.stringify(one)).sort() });
  const run = (action_id, more = {}) => rest('POST', '/api/executions', { integration_id: 'gmail', action_id, input: { to: 'a@b.example' }, ...more });
  const tool = (name, args, options) => mcp.ask('tools/call', { name, arguments: args }, options).then(({ status, json }) => ({ status, json: { ...json, id: 0 } }));
  const replies = {};
  for (const path of ['/api/actions?integration_id=gmail', '/api/actions?integration_id=gmail&limit=5', '/api/integrations?query=gmail', `/api/integrations?supports_action=gmail_${HIDDEN}`,
    `/api/integrations?supports_action=${HIDDEN}`, '/api/flows/templates', '/api/flows/templates/make_draft', '/api/flows/templates/make_drafts'])
    replies[path] = await rest('GET', path);
  for (const name of [HIDDEN, `gmail_${HIDDEN}`, 'update_drafts', 'updateDraft', 'UPDATE_DRAFT', 'change_a_draft', 'send_mesage']) {
    replies[`detail ${name}`] = await rest('GET', `/api/actions/gmail/${name}`);
    replies[`run ${name}`] = await run(name);
    replies[`confirmed ${name}`] = await run(name, { confirm: true });
    replies[`dry ${name}`] = await run(name, { dry_run: true });
    replies[`keyed ${name}`] = await run(name, { idempotency_key: 'draft' });
    replies[`misplaced ${name}`] = await run(name, { subject: 'x' });
    replies[`tool ${name}`] = await rest('POST', `/api/tools/gmail_${name}/execute`, { arguments: { to: 'x' }, subject: 'x' });
    replies[`tool without app ${name}`] = await rest('POST', `/api/tools/${name}/execute`, { arguments: { to: 'x' } });
    replies[`own tool ${name}`] = await tool(`gmail_${name}`, { to: 'a@b.example' });
    replies[`own tool with a form ${name}`] = await tool(`gmail_${name}`, { to: 'a@b.example' }, FORM);
    replies[`run_action ${name}`] = await tool('run_action', { integration_id: 'gmail', action_id: name, input: {} });
    replies[`run_action with a form ${name}`] = await tool('run_action', { integration_id: 'gmail', action_id: name, input: {} }, FORM);
    replies[`run_actions ${name}`] = await tool('run_actions', { actions: [{ integration_id: 'gmail', action_id: name, input: {} }] }, FORM);
    replies[`describe_action ${name}`] = await tool('describe_action', { integration_id: 'gmail', action_id: name });
    replies[`other app ${name}`] = await rest('POST', '/api/executions', { integration_id: 'gmail_create', action_id: name, input: {} });
  }
  replies.batch = await rest('POST', '/api/executions/batch', { executions: [{ integration_id: 'gmail', action_id: HIDDEN, input: {}, confirm: true }] });
  replies.start = await rest('POST', '/api/flows/start', { flowTemplate: 'make_draft' });
  replies['start, misplaced'] = await rest('POST', '/api/flows/start', { flowTemplate: 'make_draft', to: 'x' });
  replies.start_flow = await tool('start_flow', { template: 'make_draft', input: {} });
  replies['describe template'] = await tool('describe_action', { template: 'make_draft' });
  replies['all templates'] = await tool('describe_action', { template: '*' });
  replies['tools/list'] = await mcp.ask('tools/list').then(({ result }) => result);
  for (const query of ['change a draft', 'draft', 'prepare a mail'])
    replies[`search ${query}`] = unordered((await at.call(key, 'GET', `/api/search?query=${encodeURIComponent(query)}&limit=100`)).json);
  // without the times and ids of a request; an id is drawn for each text with data from outside
  return Object.fromEntries(
    Object.entries(replies).map(([name, reply]) => [name, JSON.stringify(reply).replace(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, 'TIME')]),
  );
}

test('a hidden action is unknown: every reply is that of a server without it', async () => {
  const manifest = JSON.parse(await readFile(new URL('../../contrib/integrations/gmail.json', import.meta.url), 'utf8'));
  const makeDraft = { ...templateOf({ id: HIDDEN, tool: `gmail_${HIDDEN}`, level: 'write', input: { id: 'r1', to: 'a@b.example' } }), key: 'make_draft', name: 'Make a draft' };
  await writeFile(join(stack.catalogDir, 'templates', 'make_draft.json'), JSON.stringify(makeDraft));
  const without = join(stack.dir, 'without');
  await mkdir(join(without, 'templates'), { recursive: true });
  manifest.actions = manifest.actions.filter((one) => one.action_id !== HIDDEN);
  await writeFile(join(without, 'gmail.json'), JSON.stringify(manifest));
  for (const action of ACTIONS) await writeFile(join(without, 'templates', `call_${action.id}.json`), JSON.stringify(templateOf(action)));
  await setPolicy('hides', { default: 'allow', rules: [{ tools: [`gmail_${HIDDEN}`], decision: 'deny', hidden: true }] });
  await setPolicy('allows', LOOSE);
  const [hides, allows] = [(await keyWith('hides')).key, (await keyWith('allows')).key];
  const full = await stack.serve(), less = await stack.serve({ env: { SLUICE_CATALOG: without } });
  const [got, expected] = [await repliesOf(full, hides), await repliesOf(less, allows)];
  for (const name of Object.keys(expected)) assert.equal(got[name], expected[name], name);
  assert.match((await repliesOf(full, allows))[`detail ${HIDDEN}`], TITLE); // and it is there
  // nor does a page name it, which names it to others: also what their calls of it have left
  const failed = await full.execute(account.key, 'gmail', HIDDEN, { id: 'no-such-draft', to: 'a@b.example' }, { confirm: true });
  assert.equal(failed.json.status, 'failed', failed.text);
  await until('it is counted', async () => (await full.call(account.key, 'GET', '/api/stats')).json.by_error.some((one) => one.action_id === HIDDEN && one.failed > 0));
  const [connection] = (await full.call(account.key, 'GET', '/api/connections?integration_id=gmail')).json.connections;
  const [pages, others] = [new Pages(full.base), new Pages(full.base)];
  await pages.signIn(hides);
  await others.signIn(account.key);
  for (const path of ['/', '/flows/new']) assert.match((await others.go(path)).text, TITLE, path);
  for (const path of ['/flows', '/approvals', `/connections/${connection.id}`, '/integrations', '/integrations?q=draft', '/integrations/gmail', `/integrations/gmail/actions/${HIDDEN}`, '/', '/flows/new', '/flows/new?template=make_draft', '/executions?integration_id=gmail']) {
    const page = await pages.go(path);
    assert.doesNotMatch(page.text.replaceAll(path.replaceAll('&', '&amp;'), ''), TITLE, path);
  }
  assert.equal((await pages.go(`/integrations/gmail/actions/${HIDDEN}`)).status, 404);
  await full.stop();
  await less.stop();
});

test('a hidden read is not made for another action, nor named by it', async () => {
  const list = { integration_id: 'gmail', action_id: 'list_messages', input: { details: true, maxResults: 3 } };
  const run = async (key, more) => (await call(key, 'POST', '/api/executions', { ...list, ...more })).text;
  await setPolicy('hides-reads', { default: 'allow', rules: [{ tools: ['gmail_get_message'], decision: 'deny', hidden: true }] });
  const { key } = await keyWith('hides-reads');
  assert.match(await run(account.key, {}), /"subject"|"snippet"/);
  assert.match(await run(account.key, { dry_run: true }), /get_message/);
  for (const text of [await run(key, {}), await run(key, { dry_run: true }), JSON.stringify(await new Mcp(server.base, key).call('run_action', list))]) {
    assert.match(text, /succeeded|dry_run/);
    assert.doesNotMatch(text, /get_message|"subject"|"snippet"|not_read/);
  }
});

/* ---- an adversary ---- */

test('a key with a policy or a user changes neither policies nor keys', async () => {
  await setPolicy('strict', { default: 'allow', rules: [{ tools: ['gmail_send_message'], decision: 'deny', reason: 'no mail' }] });
  const all = ['read', 'execute', 'approve', 'admin'];
  const [bound, ofUser] = [await keyWith('strict', { scopes: all }), await call(account.key, 'POST', '/api/keys', { name: 'of ada', scopes: all, user: 'ada' })];
  for (const { key } of [bound, ofUser.json]) {
    const attempts = [
      ['GET', '/api/policies'], ['GET', '/api/policies/strict'], ['PUT', '/api/policies/strict', { policy: LOOSE }], ['PUT', '/api/policies/default', { policy: LOOSE }],
      ['DELETE', '/api/policies/strict'], ['POST', '/api/policies/test', { name: 'strict', tool: 'gmail_send_message', input: {} }], ['POST', '/api/keys', { name: 'free', scopes: ['read', 'execute'] }],
    ];
    for (const [method, path, body] of attempts) assert.equal((await call(key, method, path, body)).status, 403, `${method} ${path}`);
  }
  for (const path of ['/api/policies', '/api/policies/strict']) assert.equal((await call(account.key, 'GET', path, undefined, USER)).status, 400, path);
  assert.equal((await call(account.key, 'PUT', '/api/policies/strict', { policy: LOOSE }, USER)).status, 400);
  assert.equal((await call(account.key, 'GET', '/api/policies/strict')).json.policy.rules.length, 1);
});

const SEND = { subject: 's', text: 't' };

test('recipients: whoever is outside is found, however the address is written', async () => {
  await setPolicy('inside', { default: 'allow', rules: [{ recipients_outside: ['acme.example'], decision: 'deny', reason: 'only inside' }] });
  await setPolicy('inside-held', { default: 'allow', rules: [{ recipients_outside: ['acme.example'], decision: 'hold' }] });
  const { key } = await keyWith('inside'), { key: held } = await keyWith('inside-held'), before = await sent();
  const outside = [
    { to: 'eve@evil.example' }, { to: 'Ada <eve@evil.example>' }, { to: '"ada@acme.example" <eve@evil.example>' }, { to: 'ada@acme.example, eve@evil.example' }, { to: ['ada@acme.example', 'eve@evil.example'] },
    { to: 'ada@acme.example', cc: 'eve@evil.example' }, { to: 'ada@acme.example', bcc: 'eve@evil.example' }, { to: 'ada@acme.example', bcc: ['Ada <ada@acme.example>', 'eve@evil.example'] },
    { to: 'eve@evil.example <ada@acme.example>, eve@evil.example' }, { to: 'ada@acme.example.evil.example' }, { to: 'ada@evilacme.example' }, { to: 'ada@\u0430cme.example' }, { to: 'ada@acme\uff0eexample' },
    { to: 'ada@acme.example;eve@evil.example' }, { to: 'acme.example' }, { to: 'ada@acme.example@evil.example' }, { to: 'ada@ACME.example\r\nBcc: eve@evil.example' },
  ];
  for (const who of outside)
    for (const reply of [await server.execute(key, 'gmail', 'send_message', { ...SEND, ...who }, { confirm: true }), await call(key, 'POST', '/api/tools/gmail_send_message/execute', { arguments: { ...SEND, ...who }, confirmed: true })])
      assert.equal(reply.status, 409, `${JSON.stringify(who)}: ${reply.text}`);
  // a hold is the same decision: what cannot be sent is not held, and nothing is sent
  for (const who of outside)
    for (const reply of [await server.execute(held, 'gmail', 'send_message', { ...SEND, ...who }, { confirm: true }), await call(held, 'POST', '/api/tools/gmail_send_message/execute', { arguments: { ...SEND, ...who }, confirmed: true })])
      assert.ok(reply.json.approval || ['approval_required', 'invalid_arguments'].includes(reply.json.error?.code) || reply.json.error_code === 'validation_error', `${reply.status} ${JSON.stringify(who)}: ${reply.text}`);
  assert.equal(await sent(), before);
  for (const who of [{ to: 'ada@acme.example' }, { to: 'Ada <ada@ACME.EXAMPLE>' }, { to: ['a@acme.example', '"b, c" <b@mail.acme.example>'], cc: 'c@acme.example' }])
    assert.equal((await server.execute(key, 'gmail', 'send_message', { ...SEND, ...who }, { confirm: true })).status, 200, JSON.stringify(who));
});

for (const decision of ['deny', 'hold'])
  test(`no name of an action, and no form of a body, gets around a policy: ${decision}`, async () => {
    await setPolicy('named', { default: 'allow', rules: [{ tools: ['gmail_send_*'], decision }] });
    const { key } = await keyWith('named');
    const before = await sent(), input = { ...SEND, to: 'eve@evil.example' };
    const mcp = new Mcp(server.base, key);
    for (const action_id of ['send_message', 'gmail_send_message', 'SEND_MESSAGE', 'Send_Message', 'send_message ', ' send_message', 'send-message', 'send_m\u0435ssage', 'send_message\u200b', 'gmail_gmail_send_message']) {
      for (const app of ['gmail', 'GMAIL', 'gmail_']) {
        const reply = await server.execute(key, app, action_id, input, { confirm: true });
        assert.equal(reply.status, 409, `${app} ${action_id}: ${reply.text}`);
        const batch = await call(key, 'POST', '/api/executions/batch', { executions: [{ integration_id: app, action_id, input, confirm: true }] });
        assert.notEqual(batch.json.results[0].status, 200, action_id);
        assert.equal((await mcp.call('run_action', { integration_id: app, action_id, input, confirm: true })).isError, true, action_id);
      }
      assert.notEqual((await call(key, 'POST', `/api/tools/${encodeURIComponent(`gmail_${action_id}`)}/execute`, { arguments: input, confirmed: true })).status, 200, action_id);
    }
    const twice = '{"integration_id":"gmail","action_id":"list_labels","action_id":"send_message","input":{},"confirm":true}';
    assert.equal((await call(key, 'POST', '/api/executions', twice)).status, 400);
    const inInput = '{"integration_id":"gmail","action_id":"send_message","confirm":true,"input":{"to":"ada@acme.example","to":"eve@evil.example","subject":"s","text":"t"}}';
    assert.equal((await call((await keyWith('inside')).key, 'POST', '/api/executions', inInput)).status, 400);
    assert.equal((await call(key, 'POST', '/api/flows/start', { flowTemplate: 'call_send_message' })).status, decision === 'deny' ? 409 : 200);
    assert.equal(await sent(), before);
  });

test('a large input costs a `when` little, and what it cannot decide is denied', async () => {
  const when = "length(sort(input.text)) > `1` || length(join('', [input.html, input.text]) | reverse(@) | reverse(@)) > `9000000` || contains(input.text, 'zz') && length(input.cc[?contains(@, 'x')]) > `5`";
  await setPolicy('heavy', { default: 'allow', rules: Array.from({ length: 20 }, (_, i) => ({ side_effect: ['write'], when, decision: i < 10 ? 'hold' : 'deny' })) });
  const { key } = await keyWith('heavy');
  for (const text of ['a'.repeat(500_000), 'z'.repeat(500_000), '\u{1f600}'.repeat(250_000)]) {
    const reply = await server.execute(key, 'gmail', 'send_message', { to: 'ada@acme.example', subject: 's', text, html: text }, { confirm: true });
    assert.deepEqual([reply.status, reply.json.error_code], [409, 'policy_blocked'], reply.text.slice(0, 500));
  }
});

test('a stored result is not given to a key that a deny covers', async () => {
  const body = { integration_id: 'gmail', action_id: 'send_message', input: { ...SEND, to: 'ada@acme.example' }, confirm: true, idempotency_key: 'secret' };
  const run = await call(account.key, 'POST', '/api/executions', body);
  assert.equal(run.status, 200, run.text);
  const { key } = await keyWith('strict');
  const pages = new Pages(server.base);
  await pages.signIn(key);
  assert.match((await pages.go('/integrations/gmail/actions/send_message')).text, /The policy of this API key denies it\. Its reason: no mail/);
  const again = await call(key, 'POST', '/api/executions', body);
  assert.deepEqual([again.status, again.json.error_code, again.json.message.includes('no mail') || again.text.includes('no mail')], [409, 'policy_blocked', true], again.text);
  assert.equal((await call(key, 'GET', `/api/executions/${run.json.execution_id}`)).status, 404);
});

test('a tool of its own takes `confirm` only if a call may need it', async () => {
  const list = async (key) => contentOf(await new Mcp(server.base, key).call('gmail_list_labels', { confirm: true }));
  const refused = await list(account.key);
  assert.deepEqual([refused.error_code, /leave it out: this call needs no confirmation/.test(refused.hint)], ['validation_error', true], JSON.stringify(refused));
  await setPolicy('confirms', { default: 'confirm', rules: [] });
  assert.equal((await list((await keyWith('confirms')).key)).status, 'succeeded');
});

test('an event of a flow has no text of its calls', async () => {
  const started = await call(account.key, 'POST', '/api/flows/start', { flowTemplate: 'call_send_message' });
  const id = started.json.flowId;
  await until('it waits', async () => (await call(account.key, 'GET', `/api/flows/${id}`)).json.flow.status === 'waiting');
  assert.equal((await call(account.key, 'POST', `/api/flows/${id}/reject`, {})).status, 200);
  const { key } = await keyWith('strict', { scopes: ['read', 'execute', 'approve', 'admin'] });
  const detailsOf = async (of) => (await call(of, 'GET', '/api/audit?kind=flow.rejected')).json.events.map((one) => one.details).find((one) => one.flow_id === id);
  const [whole, bare] = [await detailsOf(account.key), await detailsOf(key)];
  assert.equal(whole.title, 'Call');
  delete whole.title;
  assert.deepEqual(bare, whole);
});

test('a connection’s last failure is not shown to a key that may not see all calls of the app', async () => {
  const [{ id }] = (await call(account.key, 'GET', '/api/connections?integration_id=gmail')).json.connections;
  const failure = 'No draft of Eve was found';
  await stack.cluster.sql(`update sluice.connection set failed_at = now(), failure = '${failure}' where id = ${id} and account_id = '${account.id}'`);
  for (const [tool, isShown] of [['gmail_update_draft', false], ['notion_create_page', true]]) {
    await setPolicy('denies-one', { default: 'allow', rules: [{ tools: [tool], decision: 'deny' }] });
    const { key } = await keyWith('denies-one');
    const one = (await call(key, 'GET', `/api/connections/${id}`)).json;
    const [listed] = (await call(key, 'GET', '/api/connections?integration_id=gmail')).json.connections;
    for (const row of [one, listed]) assert.deepEqual([row.failure, row.failed_at !== null], [isShown ? failure : null, isShown], tool);
    const pages = new Pages(server.base);
    await pages.signIn(key);
    for (const path of [`/connections/${id}`, '/connections']) assert.equal((await pages.go(path)).text.includes(failure), isShown, `${tool}, ${path}`);
  }
});

test('the decisions next to one are those that the key may see', async () => {
  const own = await stack.account('With decisions', { apps: [] });
  const start = async (action) => (await call(own.key, 'POST', '/api/flows/start', { flowTemplate: `call_${action}` })).json.flowId;
  const ids = [];
  for (const action of ['send_message', 'create_draft', 'send_message', 'create_draft', 'send_message']) ids.push(await start(action));
  for (const id of ids) await until('it waits', async () => (await call(own.key, 'GET', `/api/flows/${id}`)).json.flow.status === 'waiting');
  const policy = { default: 'allow', rules: [{ tools: ['gmail_send_message'], decision: 'deny', hidden: true }] };
  assert.ok((await call(own.key, 'PUT', '/api/policies/drafts', { policy })).status < 300);
  const made = await call(own.key, 'POST', '/api/keys', { name: 'drafts', policy: 'drafts', scopes: ['read', 'execute', 'approve'] });
  const [all, some] = [new Pages(server.base), new Pages(server.base)];
  await all.signIn(own.key);
  await some.signIn(made.json.key);
  const near = async (pages, id) => [...(await pages.go(`/flows/${id}`)).text.matchAll(/href="\/flows\/([0-9a-f-]{36})"[^>]* data-key="[jk]"/g)].map((link) => link[1]);
  assert.deepEqual(await near(all, ids[1]), [ids[2], ids[0]]);
  assert.deepEqual(await near(some, ids[1]), [ids[3], ids[3]]);
  const approve = async (page) => {
    const { action, fields } = formsOf(page.text).find((one) => one.action.endsWith('/approve'));
    return some.go(action, { method: 'POST', fields: { ...fields, then: 'next' } });
  };
  // the button is there as long as another one waits that the key may see
  const offers = (page) => formsOf(page.text).some((one) => one.buttons.includes('Approve and show next'));
  // and so are the numbers of flows
  const waiting = async (pages, path) => (await pages.go(path)).text.match(/<strong>\s*(\d+)\s*<i class="dot"><\/i><\/strong><span>waiting in total/)?.[1];
  for (const path of ['/', '/flows']) assert.deepEqual([await waiting(all, path), await waiting(some, path)], ['5', '2'], path);
  const first = await some.go(`/flows/${ids[1]}`), next = await approve(first);
  assert.match(next.path, new RegExp(`^/flows/${ids[3]}`));
  assert.deepEqual([offers(first), offers(next)], [true, false]);
  assert.match((await approve(next)).path, /^\/approvals/);
});

test('a policy binds with its next call, and the default one binds keys without any', async () => {
  await setPolicy('changes', LOOSE);
  const { key } = await keyWith('changes');
  const list = () => server.execute(key, 'gmail', 'list_labels', {});
  const tag = async () => (await call(key, 'GET', '/api/actions?integration_id=gmail')).headers.get('etag');
  const first = await tag();
  assert.equal((await list()).status, 200);
  assert.equal((await call(key, 'GET', '/api/actions?integration_id=gmail', undefined, { 'if-none-match': first })).status, 304);
  await setPolicy('changes', { default: 'deny', rules: [] });
  assert.equal((await list()).json.error_code, 'policy_blocked');
  const changed = await call(key, 'GET', '/api/actions?integration_id=gmail', undefined, { 'if-none-match': first });
  assert.deepEqual([changed.status, changed.json.items], [200, []]);
  assert.equal((await call(account.key, 'DELETE', '/api/policies/changes')).status, 409);
  // the account's own policy `default` binds keys that have none
  const plain = (await call(account.key, 'POST', '/api/keys', { name: 'plain', scopes: ['read', 'execute'] })).json.key;
  assert.equal((await server.execute(plain, 'gmail', 'list_labels', {})).status, 200);
  await setPolicy('default', { default: 'allow', rules: [{ tools: ['gmail_list_*'], decision: 'deny' }] });
  assert.equal((await server.execute(plain, 'gmail', 'list_labels', {})).json.error_code, 'policy_blocked');
});

/* ---- a flow, and a policy that changes ---- */

// A flow of a write that waits for its approval. Returns what became of it: its status, and the code
// of its last error.
async function startWrite(key, as) {
  const started = await call(key, 'POST', '/api/flows/start', { flowTemplate: `call_${WRITE.id}` }, as);
  assert.equal(started.status, 200, started.text);
  await until('the flow waits', async () => (await call(account.key, 'GET', `/api/flows/${started.json.flowId}`, undefined, as)).json.flow.status === 'waiting');
  return started.json.flowId;
}
async function decideWrite(id, what, as) {
  const reply = await call(account.key, 'POST', `/api/flows/${id}/${what}`, {}, as);
  assert.equal(reply.status, 200, reply.text);
  const { flow, steps } = await until('the flow has ended', async () => {
    const { json } = await call(account.key, 'GET', `/api/flows/${id}`, undefined, as);
    return ['completed', 'failed'].includes(json.flow.status) && json;
  });
  return [flow.status, steps.at(-1).error?.code];
}
const WRITE = ACTIONS.find((action) => action.level === 'write');

test('a call of a flow is decided by the policy that its key has when it is made', async () => {
  const deny = (more) => ({ default: 'allow', rules: [{ tools: [WRITE.tool], decision: 'deny', ...more }] });
  for (const as of [undefined, USER]) {
    await setPolicy('flows', LOOSE);
    const { key, id: keyId } = await keyWith('flows');
    const flows = [await startWrite(key, as), await startWrite(key, as), await startWrite(key, as)];
    await setPolicy('flows', deny({ reason: 'Not today.' }));
    assert.deepEqual(await decideWrite(flows[0], 'approve', as), ['failed', 'policy_blocked']);
    const refused = await call(key, 'POST', '/api/flows/start', { flowTemplate: `call_${WRITE.id}` }, as);
    assert.equal(refused.status, 409, refused.text);
    assert.match(refused.json.error, /Not today/);
    // the user's name is found again by the process that takes the flow
    await setPolicy('flows', deny({ when: "user == 'ada'" }));
    assert.deepEqual(await decideWrite(flows[1], 'approve', as), as ? ['failed', 'policy_blocked'] : ['completed', undefined]);
    // a revoked key has its last policy, and changes of that still count
    assert.equal((await call(account.key, 'DELETE', `/api/keys/${keyId}`)).status, 200);
    await setPolicy('flows', deny({}));
    assert.deepEqual(await decideWrite(flows[2], 'approve', as), ['failed', 'policy_blocked']);
    await setPolicy('flows', LOOSE);
    assert.deepEqual(await decideWrite(flows[2], 'resume', as), ['completed', undefined]);
  }
});

test('a run is recorded with the revision that allowed it, a blocked one with the rule that did not', async () => {
  const { rev } = await setPolicy('recorded', { default: 'allow', rules: [{ tools: ['gmail_list_*'], decision: 'allow' }, { tools: [WRITE.tool], decision: 'deny' }] });
  const { key } = await keyWith('recorded');
  const run = await server.execute(key, 'gmail', 'list_labels', {});
  assert.equal(run.status, 200, run.text);
  const recorded = await stack.cluster.sql(`select policy from sluice.execution where id = '${run.json.execution_id}'`);
  assert.equal(recorded, `recorded@${rev}`);
  const blocked = await server.execute(key, 'gmail', WRITE.id, WRITE.input, { confirm: true });
  assert.equal(blocked.json.error_code, 'policy_blocked');
  const event = await until('the event is written', async () => {
    const { events } = (await call(account.key, 'GET', '/api/audit?kind=execution.blocked&limit=1')).json;
    return events[0]?.details.policy === `recorded@${rev}` && events[0];
  });
  assert.equal(event.reason, 'policy_denied');
  assert.deepEqual(event.details, { integration_id: 'gmail', action_id: WRITE.id, policy: `recorded@${rev}`, rule: 1 });
});
