// One account beside another that asks for ten times its share. A share is as many requests at a time as
// the other has; the median of who keeps to it is taken alone, beside one at its share, and beside one at
// ten times that, in turn by slices, so that what the machine loses meanwhile meets all alike.
import { setTimeout as pause } from 'node:timers/promises';

const SHARE = 8;
const TIMES = 10;
const SLICES = 3;
const LEAD_S = 0.5; // by which the other begins before, and ends behind
const middle = (values) => values.sort((a, b) => a - b)[values.length >> 1];

// {alone, beside_one, beside_ten}: medians in ms.
async function slice(stage, scenario, other, connections) {
  const seconds = Math.ceil(stage.options.seconds / 2);
  const name = `fairness_${connections}`;
  const load = connections && stage.load(scenario, { key: other.key, connections, seconds: seconds + Math.ceil(2 * LEAD_S), warmup: 0, name: `${name}_other` });
  if (load) await pause(1000 * LEAD_S);
  const report = await stage.load(scenario, { connections: SHARE, seconds, warmup: 0, name });
  const beside = load && (await load);
  return { ms: report.latency_us.p50 / 1000, rate: report.per_second, other: beside ? beside.per_second : 0 };
}

export async function measureFairness(stage, scenario) {
  stage.greedy ??= await stage.stack.account('greedy', { apps: ['gmail', 'notion'] });
  const cases = [['alone', 0], ['beside_one', SHARE], ['beside_ten', SHARE * TIMES]];
  const all = Object.fromEntries(cases.map(([name]) => [name, []]));
  for (let i = 0; i < SLICES; i++) for (const [name, connections] of cases) all[name].push(await slice(stage, scenario, stage.greedy, connections));
  const of = (name, what) => middle(all[name].map((one) => one[what]));
  const told = cases.map(([name]) => `${name} ${of(name, 'ms').toFixed(2)} ms (${Math.round(of(name, 'rate'))}/s beside ${Math.round(of(name, 'other'))}/s)`);
  return { value: of('beside_ten', 'ms'), base: of('beside_one', 'ms'), note: told.join(', ') };
}
