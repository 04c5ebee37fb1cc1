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

// The scenario as the other account runs it.
async function scenarioOfOther(stage, scenario) {
  const file = scenario.endsWith('.json') ? scenario : join(root, `bench/scenarios/${scenario}.json`);
  const other = join(stage.options.out, `other_${basename(file)}`);
  await writeFile(other, Object.keys(OTHERS).reduce((text, app) => text.replaceAll(`"${app}"`, `"${nameOfOther(app)}"`), await readFile(file, 'utf8')));
  return other;
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
async function slice(stage, { server, other }, scenario, connections) {
  const seconds = Math.ceil(stage.options.seconds / 2);
  const name = `fairness_${connections}`;
  const load = connections && stage.load(await scenarioOfOther(stage, scenario), { server, key: other.key, connections, seconds: seconds + Math.ceil(2 * LEAD_S), warmup: 0, name: `${name}_other` });
  if (load) await pause(1000 * LEAD_S);
  const report = await stage.load(scenario, { server, connections: SHARE, seconds, warmup: 0, name });
  const greedy = load && (await load);
  return { ms: report.latency_us.p50 / 1000, rate: report.per_second, other: greedy ? greedy.per_second : 0 };
}

export async function measureFairness(stage, scenario) {
  stage.fairness ??= await begin(stage);
  if (!stage.fairness.server.process.isRunning) stage.fairness.server = await stage.fairness.serve();
  const cases = [['alone', 0], ['beside_one', SHARE], ['beside_ten', SHARE * TIMES]];
  const all = Object.fromEntries(cases.map(([name]) => [name, []]));
  for (let i = 0; i < SLICES; i++) for (const [name, connections] of cases) all[name].push(await slice(stage, stage.fairness, scenario, connections));
  const of = (name, what) => middle(all[name].map((one) => one[what]));
  const notes = cases.map(([name]) => `${name} ${of(name, 'ms').toFixed(2)} ms (${Math.round(of(name, 'rate'))}/s beside ${Math.round(of(name, 'other'))}/s)`);
  return { value: of('beside_ten', 'ms'), base: of('beside_one', 'ms'), note: notes.join(', ') };
}
