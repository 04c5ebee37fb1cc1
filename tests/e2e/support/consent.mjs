// An authorization server whose consent page has a checkbox for each scope. It can be made to
// misbehave like a sloppy app or like an attacker. It enforces the rules for its clients: one
// redirect URI, the client's secret, PKCE, and a code that is valid once.
import { createHash, randomBytes } from 'node:crypto';
import { createServer } from 'node:http';

export const CLIENT = { id: 'picky-client', secret: 'sentinel-picky-secret-91' };
export const SCOPES = ['files.read', 'files.write'];

const escape = (text) => text.replace(/[&<>"]/g, (one) => `&#${one.charCodeAt(0)};`);
const read = async (request) => {
  let text = '';
  for await (const part of request) text += part;
  return new URLSearchParams(text);
};

export class Consent {
  static async start() {
    const consent = new Consent();
    consent.secrets = {}; // all that it ever issued
    consent.codes = new Map();
    consent.logins = new Map(); // by access token
    consent.asked = 0; // requests to the token endpoint
    consent.key = 'Basic none'; // other tokens that the app accepts
    consent.behave();
    consent.server = createServer((request, response) => consent.#serve(request, response));
    consent.server.keepAliveTimeout = 0; // never: a test that reuses a connection must not find it closed
    await new Promise((resolve) => consent.server.listen(0, '127.0.0.1', resolve));
    consent.url = `http://127.0.0.1:${consent.server.address().port}`;
    return consent;
  }

  // iss: the iss parameter of the redirect. hasRefresh: whether it also issues a refresh token.
  // token: the answer [status, text] of the token endpoint, instead of its own. isSlow: the page
  // has a link to follow instead of a redirect. login: the person who consents, or null if the app
  // does not say.
  behave({ iss = null, hasRefresh = true, token = null, isSlow = false, login = 'sam@example.com' } = {}) {
    Object.assign(this, { iss, hasRefresh, token, isSlow, login });
  }

  #give(name) {
    const text = `sentinel-${name}-${randomBytes(12).toString('hex')}`;
    this.secrets[text] = text;
    return text;
  }

  async #serve(request, response) {
    const url = new URL(request.url, this.url);
    const json = (status, body) => response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
    if (url.pathname === '/authorize') return this.#page(url, response);
    if (url.pathname === '/decide') return this.#decide(await read(request), response);
    if (url.pathname === '/token') return this.#token(request, await read(request), response, json);
    if (url.pathname === '/back') return response.writeHead(200, { 'content-type': 'text/html' }).end('<!doctype html><title>agent</title><link rel="icon" href="data:,"><main><h1>Back at the agent</h1></main>');
    request.resume();
    const token = (request.headers.authorization ?? '').replace(/^Bearer /, '');
    const isKnown = Object.hasOwn(this.secrets, token) || request.headers.authorization === this.key;
    this.sent = request.headers.authorization;
    if (url.pathname === '/api/whoami') return json(isKnown ? 200 : 401, { email: this.logins.get(token) ?? null });
    return json(isKnown ? 200 : 401, { ok: isKnown });
  }

  #page(url, response) {
    const asked = Object.fromEntries(url.searchParams);
    const hidden = Object.entries(asked).map(([name, value]) => `<input type="hidden" name="${escape(name)}" value="${escape(value)}">`);
    const boxes = asked.scope.split(' ').map((scope) => `<p><label><input type="checkbox" name="granted" value="${escape(scope)}" checked> ${escape(scope)}</label></p>`);
    response.writeHead(200, { 'content-type': 'text/html' }).end(`<!doctype html><title>consent</title><link rel="icon" href="data:,"><main><h1>Allow sluice?</h1>
      <form method="post" action="/decide">${hidden.join('')}${boxes.join('')}<button name="say" value="yes">Allow</button><button name="say" value="no">Deny</button></form></main>`);
  }

  #decide(form, response) {
    const to = new URL(form.get('redirect_uri'));
    const iss = this.iss ?? this.url;
    if (form.get('say') === 'no') {
      for (const [name, value] of Object.entries({ error: 'access_denied', error_description: '<b>told you</b>', state: form.get('state'), iss })) to.searchParams.set(name, value); // words: ok
    } else {
      const code = this.#give('code');
      this.codes.set(code, { redirect: form.get('redirect_uri'), challenge: form.get('code_challenge'), method: form.get('code_challenge_method'), scopes: form.getAll('granted') });
      for (const [name, value] of Object.entries({ code, state: form.get('state'), iss })) to.searchParams.set(name, value);
    }
    if (!this.isSlow) return response.writeHead(303, { location: to.href }).end();
    return response.writeHead(200, { 'content-type': 'text/html' }).end(`<!doctype html><title>on</title><link rel="icon" href="data:,"><main><a href="${escape(to.href)}">On</a></main>`);
  }

  #token(request, form, response, json) {
    this.asked++;
    if (this.token) return response.writeHead(this.token[0], { 'content-type': 'application/json' }).end(this.token[1]);
    const basic = Buffer.from(`${CLIENT.id}:${CLIENT.secret}`).toString('base64');
    if (request.headers.authorization !== `Basic ${basic}`) return json(401, { error: 'invalid_client' });
    const grant = this.codes.get(form.get('code'));
    this.codes.delete(form.get('code'));
    const verifier = form.get('code_verifier') ?? '';
    this.secrets[verifier || 'no verifier'] = verifier || 'no verifier';
    const isProven = grant?.method === 'S256' && createHash('sha256').update(verifier).digest('base64url') === grant.challenge;
    if (!isProven || form.get('redirect_uri') !== grant.redirect) return json(400, { error: 'invalid_grant' });
    const answer = { access_token: this.#give('access'), token_type: 'Bearer', expires_in: 3600, scope: grant.scopes.join(' ') };
    this.logins.set(answer.access_token, this.login);
    if (this.hasRefresh) answer.refresh_token = this.#give('refresh');
    return json(200, answer);
  }

  // An app that connects to this server, with a read and a write, each with a scope.
  manifest(id) {
    const action = (action_id, scope) => ({
      action_id,
      title: action_id === 'look' ? 'Look at a file' : 'Change a file',
      description: 'For tests.',
      side_effect_level: 'read',
      scopes: [scope],
      input_schema: { type: 'object', additionalProperties: false, properties: {} },
      request: { method: 'GET', path: '/file' },
      display: { title: action_id, summary: 'Done' },
      examples: [{ title: 'It', input: {} }],
    });
    return {
      integration_id: id,
      name: 'Picky Files',
      description: 'An app whose consent page has boxes.',
      category: 'test',
      base_url: `${this.url}/api`,
      auth: { type: 'oauth2', authorize_url: `${this.url}/authorize`, token_url: `${this.url}/token`, scopes: SCOPES, token_auth: 'basic' },
      scope_words: { [SCOPES[0]]: 'See your <b>files</b>', [SCOPES[1]]: 'Change your files' },
      identity: { request: { method: 'GET', path: '/whoami' }, email: 'body.email' },
      actions: [action('look', SCOPES[0]), action('change', SCOPES[1])],
    };
  }

  async stop() {
    this.server.closeAllConnections();
    await new Promise((resolve) => this.server.close(resolve));
  }
}
