// Compares an action of ours with the vendor's machine-readable description (OpenAPI).

const METHODS = ['get', 'put', 'post', 'delete', 'patch'];
const PLACEHOLDER = /\$\{[^}]*\}/g;

export class Description {
  // options: prefix, the start of each path in the vendor's URLs if the servers do not include it;
  // rename, path -> path in the vendor's documentation; credentials, parameters that auth fills in;
  // isCaseIgnored, the case of body fields does not matter; hasScopes, the description has every
  // scope that suffices; isDeep, nested fields are compared, too
  constructor(document, { prefix, rename = (path) => path, credentials = [], isCaseIgnored = false, hasScopes = false, isDeep = false } = {}) {
    this.document = document;
    this.isCaseIgnored = isCaseIgnored;
    this.hasScopes = hasScopes;
    this.isDeep = isDeep;
    this.prefix = (prefix ?? new URL(document.servers[0].url, 'https://h').pathname).replace(/\/$/, '');
    this.operations = Object.entries(document.paths).flatMap(([path, item]) =>
      METHODS.filter((method) => item[method]).map((method) => ({
        method: method.toUpperCase(),
        segments: segmentsOf(this.prefix + rename(path)),
        parameters: [...(item.parameters ?? []), ...(item[method].parameters ?? [])]
          .map((one) => this.resolve(one))
          .filter((one) => !credentials.includes(one.name)),
        node: item[method],
      })));
  }

  resolve(node) {
    for (let hops = 0; node?.$ref && hops < 20; hops++) {
      const keys = node.$ref.slice(2).split('/').map((key) => decodeURIComponent(key).replaceAll('~1', '/').replaceAll('~0', '~'));
      node = keys.reduce((at, key) => at?.[key], this.document);
    }
    return node;
  }

  // The operation that the action calls: method and path are the same, except for the names of
  // placeholders. A placeholder of the description may be a literal in ours ("me" for a user). If
  // several match, the operation with the fewest such placeholders is used.
  find(base, action) {
    const ours = segmentsOf(base + action.request.path.replace(PLACEHOLDER, '{}'));
    const words = (one) => ours.filter((segment, i) => segment !== one.segments[i]).length;
    return this.operations
      .filter((one) => one.method === action.request.method && one.segments.length === ours.length)
      .filter((one) => ours.every((segment, i) => segment === one.segments[i] || (!isOpen(segment) && isOpen(one.segments[i]))))
      .sort((a, b) => words(a) - words(b))[0];
  }

  // {properties: name -> schema, required: [name], open}, over all parts of the schema. For
  // alternatives, properties has those of all of them, and required the members that all of them
  // require.
  shape(schema, depth = 0) {
    const node = this.resolve(schema) ?? {};
    const shape = { properties: { ...node.properties }, required: [...(node.required ?? [])], isOpen: false };
    if (depth > 8) return { ...shape, isOpen: true };
    for (const part of node.allOf ?? []) {
      const { properties, required, isOpen } = this.shape(part, depth + 1);
      Object.assign(shape.properties, properties);
      shape.required.push(...required);
      shape.isOpen ||= isOpen;
    }
    const choices = [...(node.oneOf ?? []), ...(node.anyOf ?? [])].map((part) => this.shape(part, depth + 1));
    for (const { properties, isOpen } of choices) {
      Object.assign(shape.properties, properties);
      shape.isOpen ||= isOpen;
    }
    if (choices.length) shape.required.push(...choices[0].required.filter((name) => choices.every((one) => one.required.includes(name))));
    const isBare = Object.keys(shape.properties).length === 0;
    shape.isOpen ||= isBare || node.additionalProperties === true || typeof node.additionalProperties === 'object';
    return shape;
  }

  body(operation) {
    const body = this.resolve(operation.node.requestBody);
    const types = Object.entries(body?.content ?? {});
    const [, content] = types.find(([type]) => /json/.test(type)) ?? types.find(([type]) => /form/.test(type)) ?? types[0] ?? [];
    if (!content) return undefined;
    const shape = this.shape(content.schema);
    return { ...shape, isOptional: !body.required };
  }
}

const isOpen = (segment) => segment.includes('{');

function segmentsOf(path) {
  return path.split('/').slice(1).map((segment) => segment.replace(/\{[^}]*\}/g, '{}'));
}

// The members of the object that a header contains as `ascii_json({path: input.path, ...})`, each
// as a template.
function headerFields(text) {
  const fields = {};
  let depth = 0;
  for (const [token, name] of text.matchAll(/'[^']*'|"[^"]*"|[{}]|(\w+): ?/g)) {
    if (token === '{') depth++;
    else if (token === '}') depth--;
    else if (name && depth === 2) fields[name] = text.match(new RegExp(`[{ ]${name}: input\\.${name}\\b(?! *[|&])`)) ? `\${input.${name}}` : '${input.x || x}';
  }
  return fields;
}

// The names of the fields that our request sends, each with its template. Undefined if the whole is
// a single template.
function fieldsOf(request) {
  const body = request.body ?? {};
  if (request.headers?.['Dropbox-API-Arg']) return headerFields(request.headers['Dropbox-API-Arg']);
  if (body.multipart) return Object.fromEntries(body.multipart.map(({ name, value }) => [name, value]));
  if (body.form) return body.form;
  return body.json && typeof body.json === 'object' && !Array.isArray(body.json) ? body.json : undefined;
}

// Whether the value is always present: it is constant, or computed from a required input.
function isAlwaysSent(template, schema) {
  const text = JSON.stringify(template);
  const single = typeof template === 'string' && template.match(/^\$\{([^]*)\}$/);
  if (!single) return true;
  const inputs = [...text.matchAll(/\binput\.([A-Za-z_][A-Za-z0-9_]*)/g)].map(([, name]) => name);
  return inputs.length === 0 || inputs.some((name) => (schema.required ?? []).includes(name)) || /\|\|/.test(text);
}

// "line_items[0][price]": a field of line_items.
const plain = (name) => name.replace(/\[.*$/, '');

// Names within `template` that the schema does not define, as paths.
function unknownWithin(description, template, schema, path) {
  const node = description.resolve(schema);
  if (Array.isArray(template)) return node?.items ? template.flatMap((one) => unknownWithin(description, one, node.items, path)) : [];
  if (template === null || typeof template !== 'object') return [];
  const { properties, isOpen } = description.shape(schema);
  const fold = (name) => (description.isCaseIgnored ? name.toLowerCase() : name);
  const known = new Map(Object.entries(properties).map(([name, one]) => [fold(name), one]));
  return Object.entries(template).flatMap(([name, value]) => {
    if (known.has(fold(name))) return unknownWithin(description, value, known.get(fold(name)), `${path}.${name}`);
    return isOpen || Object.keys(properties).length === 0 ? [] : [`${path}.${name}`];
  });
}

// How the action differs from the operation, one per line: names that the operation does not
// define, and required names that are missing.
export function differences(description, base, action) {
  const operation = description.find(base, action);
  if (!operation) return ['path: unknown'];
  const found = [];
  const complain = (place, name, what) => found.push(`${place}: ${name} ${what}`);
  const query = operation.parameters.filter((one) => one.in === 'query');
  const sent = action.request.query ?? {};
  const fields = fieldsOf(action.request);
  const isForm = Boolean(action.request.body?.form ?? action.request.body?.multipart);
  const shape = description.body(operation);
  const fold = (name) => (description.isCaseIgnored ? name.toLowerCase() : name);
  const inBody = new Set(Object.keys(shape?.properties ?? {}).map(fold));
  const inQuery = new Set([...query.flatMap((one) => [one.name, plain(one.name)])]);
  const isInQuery = (name) => inQuery.has(name) || inQuery.has(plain(name));
  const isInBody = (name) => shape.isOpen || inBody.has(fold(name)) || (isForm && inBody.has(fold(plain(name))));
  const value = (of, name) => Object.entries(of ?? {}).find(([one]) => fold(one) === fold(name) || plain(one) === name)?.[1];
  const want = (place, name, template) => {
    if (template === undefined) complain(place, name, 'is required');
    else if (!isAlwaysSent(template, action.input_schema)) complain(place, name, 'may be left out');
  };

  for (const name of Object.keys(sent)) if (!isInQuery(name)) complain('query', name, 'is unknown');
  for (const one of query.filter((each) => each.required)) want('query', one.name, value(sent, one.name) ?? value(fields, one.name));
  for (const name of Object.keys(fields ?? {}))
    if (shape ? !isInBody(name) : !isInQuery(name)) complain('body', name, 'is unknown');
  for (const [name, template] of description.isDeep && shape ? Object.entries(fields ?? {}) : [])
    for (const path of unknownWithin(description, template, value(shape.properties, name), name)) complain('body', path, 'is unknown');
  if (description.hasScopes) {
    const enough = new Set((operation.node.security ?? []).flatMap((one) => Object.values(one).flat()));
    for (const scope of action.scopes ?? []) if (!enough.has(scope)) complain('scopes', scope, 'does not suffice');
    if (enough.size > 0 && !action.scopes?.length) complain('scopes', [...enough].join(' or '), 'is not named');
  }
  const isWhole = action.request.body && !fields;
  const isExpected = shape && !isWhole && (fields || !shape.isOptional);
  for (const name of isExpected ? new Set(shape.required) : [])
    if (action.files?.field !== name) want('body', name, value(fields, name));
  return found;
}
