// Reasons for which clients of models drop or refuse a tool: Claude Code leaves out a tool whose
// schema has anyOf, oneOf, allOf or not at its top. OpenAI refuses an array without items and a
// description over 1,024 characters. Anthropic refuses a property whose name has other characters.
// Few clients follow a $ref.
const TOP = ['type', 'properties', 'required', 'additionalProperties'];
const TEXT_MAX = 1000;
const MAPS = ['properties', 'patternProperties', 'dependentSchemas'];
const LISTS = ['anyOf', 'oneOf', 'allOf', 'prefixItems'];
const ONE = ['items', 'additionalProperties', 'not', 'if', 'then', 'else', 'contains', 'propertyNames', 'unevaluatedItems', 'unevaluatedProperties'];

const isTyped = (schema) =>
  Boolean(schema.type ?? schema.enum ?? schema.const) || ['anyOf', 'oneOf'].some((key) => schema[key]?.every(isTyped));

function* below(schema, at) {
  if (typeof schema !== 'object') return;
  for (const key of Object.keys(schema)) if (key[0] === '$') yield `${at}/${key}`;
  if (schema.description?.length > TEXT_MAX) yield `${at}: ${schema.description.length} characters`;
  if ([schema.type].flat().includes('array') && !(schema.items && isTyped(schema.items))) yield `${at}: an array without typed items`;
  for (const key of MAPS) for (const [name, one] of Object.entries(schema[key] ?? {})) yield* below(one, `${at}/${key}/${name}`);
  for (const key of LISTS) for (const [index, one] of (schema[key] ?? []).entries()) yield* below(one, `${at}/${key}/${index}`);
  for (const key of ONE) if (key in schema) yield* below(schema[key], `${at}/${key}`);
}

// The faults of a tool of tools/list, each with its position.
export function faultsOf(tool) {
  const { inputSchema: schema, name } = tool;
  const faults = [...below(schema, name)];
  if (!/^[a-zA-Z0-9_-]{1,64}$/.test(name)) faults.push(`${name}: its name`);
  if (!(tool.description.length > 0 && tool.description.length <= TEXT_MAX)) faults.push(`${name}: ${tool.description.length} characters`);
  if (schema.type !== 'object' || Object.keys(schema).sort().join() !== [...TOP].sort().join()) faults.push(`${name}: ${Object.keys(schema)} at its top`);
  for (const one of Object.keys(schema.properties ?? {})) if (!/^[a-zA-Z0-9_.-]{1,64}$/.test(one)) faults.push(`${name}: a property "${one}"`);
  return faults;
}
