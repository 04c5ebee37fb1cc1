// `make bench`: the figures of README "Performance", each as a ratio to a limit of this machine that
// is measured in the same repetition, because the machine's speed changes from minute to minute.
//
//   node bench/suite/suite.mjs [--repetitions N] [--seconds S] [--warmup S] [--only NAME|NAME...]
//                              [--flows N] [--pooled N] [--idle N] [--users N] [--out DIR]
//
// Writes report.json to build/bench (or --out): rows of {name, unit, value, base, ratio, ratio_min,
// ratio_max, repetitions}; medians. Exit status 1 where a figure could not be measured.
import { execFileSync } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { cpus } from 'node:os';
import { join } from 'node:path';
import { figures } from './figures.mjs';
import { Stage, root } from './stage.mjs';

const options = { repetitions: 5, seconds: 2, warmup: 1, only: null, flows: 1_000_000, pooled: 500, idle: 5000, users: 20_000, out: join(root, 'build/bench') };
for (let i = 2; i < process.argv.length; i += 2) {
  const [name, value] = [process.argv[i].replace(/^--/, ''), process.argv[i + 1]];
  if (!(name in options) || value === undefined) throw new Error(`unknown option ${process.argv[i]}`);
  options[name] = name === 'only' ? value.split(/[|]|,(?![ \d])/) : name === 'out' ? value : Number(value);
}

const median = (values) => {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
};

function print(rows) {
  const cell = (text, width) => String(text).padStart(width);
  const number = (value) => (value >= 100 ? Math.round(value).toLocaleString('en') : value.toPrecision(3));
  console.log(`\n${'figure'.padEnd(62)}${cell('median', 10)} ${'unit'.padEnd(5)}${cell('ratio', 7)}${cell('min', 7)}${cell('max', 7)}${cell('least', 7)}${cell('aim', 6)}`);
  for (const row of rows) {
    const ratio = row.ratio === null ? ['', '', ''] : [row.ratio, row.ratio_min, row.ratio_max].map((one) => one.toFixed(2));
    const verdict = row.least === undefined ? '' : row.is_met ? 'ok' : 'SHORT';
    console.log(`${row.name.padEnd(62)}${cell(number(row.value), 10)} ${row.unit.padEnd(5)}${ratio.map((one) => cell(one, 7)).join('')}${cell(row.least ?? '', 7)}${cell(row.aim ?? '', 6)} ${verdict}`);
    if (row.note) console.log(`    ${row.note}`);
  }
}

function summarize(figure, samples) {
  const values = samples.map((one) => one.value);
  const ratios = samples.filter((one) => one.base).map((one) => one.value / one.base);
  const row = {
    name: figure.name, unit: figure.unit, value: median(values), base: figure.against ?? null,
    ratio: ratios.length ? median(ratios) : null,
    ratio_min: ratios.length ? Math.min(...ratios) : null,
    ratio_max: ratios.length ? Math.max(...ratios) : null,
    value_min: Math.min(...values), value_max: Math.max(...values),
    repetitions: samples.length, least: figure.least, aim: figure.aim, note: samples.at(-1).note,
  };
  const judged = row.ratio ?? row.value;
  if (figure.least !== undefined) row.is_met = figure.isLess ? judged <= figure.least : judged >= figure.least;
  return row;
}

// Repetitions one after the other, so that a disturbance of the machine affects all figures alike. A
// figure that fails is reported at the end; the others continue.
async function measure(stage, wanted) {
  const samples = new Map(wanted.map((figure) => [figure, []]));
  const failures = [];
  for (let i = 1; i <= options.repetitions; i++) {
    stage.shared = new Map();
    for (const figure of wanted) {
      if (process.stderr.isTTY) process.stderr.write(`\r\x1b[K${i} of ${options.repetitions}: ${figure.name}`);
      try {
        if (!figure.isLast) await stage.revive();
        samples.get(figure).push(await figure.measure(stage));
      } catch (error) {
        const { cause } = error; // of a fetch: why the connection failed
        failures.push(`${figure.name}: ${error.message}${cause ? `: ${cause.code ?? cause.message}` : ''}`);
      }
    }
  }
  if (process.stderr.isTTY) process.stderr.write('\r\x1b[K');
  return { rows: wanted.filter((figure) => samples.get(figure).length > 0).map((figure) => summarize(figure, samples.get(figure))), failures };
}

const wanted = figures.filter((figure) => !options.only || options.only.some((word) => figure.name.includes(word)));
if (wanted.length === 0) throw new Error(`no figure's name has ${options.only}`);
const began = Date.now();
const stage = await Stage.start(options);
const leave = () => stage.stop().finally(() => process.exit(130));
process.once('SIGINT', leave).once('SIGTERM', leave);
try {
  // Figures that fill the tables or the memory come last.
  const rows = [], failures = [];
  for (const isLast of [false, true]) {
    const part = await measure(stage, wanted.filter((figure) => Boolean(figure.isLast) === isLast));
    rows.push(...part.rows);
    failures.push(...part.failures);
  }
  await writeFile(join(options.out, 'report.json'), `${JSON.stringify(rows, null, 1)}\n`);
  const commit = execFileSync('git', ['-C', root, 'rev-parse', '--short', 'HEAD']).toString().trim();
  console.log(`${cpus().length} cores (${cpus()[0]?.model}), which also run PostgreSQL, provider and load; commit ${commit}; ${Math.round((Date.now() - began) / 1000)} s`);
  print(rows);
  for (const failure of failures) console.log(`\nnot measured: ${failure}`);
  if (failures.length) process.exitCode = 1;
  console.log(`\nwritten to ${join(options.out, 'report.json')}; the page of each figure's last run is in the same folder`);
} finally {
  await stage.stop();
}
