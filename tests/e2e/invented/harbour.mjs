// Harbour, as harbour.md describes it. Written from that page, not from the manifest. One server
// for its three hosts (api, login, files), which it distinguishes by the Host header. It refuses
// everything that the page does not allow.
import { createHash, randomBytes } from 'node:crypto';
import { createServer } from 'node:http';

export const CLIENT = { id: 'harbour-client', secret: 'sentinel-harbour-secret-27' };
const SCOPES = ['berths:read', 'bookings:read', 'bookings:write'];
const FEATURES = ['power', 'water', 'wifi', 'crane'];
const DAY = /^\d{4}-\d{2}-\d{2}$/;
export const CODES = {
  token_expired: 401, key_revoked: 401, scope_missing: 403, not_your_marina: 403, not_there: 404, berth_taken: 409, key_reused: 409,
  revision_changed: 409, version_missing: 422, invalid: 422, boat_too_long: 422, too_fast: 429, closed: 503,
};
const give = (name) => `${name}_${randomBytes(12).toString('hex')}`;

class Fault extends Error {
  constructor(code, text = `The code is ${code}.`, field, headers = {}) {
    super(text);
    Object.assign(this, { code, field, headers });
  }
}

const marinas = Array.from({ length: 45 }, (_, i) => ({ id: `mar_${i + 1}`, name: `Marina ${i + 1}`, country: i % 3 ? 'DE' : 'NL', berths: 20 + i }));
const berths = Array.from({ length: 7 }, (_, i) => ({ id: `ber_${i + 1}`, name: `C ${i + 1}`, length: 8 + i, price_per_night: 2800, currency: 'EUR', features: FEATURES.slice(0, i % 4) }));

export class Harbour {
  static async start() {
    const harbour = new Harbour();
    Object.assign(harbour, { keys: new Set(), codes: new Map(), access: new Map(), refresh: new Map(), revoked: [], seen: [], bookings: [], replays: new Map(), places: new Map(), atOnce: 0, mostAtOnce: 0 });
    harbour.weather = []; // what happens to the next calls to the API: (harbour, answer) => true if it has answered
    harbour.server = createServer((request, response) => void harbour.#serve(request, response));
    await new Promise((resolve) => harbour.server.listen(0, '127.0.0.1', resolve));
    harbour.url = `http://127.0.0.1:${harbour.server.address().port}`;
    return harbour;
  }

  stop() {
    this.server.closeAllConnections();
    return new Promise((resolve) => this.server.close(resolve));
  }

  key() {
    const key = give('hk');
    this.keys.add(key);
    return key;
  }

  // Makes all existing access tokens expire now.
  expire() {
    this.access.clear();
  }

  // Acts as a person's browser: opens that address, agrees to those scopes, and returns the
  // redirect that it follows.
  consent(address, scopes = null) {
    const url = new URL(address);
    const asked = Object.fromEntries(url.searchParams);
    if (url.origin + url.pathname !== 'https://login.harbour.example/oauth/authorize') throw new Error(`not Harbour's page: ${address}`);
    if (asked.response_type !== 'code' || asked.client_id !== CLIENT.id || asked.code_challenge_method !== 'S256' || !asked.code_challenge) throw new Error(`a bad request: ${url.search}`);
    const known = asked.scope.split(',');
    if (known.some((one) => !SCOPES.includes(one))) throw new Error(`no such scope: ${asked.scope}`);
    const code = give('code');
    this.codes.set(code, { challenge: asked.code_challenge, redirect: asked.redirect_uri, scopes: scopes ?? known, isOffline: asked.access === 'offline' });
    const back = new URL(asked.redirect_uri);
    back.search = new URLSearchParams({ code, state: asked.state });
    return back.href;
  }

  async #serve(request, response) {
    const parts = [];
    for await (const part of request) parts.push(part);
    const url = new URL(request.url, 'http://x');
    const call = { method: request.method, host: request.headers.host, path: url.pathname, query: Object.fromEntries(url.searchParams), headers: request.headers, bytes: Buffer.concat(parts) };
    this.seen.push(call);
    response.on('close', () => this.atOnce--);
    this.mostAtOnce = Math.max(this.mostAtOnce, ++this.atOnce);
    const answer = (status, body, headers = {}) => {
      call.status = status;
      response.writeHead(status, { ...(body !== undefined && { 'content-type': 'application/json' }), 'x-calls-left': '2900', 'x-calls-reset': String(Math.ceil(Date.now() / 1000) + 600), ...headers });
      response.end(body === undefined ? undefined : JSON.stringify(body));
    };
    try {
      if (call.host === 'login.harbour.example') this.#login(call, answer);
      else if (call.host === 'files.harbour.example') this.#file(call, answer);
      else if (call.host === 'api.harbour.example') this.#api(call, answer, request.socket);
      else answer(421);
    } catch (error) {
      if (!(error instanceof Fault)) throw error;
      answer(CODES[error.code], { fault: { code: error.code, text: error.message, ...(error.field && { field: error.field }) } }, error.headers);
    }
  }

  #login(call, answer) {
    const form = Object.fromEntries(new URLSearchParams(call.bytes.toString()));
    if (call.method !== 'POST' || !/^application\/x-www-form-urlencoded/.test(call.headers['content-type'])) return answer(400, { error: 'invalid_request' });
    if (call.path === '/oauth/revoke') return this.revoked.push(form.token), answer(200, {});
    const basic = Buffer.from(`${CLIENT.id}:${CLIENT.secret}`).toString('base64');
    if (call.headers.authorization !== `Basic ${basic}`) return answer(401, { error: 'invalid_client' });
    if (call.path !== '/oauth/token') return answer(404);
    const store = form.grant_type === 'refresh_token' ? this.refresh : this.codes;
    const name = form.grant_type === 'refresh_token' ? form.refresh_token : form.code;
    const grant = store.get(name);
    store.delete(name);
    const isProven = grant && (store === this.refresh || (grant.redirect === form.redirect_uri && createHash('sha256').update(form.code_verifier ?? '').digest('base64url') === grant.challenge));
    if (!isProven) return answer(400, { error: 'invalid_grant' });
    const reply = { access_token: give('hb_at'), token_type: 'Bearer', expires_in: 1800, scope: grant.scopes.join(',') };
    this.access.set(reply.access_token, grant);
    if (grant.isOffline) this.refresh.set((reply.refresh_token = give('hb_rt')), grant);
    return answer(200, reply);
  }

  // The caller's scopes.
  #caller({ headers }) {
    const key = headers['x-harbour-key'];
    if (key !== undefined && headers.authorization === undefined) {
      if (!this.keys.has(key)) throw new Fault('key_revoked', 'The club has withdrawn this key.');
      return SCOPES;
    }
    const grant = this.access.get((headers.authorization ?? '').replace(/^Bearer /, ''));
    if (!grant) throw new Fault('token_expired', 'The access token is too old.');
    return grant.scopes.includes('bookings:write') ? [...grant.scopes, 'bookings:read'] : grant.scopes;
  }

  #api(call, answer, socket) {
    if (call.headers['harbour-version'] !== '2026-03-01') throw new Fault('version_missing');
    if (!call.path.startsWith('/v2/')) throw new Fault('not_there');
    if (this.weather.shift()?.(answer)) return;
    const scopes = this.#caller(call);
    const [what, id, part] = call.path.slice(4).split('/');
    const need = (scope) => {
      if (!scopes.includes(scope)) throw new Fault('scope_missing', `This needs ${scope}.`);
    };
    if (call.bytes.length && call.headers['content-type'] !== 'application/json') throw new Fault('invalid', 'A body is JSON.');
    const body = call.bytes.length ? JSON.parse(call.bytes) : {};
    const route = `${call.method} ${what}${id === undefined ? '' : '/*'}${part === undefined ? '' : `/${part}`}`;
    if (route === 'GET me') return answer(200, { account: { id: 'acc_71', email: 'skipper@example.com', club: 'Yacht Club Norderney' } });
    if (route === 'GET marinas') return need('berths:read'), this.#marinas(call, answer);
    if (route === 'GET berths') return need('berths:read'), this.#berths(call, answer);
    if (route === 'GET bookings') return need('bookings:read'), this.#list(call, answer);
    if (route === 'POST bookings') return need('bookings:write'), this.#book(call, body, answer, socket);
    const booking = this.bookings.find((one) => one.id === id);
    need(call.method === 'GET' ? 'bookings:read' : 'bookings:write');
    if (!booking) throw new Fault('not_there', `There is no booking ${id}.`);
    if (route === 'GET bookings/*') return answer(200, booking);
    if (route === 'PATCH bookings/*') return this.#change(call, booking, body, answer);
    if (route === 'DELETE bookings/*') return (booking.state = 'cancelled'), answer(204);
    if (route === 'POST bookings/*/documents') return this.#reserve(body, answer);
    throw new Fault('not_there', `There is no ${route}.`);
  }

  #number(query, name, fallback, least, most) {
    const value = query[name] === undefined ? fallback : Number(query[name]);
    if (!Number.isInteger(value) || value < least || value > most) throw new Fault('invalid', `${name} is from ${least} to ${most}.`, name);
    return value;
  }

  #only(query, ...names) {
    for (const name of Object.keys(query)) if (!names.includes(name)) throw new Fault('invalid', `${name} is not known.`, name);
  }

  #marinas({ query }, answer) {
    this.#only(query, 'country', 'page', 'per_page');
    const [page, size] = [this.#number(query, 'page', 1, 1, 1e6), this.#number(query, 'per_page', 20, 1, 100)];
    const all = marinas.filter((one) => !query.country || one.country === query.country);
    const next = new URLSearchParams({ ...query, page: page + 1 });
    const hasMore = page * size < all.length;
    answer(200, all.slice((page - 1) * size, page * size), hasMore ? { link: `<https://api.harbour.example/v2/marinas?${next}>; rel="next"` } : {});
  }

  #berths({ query }, answer) {
    this.#only(query, 'marina_id', 'from', 'to', 'length', 'features', 'limit', 'after');
    if (query.marina_id === 'mar_2') throw new Fault('not_your_marina', 'Marina 2 is for members.');
    if (!marinas.some((one) => one.id === query.marina_id)) throw new Fault('not_there', 'There is no such marina.');
    for (const name of ['from', 'to']) if (!DAY.test(query[name] ?? '') || Number.isNaN(Date.parse(query[name]))) throw new Fault('invalid', `${name} is not a day.`, name);
    const wanted = query.features?.split(',') ?? [];
    if (wanted.some((one) => !FEATURES.includes(one))) throw new Fault('invalid', 'No such feature.', 'features');
    const size = this.#number(query, 'limit', 50, 1, 200);
    const start = query.after === undefined ? 0 : Number(Buffer.from(query.after, 'base64').toString().replace(/^at /, ''));
    if (!Number.isInteger(start)) throw new Fault('invalid', 'after is of another list.', 'after');
    const free = berths.filter((one) => one.length >= Number(query.length ?? 0) && wanted.every((feature) => one.features.includes(feature)));
    const end = start + size;
    answer(200, { berths: free.slice(start, end), after: end < free.length ? Buffer.from(`at ${end}`).toString('base64') : null });
  }

  #list({ query }, answer) {
    this.#only(query, 'state', 'skip', 'top');
    const [skip, top] = [this.#number(query, 'skip', 0, 0, 1e6), this.#number(query, 'top', 25, 1, 50)];
    const all = this.bookings.filter((one) => !query.state || one.state === query.state).reverse();
    answer(200, { bookings: all.slice(skip, skip + top), count: all.length });
  }

  #book(call, body, answer, socket) {
    const key = call.headers['request-key'];
    if (key !== undefined && (key === '' || key.length > 64)) throw new Fault('invalid', 'Request-Key has at most 64 characters.');
    const made = this.replays.get(key);
    if (made && made.text !== call.bytes.toString()) throw new Fault('key_reused', 'The Request-Key came with another body.');
    if (made) return answer(201, { booking: made.booking }, { 'request-replayed': 'true' });
    for (const name of Object.keys(body)) if (!['berth_id', 'from', 'to', 'boat', 'note', 'hold'].includes(name)) throw new Fault('invalid', `${name} is not known.`, name);
    const berth = berths.find((one) => one.id === body.berth_id);
    if (!berth) throw new Fault('not_there', 'There is no such berth.');
    if (!(body.from < body.to)) throw new Fault('invalid', 'The departure is before the arrival.', 'to');
    if (body.boat.length > berth.length) throw new Fault('boat_too_long', 'The boat is longer than the berth.', 'boat.length');
    const isTaken = this.bookings.some((one) => one.berth_id === berth.id && one.state !== 'cancelled' && one.from < body.to && body.from < one.to);
    if (isTaken) throw new Fault('berth_taken', 'The berth is taken in these nights.', 'from');
    const nights = (Date.parse(body.to) - Date.parse(body.from)) / 86_400_000;
    const booking = {
      id: `boo_${this.bookings.length + 1}`, berth_id: berth.id, from: body.from, to: body.to, boat: body.boat, state: body.hold ? 'held' : 'confirmed',
      total: nights * berth.price_per_night, currency: berth.currency, note: body.note ?? null, revision: 1,
    };
    this.bookings.push(booking);
    if (key !== undefined) this.replays.set(key, { text: call.bytes.toString(), booking });
    if (!this.losesReply) return answer(201, { booking });
    this.losesReply = false;
    socket.destroy();
  }

  #change({ headers }, booking, body, answer) {
    if (headers['if-match'] !== undefined && headers['if-match'] !== String(booking.revision)) throw new Fault('revision_changed', 'The booking was changed meanwhile.');
    for (const name of Object.keys(body)) if (!['from', 'to', 'boat', 'note', 'state'].includes(name)) throw new Fault('invalid', `${name} is not known.`, name);
    if ('state' in body && body.state !== 'confirmed') throw new Fault('invalid', 'A booking can only be confirmed.', 'state');
    Object.assign(booking, body, { revision: booking.revision + 1 });
    answer(200, { booking });
  }

  #reserve(body, answer) {
    for (const name of ['name', 'type', 'size']) if (!body[name]) throw new Fault('invalid', `${name} is missing.`, name);
    if (body.size > 10_000_000) throw new Fault('invalid', 'A document has at most 10 MB.', 'size');
    const [id, place] = [`doc_${this.places.size + 1}`, give('place')];
    this.places.set(place, { id, ...body });
    answer(201, { document: { id, state: 'waiting' }, upload: { url: `https://files.harbour.example/in/${place}?sig=ab`, expires: '2026-07-01T10:00:00Z' } });
  }

  #file(call, answer) {
    if (call.headers.authorization ?? call.headers['x-harbour-key']) return answer(400, { fault: { code: 'invalid', text: 'No credential here.' } });
    const place = this.places.get(call.path.replace('/in/', ''));
    if (call.method !== 'PUT' || !place || call.query.sig !== 'ab') throw new Fault('not_there', 'There is no such place.');
    if (this.filesWeather) return this.filesWeather(answer);
    if (call.headers['content-type'] !== place.type || call.bytes.length !== place.size) throw new Fault('invalid', 'Not what was reserved.');
    place.bytes = call.bytes;
    answer(200, { document: { id: place.id, state: 'stored', size: place.bytes.length } });
  }
}
