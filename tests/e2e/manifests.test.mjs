// The manifests of the apps that the emulated provider plays, evaluated with other implementations
// of everything that they rely on (JMESPath, JSON Schema, templates). Each example is sent to a
// fresh provider and must succeed, and the rules must distinguish the vendor's errors.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, beforeEach, describe, test } from 'node:test';
import { TreeInterpreter, TYPE_ARRAY, TYPE_NULL, TYPE_NUMBER, TYPE_OBJECT, TYPE_STRING, compile, registerFunction } from '@jmespath-community/jmespath';
import Ajv from 'ajv/dist/2020.js';
import { GMAIL, NOTION, Provider, mailId, root, taskId } from './support/provider.mjs';

const folder = join(root, 'contrib/integrations');
const fileOf = (name) => JSON.parse(readFileSync(join(folder, name), 'utf8'));
// Returns the manifest with the rules of the parts that it names.
function whole(manifest) {
  const rules = (list, kind) => list.flatMap((one) => (typeof one === 'string' ? fileOf(`parts/${one}.json`)[kind] : [one]));
  const { errors, limits } = manifest;
  return { ...manifest, errors: rules(errors, 'errors'), limits: { ...limits, rate_limited: rules(limits.rate_limited, 'rate_limited') } };
}
const manifests = ['gmail.json', 'notion.json'].map((n) => [n, whole(fileOf(n))]);
const byId = Object.fromEntries(manifests.map(([, m]) => [m.integration_id, m]));
const tokens = { gmail: GMAIL, notion: NOTION };

// The simplest form of mime_message's result.
function mimeMessage(m) {
  const address = (a) => [a].flat().join(', ');
  const word = (t) => (/^[\x20-\x7e]*$/.test(t) ? t : `=?UTF-8?B?${Buffer.from(t).toString('base64')}?=`);
  const headers = [];
  for (const [key, name, format] of [['from', 'From', address], ['to', 'To', address], ['cc', 'Cc', address], ['bcc', 'Bcc', address], ['reply_to', 'Reply-To', address], ['subject', 'Subject', word], ['in_reply_to', 'In-Reply-To', String], ['references', 'References', String]])
    if (m[key] != null) {
      const value = format(m[key]);
      assert.doesNotMatch(value, /[\r\n]/);
      headers.push(`${name}: ${value}`);
    }
  const part = (type, t) => `Content-Type: text/${type}; charset=utf-8\r\nContent-Transfer-Encoding: base64\r\n\r\n${Buffer.from(t).toString('base64')}\r\n`;
  headers.push('MIME-Version: 1.0');
  if (m.text != null && m.html != null)
    headers.push(`Content-Type: multipart/alternative; boundary="=_b"\r\n\r\n--=_b\r\n${part('plain', m.text)}--=_b\r\n${part('html', m.html)}--=_b--\r\n`);
  else headers.push(part(m.html != null ? 'html' : 'plain', m.html ?? m.text ?? ''));
  return headers.join('\r\n');
}

const partsOf = (part) => (part ? [part, ...(part.parts ?? []).flatMap(partsOf)] : []);
const mailText = (payload) => {
  const written = partsOf(payload).filter((part) => !part.filename && part.body?.data);
  const texts = (type) => written.filter((part) => part.mimeType === type).map((part) => Buffer.from(part.body.data, 'base64url').toString('utf8'));
  return texts('text/plain')[0] ?? texts('text/html').map(htmlText)[0] ?? null;
};
const htmlText = (t) => t.replace(/<[^>]*>/g, '\n').replace(/\s*\n\s*/g, '\n').trim();

const string = (f) => [f, [{ types: [TYPE_STRING] }]];
for (const [name, [fn, signature]] of Object.entries({
  base64: string(([t]) => Buffer.from(t).toString('base64')),
  base64url: string(([t]) => Buffer.from(t).toString('base64url')),
  base64url_decode: string(([t]) => Buffer.from(t, 'base64url').toString('utf8')),
  mime_message: [([m]) => mimeMessage(m), [{ types: [TYPE_OBJECT] }]],
  header: [([list, name]) => list?.find((one) => one.name.toLowerCase() === name.toLowerCase())?.value ?? null, [{ types: [TYPE_ARRAY, TYPE_NULL] }, { types: [TYPE_STRING] }]],
  one_line: [([t]) => t?.replace(/[\x00-\x1f\x7f]+/g, ' ') ?? null, [{ types: [TYPE_STRING, TYPE_NULL] }]],
  message_ids: [([t]) => t?.match(/<[^\s<>]+@[^\s<>]+>/g)?.join(' ') ?? null, [{ types: [TYPE_STRING, TYPE_NULL] }]],
  // Complete enough for the mails of the emulated provider.
  mail_parts: [([part]) => partsOf(part), [{ types: [TYPE_OBJECT, TYPE_NULL] }]],
  mail_text: [([part]) => mailText(part), [{ types: [TYPE_OBJECT, TYPE_NULL] }]],
  html_text: string(([t]) => htmlText(t)),
  unescape_html: string(([t]) => t.replace(/&(?:(amp|lt|gt|quot|apos|nbsp)|#(\d{1,7})|#[xX]([0-9a-fA-F]{1,6}));/g, (_, name, decimal, hex) => (name ? { amp: '&', lt: '<', gt: '>', quot: '"', apos: "'", nbsp: '\u00A0' }[name] : String.fromCodePoint(decimal ?? `0x${hex}`)))),
  truncate: [([t, n]) => (t.length > n ? `${t.slice(0, n - 1)}…` : t), [{ types: [TYPE_STRING] }, { types: [0] }]],
}))
  registerFunction(name, fn, signature);
// A number with its noun in the singular or plural.
registerFunction('counted', ([value, noun, plural]) => {
  const count = Array.isArray(value) ? value.length : value ?? 0;
  const many = plural ?? (/[^aeiou]y$/.test(noun) ? noun.replace(/y$/, 'ies') : `${noun}${/(?:s|x|ch|sh)$/.test(noun) ? 'es' : 's'}`);
  return count === 0 ? `No ${many}.` : `${count} ${count === 1 ? noun : many}`;
}, [{ types: [TYPE_ARRAY, TYPE_NUMBER, TYPE_NULL] }, { types: [TYPE_STRING] }, { types: [TYPE_STRING], optional: true }]);

const evaluate = (expression, scope) => TreeInterpreter.search(compile(expression), scope) ?? null;

// The pieces of a string: text and {expression}. The closing brace is the first brace with which
// the expression compiles.
function pieces(text) {
  const out = [];
  for (let at = 0; at < text.length; ) {
    const open = text.indexOf('${', at);
    if (open < 0) return [...out, text.slice(at)];
    if (text[open - 1] === '$') {
      out.push(`${text.slice(at, open - 1)}\${`);
      at = open + 2;
      continue;
    }
    if (open > at) out.push(text.slice(at, open));
    for (let close = open; ; ) {
      close = text.indexOf('}', close + 1);
      assert.ok(close > 0, `no expression in ${text}`);
      try {
        compile(text.slice(open + 2, close));
      } catch {
        continue;
      }
      out.push({ expression: text.slice(open + 2, close) });
      at = close + 1;
      break;
    }
  }
  return out;
}

const DROP = Symbol('left out');
function render(template, scope) {
  if (Array.isArray(template)) return template.map((item) => render(item, scope)).map((v) => (v === DROP ? null : v));
  if (template && typeof template === 'object')
    return Object.fromEntries(Object.entries(template).map(([k, v]) => [k, render(v, scope)]).filter(([, v]) => v !== DROP));
  if (typeof template !== 'string') return template;
  const parts = pieces(template);
  if (parts.length === 1 && parts[0].expression) return evaluate(parts[0].expression, scope) ?? DROP;
  return parts
    .map((p) => {
      if (!p.expression) return p;
      const value = evaluate(p.expression, scope);
      assert.ok(['string', 'number', 'boolean'].includes(typeof value), `\${${p.expression}} is ${JSON.stringify(value)} inside a text`);
      return String(value);
    })
    .join('');
}

const renderPath = (path, scope) =>
  pieces(path)
    .map((p) => {
      if (!p.expression) return p;
      const value = evaluate(p.expression, scope);
      assert.ok(typeof value === 'string' && value && value !== '.' && value !== '..', `${p.expression} in a path`);
      return encodeURIComponent(value);
    })
    .join('');

function request(manifest, action, input, [first = null, second = null]) {
  const scope = { input, first, second, connection: { params: {} }, files: [] };
  const query = new URLSearchParams();
  for (const [name, template] of Object.entries(action.request.query ?? {})) {
    const value = render(template, scope);
    if (value !== DROP) for (const one of [value].flat()) query.append(name, one);
  }
  const headers = { ...manifest.headers, ...render(action.request.headers ?? {}, scope) };
  const text = query.toString();
  const json = action.request.body?.json;
  const credential = render(manifest.auth.send.value, { credential: { access_token: tokens[manifest.integration_id] } });
  return {
    method: action.request.method,
    path: renderPath(action.request.path, scope) + (text ? `?${text}` : ''),
    options: { headers: { ...headers, [manifest.auth.send.name]: credential }, ...(json !== undefined && { body: render(json, scope) }) },
  };
}

let provider;
before(async () => {
  provider = await Provider.start();
});
after(async () => {
  assert.deepEqual(await provider.stop(), { code: 0, signal: null, stderr: '' });
});
beforeEach(() => provider.reset());

async function run(manifest, action, input) {
  // An action of several requests of which only the last one writes. The first one may be left out.
  const earlier = [];
  for (const part of [action, ...(action.then ?? [])]) {
    const isLast = part === (action.then ?? [action]).at(-1);
    const isNeeded = part !== action || isLast || !action.request.when || evaluate(action.request.when, { input });
    const reply = isNeeded ? await send(manifest, { ...action, ...part }, input, earlier) : null;
    if (isLast || reply?.status >= 400) return reply;
    earlier.push(reply);
  }
}

async function send(manifest, action, input, earlier = []) {
  const { method, path, options } = request(manifest, action, input, earlier);
  const reply = await provider.call(method, path, options);
  return { status: reply.status, headers: reply.headers, body: reply.json ?? (reply.text || null), input, first: earlier[0] ?? null };
}

const ajv = new Ajv({ strict: true, strictRequired: false, strictTypes: false, allowUnionTypes: true, validateFormats: false });
const action = (app, id) => byId[app].actions.find((a) => a.action_id === id);

for (const [file, manifest] of manifests)
  describe(file, () => {
    test('matches contrib/integrations/README.md', () => {
      assert.equal(file, `${manifest.integration_id}.json`);
      const known = ['integration_id', 'name', 'description', 'category', 'tags', 'docs_url', 'icon', 'base_url', 'redirects', 'headers', 'connection_params', 'auth', 'scope_words', 'identity', 'limits', 'errors', 'actions'];
      assert.deepEqual(Object.keys(manifest).filter((k) => !known.includes(k)), []);
      const actionKeys = ['action_id', 'title', 'description', 'docs_url', 'checked', 'met', 'tags', 'side_effect_level', 'requires_confirmation', 'idempotent', 'idempotency_header', 'idempotency_member', 'undo', 'recipients', 'target', 'gone', 'scopes', 'input_schema', 'not_done_statuses', 'output_schema', 'request', 'each', 'then', 'response', 'shows', 'errors', 'files', 'deadline_ms', 'display', 'examples', 'preconditions'];
      assert.equal(new Set(manifest.actions.map((a) => a.action_id)).size, manifest.actions.length);
      for (const a of manifest.actions) {
        assert.deepEqual(Object.keys(a).filter((k) => !actionKeys.includes(k)), [], a.action_id);
        assert.match(a.action_id, /^[a-z][a-z0-9_]*$/);
        assert.ok(`${manifest.integration_id}_${a.action_id}`.length <= 64);
        assert.ok(a.side_effect_level === 'read' || a.then || a.request.method !== 'GET', `${a.action_id}: a GET that writes`);
        assert.ok(a.side_effect_level === 'read' || a.requires_confirmation === true);
        assert.ok(a.examples.length > 0, `${a.action_id}: no example`);
        assert.equal(a.input_schema.additionalProperties, false);
        const named = Object.keys(a.input_schema.properties);
        for (const [name, property] of Object.entries(a.input_schema.properties)) assert.ok(property.description, `${a.action_id}.${name}`);
        const used = JSON.stringify([a.request, a.then ?? '', a.each ?? '', a.response?.output ?? '', a.display]).matchAll(/\binput\.([A-Za-z_]+)/g);
        for (const [, name] of used) assert.ok(named.includes(name), `${a.action_id}: input.${name} does not exist`);
        for (const name of named)
          assert.match(JSON.stringify([a.request, a.then ?? '', a.each ?? '']), new RegExp(`input\\.${name}\\b`), `${a.action_id}: ${name} is never used`);
        if (a.response?.pagination) assert.ok(named.includes(a.response.pagination.input));
      }
    });

    test('the request that proves a credential also identifies its user', async () => {
      const { method, path } = manifest.auth.test;
      const { email = 'null', subject = 'null', label = 'null' } = manifest.identity;
      const headers = { ...manifest.headers, Authorization: `Bearer ${tokens[manifest.integration_id]}` };
      const reply = await provider.call(method, path, { headers });
      assert.equal(reply.status, 200);
      const told = [email, subject, label].map((one) => evaluate(one, { body: reply.json }));
      const known = { gmail: ['sam.rivera@example.com', null, null], notion: [null, '7d1f6b52-0c4e-4a83-9f2b-5e8a1c3d7094', "Sam's Workspace"] };
      assert.deepEqual(told, known[manifest.integration_id]);
    });

    for (const a of manifest.actions)
      for (const [index, example] of a.examples.entries())
        test(`${a.action_id}: ${example.title}`, async () => {
          const validate = ajv.compile(a.input_schema);
          assert.ok(validate(example.input), JSON.stringify(validate.errors));
          const scope = await run(manifest, a, example.input);
          assert.ok(scope.status >= 200 && scope.status < 300, `${index}: ${scope.status} ${JSON.stringify(scope.body)}`);
          const writes = (await provider.ledger()).total;
          assert.equal(writes, a.side_effect_level === 'read' ? 0 : 1);
          scope.output = a.response?.output ? evaluate(a.response.output, scope) : scope.body;
          assert.notEqual(scope.output, null);
          const shown = render(a.display, scope);
          assert.ok(shown.title && typeof shown.summary === 'string' && shown.summary.length > 0);
          assert.doesNotMatch(shown.summary, /\[object|undefined|null/);
          if (a.output_schema) {
            const check = ajv.compile(a.output_schema);
            assert.ok(check(scope.output), JSON.stringify(check.errors));
          }
          if (a.response?.pagination) evaluate(a.response.pagination.next, scope);
        });
  });

// Truth in JMESPath: null, false, "", [] and {} are false.
const isTrue = (v) => v === 0 || !!(Array.isArray(v) ? v.length : v && typeof v === 'object' ? Object.keys(v).length : v);
const outcome = (app, a, scope) => {
  const manifest = byId[app];
  scope = { ...scope, integration: { name: manifest.name } };
  const limited = manifest.limits.rate_limited.find((r) => isTrue(evaluate(r.when, scope)));
  const rule = [...(a.errors ?? []), ...manifest.errors].find((r) => isTrue(evaluate(r.when, scope)));
  return {
    code: limited ? 'rate_limited' : rule?.error_code,
    retry: limited && evaluate(limited.retry_after, scope),
    message: rule?.message && render(rule.message, scope),
    hint: rule?.hint && render(rule.hint, scope),
  };
};

test('paging: the next page is requested with the result of the expression', async () => {
  for (const [app, id, input] of [['gmail', 'list_messages', { maxResults: 5 }], ['gmail', 'list_threads', { maxResults: 5 }], ['notion', 'search', { page_size: 5 }], ['notion', 'query_data_source', { data_source_id: '8e1d4c6b2a3f4b5c9d7e0f1a2b3c4d21', page_size: 5 }], ['notion', 'get_block_children', { block_id: taskId(1), page_size: 2 }]]) {
    const a = action(app, id);
    const seen = new Set();
    let pages = 0;
    for (let next; ; ) {
      const scope = await run(byId[app], a, { ...input, ...(next && { [a.response.pagination.input]: next }) });
      assert.equal(scope.status, 200);
      for (const item of scope.body.messages ?? scope.body.threads ?? scope.body.results) assert.ok(!seen.has(item.id) && seen.add(item.id));
      pages++;
      if (!(next = evaluate(a.response.pagination.next, scope))) break;
    }
    assert.ok(pages > 1, id);
  }
});

test('outputs for a model: text, subject, attachments, plain titles', async () => {
  const read = async (app, id, input) => {
    const a = action(app, id);
    const scope = await run(byId[app], a, input);
    return evaluate(a.response.output, scope);
  };
  const invoice = await read('gmail', 'get_message', { id: mailId(3) });
  assert.equal(invoice.subject, 'Invoice INV-4217 for November');
  assert.match(invoice.text, /1,249\.00 EUR/);
  assert.match(invoice.from, /billing@northwind/);
  assert.deepEqual(invoice.attachments.map((f) => f.filename), ['invoice-INV-4217.pdf']);
  assert.equal(invoice.payload.mimeType, 'multipart/mixed', "Gmail's own fields stay");
  assert.match((await read('gmail', 'get_message', { id: mailId(24) })).text, /^[^<>]{20,}$/, 'HTML only');
  assert.equal((await read('gmail', 'get_message', { id: mailId(3), format: 'minimal' })).id, mailId(3));
  const thread = await read('gmail', 'get_thread', { id: mailId(4) });
  assert.deepEqual(thread.messages.map((m) => m.subject), ['Offsite in March', 'Re: Offsite in March', 'Re: Offsite in March']);
  assert.equal(thread.messages[0].messageIdHeader, `<${mailId(4)}@mail.example.com>`);
  assert.equal((await read('notion', 'get_page', { page_id: taskId(1) })).plain_title, 'Prepare the offsite in March');
  assert.ok((await read('notion', 'search', {})).results.every((r) => r.plain_title.length > 0));
  assert.match((await read('notion', 'get_block_children', { block_id: taskId(1) })).text, /^The house at the lake.*\nTo do\n/);
});

test('a reply stays in its conversation with the right subject', async () => {
  const a = action('gmail', 'reply_to_message');
  const { body } = await run(byId.gmail, a, { threadId: mailId(4), inReplyTo: `<${mailId(4)}@mail.example.com>`, to: ['Anna Keller <anna.keller@example.com>'], subject: 'Offsite in March', text: 'Ja, gern – bis März' });
  assert.equal(body.threadId, mailId(4));
  const sent = (await provider.control('GET', '/state/messages')).json.messages.find((m) => m.id === body.id);
  assert.deepEqual([sent.Subject, sent.To, sent.text], ['Re: Offsite in March', 'Anna Keller <anna.keller@example.com>', 'Ja, gern – bis März']);
  const again = await run(byId.gmail, a, { threadId: mailId(4), inReplyTo: '<x@y>', to: 'a@b.org', subject: 'Re: Offsite in March', html: '<p>x</p>' });
  assert.equal((await provider.control('GET', '/state/messages')).json.messages.find((m) => m.id === again.body.id).Subject, 'Re: Offsite in March');
});

for (const [name, app, id, input, fault, expected] of [
  ['Gmail 401', 'gmail', 'get_profile', {}, { status: 401 }, { code: 'reauth_required', message: /refused the access token/ }],
  ['Gmail 403 rate limit', 'gmail', 'get_profile', {}, { status: 403, retry_after: 4 }, { code: 'rate_limited', retry: '4', message: /Rate Limit Exceeded/ }],
  ['Gmail 429', 'gmail', 'get_profile', {}, { status: 429, retry_after: 9 }, { code: 'rate_limited', retry: '9' }],
  ['Gmail 403 scopes', 'gmail', 'get_profile', {}, { status: 403, body: { error: { code: 403, message: 'x', errors: [{ reason: 'insufficientPermissions' }] } } }, { code: 'forbidden', hint: /scopes/ }],
  ['Gmail 403 daily limit', 'gmail', 'get_profile', {}, { status: 403, body: { error: { code: 403, message: 'x', errors: [{ reason: 'dailyLimitExceeded' }] } } }, { code: 'rate_limited', message: /quota/ }],
  ['Gmail 404', 'gmail', 'get_message', { id: 'fff' }, null, { code: 'execution_failed', message: /not found/ }],
  ['Gmail 400 recipient', 'gmail', 'send_message', { to: 'nobody', subject: 's', text: 't' }, null, { code: 'validation_error', message: /Invalid To header/ }],
  ['Gmail 409 label', 'gmail', 'create_label', { name: 'Receipts' }, null, { code: 'validation_error', message: /exists already/ }],
  ['Gmail 503 page', 'gmail', 'get_profile', {}, { status: 503, body: '<h1>no</h1>' }, { code: undefined, message: undefined }],
  ['Gmail 500', 'gmail', 'get_profile', {}, { status: 500 }, { code: undefined, message: /Internal error/ }],
  ['Notion 401', 'notion', 'get_self', {}, { status: 401 }, { code: 'reauth_required', message: /API token is invalid/ }],
  ['Notion 403', 'notion', 'get_self', {}, { status: 403 }, { code: 'forbidden', hint: /capability/ }],
  ['Notion 404', 'notion', 'get_page', { page_id: taskId(999) }, null, { code: 'execution_failed', hint: /shared with the integration/ }],
  ['Notion 400', 'notion', 'query_data_source', { data_source_id: '8e1d4c6b-2a3f-4b5c-9d7e-0f1a2b3c4d21', filter: { property: 'Nope', url: { equals: 'x' } } }, null, { code: 'validation_error', message: /Could not find property/ }],
  ['Notion 409', 'notion', 'get_self', {}, { status: 409 }, { code: 'execution_failed', message: /Conflict/ }],
  ['Notion 429', 'notion', 'get_self', {}, { status: 429, retry_after: 2 }, { code: 'rate_limited', retry: '2' }],
  ['Notion 529', 'notion', 'get_self', {}, { status: 529 }, { code: 'rate_limited', retry: null }],
  ['Notion 504', 'notion', 'get_self', {}, { status: 504 }, { code: undefined, message: /timed out/ }],
])
  test(`errors: ${name}`, async () => {
    if (fault) await provider.faults({ action: fault });
    const a = action(app, id);
    const scope = await run(byId[app], a, input);
    assert.ok(scope.status >= 400, `${scope.status}`);
    const got = outcome(app, a, scope);
    assert.equal(got.code, expected.code);
    if ('retry' in expected) assert.equal(got.retry, expected.retry);
    if (expected.message) assert.match(got.message, expected.message);
    else if ('message' in expected) assert.equal(got.message, undefined);
    if (expected.hint) assert.match(got.hint, expected.hint);
  });
