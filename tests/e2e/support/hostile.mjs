// Texts that could change the text around them: move it, hide it, end its line, or imitate our own
// text. A person who decides must see them as they are (mcp_confirm.test.mjs,
// dashboard_safety.test.mjs).
const between = [
  0x01, 0x07, 0x08, 0x0a, 0x0b, 0x0d, 0x7f, 0x80, 0x85, 0xad, 0x600, 0x61c, 0x6dd, 0x70f, 0x180e, 0x200b, 0x200c, 0x200d, 0x200e, 0x200f, 0x2028, 0x2029,
  0x202a, 0x202b, 0x202c, 0x202d, 0x202e, 0x2060, 0x2063, 0x2066, 0x2067, 0x2068, 0x2069, 0x206f, 0xfeff, 0xfff9, 0xfffb, 0x110bd, 0x1d173, 0xe0001, 0xe0041,
  0x34f, 0x115f, 0x1160, 0x17b4, 0x180b, 0x2800, 0x3164, 0xfe00, 0xffa0, 0x13441, 0x16fe4, 0x1d159, 0xe0101,
];
export const HOSTILE = [
  ...between.map((code) => `a${String.fromCodePoint(code)}b`),
  `a${'\u0301'.repeat(60)}b`,
  `a${'\u0e47'.repeat(60)}b`,
  'a\ufe0f\ufe01\u{e0170}\u{e0157}b',
  'P\ufe0fl\ufe0ee\ufe0fase \u2764\ufe0f\ufe0e',
  '\u001b[31mred\u009b0m',
  '\u05e9\u05dc\u05d5\u05dd 12',
  '\u0645\u0631\u062d\u0628\u0627 (1)',
  '\u2069\u202e\u05e9\u05dc\u2066\u2068',
  'x\nto: "forged"',
  'x", "to": "forged',
  '"><b>forged</b></textarea></title>',
];

// Characters that are invisible by themselves, and characters in an invalid position: a second mark
// on a letter, or a selector after a character that has a single form.
export const HIDDEN = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0d\uffa0\u{13441}\u{13442}\u{16fe4}\u{1d159}\u{e0100}-\u{e01ef}]/u;
const SURPLUS = /(?<=[\u0300-\u036f\u0e47]{8})[\u0300-\u036f\u0e47]|(?<![#*0-9\u00a9\u00ae\u203c-\u3299\u{1f000}-\u{1faff}])[\ufe0e\ufe0f]/u;
const SHAPING = new RegExp(`${HIDDEN.source}|${SURPLUS.source}`, 'gu');

// The text in its visible form: each such character is written as \uXXXX, except for those in
// `kept`.
export const visible = (text, kept = '') =>
  text.replace(SHAPING, (c) => (kept.includes(c) ? c : [...Array(c.length).keys()].map((i) => `\\u${c.charCodeAt(i).toString(16).padStart(4, '0')}`).join('')));
