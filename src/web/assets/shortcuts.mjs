// Keyboard shortcuts on pages with decisions. J and K go to the next and the previous decision, in a list and
// from one flow's page to another's; A and R press Approve and Reject after a question; ? lists the
// keys. A letter that is typed into a field, or with a modifier, is not a shortcut. An element that a
// key presses has it in data-key; if there are several, the last one is pressed.
const KEYS = { J: 'the next decision', K: 'the previous decision', Enter: 'open the decision in the list', A: 'approve, after a question', R: 'reject, after a question', '?': 'this list' };

const sheet = document.createElement('dialog');
sheet.className = 'card';
sheet.setAttribute('aria-label', 'Keys');
const list = sheet.appendChild(document.createElement('dl'));
list.className = 'rows';
for (const [key, words] of Object.entries(KEYS)) {
  list.appendChild(document.createElement('dt')).textContent = key;
  list.appendChild(document.createElement('dd')).textContent = words;
}
const close = sheet.appendChild(document.createElement('form'));
close.method = 'dialog';
close.appendChild(document.createElement('button')).textContent = 'Close';

const opener = document.createElement('button');
opener.type = 'button';
opener.className = 's';
opener.textContent = 'Keys';
opener.addEventListener('click', () => sheet.showModal());
const tools = document.createElement('p');
tools.className = 'actions';
tools.append(opener);
document.querySelector('main').append(tools, sheet);

const move = (by) => {
  const rows = [...document.querySelectorAll('#waiting .what')];
  const at = rows.indexOf(document.activeElement);
  rows.at(at < 0 ? Math.min(by, 0) : (at + by) % rows.length)?.focus();
};
const press = (key) => [...document.querySelectorAll(`[data-key=${key}]`)].findLast((one) => !one.disabled)?.click();
const ask = (key, words) => {
  const title = document.getElementById('decision')?.textContent;
  if (title && confirm(`${words} "${title}"?`)) press(key);
};
const ACTIONS = {
  j: () => (press('j'), move(1)),
  k: () => (press('k'), move(-1)),
  a: () => ask('a', 'Approve'),
  r: () => ask('r', 'Reject'),
  '?': () => sheet.showModal(),
};

document.addEventListener('keydown', (event) => {
  const { key, target, ctrlKey, metaKey, altKey, repeat, isComposing } = event;
  if (ctrlKey || metaKey || altKey || repeat || isComposing || sheet.open) return;
  if (target.closest('input, textarea, select, [contenteditable]')) return;
  const act = ACTIONS[key.toLowerCase()];
  if (!act) return;
  event.preventDefault();
  act();
});
