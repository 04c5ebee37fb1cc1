// Checks the API contract: client -> prism -> Between -> sluice. Prism compares each reply with
// openapi.json. Between can change a reply on its way, and prism must report that. This shows that
// prism works: it treats a schema that does not compile as satisfied by every reply.
import http from 'node:http';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import Ajv2020 from 'ajv/dist/2020.js';
import { call, until } from './client.mjs';
import { closed } from './document.mjs';
import { Running, freePort } from './process.mjs';

const prismBin = new URL('../node_modules/@stoplight/prism-cli/dist/index.js', import.meta.url).pathname;
const START_MS = 180_000;

// The changes that Between makes to a remembered reply, one at a time: [name, function that changes
// the reply and returns whether it applies].
export const changes = {
  'a member more': (reply, at = '') => {
    let place = reply.json;
    for (const key of at.split('/').slice(1)) place = place?.[key];
    if (!place || typeof place !== 'object' || Array.isArray(place)) return false;
    place.unexpected = 1;
    return true;
  },
  'a member less': (reply) => {
    const [name] = Object.keys(reply.json ?? {});
    delete reply.json?.[name];
    return name !== undefined;
  },
  'no request id': (reply) => delete reply.headers['x-request-id'],
  'another media type': (reply) => {
    if (reply.text === '') return false;
    reply.headers['content-type'] = 'application/xml';
    return true;
  },
  'a status that is not listed': (reply) => (reply.status = 418),
};

class Between {
  static async start(target) {
    const between = new Between();
    between.replies = new Map(); // case -> reply
    between.server = http.createServer((request, out) => between.pass(target, request, out));
    between.server.keepAliveTimeout = 0; // never: prism keeps its connections
    await new Promise((resolve) => between.server.listen(0, '127.0.0.1', resolve));
    between.url = `http://127.0.0.1:${between.server.address().port}`;
    return between;
  }

  // x-case: remember the reply. x-change: answer with the remembered reply, changed.
  async pass(target, request, out) {
    const { 'x-case': name, 'x-change': change, 'x-at': at, ...headers } = request.headers;
    const body = await whole(request); // before any answer, since the next request comes on the same connection
    if (change) {
      const reply = structuredClone(this.replies.get(name));
      changes[change](reply, at);
      if (reply.json !== undefined) reply.text = JSON.stringify(reply.json);
      send(out, reply);
      return;
    }
    const options = { method: request.method, headers, agent: false };
    try {
      const answer = await new Promise((resolve, reject) => {
        http.request(target + request.url, options, resolve).on('error', reject).end(body);
      });
      const text = (await whole(answer)).toString('utf8');
      const reply = { status: answer.statusCode, headers: answer.headers, text };
      if (/^application\/json/.test(answer.headers['content-type'] ?? '') && text) reply.json = JSON.parse(text);
      this.replies.set(name, reply);
      send(out, reply);
    } catch {
      out.destroy(); // prism reports it
    }
  }

  stop() {
    this.server.closeAllConnections();
    return new Promise((resolve) => this.server.close(resolve));
  }
}

async function whole(stream) {
  const parts = [];
  for await (const part of stream) parts.push(part);
  return Buffer.concat(parts);
}

function send(out, { status, headers, text }) {
  const copy = { ...headers };
  for (const name of ['content-length', 'transfer-encoding', 'connection', 'keep-alive']) delete copy[name];
  out.writeHead(status, copy);
  out.end(status === 304 || status === 204 ? undefined : text);
}

export class Contract {
  // dir: the folder for the document's files. base: the server's URL. The server's own document is
  // used, and no reply may have a member that the document does not list.
  static async start(base, dir) {
    const contract = new Contract();
    contract.served = await (await fetch(`${base}/openapi.json`)).json();
    contract.document = closed(contract.served);
    contract.file = join(dir, 'openapi.json');
    await writeFile(contract.file, JSON.stringify(contract.served, null, 2));
    const closedFile = join(dir, 'openapi-closed.json');
    await writeFile(closedFile, JSON.stringify(contract.document, null, 2));
    contract.between = await Between.start(base);
    const port = await freePort();
    contract.url = `http://127.0.0.1:${port}`;
    const args = [prismBin, 'proxy', '--errors', '--validate-request=false', '-v', 'error', '-p', `${port}`];
    contract.prism = new Running(process.execPath, [...args, closedFile, contract.between.url]);
    await until(
      'prism listens',
      () => {
        contract.prism.check();
        return fetch(`${contract.url}/healthz`).then(
          (reply) => reply.ok,
          () => false,
        );
      },
      START_MS,
    );
    contract.count = 0;
    contract.judged = new Set(); // "method path status", as the document spells them
    contract.ajv = new Ajv2020({ strict: false, validateFormats: false });
    contract.ajv.addSchema(contract.document, 'contract');
    return contract;
  }

  // The violations that prism reports for a reply, empty if there are none.
  static violations(reply) {
    const found = reply.headers.get('sl-violations');
    if (found) return found.startsWith('[') ? JSON.parse(found) : [found]; // "Too many violations"
    const isProblem = /problem\+json/.test(reply.headers.get('content-type')); // prism's own
    return isProblem ? (reply.json?.validation ?? [reply.text]) : [];
  }

  // Sends one request through prism: {status, headers, text, json, violations, name}.
  async call(key, method, path, body, headers = {}) {
    const name = `case-${++this.count}`;
    const reply = await call(this.url, key, method, path, body, { ...headers, 'x-case': name });
    const real = this.between.replies.get(name);
    if (!real) throw new Error(`${method} ${path} did not come through: ${reply.status} ${reply.text}`);
    return { ...reply, real, name, violations: Contract.violations(reply), again: { key, method, path, body, headers } };
  }

  // The same reply, changed on its way. Undefined if that change does not apply to the reply.
  async changed({ name, again, real }, change, at = '') {
    if (!changes[change](structuredClone(real), at)) return undefined;
    const headers = { ...again.headers, 'x-case': name, 'x-change': change, 'x-at': at };
    const body = again.method === 'GET' ? undefined : {}; // Between ignores it
    const reply = await call(this.url, again.key, again.method, again.path, body, headers);
    return { ...reply, violations: Contract.violations(reply) };
  }

  // Prism does not check a reply if the document has no operation for it. This checks the reply
  // with the schema at this pointer, and returns the problems as text, or '' if there are none.
  problems(pointer, value) {
    const validate = this.ajv.getSchema(`contract#${pointer}`);
    return validate(value) ? '' : this.ajv.errorsText(validate.errors);
  }

  async stop() {
    await this.prism.stop();
    await this.between.stop();
  }
}
