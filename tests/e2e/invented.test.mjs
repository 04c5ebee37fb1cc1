// An app that does not exist: six actions written from contrib/integrations/README.md alone, by whoever knows no other
// manifest. It passes lint as it was written, and runs against a server of that app.
import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { Stack } from './support/stack.mjs';

const KEY = 'sentinel-shelf-key-3141';
const properties = (all) => ({ type: 'object', additionalProperties: false, properties: all });
const book = { type: 'string', description: 'The book, as list_books names it.', minLength: 1 };

const manifest = (origin) => ({
  integration_id: 'bookshelf',
  name: 'Bookshelf',
  description: 'Books of a small library: what is there, what it costs, and covers.',
  category: 'library',
  tags: ['books'],
  base_url: origin,
  headers: { 'X-Api-Version': '3' },
  auth: { type: 'api_key', send: { in: 'header', name: 'X-Shelf-Key', value: '${credential.api_key}' }, test: { method: 'GET', path: '/me' } },
  identity: { request: { method: 'GET', path: '/me' }, email: 'body.mail', subject: 'body.id' },
  limits: { rate_per_s: 50, rate_limited: [{ when: 'status == `420`', retry_after: 'body.wait' }] },
  errors: [
    { when: 'status == `401`', error_code: 'unauthorized', message: '${integration.name} refused the key.' },
    { when: 'status == `404`', error_code: 'execution_failed', message: 'No such book: ${body.why}', hint: 'List the books again.' },
    { when: 'body.why', on_success: true, message: 'Bookshelf: ${body.why}' },
  ],
  actions: [
    {
      action_id: 'list_books',
      title: 'List books',
      description: 'The books, a page at a time.',
      side_effect_level: 'read',
      input_schema: properties({ page: { type: 'integer', description: 'The page.', minimum: 1 } }),
      request: { method: 'GET', path: '/books', query: { page: '${input.page}' } },
      response: { kind: 'array', pagination: { kind: 'link', input: 'page' } },
      display: { title: 'Books listed', summary: "${counted(output, 'book')}" },
      examples: [{ title: 'The first page', input: {} }],
    },
    {
      action_id: 'find_books',
      title: 'Find books',
      description: 'Books with a word in their title.',
      side_effect_level: 'read',
      input_schema: { ...properties({ word: { type: 'string', description: 'The word.', minLength: 1 }, cursor: { type: 'string', description: 'Of the page before.' } }), required: ['word'] },
      request: {
        method: 'POST',
        path: '/search',
        body: { json: { word: '${input.word}' } },
        instead: [{ when: 'input.cursor', path: '/search/${input.cursor}', body: null }],
      },
      response: { output: 'body.found[].title', required: ['body.found'], pagination: { kind: 'url', next: 'body.next', input: 'cursor', tail: '/search/*' } },
      display: { title: 'Books found', summary: "${counted(output, 'book')}" },
      examples: [{ title: 'By a word', input: { word: 'sea' } }],
    },
    {
      action_id: 'get_book',
      title: 'Get a book',
      description: 'One book, with what it costs.',
      side_effect_level: 'read',
      input_schema: { ...properties({ book }), required: ['book'] },
      request: { method: 'GET', path: '/books/${input.book}' },
      response: { kind: 'object' },
      display: { title: '${output.title}', summary: '${output.title}, ${money(output.price, output.currency)}' },
      examples: [{ title: 'One', input: { book: 'b1' } }],
    },
    {
      action_id: 'add_book',
      title: 'Add a book',
      description: 'Adds a book and gives it back.',
      side_effect_level: 'write',
      idempotency_header: 'Idempotency-Key',
      input_schema: { ...properties({ title: { type: 'string', description: 'Its title.', minLength: 1 }, shelves: { type: 'array', items: { type: 'string' }, description: 'Where it stands.' } }), required: ['title'] },
      request: { method: 'POST', path: '/books', nesting: 'brackets', body: { form: { title: '${input.title}', shelf: '${input.shelves}' } } },
      response: { required: ['body.id'] },
      display: { title: 'Book added', summary: 'Added ${output.title}' },
      examples: [{ title: 'One', input: { title: 'By the sea' } }],
    },
    {
      action_id: 'set_cover',
      title: 'Set a cover',
      description: 'Puts a picture on a book.',
      side_effect_level: 'write',
      idempotent: true,
      input_schema: { ...properties({ book }), required: ['book'] },
      request: { method: 'PUT', base_url: origin.replace('127.0.0.1', 'localhost'), path: '/covers/${input.book}' },
      files: { travel: 'raw', count_max: 1 },
      response: { body: 'none' },
      display: { title: 'Cover set', summary: 'The cover of ${input.book} is set.' },
      examples: [{ title: 'Of one', input: { book: 'b1' } }],
    },
    {
      action_id: 'remove_book',
      title: 'Remove a book',
      description: 'Removes a book for good.',
      side_effect_level: 'delete',
      idempotent: true,
      input_schema: { ...properties({ book }), required: ['book'] },
      request: { method: 'DELETE', path: '/books/${input.book}' },
      response: { body: 'none' },
      display: { title: 'Book removed', summary: 'Removed ${input.book}' },
      examples: [{ title: 'One', input: { book: 'b1' } }],
    },
  ],
});

// The app itself.
const seen = [];
const pages = { 1: ['a', 'b'], 2: ['c'] };
async function serve(request, response) {
  const url = new URL(request.url, 'http://shelf');
  const parts = [];
  for await (const part of request) parts.push(part);
  const body = Buffer.concat(parts).toString();
  seen.push({ method: request.method, url: request.url, host: request.headers.host, body, headers: request.headers });
  const answer = (status, value, headers = {}) => response.writeHead(status, { 'content-type': 'application/json', ...headers }).end(value === undefined ? '' : JSON.stringify(value));
  if (request.headers['x-shelf-key'] !== KEY) return answer(401, { why: 'unknown key' });
  if (url.pathname === '/me') return answer(200, { id: 7, mail: 'reader@example.com' });
  const page = Number(url.searchParams.get('page') ?? 1);
  if (request.method === 'GET' && url.pathname === '/books')
    return answer(200, pages[page].map((title) => ({ title })), page === 1 ? { link: `<https://elsewhere.example/books?page=2&x=1>; rel="next"` } : {});
  if (url.pathname === '/search') return answer(200, { found: [{ title: JSON.parse(body).word }], next: '/v3/search/c%2F2' });
  if (url.pathname === '/search/c%2F2') return answer(200, { found: [{ title: 'more' }] });
  if (url.pathname === '/books/b1' && request.method === 'GET') return answer(200, { title: 'By the sea', price: 1250, currency: 'eur' });
  if (url.pathname === '/books/busy') return answer(420, { wait: 7, why: 'slow down' });
  if (url.pathname === '/books/odd') return answer(200, { why: 'out of order' });
  if (request.method === 'POST') return answer(201, { id: 'b9', title: new URLSearchParams(body).get('title') });
  if (request.method === 'PUT' || (request.method === 'DELETE' && url.pathname === '/books/b1')) return answer(204);
  return answer(404, { why: 'not on the shelf' });
}

let stack, server, account, app, file;
before(async () => {
  app = createServer(serve);
  await new Promise((resolve) => app.listen(0, resolve));
  stack = await Stack.start({ provider: false });
  const dir = join(stack.dir, 'catalog');
  file = join(dir, 'bookshelf.json');
  await mkdir(dir);
  await writeFile(file, JSON.stringify(manifest(`http://127.0.0.1:${app.address().port}`), null, 2));
});
after(async () => {
  app?.closeAllConnections();
  app?.close();
  await stack?.stopWell(assert);
});

const run = (action, input, more) => server.execute(account.key, 'bookshelf', action, input, more);

test('lint has nothing to say', async () => {
  const said = await stack.sluice(['catalog', 'lint', file]);
  assert.deepEqual([said.code, said.stdout, said.stderr], [0, '1 integration, 6 actions, 0 warnings: fine\n', '']);
});

test('it runs', async () => {
  const options = { env: { SLUICE_CATALOG: join(stack.dir, 'catalog') } };
  account = await stack.account('reader', { apps: [] });
  await stack.connect(account.id, 'bookshelf', { api_key: KEY }, [], options);
  server = await stack.serve({ ...options, args: ['--allow-host', '127.0.0.1', '--allow-host', 'localhost'] });
  const first = (await run('list_books', {})).json;
  assert.deepEqual([first.output, first.pages, first.display.summary], [[{ title: 'a' }, { title: 'b' }], { read: 1, next: { page: 2 } }, '2 books']);
  const all = (await run('list_books', {}, { max_pages: 5 })).json;
  assert.deepEqual([all.output.length, all.pages, all.display.summary], [3, { read: 2, next: null }, '3 books']);
  const found = (await run('find_books', { word: 'sea' }, { max_pages: 5 })).json;
  assert.deepEqual([found.output, found.pages], [['sea', 'more'], { read: 2, next: null }]);
  assert.equal((await run('get_book', { book: 'b1' })).json.display.summary, 'By the sea, 12.50 EUR');
  const added = (await run('add_book', { title: 'New', shelves: ['x', 'y'] }, { confirm: true })).json;
  assert.equal(added.display.summary, 'Added New');
  assert.deepEqual([seen.at(-1).body, seen.at(-1).headers['x-api-version']], ['title=New&shelf%5B%5D=x&shelf%5B%5D=y', '3']);
  assert.ok(seen.at(-1).headers['idempotency-key']);
  const cover = await server.call(account.key, 'POST', '/api/tools/bookshelf_set_cover/execute', { arguments: { book: 'b1' }, confirmed: true, files: [{ name: 'c.png', contentType: 'image/png', data: Buffer.from('png').toString('base64') }] });
  assert.equal(cover.json.ok, true, cover.text);
  assert.deepEqual([seen.at(-1).body, seen.at(-1).headers['content-type'], seen.at(-1).host.split(':')[0]], ['png', 'image/png', 'localhost']);
  assert.equal((await run('remove_book', { book: 'b1' }, { confirm: true })).json.status, 'succeeded');
});

test('its errors are told as the manifest says', async () => {
  const gone = (await run('get_book', { book: 'zz' })).json;
  assert.deepEqual([gone.error_code, gone.hint], ['execution_failed', 'List the books again.']);
  assert.match(gone.message, /No such book: not on the shelf/);
  const busy = await run('get_book', { book: 'busy' });
  assert.deepEqual([busy.json.error_code, busy.headers.get?.('retry-after') ?? busy.headers['retry-after']], ['rate_limited', '7']);
  assert.match((await run('get_book', { book: 'odd' })).json.message, /Bookshelf: out of order/);
  assert.equal((await run('get_book', {})).json.error_code, 'validation_error');
  assert.equal((await run('remove_book', { book: 'b1' })).json.error_code, 'policy_blocked');
  const detail = (await server.call(account.key, 'GET', '/api/actions/bookshelf/set_cover')).json;
  assert.deepEqual(detail.files, { travel: 'raw', field: null, count_max: 1, bytes_max: null });
});
