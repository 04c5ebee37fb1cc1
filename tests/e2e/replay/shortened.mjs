// Some recordings have ids that are shorter than the vendor's: their author replaced the real ids
// with numbers that have too few digits. Manifests require ids as the vendor documents them, so
// reading a recording completes its ids: an id becomes the same longer id in request and reply, and
// different ids stay different.

// The pattern of an id (its prefix and the rest) in each app, and the length of the rest.
const IDS = {
  // The token of a page is "PA" and the SID with which the page begins.
  twilio: { id: /(?<![A-Za-z0-9])((?:PA)?[A-Z]{2})([0-9a-f]{20,31})(?![A-Za-z0-9])/g, length: 32 },
  // Requires a digit, because words in a scope or a text have none.
  airtable: { id: /(?<![A-Za-z0-9])(app|tbl|rec|fld|viw|wsp|com|usr)(?=[A-Za-z]*[0-9])([A-Za-z0-9]{10,13})(?![A-Za-z0-9])/g, length: 14 },
};

export const shorteningApps = Object.keys(IDS);

const inText = (text, { id, length }) => text.replace(id, (_, prefix, rest) => prefix + rest.padStart(length, '0'));

function inValue(value, ids) {
  if (typeof value === 'string') return inText(value, ids);
  if (Array.isArray(value)) return value.map((one) => inValue(one, ids));
  if (value === null || typeof value !== 'object') return value;
  return Object.fromEntries(Object.entries(value).map(([key, one]) => [key, inValue(one, ids)]));
}

// The recording with ids of the vendor's length. Names of members are unchanged.
export function completed(app, recording) {
  const ids = IDS[app];
  if (!ids) return recording;
  const [path, query, body, reply] = ['path', 'query', 'body', 'reply'].map((name) => inValue(recording[name], ids));
  return { ...recording, path, query, body, reply };
}
