// Compares the result of a replayed action with its case, and returns one line for each problem.
import Ajv from 'ajv/dist/2020.js';
import { valueAt } from './recordings.mjs';

const ajv = new Ajv({ strict: false, validateFormats: false, allErrors: true });
const schemas = new Map();

export function schemaProblems(schema, value, name) {
  if (!schemas.has(schema)) schemas.set(schema, ajv.compile(schema));
  const validate = schemas.get(schema);
  if (validate(value)) return [];
  return validate.errors.slice(0, 5).map((one) => `${name}${one.instancePath}: ${one.message} ${JSON.stringify(one.params)}`);
}

const show = (value) => {
  const text = value === undefined ? 'nothing' : JSON.stringify(value);
  return text.length > 300 ? `${text.slice(0, 300)}…` : text;
};
const same = (a, b) => JSON.stringify(a) === JSON.stringify(b);

// Finds texts such as "1 records" and "undefined", and sluice's own text where the action should
// have one.
function displayProblems(action, { display }, expected) {
  const { title, summary } = display ?? {};
  if (expected !== undefined) return summary === expected ? [] : [`display.summary: ${show(summary)}, the case says ${show(expected)}`];
  const odd = /\[object|undefined|\bnull\b|\bNaN\b/.test(summary) || /(^|\s)1 \w+[^sui\W]s\b/.test(summary) || / succeeded\.$/.test(summary);
  return !title || !summary || odd ? [`display: ${show({ title, summary })} is not readable for a person`] : [];
}

export function successProblems(action, one, { status, summary }) {
  if (status !== 200 || summary.status !== 'succeeded')
    return [`outcome: ${status} ${summary?.status} ${summary?.error_code}: ${summary?.message}${summary?.hint ? ` (${summary.hint})` : ''}`];
  const lines = action.output_schema ? schemaProblems(action.output_schema, summary.output, 'output') : [];
  for (const [path, expected] of Object.entries(one.output ?? {})) {
    const { value } = valueAt({ output: summary.output }, `output.${path}`);
    if (!same(value, expected)) lines.push(`output.${path}: ${show(value)}, the case says ${show(expected)}`);
  }
  const next = summary.pages?.next ?? null;
  if (!same(next, one.next ?? null)) lines.push(`pages.next: ${show(next)}, the case says ${show(one.next ?? null)}`);
  return [...lines, ...displayProblems(action, summary, one.summary)];
}

// expected: {error_code, retry_after?, hint?, message?, ...}. The reply's Retry-After may be
// slightly below retry_after, since some of the time has passed.
export function errorProblems(expected, { status, headers, summary }) {
  const lines = [];
  if (![409, 500].includes(status) || summary?.error_code !== expected.error_code)
    lines.push(`error_code: ${status} ${summary?.error_code} ${show(summary?.message)}, the case says ${expected.error_code}`);
  const isClock = /\{(epoch|time)\+/.test(JSON.stringify([expected.headers, expected.body]));
  const wait = Number(headers.get('retry-after') ?? NaN);
  if ('retry_after' in expected && !(wait <= expected.retry_after && wait > expected.retry_after - (isClock ? 60 : 1)))
    lines.push(`Retry-After: ${headers.get('retry-after')}, the case says ${expected.retry_after}`);
  // A manifest's hint that quotes the reply is the end of the message.
  const said = { message: summary?.message ?? '', hint: `${summary?.hint ?? ''}\n${summary?.message ?? ''}` };
  for (const part of ['hint', 'message'])
    if (expected[part] && !said[part].includes(expected[part]))
      lines.push(`${part}: ${show(summary?.[part])}, the case says ${show(expected[part])}`);
  if ('reconnect' in expected && Boolean(summary?.recommended_next_action?.input.force_reconnect) !== expected.reconnect)
    lines.push(`recommended_next_action: ${show(summary?.recommended_next_action)}, the case says reconnect ${expected.reconnect}`);
  return lines;
}
