// A strict OAuth server (npm oidc-provider: PKCE required, refresh tokens rotate, reuse of an old
// token revokes the whole family), an API that accepts its tokens, and a headless browser that
// fills in its login and consent pages.
import { createHash, randomBytes } from 'node:crypto';
import { createServer } from 'node:http';
import { Provider } from 'oidc-provider';

export const REDIRECT = 'http://127.0.0.1:9/callback';
// The public URL of servers that set it. Nothing listens there.
export const PUBLIC = 'http://127.0.0.1:9';
const CLIENTS = [
  { client_id: 'sluice', client_secret: 'client-secret-0123456789', token_endpoint_auth_method: 'client_secret_basic' },
  { client_id: 'posting', client_secret: 'posting-secret-0123456789', token_endpoint_auth_method: 'client_secret_post' },
];
export const clientOf = (id) => CLIENTS.find((one) => one.client_id === id);

const listen = (server) => new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));

export class Oidc {
  // ttl: the lifetime of an access token in seconds, which may be changed at any time. scopes:
  // scopes that it knows in addition to its own.
  static async start({ ttl = 5, scopes = [] } = {}) {
    const oidc = new Oidc();
    oidc.ttl = ttl;
    oidc.scopes = scopes;
    oidc.redirects = [REDIRECT, `${PUBLIC}/connect/callback`];
    oidc.onToken = null; // called and awaited with each access token before the client gets it
    oidc.fault = null; // the token endpoint's answer: 'cut', 'error', 'garbage', 'hang', 'html', or a function
    oidc.asked = 0; // requests to the token endpoint, answered or not
    oidc.grants = []; // {type, ok, error, account}
    oidc.calls = []; // the API's requests: {status, account, method}
    oidc.hanging = new Set();
    oidc.isDeaf = false; // the API refuses every token
    oidc.onRefusal = null; // awaited before the API answers 401
    oidc.onPage = null; // called and awaited with (page, token) before a page of the list is answered
    oidc.server = createServer((request, response) => oidc.#serve(request, response));
    oidc.server.keepAliveTimeout = 0; // never: a test that reuses a connection must not find it closed
    await listen(oidc.server);
    oidc.url = `http://127.0.0.1:${oidc.server.address().port}`;
    oidc.#setUp();
    return oidc;
  }

  #setUp() {
    this.provider = this.#provider();
    this.handler = this.provider.callback();
  }

  // Adds a redirect URI that was unknown at the start. Earlier grants are lost.
  allowRedirect(uri) {
    this.redirects.push(uri);
    this.#setUp();
  }

  #provider() {
    const warn = console.warn;
    const info = console.info;
    console.warn = console.info = () => {}; // it warns at length that its pages are for development
    const provider = new Provider(this.url, {
      clients: CLIENTS.map((client) => ({
        ...client,
        redirect_uris: this.redirects,
        response_types: ['code'],
        grant_types: ['authorization_code', 'refresh_token', 'client_credentials'],
      })),
      scopes: ['openid', 'offline_access', 'notes.read', 'notes.write', ...this.scopes],
      pkce: { required: () => true },
      // as with apps: some rotate refresh tokens, others always return the same token
      rotateRefreshToken: (ctx) => ctx.oidc.client.clientId === 'sluice',
      findAccount: (ctx, accountId) => ({ accountId, claims: () => ({ sub: accountId }) }),
      features: { clientCredentials: { enabled: true }, devInteractions: { enabled: true } },
      ttl: {
        AccessToken: () => this.ttl,
        ClientCredentials: () => this.ttl,
        ...Object.fromEntries(['Interaction', 'Session', 'Grant', 'RefreshToken', 'IdToken'].map((kind) => [kind, 3600])),
      },
      cookies: { keys: [randomBytes(16).toString('hex')] },
    });
    console.warn = warn;
    console.info = info;
    provider.use(async (ctx, next) => {
      await next();
      if (ctx.oidc?.route === 'token' && ctx.body?.access_token) await this.onToken?.(ctx.body.access_token);
    });
    const note = (ctx, ok, error) =>
      this.grants.push({
        type: ctx.oidc.params?.grant_type,
        ok,
        error: error?.error ?? error?.message,
        account: ctx.oidc.entities.Account?.accountId ?? ctx.oidc.entities.Grant?.accountId,
      });
    provider.on('grant.success', (ctx) => note(ctx, true));
    provider.on('grant.error', (ctx, error) => note(ctx, false, error));
    return provider;
  }

  async #serve(request, response) {
    if (request.url.startsWith('/api/')) return this.#api(request, response);
    const isToken = request.url === '/token';
    if (isToken) this.asked++;
    const fault = isToken ? this.fault : null;
    if (typeof fault === 'function') return fault(request, response, () => this.handler(request, response));
    switch (fault) {
      case 'cut':
        return request.socket.destroy();
      case 'error':
        return response.writeHead(500, { 'content-type': 'application/json' }).end('{"error":"invalid_grant"}');
      case 'garbage':
        return response.writeHead(200, { 'content-type': 'application/json' }).end('{"access_token": nonsense');
      case 'html':
        return response.writeHead(403, { 'content-type': 'text/html' }).end('<h1>Blocked</h1>');
      case 'hang':
        this.hanging.add(request.socket);
        return undefined;
      default:
        return this.handler(request, response);
    }
  }

  // GET /api/me, POST /api/notes: 401 for anything but a current access token.
  async #api(request, response) {
    const text = (request.headers.authorization ?? '').replace(/^Bearer /, '');
    const kinds = [this.provider.AccessToken, this.provider.ClientCredentials];
    const found = (await Promise.all(kinds.map((kind) => kind.find(text)))).find(Boolean);
    const token = found && !found.isExpired && !this.isDeaf ? found : undefined;
    const account = token?.accountId ?? token?.clientId;
    request.resume();
    const reply = (status, body) => {
      this.calls.push({ status, account, method: request.method });
      response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
    };
    if (!token) {
      await this.onRefusal?.();
      return reply(401, { error: 'unauthorized' });
    }
    const { pathname, searchParams } = new URL(request.url, this.url);
    if (pathname === '/api/list') {
      const at = Number(searchParams.get('cursor') ?? 0);
      await this.onPage?.(at, text);
      return reply(200, { items: [at], next: at < 2 ? `${at + 1}` : null });
    }
    return reply(request.method === 'POST' ? 201 : 200, { account, scope: token.scope });
  }

  refreshes(account) {
    return this.grants.filter((one) => one.type === 'refresh_token' && (!account || one.account === account));
  }

  // The manifest of an integration that is connected here.
  manifest(id, { client = 'sluice', type = 'oauth2', auth = {} } = {}) {
    const isBasic = clientOf(client).token_endpoint_auth_method === 'client_secret_basic';
    const action = (action_id, level, method, path, scopes) => ({
      action_id,
      title: action_id,
      description: 'For tests.',
      side_effect_level: level,
      scopes,
      input_schema: { type: 'object', additionalProperties: false, properties: {} },
      request: { method, path },
      display: { title: action_id, summary: 'Done' },
      examples: [{ title: 'It', input: {} }],
    });
    return {
      integration_id: id,
      name: `App ${id}`,
      description: 'An app with a strict OAuth server.',
      category: 'test',
      base_url: `${this.url}/api`,
      auth: {
        type,
        authorize_url: `${this.url}/auth`,
        token_url: `${this.url}/token`,
        scopes: type === 'oauth2' ? ['openid', 'offline_access', 'notes.read'] : [],
        authorize_params: { prompt: 'consent' },
        token_auth: isBasic ? 'basic' : 'body',
        ...auth,
      },
      actions: [
        action('read_me', 'read', 'GET', '/me', type === 'oauth2' ? ['notes.read'] : []),
        action('write_note', 'write', 'POST', '/notes', []),
        action('needs_more', 'read', 'GET', '/me', ['notes.write']),
        {
          ...action('list', 'read', 'GET', '/list', []),
          input_schema: {
            type: 'object',
            additionalProperties: false,
            properties: { cursor: { type: 'string', description: 'Where to go on.' } },
          },
          request: { method: 'GET', path: '/list', query: { cursor: '${input.cursor}' } },
          response: { pagination: { input: 'cursor', next: 'body.next' } },
        },
      ],
    };
  }

  // Acts as a person at an authorization URL, and returns {code, state, iss ...} of the redirect.
  // options: login, deny (at the consent page)
  async consent(url, { login = 'sam', deny = false } = {}) {
    const browser = new Browser();
    let page = await browser.get(url);
    for (let pages = 0; pages < 6 && !page.redirected; pages++) {
      const action = page.text.match(/<form[^>]*action="([^"]+)"/)?.[1];
      if (!action) throw new Error(`no form at ${page.url}: ${page.text.slice(0, 500)}`);
      const isLogin = page.text.includes('name="login"');
      if (!isLogin && deny) page = await browser.get(page.text.match(/href="([^"]+\/abort)"/)[1]);
      else page = await browser.post(action, isLogin ? { prompt: 'login', login, password: 'x' } : { prompt: 'consent' });
    }
    return { url: page.redirected, ...Object.fromEntries(new URL(page.redirected).searchParams) };
  }

  // Tokens as the token endpoint returns them, for `connections add`.
  async tokens({ login, client = 'sluice', scope = 'openid offline_access notes.read' } = {}) {
    const verifier = randomBytes(32).toString('base64url');
    const { client_secret, token_endpoint_auth_method: method } = clientOf(client);
    const query = new URLSearchParams({
      response_type: 'code',
      client_id: client,
      redirect_uri: REDIRECT,
      scope,
      state: 's',
      prompt: 'consent',
      code_challenge: createHash('sha256').update(verifier).digest('base64url'),
      code_challenge_method: 'S256',
    });
    const { code } = await this.consent(`${this.url}/auth?${query}`, { login });
    const form = { grant_type: 'authorization_code', code, redirect_uri: REDIRECT, code_verifier: verifier };
    const headers = {};
    if (method === 'client_secret_basic')
      headers.authorization = `Basic ${Buffer.from(`${client}:${client_secret}`).toString('base64')}`;
    else Object.assign(form, { client_id: client, client_secret });
    const reply = await fetch(`${this.url}/token`, { method: 'POST', headers, body: new URLSearchParams(form) });
    const { access_token, refresh_token, expires_in, scope: granted, token_type } = await reply.json();
    return { access_token, refresh_token, expires_in, scope: granted, token_type };
  }

  // Ends the grant, as when a person revokes it at the app.
  async revoke(refreshToken, client = 'sluice') {
    const { client_secret } = clientOf(client);
    const authorization = `Basic ${Buffer.from(`${client}:${client_secret}`).toString('base64')}`;
    const body = new URLSearchParams({ token: refreshToken });
    await fetch(`${this.url}/token/revocation`, { method: 'POST', headers: { authorization }, body });
    const token = await this.provider.RefreshToken.find(refreshToken);
    await token?.destroy();
  }

  letGo() {
    for (const socket of this.hanging) socket.destroy();
    this.hanging.clear();
  }

  async stop() {
    this.letGo();
    this.server.closeAllConnections();
    await new Promise((resolve) => this.server.close(resolve));
  }
}

// Follows redirects, with cookies, until one leads to the client's redirect URI.
class Browser {
  cookies = new Map();

  async #fetch(url, init = {}) {
    const cookie = [...this.cookies].map(([name, value]) => `${name}=${value}`).join('; ');
    const reply = await fetch(url, { ...init, redirect: 'manual', headers: { cookie } });
    for (const line of reply.headers.getSetCookie()) {
      const [, name, value] = line.match(/^([^=]+)=([^;]*)/);
      if (value === '') this.cookies.delete(name);
      else this.cookies.set(name, value);
    }
    const to = reply.headers.get('location');
    if (!to) return { url, text: await reply.text(), status: reply.status };
    const next = new URL(to, url).href;
    return next.startsWith(`${PUBLIC}/`) ? { url, redirected: next } : this.#fetch(next);
  }

  get(url) {
    return this.#fetch(url);
  }

  post(url, fields) {
    return this.#fetch(url, { method: 'POST', body: new URLSearchParams(fields) });
  }
}
