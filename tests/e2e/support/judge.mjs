// With SLUICE_CONTRACT=1, every reply in any end-to-end test is compared with the server's own
// document: its status, its headers and its body. tests/e2e/openapi.test.mjs checks the document
// with a third-party tool. This check covers every unusual reply that the tests cause.
import Ajv2020 from 'ajv/dist/2020.js';
import { closed, resolve } from './document.mjs';

const documents = new Map(); // base -> promise of the document's check, null if it has no document

// recommended_next_action must help with error_code: connect, or reconnect. It must be missing if a
// connection would not help, for example for an app that needs none, or for an id that is not a
// connection.
function adviceProblem(json) {
  const { error_code: code, recommended_next_action: advice } = json?.canonical ?? json ?? {};
  if (!code || !advice) return '';
  const isAgain = advice.input.force_reconnect === true;
  if (code === 'integration_not_connected') return isAgain ? `${code} recommends to connect again` : '';
  if (!['reauth_required', 'unauthorized', 'forbidden'].includes(code)) return `${code} recommends an action`;
  return isAgain ? '' : `${code} does not recommend to connect again`;
}

// A reply with rate_limited must say when to retry.
function waitProblem(status, headers, json) {
  const isLimited = [409, 500].includes(status) && (json?.canonical ?? json)?.error_code === 'rate_limited';
  return isLimited && !headers.get('retry-after') ? 'rate_limited without Retry-After' : '';
}

// A member of a reply that the document does not list is also a fault.
export class Judge {
  constructor(served) {
    const document = closed(served);
    this.document = document;
    this.ajv = new Ajv2020({ strict: false, validateFormats: false });
    this.ajv.addSchema(document, 'contract');
    this.paths = Object.keys(document.paths).map((path) => ({
      path,
      segments: path.split('/'),
      literals: path.split('/').filter((one) => !one.startsWith('{')).length,
    }));
    this.paths.sort((a, b) => b.literals - a.literals);
  }

  static async of(base) {
    const reply = await fetch(`${base}/openapi.json`);
    return reply.ok ? new Judge(await reply.json()) : null;
  }

  operation(method, url) {
    const segments = new URL(url, 'http://x').pathname.split('/');
    const found = this.paths.find(
      (one) =>
        one.segments.length === segments.length &&
        one.segments.every((segment, at) => (segment.startsWith('{') ? segments[at] !== '' : segment === segments[at])),
    );
    const name = method === 'HEAD' ? 'get' : method.toLowerCase();
    return found && this.document.paths[found.path][name];
  }

  // The faults of the reply as text, or '' if there are none.
  problem(method, url, { status, headers, text, json }) {
    const any = this.document['x-any-path'].responses;
    const operation = this.operation(method, url);
    if (!operation && !/^\/api\//.test(url)) return ''; // served by a proxy with a path prefix
    const response = resolve(this.document, operation?.responses[status] ?? (operation ? undefined : any[status]) ?? (status >= 501 ? any[status] : undefined));
    // the key is checked before the path, and unreadable requests are refused before either
    const early = { 400: 'BadRequest', 401: 'Unauthorized', 414: 'UriTooLong', 431: 'HeadTooLarge', 503: 'Unavailable', 429: 'TooManyRequests' };
    const listed = response ?? (operation ? undefined : this.document.components.responses[early[status]]);
    if (!listed) return `status ${status} is not listed`;
    for (const [name, entry] of Object.entries(listed.headers ?? {})) {
      const header = resolve(this.document, entry);
      const value = headers.get(name);
      if (value === null && header.required) return `${name} is missing`;
      if (value === null) continue;
      const typed = header.schema.type === 'integer' ? Number(value) : value;
      const problem = this.check(header.schema, typed);
      if (problem) return `${name}: ${problem}`;
    }
    if (text === '' && (method === 'HEAD' || !listed.content)) return '';
    const type = (headers.get('content-type') ?? '').split(';')[0];
    const content = listed.content?.[type];
    if (!content) return `media type ${type} is not listed`;
    return this.check(content.schema, type === 'application/json' ? json : text) || adviceProblem(json) || waitProblem(status, headers, json);
  }

  // References are relative to the document.
  check(schema, value) {
    this.compiled ??= new Map();
    if (!this.compiled.has(schema)) {
      const rooted = JSON.parse(JSON.stringify(schema).replaceAll('"#/', '"contract#/'));
      this.compiled.set(schema, this.ajv.compile(rooted));
    }
    const validate = this.compiled.get(schema);
    return validate(value) ? '' : this.ajv.errorsText(validate.errors);
  }
}

export async function judge(base, method, path, reply) {
  if (!documents.has(base)) documents.set(base, Judge.of(base).catch(() => null));
  const found = await documents.get(base);
  if (!found) documents.delete(base); // the server was not up
  const problem = found?.problem(method, path, reply);
  if (problem) throw new Error(`${method} ${path} does not match openapi.json: ${problem}\n${reply.status} ${reply.text.slice(0, 2000)}`);
}
