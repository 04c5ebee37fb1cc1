// Shared by the MCP tests: raw requests to POST /mcp in both eras, the official SDK's clients, and
// the specification's own schema, with which every message is validated. SCHEMAS is false if the
// corpora, which have the schema, are missing.
import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import Ajv2020 from 'ajv/dist/2020.js';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { judge } from './client.mjs';

export const MODERN = '2026-07-28';
export const LEGACY = '2025-11-25';

const results = {
  'server/discover': ['DiscoverResult'],
  initialize: ['InitializeResult'],
  ping: ['EmptyResult'],
  'tools/list': ['ListToolsResult'],
  'tools/call': ['CallToolResult', 'InputRequiredResult'],
  'resources/list': ['ListResourcesResult'],
  'resources/templates/list': ['ListResourceTemplatesResult'],
  'resources/read': ['ReadResourceResult', 'InputRequiredResult'],
  'subscriptions/listen': ['SubscriptionsListenResult'],
  'tasks/update': ['EmptyResult'],
  'tasks/cancel': ['EmptyResult'],
};

// The corpora have no schema for the extension of tasks. This one follows its text (SEP-2663).
const time = { type: 'string', pattern: '^\\d{4}-\\d\\d-\\d\\dT\\d\\d:\\d\\d:\\d\\d(\\.\\d+)?Z$' };
const absent = (...names) => ({ not: { anyOf: names.map((name) => ({ required: [name] })) } });
const status = (name, required, forbidden, properties = {}) => ({
  properties: { status: { const: name }, ...properties }, required, ...absent(...forbidden),
});
const task = {
  type: 'object',
  required: ['taskId', 'status', 'createdAt', 'lastUpdatedAt', 'ttlMs'],
  properties: {
    taskId: { type: 'string' }, statusMessage: { type: 'string' }, createdAt: time, lastUpdatedAt: time,
    ttlMs: { type: ['integer', 'null'] }, pollIntervalMs: { type: 'integer', minimum: 1 },
  },
};
export const DETAILED = {
  ...task,
  oneOf: [
    status('working', [], ['result', 'error', 'inputRequests']),
    status('cancelled', [], ['result', 'error', 'inputRequests']),
    status('input_required', ['inputRequests'], ['result', 'error'], { inputRequests: { $ref: `${MODERN}#/$defs/InputRequests` } }),
    status('completed', ['result'], ['error', 'inputRequests'], { result: { $ref: `${MODERN}#/$defs/CallToolResult` } }),
    status('failed', ['error'], ['result', 'inputRequests'], { error: { $ref: `${MODERN}#/$defs/Error` } }),
  ],
};
// the task in the reply to its creation, without further members
const CREATED = { ...task, properties: { ...task.properties, status: { const: 'working' } }, ...absent('result', 'error', 'inputRequests', 'task') };

const folder = join(process.env.SLUICE_CORPORA ?? '', 'mcp');
export const SCHEMAS = existsSync(folder) ? 'the specification’s schemas' : null;
const ajv = new Ajv2020({ strict: false, validateFormats: false });
if (SCHEMAS)
  for (const version of [MODERN, LEGACY]) ajv.addSchema(JSON.parse(readFileSync(join(folder, version, 'schema.json'), 'utf8')), version);
const tasks = { task: SCHEMAS && ajv.compile(CREATED), complete: SCHEMAS && ajv.compile(DETAILED) };

// Checks a task in the form of tasks/get and notifications/tasks, or in the form of the reply to
// its creation.
export function checkTask(value, type = 'complete') {
  if (SCHEMAS) assert.ok(tasks[type](value), `${ajv.errorsText(tasks[type].errors)}: ${JSON.stringify(value).slice(0, 3000)}`);
}

const fits = (version, name, value) => {
  const valid = ajv.getSchema(`${version}#/$defs/${name}`);
  assert.ok(valid, `${version} has no ${name}`);
  return valid(value) ? '' : ajv.errorsText(valid.errors);
};

// Checks that a reply to that method is a message of the specification, with a result of that
// method.
export function check(version, method, message) {
  if (!SCHEMAS) return;
  const about = `${version} ${method}: ${JSON.stringify(message).slice(0, 3000)}`;
  if (message.error) {
    assert.equal(fits(version, 'JSONRPCErrorResponse', message), '', about);
    return;
  }
  assert.equal(fits(version, 'JSONRPCResultResponse', message), '', about);
  if (version === MODERN && (method === 'tasks/get' || message.result.resultType === 'task')) {
    checkTask(message.result, message.result.resultType);
    return;
  }
  const of = message.result.resultType === 'input_required' ? results[method][1] : results[method][0];
  assert.equal(fits(version, of, message.result), '', about);
}

const notifications = {
  'notifications/subscriptions/acknowledged': 'SubscriptionsAcknowledgedNotification',
  'notifications/tools/list_changed': 'ToolListChangedNotification',
  'notifications/resources/updated': 'ResourceUpdatedNotification',
  'notifications/progress': 'ProgressNotification',
};

// Checks that a notification is defined by the specification, or is about a task.
function checkNotification(version, message) {
  if (!SCHEMAS) return;
  const about = `${version}: ${JSON.stringify(message).slice(0, 3000)}`;
  assert.equal(fits(version, 'JSONRPCNotification', message), '', about);
  if (message.method === 'notifications/tasks') checkTask(message.params);
  else assert.equal(fits(version, notifications[message.method], message), '', about);
}

export const meta = (capabilities = {}, more = {}) => ({
  'io.modelcontextprotocol/protocolVersion': MODERN,
  'io.modelcontextprotocol/clientInfo': { name: 'test', version: '1' },
  'io.modelcontextprotocol/clientCapabilities': capabilities,
  ...more,
});

export class Mcp {
  // path: /mcp, optionally with ?tools=
  constructor(base, key, path = '/mcp') {
    Object.assign(this, { base, key, path });
    this.id = 0;
  }

  // Sends any body and any headers: {status, headers, text, json}
  async post(body, headers = {}) {
    const text = typeof body === 'string' ? body : JSON.stringify(body);
    const all = { authorization: `Bearer ${this.key}`, 'content-type': 'application/json', accept: 'application/json, text/event-stream', ...headers };
    for (const name of Object.keys(all)) if (all[name] === undefined) delete all[name];
    const reply = await fetch(this.base + this.path, { method: 'POST', headers: all, body: text });
    const taken = { status: reply.status, headers: reply.headers, text: await reply.text() };
    taken.json = taken.text === '' ? undefined : JSON.parse(taken.text);
    await judge(this.base, 'POST', this.path, taken);
    return taken;
  }

  // Sends one request of 2026-07-28. options: capabilities, meta (more members), headers
  async ask(method, params = {}, options = {}) {
    const name = params.uri ?? params.taskId ?? params.name;
    const body = { jsonrpc: '2.0', id: ++this.id, method, params: { ...params, _meta: meta(options.capabilities, options.meta) } };
    const reply = await this.post(body, {
      'mcp-protocol-version': MODERN,
      'mcp-method': method,
      ...(name !== undefined && { 'mcp-name': name }),
      ...options.headers,
    });
    if (reply.json) {
      assert.equal(reply.json.id, body.id);
      check(MODERN, method, reply.json);
    }
    return { ...reply, ...reply.json };
  }

  // Sends a request whose reply may be a stream: {status, headers, next, until, close}. next()
  // returns the next message of the stream, or undefined at its end. until() returns the first
  // message that passes the test, and skips others.
  async stream(method, params = {}, options = {}) {
    const version = options.version ?? MODERN;
    const name = params.uri ?? params.taskId ?? params.name;
    const _meta = version === MODERN ? meta(options.capabilities, options.meta) : options.meta;
    const body = { jsonrpc: '2.0', id: ++this.id, method, params: { ...params, _meta } };
    const headers = {
      authorization: `Bearer ${this.key}`, 'content-type': 'application/json', accept: 'application/json, text/event-stream',
      'mcp-protocol-version': version,
      ...(version === MODERN && { 'mcp-method': method, ...(name !== undefined && { 'mcp-name': name }) }),
      ...options.headers,
    };
    const gone = new AbortController();
    const reply = await fetch(this.base + this.path, { method: 'POST', headers, body: JSON.stringify(body), signal: gone.signal });
    const isStream = reply.headers.get('content-type').startsWith('text/event-stream');
    const messages = (async function* () {
      if (!isStream) {
        yield await reply.json();
        return;
      }
      let text = '';
      const decoder = new TextDecoder();
      for await (const bytes of reply.body) {
        text += decoder.decode(bytes, { stream: true });
        for (let end; (end = text.indexOf('\n\n')) >= 0; text = text.slice(end + 2))
          if (text.startsWith('data: ')) yield JSON.parse(text.slice(6, end));
      }
    })();
    const next = async () => {
      const { value } = await messages.next();
      if (value?.method) checkNotification(version, value);
      else if (value) check(version, method, value);
      return value;
    };
    const until = async (test) => {
      for (;;) {
        const message = await next();
        assert.ok(message, `the stream of ${method} has ended`);
        if (test(message)) return message;
      }
    };
    return { id: body.id, status: reply.status, headers: reply.headers, isStream, next, until, close: () => gone.abort() };
  }

  // Sends a request of one of the earlier revisions.
  async askLegacy(method, params, headers = {}) {
    const body = { jsonrpc: '2.0', id: `l${++this.id}`, method, ...(params && { params }) };
    const reply = await this.post(body, headers);
    if (reply.json) {
      assert.equal(reply.json.id, body.id);
      check(LEGACY, method, reply.json);
    }
    return { ...reply, ...reply.json };
  }

  // Calls a tool, and closes the connection when `when` has ended.
  async lose(name, args, when) {
    const abort = new AbortController();
    const body = { jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name, arguments: args } };
    const headers = { authorization: `Bearer ${this.key}`, 'content-type': 'application/json', accept: 'application/json, text/event-stream' };
    const reply = fetch(this.base + this.path, { method: 'POST', headers, body: JSON.stringify(body), signal: abort.signal }).catch((error) => error.name);
    await when();
    abort.abort();
    assert.equal(await reply, 'AbortError');
  }

  // Calls a tool and returns its result, {content, isError}. contentOf() returns the result as
  // JSON.
  async call(name, args, options) {
    const { result, error, status } = await this.ask('tools/call', { name, arguments: args }, options);
    assert.ok(result, `${name}: ${status} ${JSON.stringify(error)}`);
    return result;
  }
}

// Joins an object and the object of the same form with its data from outside.
function joined(own, outside) {
  if (outside === undefined) return own;
  if (own === undefined || own === null || typeof own !== 'object') return outside;
  if (Array.isArray(own)) return own.map((item, at) => joined(item, outside[at]));
  return Object.fromEntries([...new Set([...Object.keys(own), ...Object.keys(outside)])].map((name) => [name, joined(own[name], outside[name])]));
}

// A text that a model reads, of a tool or a resource: {id, own, outside, json}. Data from outside is
// between two lines with the same id; without such data there is no id. json has both parts.
export function marked(text) {
  const found = text.match(/^([^\n]*)(?:\nBEGIN ([\w-]{8})\n([^\n]*)\nEND \2)?$/);
  assert.ok(found, text);
  const [own, outside] = [found[1], found[3]].map((part) => part && JSON.parse(part));
  return { id: found[2], own, outside, json: joined(own, outside) };
}
export const inside = (result) => marked(result.content[0].text);

// The JSON of a result, or of a resource. Undefined for anything else.
export const contentOf = (result) => result && marked((result.content ?? result.contents)[0].text).json;

// The SDK's client, connected. mode: 'legacy', 'auto' or {pin}. Each of its replies is validated.
export async function connect(base, key, { path = '/mcp', mode = 'auto', capabilities = {}, listChanged } = {}) {
  const client = new Client({ name: 'test', version: '1' }, { capabilities, versionNegotiation: { mode }, listChanged });
  const seen = [];
  const transport = new StreamableHTTPClientTransport(new URL(base + path), {
    requestInit: { headers: { authorization: `Bearer ${key}` } },
    fetch: async (url, init) => {
      const reply = await fetch(url, init);
      if (init.method !== 'POST' || reply.status === 202 || reply.headers.get('content-type').startsWith('text/event-stream')) return reply;
      const { method, params } = JSON.parse(init.body);
      const message = await reply.clone().json();
      const version = params?._meta?.['io.modelcontextprotocol/protocolVersion'] ?? LEGACY;
      check(version, method, message);
      seen.push({ method, version, message });
      return reply;
    },
  });
  await client.connect(transport);
  return Object.assign(client, { seen });
}
