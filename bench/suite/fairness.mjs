// Fairness between two accounts, one of which sends ten times its share. A share is as many
// concurrent requests as the other account has. The median of the account that keeps to its share
// is measured alone, with the other at its share, and with the other at ten times that, in short
// alternating slices, so that a slower machine slows all three. The other account calls the same
// actions of apps with a separate emulated provider, so that calls waiting there do not wait in the
// server.
import { cp, mkdir, readFile, writeFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { Provider, credentials } from '../../tests/e2e/support/stack.mjs';
import { root } from './stage.mjs';
import { connectUsers, fileOf, writeForUsers } from './users.mjs';

const SHARE = 8;
const TIMES = 10;
const SLICES = 3;
const LEAD_S = 0.5; // the other begins this much earlier, and ends this much later
const middle = (values) => values.sort((a, b) => a - b)[values.length >> 1];

const OTHERS = { gmail: 'https://gmail.googleapis.com', notion: 'https://api.notion.com' };
const nameOfOther = (app) => `${app}_other`;
const originOfOther = (app) => `https://${app}.other.test`;

// The apps of the other account: the same manifests, with a separate origin.
async function writeApps(stage) {
  const folder = join(stage.options.out, 'catalog');
  await cp(join(root, 'bench/suite/catalog'), folder, { recursive: true });
  for (const [app, origin] of Object.entries(OTHERS)) {
    const manifest = JSON.parse((await readFile(join(root, `contrib/integrations/${app}.json`), 'utf8')).replaceAll(origin, originOfOther(app)));
    await writeFile(join(folder, `${nameOfOther(app)}.json`), JSON.stringify({ ...manifest, integration_id: nameOfOther(app) }));
  }
  return folder;
}

// The scenario as the other account runs it, for `users` users in turn (0: for itself).
async function scenarioOfOther(stage, scenario, users) {
  const file = fileOf(scenario);
  const other = join(stage.options.out, `other_${basename(file)}`);
  await writeFile(other, Object.keys(OTHERS).reduce((text, app) => text.replaceAll(`"${app}"`, `"${nameOfOther(app)}"`), await readFile(file, 'utf8')));
  return users ? writeForUsers(stage, other, users) : other;
}

// A server with both accounts, each with its own provider.
async function begin(stage) {
  const { stack } = stage;
  const catalog = await writeApps(stage);
  await mkdir(join(stack.dir, 'other'));
  const provider = await Provider.start(join(stack.dir, 'other'));
  const caFile = join(stack.dir, 'other', 'both.pem');
  await writeFile(caFile, Buffer.concat([stack.provider.ca, provider.ca]));
  const other = await stack.account('greedy', { apps: [] });
  for (const app of Object.keys(OTHERS)) await stack.connect(other.id, nameOfOther(app), credentials[app], [], { env: { SLUICE_CATALOG: catalog } });
  const overrides = Object.keys(OTHERS).flatMap((app) => ['--origin-override', `${originOfOther(app)}=${provider.url}`]);
  const serve = () => stage.serve({ catalog, provider: { url: stack.provider.url, caFile }, args: overrides });
  return { provider, other, serve, server: await serve(), stop: () => provider.process.stop() };
}

// {ms, rate, other}: the median of the account that keeps to its share, and both rates.
async function slice(stage, { server, other }, scenario, { connections, users = 0 }) {
  const seconds = Math.ceil(stage.options.seconds / 2);
  const name = `fairness_${connections}_${users}`;
  const load = connections && stage.load(await scenarioOfOther(stage, scenario, users), { server, key: other.key, connections, seconds: seconds + Math.ceil(2 * LEAD_S), warmup: 0, name: `${name}_other` });
  if (load) await pause(1000 * LEAD_S);
  const report = await stage.load(scenario, { server, connections: SHARE, seconds, warmup: 0, name });
  const greedy = load && (await load);
  return { ms: report.latency_us.p50 / 1000, rate: report.per_second, other: greedy ? greedy.per_second : 0 };
}

const ALONE = ['alone', { connections: 0 }];
const BESIDE_ONE = ['beside_one', { connections: SHARE }];
const BESIDE_TEN = ['beside_ten', { connections: SHARE * TIMES }];

// users: the other account at ten times its share sends for so many end users, next to sending for
// itself.
export async function measureFairness(stage, scenario, users = 0) {
  stage.fairness ??= await begin(stage);
  const { fairness } = stage;
  if (!fairness.server.process.isRunning) fairness.server = await fairness.serve();
  for (const app of users > (fairness.users ?? 0) ? Object.keys(OTHERS) : [])
    await connectUsers(fairness.server, fairness.other.key, nameOfOther(app), credentials[app], fairness.users ?? 0, users);
  fairness.users = Math.max(users, fairness.users ?? 0);
  const cases = users ? [ALONE, BESIDE_TEN, ['beside_users', { connections: SHARE * TIMES, users }]] : [ALONE, BESIDE_ONE, BESIDE_TEN];
  const all = Object.fromEntries(cases.map(([name]) => [name, []]));
  for (let i = 0; i < SLICES; i++) for (const [name, load] of cases) all[name].push(await slice(stage, fairness, scenario, load));
  const of = (name, what) => middle(all[name].map((one) => one[what]));
  const notes = cases.map(([name]) => `${name} ${of(name, 'ms').toFixed(2)} ms (${Math.round(of(name, 'rate'))}/s beside ${Math.round(of(name, 'other'))}/s)`);
  const [, [base], [value]] = cases;
  return { value: of(value, 'ms'), base: of(base, 'ms'), note: notes.join(', ') };
}
