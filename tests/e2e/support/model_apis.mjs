// What the APIs of models refuse in a list of tools, as their documentation says.
const PLAIN = /^[a-zA-Z0-9_-]{1,64}$/;

export const APIS = {
  // "Must be a-z, A-Z, 0-9, or contain underscores and dashes, with a maximum length of 64", and "A
  // max of 128 functions are supported": platform.openai.com/docs/api-reference/chat/create, tools.
  // Arrays without items and a top that is not a plain object are refused ("invalid_function_parameters").
  OpenAI: { source: 'platform.openai.com/docs/api-reference/chat/create', name: PLAIN, tools: 128, description: 1024, top: ['anyOf', 'oneOf', 'allOf', 'not', 'enum'], items: true },
  // docs.claude.com/en/docs/agents-and-tools/tool-use/implement-tool-use for the name. Its errors:
  // "Property keys should match pattern '^[a-zA-Z0-9_.-]{1,64}$'", "input_schema does not support
  // oneOf, allOf, or anyOf at the top level".
  Anthropic: { source: 'docs.claude.com/en/docs/agents-and-tools/tool-use/implement-tool-use', name: PLAIN, property: /^[a-zA-Z0-9_.-]{1,64}$/, top: ['anyOf', 'oneOf', 'allOf'] },
  // "Must start with a letter or an underscore. Must be a-z, A-Z, 0-9, or contain underscores, dots
  // and dashes, with a maximum length of 64": cloud.google.com/vertex-ai/generative-ai/docs/reference,
  // FunctionDeclaration, which also allows 128 declarations.
  Gemini: { source: 'cloud.google.com/vertex-ai/generative-ai/docs/reference (FunctionDeclaration)', name: /^[a-zA-Z_][a-zA-Z0-9_.-]{0,63}$/, tools: 128, ref: true, items: true },
};

function* schemasIn(schema, at) {
  if (schema === null || typeof schema !== 'object') return;
  yield [schema, at];
  for (const key of ['properties', 'patternProperties', 'dependentSchemas', '$defs']) for (const [name, one] of Object.entries(schema[key] ?? {})) yield* schemasIn(one, `${at}/${key}/${name}`);
  for (const key of ['anyOf', 'oneOf', 'allOf', 'prefixItems']) for (const [index, one] of (schema[key] ?? []).entries()) yield* schemasIn(one, `${at}/${key}/${index}`);
  for (const key of ['items', 'additionalProperties', 'not', 'if', 'then', 'else', 'contains', 'propertyNames']) yield* schemasIn(schema[key], `${at}/${key}`);
}

// The reasons for which an API refuses the list, each with its place.
export function refusalsOf(api, tools) {
  const rules = APIS[api], faults = [];
  const unless = (fits, text) => fits || faults.push(`${api}: ${text}`);
  unless(tools.length <= (rules.tools ?? Infinity), `${tools.length} tools`);
  unless(new Set(tools.map((tool) => tool.name)).size === tools.length, 'two tools of one name');
  for (const { name, description, inputSchema: top } of tools) {
    unless(rules.name.test(name), `the name ${name}`);
    unless(description.length <= (rules.description ?? Infinity), `${name}: a description of ${description.length} characters`);
    unless(top.type === 'object' && !(rules.top ?? []).some((key) => key in top), `${name}: ${Object.keys(top)} at the top`);
    for (const [schema, at] of schemasIn(top, name)) {
      if (rules.items) unless(![schema.type].flat().includes('array') || schema.items, `${at}: an array without items`);
      if (rules.ref) unless(!('$ref' in schema), `${at}: a $ref`);
      for (const one of Object.keys(schema.properties ?? {})) unless(!rules.property || rules.property.test(one), `${at}: the property ${one}`);
    }
  }
  return faults;
}
