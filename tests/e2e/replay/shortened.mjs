// Some recordings have ids that are shorter than the vendor's: their author replaced the real ids
// by numbers with too few digits. Manifests require ids as the vendor documents them, so a
// recording is completed when it is read: an id becomes the same longer id in request and reply,
// and different ids stay different.

// For each app: the pattern of an id (its prefix, the rest), and how long the rest is.
const IDS = {
  // A page's token is "PA" before the SID that it begins with.
  twilio: { id: /(?<![A-Za-z0-9])((?:PA)?[A-Z]{2})([0-9a-f]{20,31})(?![A-Za-z0-9])/g, length: 32 },
  // Not a word of a scope or a text: those have no digits.
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

// The recording with ids of the vendor's length. Names of members stay.
export function completed(app, recording) {
  const ids = IDS[app];
  if (!ids) return recording;
  const [path, query, body, reply] = ['path', 'query', 'body', 'reply'].map((name) => inValue(recording[name], ids));
  return { ...recording, path, query, body, reply };
}
