// Finds what a case copies from its recordings instead of naming it: ids, and texts of three or
// more words. A word that anyone could have made up may occur in both.
const leavesOf = (value, at, out = []) => {
  if (value === null || typeof value !== 'object') out.push([at, value]);
  else for (const [key, one] of Object.entries(value)) leavesOf(one, `${at}.${key}`, out);
  return out;
};

const count = (text, pattern) => (text.match(pattern) ?? []).length;

function isId(token) {
  if (/^\d{4}-\d\d(-\d\d|$)/.test(token)) return false;
  if (/^-?\d+$/.test(token)) return token.length >= 6;
  const digits = count(token, /\d/g);
  return digits > 0 && (token.length >= 12 ? digits >= 2 : token.length >= 8 && digits >= 3);
}

const isProse = (text) => /\S\s+\S+\s+\S/.test(text);
const isMail = (text) => /^[^@\s]+@[^@\s]+$/.test(text) && !/@example\.(com|org|net)$/.test(text);

function decoded(text) {
  try {
    return decodeURIComponent(text.replace(/\+/g, ' '));
  } catch {
    return text;
  }
}

// The values of a form that was recorded as text, or the text.
const formValues = (body) => (typeof body === 'string' && /^[^=&\s{]+=/.test(body) ? body.split(/[&=]/) : body);

// All values of a recording: the whole values, and the text in which ids are searched.
function contentOf({ path, query, body, reply }) {
  const values = leavesOf([path.split('/'), query ?? null, formValues(body) ?? null, reply ?? null], '').map(([, value]) => decoded(String(value)));
  return { whole: new Set(values), text: values.join('\n') };
}

// The parts of one value that also occur in a recording.
function copiesIn(value, { whole, text }, isWhole) {
  const own = String(value);
  if (isWhole && (isProse(own) || isMail(own)) && whole.has(own)) return [own];
  return (own.match(/[\w-]{6,}/g) ?? []).filter((token) => isId(token) && text.includes(token));
}

const PLACES = ['input', 'params', 'next', 'output', 'differs', 'summary', 'message', 'hint', 'body', 'headers'];

// A line for each place where a case contains a value of one of the recordings.
export function copiedProblems(file, one, recordings) {
  const contents = recordings.map(contentOf);
  const lines = [];
  for (const place of PLACES)
    for (const [at, value] of leavesOf(one[place] ?? null, place)) {
      if (/\.(\$|part|as|why|at)$/.test(at) || value === null) continue;
      for (const copy of new Set(contents.flatMap((content) => copiesIn(value, content, !/^(summary|message|hint)$/.test(place)))))
        lines.push(`${file}:${one.line}: ${at}: ${JSON.stringify(copy)} is copied from the recording: name it, {"$": "path[-1]"}`);
    }
  return lines;
}
