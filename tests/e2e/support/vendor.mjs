// A vendor that carries out, refuses and loses requests as its script says, and keeps a ledger of
// what it has done. It is truthful: if its refusal proves that it did nothing, it did nothing. If
// its reply proves nothing, the script decides whether it made the change.
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import https from 'node:https';
import { makeCertificates } from './nginx.mjs';
import { Scripted } from './scripted.mjs';

// Statuses that prove a refusal, or prove nothing. isKnown: the manifest's author knows the vendor.
const NO_PROOF = [302, 303, 304, 402, 408, 460, 499];
const PROOF_OF_ANY = [401, 403, 404, 405, 413, 415, 429];
export const isProof = (status, isKnown) =>
  status === 501 || [301, 307, 308].includes(status) ||
  (status >= 400 && status < 500 && !NO_PROOF.includes(status) && (isKnown || PROOF_OF_ANY.includes(status)));

const PAGE = '<!DOCTYPE html><html><head><title>Sign in</title></head></html>';
const HUGE = 'x'.repeat(300_000); // longer than the manifests' timeouts

const idIn = (text) => /intent_(\d+)_/.exec(text)?.[1];
const json = (status, body, headers) => ({ status, headers, body: body === undefined ? '' : JSON.stringify(body) });

// One intent of a client, as the vendor sees it. way: the kind of its effect (see act). ways: the
// kinds of the parts whose kind is different. script: the fates of its requests, in order. Later
// requests succeed.
export class Order {
  constructor(id, way, script, { isKnown = true, ways = {}, exists = true, gone = 404 } = {}) {
    Object.assign(this, { id, way, ways, script: [...script], isKnown, exists, gone, ledger: [], keys: new Map(), requests: 0, faults: [], story: [] });
  }

  tell(line) {
    this.story.push(line);
  }

  // cause: the client's request that caused the effect, {by, era}
  #enter(part, cause) {
    this.ledger.push({ part, ...cause });
    this.tell(`    the vendor does ${part} (${cause.by})`);
  }

  // What the vendor does by itself, and its reply.
  act(part, request, body, cause) {
    const made = () => json(201, { id: `made_${this.id}`, amount: 1, currency: 'eur', status: 'succeeded', object: 'refund' });
    switch (this.ways[part] ?? this.way) {
      case 'read':
        return json(200, { id: this.id });
      case 'once': {
        this.#enter(part, cause);
        return made();
      }
      case 'keyed': {
        const key = keyOf(request, body);
        const known = this.keys.get(key);
        if (!key) this.faults.push('a write without the vendor\'s idempotency key');
        if (known && known.body !== body) this.faults.push(`one key of the vendor's for two requests: ${known.body} and ${body}`);
        if (known) return known.reply;
        this.#enter(part, cause);
        this.keys.set(key, { body, reply: made() });
        return made();
      }
      case 'set':
        if (!this.ledger.some((one) => one.part === part)) this.#enter(part, cause);
        return json(200, { id: this.id });
      case 'remove':
        if (!this.exists) return json(this.gone, { error: { message: 'There is nothing there.' } });
        this.exists = false;
        this.#enter(part, cause);
        return json(204);
      default:
        assert.fail(this.way);
    }
  }
}

const keyOf = (request, body) => request.headers['idempotency-key'] ?? (body.startsWith('{') ? JSON.parse(body).idempotency_key : undefined);

async function bodyOf(request) {
  const parts = [];
  for await (const part of request) parts.push(part);
  return Buffer.concat(parts).toString();
}

// Resets the connection, as when the peer dies, instead of ending it in order.
function reset({ socket }) {
  const raw = socket._parent ?? socket;
  if (raw.resetAndDestroy && raw._handle) raw.resetAndDestroy();
  socket.destroy();
}

export class Vendor {
  // causeOf(request, order): the cause that the ledger records. token(request, body): the answer of
  // the vendor's token endpoint.
  static async start(dir, { causeOf, token }) {
    const vendor = new Vendor();
    Object.assign(vendor, { orders: new Map(), causeOf, token });
    const { caFile, keyFile, certFile } = await makeCertificates(dir);
    const tls = { key: await readFile(keyFile), cert: await readFile(certFile) };
    vendor.caFile = caFile;
    vendor.http = await Scripted.start((request, reply, url) => vendor.#on(request, reply, url), { createServer: (on) => https.createServer(tls, on) });
    vendor.url = vendor.http.url.replace('http:', 'https:');
    for (const event of ['connection', 'secureConnection']) vendor.http.server.on(event, (socket) => socket.on('error', () => {}));
    return vendor;
  }

  stop() {
    return this.http.stop();
  }

  async #on(request, reply, url) {
    const isToken = url.pathname === '/token';
    const early = !isToken && this.orders.get(idIn(request.url));
    if (early && early.script[0]?.what === 'reset' && !early.script[0].did) {
      early.script.shift();
      early.requests++;
      early.tell(`    ${request.method} ${request.url}: reset before it was read`);
      return setImmediate(() => reset(request)); // the server still reads its head
    }
    const body = await bodyOf(request).catch(() => undefined);
    await new Promise(setImmediate); // so that it notices when a peer that no longer waits closes the connection
    if (body === undefined || request.socket.destroyed || request.socket.readableEnded) return undefined;
    if (isToken) return send(reply, this.token(request, body));
    const order = early ?? this.orders.get(idIn(body));
    assert.ok(order, `${request.method} ${request.url} ${body}`);
    order.requests++;
    return this.#befall(order, order.script.shift() ?? { what: 'ok' }, request, reply, body);
  }

  #befall(order, fate, request, reply, body) {
    const part = /\/(first|second)/.exec(request.url)?.[1] ?? 'it';
    const own = () => order.act(part, request, body, this.causeOf(request, order));
    const key = keyOf(request, body);
    order.tell(`    ${request.method} ${request.url}${key ? ` [${key.slice(0, 8)}]` : ''}: ${JSON.stringify(fate)}`);
    const stored = order.keys.get(key);
    if (stored?.isRefusal && stored.body === body) return send(reply, stored.reply);
    switch (fate.what) {
      case 'ok':
        return send(reply, own());
      case 'busy': // the vendor is still working on it: only for a key that it knows
        if (!stored) return send(reply, json(429, { error: { message: 'Too many.' } }));
        return send(reply, json(409, { code: 'key_in_use', error: { type: 'idempotency_error', code: 'idempotency_key_in_use', message: 'In use.' } }));
      case 'told': // a refusal in a 2xx
        return send(reply, json(200, { id: order.id, code: fate.code }));
    }
    if (fate.did) own();
    switch (fate.what) {
      case 'reset':
        return reset(request);
      case 'cut':
        reply.writeHead(200, { 'content-type': 'application/json', 'content-length': 1000 }).write('{"id": "');
        return setImmediate(() => reset(request));
      case 'garbage':
        request.socket.end('220 mail.example ESMTP\r\n');
        return undefined;
      case 'page':
        return send(reply, { status: 200, headers: { 'content-type': 'text/html' }, body: PAGE });
      case 'lacking':
        return send(reply, json(200, { message: 'I do not say anything about it.' }));
      case 'failed200':
        return send(reply, json(200, { ok: false, message: 'Something went wrong.' }));
      case 'hang':
        return undefined;
      case 'huge':
        return send(reply, json(fate.status, { id: order.id, error: { message: HUGE } }));
      case 'status': {
        const answer = json(fate.status, { error: { message: `It is a ${fate.status}.` } }, {
          ...(fate.retryAfter !== undefined && { 'retry-after': fate.retryAfter }),
          ...(fate.status >= 300 && fate.status < 400 && { location: 'https://elsewhere.example.com/' }),
        });
        if (fate.sticks && key && !stored) order.keys.set(key, { isRefusal: true, body, reply: answer });
        return send(reply, answer);
      }
      default:
        return assert.fail(fate.what);
    }
  }
}

function send(reply, { status, headers, body }) {
  reply.writeHead(status, { ...(body && { 'content-type': 'application/json' }), ...headers }).end(status === 204 || status === 304 ? undefined : body);
}
