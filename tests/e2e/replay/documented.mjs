// Checks the members of a documented error, so that its source can be found again, and the statuses
// that an app must cover: each has a case, or a line with `none` that says why there is none.
const STATUSES = ['401', '403', '404', '409', '429', '5xx'];
const NONE_KEYS = ['status', 'none', 'source', 'seen', 'quote', 'app', 'line', 'params'];

const statusOf = ({ status }) => (/^5\d\d$/.test(status) ? '5xx' : String(status));

function sourceProblems({ source, seen, quote, none }) {
  const lines = [];
  if (!/^[^\s/:]+\.[^\s/:]+(\/|$)|^recording \S+$|^npm \S+@[\d.]+ \S+$/.test(source ?? ''))
    lines.push('"source" is the address of what was read, without the scheme, "npm name@version file" or "recording <id>"');
  if (!isDay(seen)) lines.push('"seen" is the day on which the source was compared, "2026-11-23"');
  if (none !== undefined && quote === undefined) return lines;
  if (typeof quote !== 'string' || quote.length < 3 || quote.length > 100) lines.push('"quote" is up to 100 characters of the source that show the code or the member');
  return lines;
}

const isDay = (text) => /^\d{4}-\d\d-\d\d$/.test(text ?? '') && new Date(text).toJSON()?.startsWith(text) && new Date(text) <= Date.now();

function noneProblems(one, errors) {
  const lines = sourceProblems(one);
  const odd = Object.keys(one).filter((key) => !NONE_KEYS.includes(key));
  if (odd.length > 0) lines.push(`"${odd[0]}" is not a member of a line with "none"`);
  if (!STATUSES.includes(String(one.status))) lines.push(`"status" of a line with "none" is one of ${STATUSES.join(', ')}`);
  if (typeof one.none !== 'string' || one.none.length < 20) lines.push('"none" says in a sentence why there is no case');
  if (errors.some((each) => statusOf(each) === String(one.status))) lines.push(`there is a case for ${one.status}`);
  return lines;
}

// Returns one line for each problem. errors: the cases of an app. nones: its lines with `none`.
export function documentedProblems(file, errors, nones, isWhole = true) {
  const at = (one, lines) => lines.map((text) => `${file}:${one.line}: ${text}`);
  const spoken = new Set([...errors, ...nones].map(statusOf));
  const silent = isWhole ? STATUSES.filter((status) => !spoken.has(status)) : [];
  return [
    ...errors.flatMap((one) => at(one, sourceProblems(one))),
    ...nones.flatMap((one) => at(one, noneProblems(one, errors))),
    ...silent.map((status) => `${file}: there is no line for ${status}: add a case, or {"status", "none": "why", "source", "seen"}`),
  ];
}
