// A client of the service, shared by the tests of `sluice dev` and of `sluice serve`.
import https from 'node:https';

const [PAUSE_MS, PAUSE_MS_MAX] = [20, 100]; // between two checks. The second one applies once a second has passed.
export const WAIT_MS_MAX = 180_000; // for a condition that never comes true, however slow the machine is
const CONNECT_MS_MAX = 120_000;

// fetch abandons a connection that takes more than ten seconds to open. With many connections, a
// slow machine needs longer. The agent exists only after the first fetch.
const AGENT = Symbol.for('undici.globalDispatcher.1');
await fetch('data:,');
globalThis[AGENT] = new globalThis[AGENT].constructor({ connect: { timeout: CONNECT_MS_MAX } });

// Imported on demand because its validator takes long to load.
export const { judge = () => {} } = process.env.SLUICE_CONTRACT === '1' ? await import('./judge.mjs') : {};

export const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

// Waits for a condition instead of a fixed time: calls fn until it returns a true value. The limit
// only ends the wait for a condition that never becomes true; it does not test the speed.
export async function until(what, fn, ms = WAIT_MS_MAX) {
  const begin = Date.now();
  for (;;) {
    const value = await fn();
    if (value) return value;
    const waited = Date.now() - begin;
    if (waited > ms) throw new Error(`timed out waiting until ${what}`);
    await pause(waited < 1000 ? PAUSE_MS : PAUSE_MS_MAX);
  }
}

function parse(text) {
  try {
    return text === '' ? undefined : JSON.parse(text);
  } catch {
    return undefined;
  }
}

// Sends one request. The body is sent as JSON unless it is a string or bytes. Headers that are
// undefined are left out.
export async function call(base, key, method, path, body, headers = {}) {
  const init = { method, headers: { authorization: `Bearer ${key}`, ...headers } };
  for (const name of Object.keys(init.headers))
    if (init.headers[name] === undefined) delete init.headers[name];
  if (body !== undefined) {
    init.body = typeof body === 'string' || body instanceof Uint8Array ? body : JSON.stringify(body);
    init.headers['content-type'] ??= 'application/json';
  }
  const why = (error) => {
    throw new Error(`${method} ${path}: ${error.message}: ${error.cause?.code ?? error.cause?.message}`, { cause: error.cause });
  };
  const reply = await fetch(base + path, init).catch(why);
  const text = await reply.text().catch(why);
  const taken = { status: reply.status, headers: reply.headers, text, json: parse(text) };
  await judge(base, method, path, taken);
  return taken;
}

// Makes the emulated provider hold its replies to matching requests until letGo() is called, so a
// call is under way for as long as a test needs, however slow the machine is. provider: the
// emulated provider's faults() and control(). options: count (number of requests, all by default),
// action (the reply).
export async function hold(provider, match, { count = -1, action = {} } = {}) {
  await provider.faults([{ match, count, action: { ...action, hold: true } }]);
  const held = async () => (await provider.control('GET', '/faults')).rules[0].hits;
  return {
    reached: (least) => until(`${least} have reached the provider`, async () => (await held()) >= least),
    letGo: () => provider.faults([]),
  };
}

// The emulated provider's control endpoint (bench/provider/README.md).
export function control(url, ca, method, path, body) {
  return new Promise((resolve, reject) => {
    const headers = { 'x-control': '1', 'content-type': 'application/json' };
    const request = https.request(`${url}/__control${path}`, { method, ca, agent: false, headers }, (reply) => {
      let text = '';
      reply.setEncoding('utf8');
      reply.on('data', (part) => (text += part));
      reply.on('end', () =>
        reply.statusCode < 300
          ? resolve(parse(text))
          : reject(new Error(`control ${method} ${path}: ${reply.statusCode} ${text}`)),
      );
    });
    request.on('error', reject);
    request.end(body === undefined ? undefined : JSON.stringify(body));
  });
}
