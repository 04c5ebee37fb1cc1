// Some recordings have ids that are shorter than the vendor's: whoever recorded them replaced theirs by numbered ones
// and counted too few digits. Manifests ask for ids as the vendor documents them, so a recording is completed as it is
// read: the same id becomes the same longer one in request and reply, other ids stay other ids.

// Of an app: an id as it may be found (its prefix, the rest), and how long the rest is.
const IDS = {
  // A page's token is "PA" before the SID that it begins with.
  twilio: { id: /(?<![A-Za-z0-9])((?:PA)?[A-Z]{2})([0-9a-f]{20,31})(?![A-Za-z0-9])/g, length: 32 },
  // No word of a scope or a text: those have no digits.
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

// The recording with ids as long as the vendor's; names of members stay.
export function completed(app, recording) {
  const ids = IDS[app];
  if (!ids) return recording;
  const [path, query, body, reply] = ['path', 'query', 'body', 'reply'].map((name) => inValue(recording[name], ids));
  return { ...recording, path, query, body, reply };
}
