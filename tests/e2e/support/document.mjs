// The API document allows more members in every reply, so that generated clients still work when a
// member is added. The tests compare replies with a copy that allows no further members: a member
// that the document does not list is an error.

// The schema, response or other object that a node contains or refers to.
export function resolve(document, node) {
  if (typeof node?.$ref !== 'string') return node;
  const keys = node.$ref.slice(2).split('/');
  return keys.reduce((at, key) => at[key.replaceAll('~1', '/').replaceAll('~0', '~')], document);
}

export const isObject = (schema) => [schema.type].flat().includes('object');

// A schema and every schema inside it, each once. seen: schemas that have already been returned.
export function* schemasIn(document, schema, seen = new Set()) {
  const found = resolve(document, schema);
  if (typeof found !== 'object' || seen.has(found)) return;
  seen.add(found);
  yield found;
  const { properties = {}, items, additionalProperties, allOf = [], anyOf = [], oneOf = [] } = found;
  const inside = [...Object.values(properties), ...allOf, ...anyOf, ...oneOf, found.if, found.then, found.else];
  for (const one of [...inside, items, additionalProperties]) if (one) yield* schemasIn(document, one, seen);
}

// Every operation: {path, method, operation}.
export function operations(document) {
  return Object.entries(document.paths).flatMap(([path, item]) =>
    Object.entries(item).map(([method, operation]) => ({ path, method, operation })));
}

// Every reply in the document, each once: {name, response}.
export function responses(document) {
  const found = new Map();
  const add = (name, list) => {
    for (const [status, one] of Object.entries(list)) found.set(resolve(document, one), `${name} ${status}`);
  };
  for (const { path, method, operation } of operations(document)) add(`${method} ${path}`, operation.responses);
  add('any path', document['x-any-path'].responses);
  add('component', document.components.responses);
  return [...found].map(([response, name]) => ({ name, response }));
}

// Every schema of a JSON reply.
export function* replySchemas(document) {
  const seen = new Set();
  for (const { response } of responses(document))
    for (const { schema } of Object.values(response.content ?? {})) yield* schemasIn(document, schema, seen);
}

// Every schema of a request's body.
export function* requestSchemas(document) {
  const seen = new Set();
  for (const { operation } of operations(document))
    for (const { schema } of Object.values(operation.requestBody?.content ?? {})) yield* schemasIn(document, schema, seen);
}

// A copy in which no reply allows a member that is not listed. A schema that allOf or if adds to
// another schema has no type of its own and stays open: the other schema is closed. The schema of
// an event stream describes each event's data, as client generators expect. The whole stream is
// text.
export function closed(document) {
  const copy = structuredClone(document);
  for (const schema of replySchemas(copy))
    if (isObject(schema) && schema.properties) schema.additionalProperties ??= false;
  for (const { response } of responses(copy))
    if (response.content?.['text/event-stream']) response.content['text/event-stream'] = { schema: { type: 'string' } };
  return copy;
}
