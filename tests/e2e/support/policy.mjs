// A model of policies (src/policy/README.md), and the cells of the matrix of policy.test.mjs: each
// decision by each kind of condition. The model knows the matrix's inputs, no expressions.

// The three actions of the matrix: a write with recipients, a write without, and a read.
export const ACTIONS = [
  { tool: 'gmail_send_message', id: 'send_message', level: 'write', recipients: true, input: { to: 'ada@outside.example', subject: 'yes', text: 'x' } },
  { tool: 'gmail_create_draft', id: 'create_draft', level: 'write', recipients: false, input: { to: 'ada@outside.example', subject: 'yes', text: 'x' } },
  { tool: 'gmail_list_labels', id: 'list_labels', level: 'read', recipients: false, input: {} },
];

// What a condition says about all calls of an action, and about the call of the matrix: true,
// false, or undefined if that is not known (of all calls) or cannot be evaluated (of one).
const CONDITIONS = {
  glob: { rule: () => ({ tools: ['gmail_*', '!gmail_list_*'] }), all: (action) => action.level === 'write', one: (action) => action.level === 'write' },
  'side effect': { rule: () => ({ side_effect: ['read'] }), all: (action) => action.level === 'read', one: (action) => action.level === 'read' },
  recipients: {
    rule: () => ({ recipients_outside: ['acme.example'] }),
    isUnknown: (action) => !action.recipients, // for every input
    all: () => undefined,
    one: (action) => (action.recipients ? true : undefined),
  },
  'when true': { rule: () => ({ when: "tool == 'gmail_send_message' || tool == 'gmail_create_draft' || tool == 'gmail_list_labels'" }), all: () => undefined, one: () => true },
  'when false': { rule: () => ({ when: "user == 'nobody' || input.subject == 'no'" }), all: () => undefined, one: () => false },
  'when fails': { rule: () => ({ when: 'abs(tool) > `1`' }), all: () => undefined, one: () => undefined },
};
export const KINDS = Object.keys(CONDITIONS);
export const DECISIONS = ['allow', 'confirm', 'hold', 'deny'];

// A policy of one rule, and the default that the rule's decision differs from.
export function policyOf(kind, decision) {
  return { default: decision === 'allow' ? 'deny' : 'allow', rules: [{ ...CONDITIONS[kind].rule(), decision, reason: `by ${kind}` }] };
}

// A condition that cannot be evaluated counts against the caller.
const held = (value, decision) => value ?? decision !== 'allow';

// The decision about the call of the matrix: {decision, rule, unsure}.
export function decide(kind, decision, action) {
  const value = CONDITIONS[kind].one(action);
  if (held(value, decision)) return { decision, rule: 0, unsure: value === undefined && decision === 'deny' };
  return { decision: policyOf(kind, decision).default, rule: null, unsure: false };
}

// The decision that all calls of the action share: {decision, rule, mayConfirm}. A rule that is
// neither always nor never met leaves two.
export function foresee(kind, decision, action) {
  const other = policyOf(kind, decision).default;
  const value = CONDITIONS[kind].isUnknown?.(action) ? held(undefined, decision) : CONDITIONS[kind].all(action);
  if (value === true) return { decision, rule: 0, mayConfirm: decision === 'confirm' };
  if (value === false) return { decision: other, rule: null, mayConfirm: false };
  return { decision: 'depends', rule: null, mayConfirm: decision === 'confirm' };
}
