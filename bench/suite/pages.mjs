// The dashboard's pages in a large account: 100,000 flows, as many executions, and a catalog of 200
// apps, 120 of them connected. The server's own metric gives the time of each route, which must be
// short for 99 in 100 requests. Requests are made one at a time, each page after another, by
// sluice-bench, since a client in Node.js would use more of the server's processors than a page.
// The overview's sums of past periods are cached; the note also has the time without the cache.
// Uses a separate database, since other figures empty or fill theirs.
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { until } from '../../tests/e2e/support/client.mjs';
import { p99, shareAbove } from '../../tests/e2e/support/histogram.mjs';
import { must } from '../../tests/e2e/support/process.mjs';
import { makePartition } from '../../tests/e2e/support/partition.mjs';
import { Pages } from '../../tests/e2e/support/pages.mjs';
import { Stack } from '../../tests/e2e/support/stack.mjs';
import { copyFlow } from '../../tests/e2e/support/waiting.mjs';
import { root } from './stage.mjs';

const ROWS = 100_000; // flows, and executions; fewer where --flows is
const [APPS, CONNECTED, WAITING] = [200, 120, 100];
const STEP_MS = 750; // between two executions: they fill some 21 hours
const DAYS = 30; // of which there are partitions, as where a server has run so long
const LIMIT_MS = 5; // a bound of the metric's buckets
const SECONDS = 4; // for each second that other figures measure
const STEPS = 10; // of a scenario of sluice-bench, which has one of them for each operation
const TASK_PARENT = { page_id: '1c5f7a3e-9b24-4d68-8f0a-6e2d4c8b9a10' };

const idOf = (n) => `app_${String(n).padStart(3, '0')}`;

// Apps like the tests' own, in ten categories.
async function writeCatalog(folder) {
  const model = JSON.parse(await readFile(join(root, 'tests/e2e/support/catalog/probe.json'), 'utf8'));
  await mkdir(folder);
  for (let n = 1; n <= APPS; n++)
    await writeFile(join(folder, `${idOf(n)}.json`), JSON.stringify({ ...model, integration_id: idOf(n), name: `App ${n}`, category: `kind ${n % 10}` }));
}

// n counts them.
const copies = (table, id, numbers, members) => `insert into sluice.${table} select copy.* from ${numbers} n, sluice.${table} old,
  lateral json_populate_record(old, json_build_object(${members})) copy where old.id = '${id}'`;

// Rows for what the dashboard shows: copies of rows that the server itself has made. The use of
// apps is uneven: the first app has a tenth of all calls, and each next app has fewer.
async function fill(stack, account, rows, { connection, run, failed, done, waiting }) {
  const fresh = (n, salt) => `(lpad(to_hex((extract(epoch from now()) * 1000)::bigint - ${n} * ${STEP_MS}), 12, '0') || '7${salt}008000' || lpad(to_hex(${n}), 12, '0'))::uuid`;
  const app = `'app_' || lpad((1 + floor(${CONNECTED} * power((n * 7919 % 10007) / 10007.0, 2)))::text, 3, '0')`;
  const runs = (id, numbers, salt) => copies('execution', id, numbers, `'id', ${fresh('n', salt)}, 'integration_id', ${app},
    'started_at', now() - n * interval '${STEP_MS} ms', 'finished_at', now() - n * interval '${STEP_MS} ms' + interval '80 ms'`);
  // as housekeeping would have merged them by then (src/store/tally.c)
  const isOld = `started_at < date_bin('1 hour', now(), 'epoch') - interval '2 hours'`;
  for (let day = 2; day <= DAYS; day++)
    for (const table of ['execution', 'audit_event', 'flow_doc', 'flow_step', 'flow_item']) await makePartition(stack, table, Date.now() - day * 86_400_000);
  await copyFlow(stack, done, rows - WAITING, WAITING + 1);
  await copyFlow(stack, waiting, WAITING, 1);
  await stack.cluster.sql(`
    ${copies('connection', connection, `generate_series(2, ${CONNECTED})`, "'id', old.id + n, 'integration_id', 'app_' || lpad(n::text, 3, '0'), 'label', 'person' || n || '@example.com'")};
    ${runs(run, `generate_series(1, ${rows})`, 0)} and n % 50 <> 0;
    ${runs(failed, `generate_series(50, ${rows}, 50)`, 1)};
    insert into sluice.tally (account_id, slot, integration_id, action_id, outcome, error_code, is_hour, calls, ms_sum, buckets)
      select account_id, case when ${isOld} then date_bin('1 hour', started_at, 'epoch') else date_bin('5 min', started_at, 'epoch') end, integration_id, action_id, status, coalesce(error_code, ''),
        ${isOld}, count(*), count(*) * 80, array[0, 0, 0, 0, count(*), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]
      from sluice.execution where account_id = '${account.id}' group by 1, 2, 3, 4, 5, 6, 7 on conflict do nothing`);
  await stack.cluster.sql('vacuum analyze');
  // so that no request waits for the writes that filling has left, as in other figures
  await stack.cluster.sql('checkpoint');
  await must('sync', []);
}

async function begin(stage) {
  const stack = await Stack.start({ postgres: { fsync: 'on' } });
  stage.pages = { stack };
  const catalog = join(stack.dir, 'apps');
  await writeCatalog(catalog);
  const env = { SLUICE_CATALOG: catalog, SLUICE_TURN_CPU_MS_MAX: '' };
  const account = await stack.account('pages', { apps: ['gmail', 'notion'] });
  const connection = await stack.connect(account.id, idOf(1), { token: 'ya29.demo-gmail-full' }, [], { env });
  const server = await stack.serve({ env });
  const call = async (path, body, status) => {
    const reply = await server.call(account.key, 'POST', path, body);
    if (reply.status !== status) throw new Error(reply.text);
    return reply.json;
  };
  const start = async (flowTemplate, input, wanted) => {
    const { flowId } = await call('/api/flows/start', { flowTemplate, input }, 200);
    await until(`it is ${wanted}`, async () => (await server.call(account.key, 'GET', `/api/flows/${flowId}`)).json.flow.status === wanted);
    return flowId;
  };
  const run = async (id, status) => (await call('/api/executions', { integration_id: idOf(1), action_id: 'read_label', input: { id } }, status)).execution_id;
  const made = {
    connection, run: await run('INBOX', 200), failed: await run('none', 500),
    done: await start('unread_mail_summary', { maxResults: 3 }, 'completed'),
    waiting: await start('unread_mail_to_tasks', { maxResults: 2, taskParent: TASK_PARENT }, 'waiting'),
  };
  await fill(stack, account, Math.min(stage.options.flows, ROWS), made);
  const [key] = JSON.parse(await stack.must(['keys', 'list', account.id, '--json']));
  const person = new Pages(server.base);
  await person.signIn(account.key);
  const paths = ['/', '/?hours=1', '/?hours=168', '/?hours=720', '/approvals', '/approvals?from=80', '/flows', '/flows?status=waiting', '/flows?status=completed', '/flows?template=unread_mail_to_tasks', '/flows/new',
    '/flows/new?template=unread_mail_to_tasks', `/flows/${made.done}`, `/flows/${made.waiting}`, `/flows/${made.waiting}/cancel`, '/executions', '/executions?status=failed', '/executions?status=blocked',
    `/executions?app=${idOf(1)}`, `/executions?app=${idOf(CONNECTED)}`, '/executions?code=execution_failed', '/executions?action=send', `/executions/${made.run}`, '/integrations', '/integrations?q=label',
    `/integrations/${idOf(1)}`, `/integrations/${idOf(APPS)}`, `/integrations/${idOf(1)}/actions/send`, '/connections', `/connections/${connection}`, `/connections/${connection}/delete`,
    '/keys', `/keys/${key.id}/revoke`, '/audit', '/audit?kind=flow', '/docs', '/docs/createExecution'];
  Object.assign(stage.pages, { server, person, paths });
}

// The pages in rotation, as a mix of scenarios.
async function writeScenarios(folder, paths, cookie) {
  const headers = { cookie, 'sec-fetch-site': 'same-origin', 'accept-encoding': 'gzip' };
  const files = [];
  for (let at = 0; at < paths.length; at += STEPS) {
    const steps = paths.slice(at, at + STEPS).map((path) => ({ method: 'GET', path, headers }));
    files.push(join(folder, `pages_${at}.json`));
    await writeFile(files.at(-1), JSON.stringify({ name: `pages_${at}`, description: 'pages of the dashboard', steps }));
  }
  return files.join(',');
}

// {value, note}: milliseconds of the slowest route, and of each
export async function measurePages(stage) {
  if (!stage.pages?.paths) await begin(stage);
  const { stack, server, person, paths } = stage.pages;
  const began = process.hrtime.bigint();
  const { status, text } = await person.ask('/');
  if (status !== 200) throw new Error(text);
  const first = Number(process.hrtime.bigint() - began) / 1e6;
  const scenarios = await writeScenarios(stack.dir, paths, person.cookie);
  const load = (seconds) => stage.load(scenarios, { base: server.base, connections: 1, warmup: 0, seconds, name: 'pages' });
  // each of the readers prepares a statement, and plans it some five times before it keeps a plan
  await load(Math.max(1, SECONDS * stage.options.warmup));
  const before = await server.metrics();
  await load(SECONDS * stage.options.seconds);
  const after = await server.metrics();
  const slowest = (found, by) => Object.entries(found('sluice_web_request_seconds', after, before, LIMIT_MS / 1000)).map(([route, one]) => [route, by * one]).sort((a, b) => b[1] - a[1]);
  const list = (routes, unit) => routes.map(([route, one]) => `${route} ${one.toFixed(1)}${unit}`).join(', ');
  const routes = slowest(p99, 1000);
  return { value: routes[0][1], note: `ms by route: ${list(routes, '')}; over ${LIMIT_MS} ms: ${list(slowest(shareAbove, 100).slice(0, 3), ' %')}; the first overview took ${first.toFixed(0)}` };
}
