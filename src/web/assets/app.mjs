// Writes times in the reader's time zone, copies, keeps a form from being sent twice, and refreshes
// the element with data-live, if the page has one: on server-sent events, or by polling where the
// stream cannot be opened. That element consists of blocks with an id (id) and a version
// (data-version). A block is updated in place when its version changes, unless the update would move
// the element under the pointer or lose typed or selected text. In that case a bar says that there
// is news, and its button applies it. The pages work without this file; the build strips its
// comments and indentation.
const [WEEK_MINUTES, TICK_MS] = [7 * 24 * 60, 20_000];
const [exact, date, hour, day] = [{ dateStyle: 'medium', timeStyle: 'long' }, { dateStyle: 'medium', timeStyle: 'short' }, { timeStyle: 'short' }, { month: 'short', day: 'numeric' }]
  .map((style) => new Intl.DateTimeFormat(undefined, style));
// An age such as "4 min ago" or "in 3 h" within a week, in the units of view_span and rounded down,
// or else the date. A status has no ages, since each change of it is read out.
const textOf = (time) => {
  const at = new Date(time.dateTime);
  const minutes = Math.abs(at - Date.now()) / 60_000;
  if (minutes >= WEEK_MINUTES || time.closest('[role=status]')) return date.format(at);
  const [unit, name] = minutes < 60 ? [1, 'min'] : minutes < 48 * 60 ? [60, 'h'] : [24 * 60, 'days'];
  const text = `${Math.max(1, Math.floor(minutes / unit))} ${name}`;
  return at > Date.now() ? `in ${text}` : minutes < 1 ? 'just now' : `${text} ago`;
};
// On paper a time is exact, as in its title, and the time of printing is next to the account.
const who = document.querySelector('.who');
const putTimes = (isExact) => {
  if (isExact && who) who.dataset.at = exact.format(Date.now());
  for (const time of document.querySelectorAll('time[title]')) {
    const text = isExact ? time.title : textOf(time);
    if (time.textContent !== text) time.textContent = text;
  }
};
// Converts the times of a page as it was received. The chart's texts contain times, as they cannot
// contain elements.
const inZone = (text) => text.replace(/(\S+) (\S+) UTC/, (_, on, at) => date.format(new Date(`${on}T${at}Z`)));
const localize = (part) => {
  for (const time of part.querySelectorAll('time')) {
    const at = new Date(time.dateTime);
    if (time.closest('.x')) time.textContent = (time.textContent.includes(':') ? hour : day).format(at);
    else [time.title, time.textContent] = [exact.format(at), textOf(time)];
  }
  for (const one of part.querySelectorAll('.plot title')) one.textContent = inZone(one.textContent);
  for (const one of part.querySelectorAll('.plot [role=img]')) one.ariaLabel = inZone(one.ariaLabel);
  for (const one of part.querySelectorAll('.x span')) one.textContent = exact.formatToParts().find(({ type }) => type === 'timeZoneName').value;
};
localize(document);
setInterval(putTimes, TICK_MS);
addEventListener('beforeprint', putTimes);
addEventListener('afterprint', () => putTimes());

// A form that was rendered again under another address (again.c): the address bar gets the form's
// own.
const main = document.querySelector('main');
const { path } = main.dataset;
if (path) history.replaceState(null, '', path);

// A form is sent once: its buttons are disabled for SENT_MS, or until the browser shows the page
// again.
const SENT_MS = 10_000;
const turn = (buttons, isOff) => {
  for (const button of buttons) button.disabled = isOff;
};
document.addEventListener('submit', ({ target }) => {
  const buttons = target.querySelectorAll('button');
  setTimeout(turn, 0, buttons, true);
  setTimeout(turn, SENT_MS, buttons, false);
});
addEventListener('pageshow', ({ persisted }) => persisted && turn(document.querySelectorAll('button'), false));

// The second click of a double click elsewhere may land on a page that has just appeared: this
// button needs the page to be visible for SETTLE_MS.
const SETTLE_MS = 500;
const settling = document.querySelectorAll('[data-settle]');
const settle = () => {
  turn(settling, true);
  if (!document.hidden) setTimeout(turn, SETTLE_MS, settling, false);
};
if (settling.length) {
  settle();
  document.addEventListener('visibilitychange', settle);
}

// data-copy has the id of the element to copy. Browsers copy only on a page with https, or from
// localhost.
for (const button of document.querySelectorAll('[data-copy]')) button.hidden = !navigator.clipboard;
document.addEventListener('click', async ({ target }) => {
  const button = target.closest('[data-copy]');
  if (!button) return;
  await navigator.clipboard.writeText(document.getElementById(button.dataset.copy).textContent);
  button.textContent = 'Copied';
  setTimeout(() => (button.textContent = 'Copy'), 2000);
});

const live = document.querySelector('[data-live]');
if (live) keepFresh();

function keepFresh() {
  const blocksOf = (part) => [...part.querySelectorAll('[data-version]')];
  const byId = (part, id) => id && part.querySelector(`#${CSS.escape(id)}`);
  const boxOf = (one) => one.getBoundingClientRect();
  const isInView = ({ top, bottom }) => bottom > 8 && top < innerHeight;
  const aimedAt = () => [...document.querySelectorAll(':hover')].at(-1)?.closest('a, button, input, select, textarea, summary, label');

  /* ---- the bar: outside of data-live; there from the start, so that screen readers announce its text ---- */

  const bar = document.createElement('div');
  const text = bar.appendChild(document.createElement('p'));
  const show = bar.appendChild(document.createElement('button'));
  bar.className = 'news';
  text.setAttribute('role', 'status');
  show.textContent = 'Show it';
  show.hidden = true;
  main.prepend(bar);

  // false: the bar covers the element under the pointer or with the focus, so it moves to the upper
  // edge.
  const isFree = () => {
    const { left, right, top, bottom } = boxOf(bar);
    return ![aimedAt(), document.activeElement].some((one) => {
      const rect = one && one !== document.body && !bar.contains(one) && boxOf(one);
      return rect && rect.right > left && rect.left < right && rect.bottom > top && rect.top < bottom;
    });
  };
  const say = (words, canShow) => {
    if (text.textContent === words) return;
    text.textContent = words;
    show.hidden = !canShow || !words;
    bar.classList.remove('above');
    if (words && !isFree()) bar.classList.add('above');
  };

  /* ---- updating a block in place ---- */

  const isSame = (one, other) => one.nodeName === other.nodeName && (one.id ?? '') === (other.id ?? '');
  // Nodes that both versions have are kept, and with them focus, selection, typed text and the open
  // state of details.
  const morph = (old, now) => {
    if (old.isEqualNode(now)) return;
    if (old.nodeType !== Node.ELEMENT_NODE) return void (old.data = now.data);
    for (const { name, value } of now.attributes) if (name !== 'open' && old.getAttribute(name) !== value) old.setAttribute(name, value);
    for (const { name } of [...old.attributes]) if (name !== 'open' && !now.hasAttribute(name)) old.removeAttribute(name);
    let at = old.firstChild;
    const drop = () => {
      const next = at.nextSibling;
      at.remove();
      at = next;
    };
    for (const child of [...now.childNodes]) {
      let match = at;
      while (match && !isSame(match, child)) match = match.nextSibling;
      if (!match) old.insertBefore(child, at);
      else {
        while (at !== match) drop();
        at = match.nextSibling;
        morph(match, child);
      }
    }
    while (at) drop();
  };

  // The reading position: the element with the focus, or else the first block in the window.
  const reading = () => {
    const focused = document.activeElement;
    if (live.contains(focused) && isInView(boxOf(focused))) return focused;
    return blocksOf(live).find((block) => isInView(boxOf(block)));
  };
  // Makes a change and scrolls so that the element under the pointer, or else the reading position,
  // does not move in the window; the element under the pointer must stay the same. false: that is
  // not possible, and the change is undone. The first position is kept across calls, since each
  // scrolling is rounded and the errors would add up.
  let rest;
  const attempt = (change, undo) => {
    const aimed = aimedAt();
    const one = aimed ?? reading();
    const was = aimed?.outerHTML;
    if (!one) return change(), true;
    const shift = ({ left, top }) => [boxOf(one).left - left, boxOf(one).top - top];
    const isThere = (position) => one.isConnected && shift(position).every((distance) => Math.abs(distance) < 1);
    if (rest?.one !== one || !isThere(rest.position)) rest = { one, position: boxOf(one) };
    const [x, y] = [scrollX, scrollY];
    change();
    if (one.isConnected) scrollBy(0, shift(rest.position)[1]);
    if (!aimed || (isThere(rest.position) && aimed.outerHTML === was)) return true;
    undo();
    scrollTo(x, y);
    return false;
  };
  // The reader is using this block: the pointer is on one of its controls, a field is edited, or
  // text is selected.
  const isBusy = (block) => {
    const marked = getSelection();
    if (!marked.isCollapsed && marked.containsNode(block, true)) return true;
    if (!block.querySelector('form')) return false;
    const fields = [...block.querySelectorAll('textarea, input, select')];
    return block.contains(aimedAt()) || block.contains(document.activeElement) || fields.some(({ value, defaultValue }) => defaultValue !== undefined && value !== defaultValue);
  };

  /* ---- news ---- */

  // The last page fetched, as long as some of its changes are not applied.
  let latest;

  // Applies the fetched page. isAsked: the bar's button was pressed, so nothing is held back.
  // Returns the new blocks; the bar announces changes that are held back. Blocks outside of
  // data-live, such as the navigation's counts, change at once, because that moves nothing.
  const apply = (page, isAsked) => {
    const fresh = page.querySelector('[data-live]');
    const added = [];
    let waits;
    // Returns whether the change was made. words: what the bar says if it was not.
    const put = (change, undo, mayNot, words) => {
      if (isAsked) change();
      else if (mayNot || !attempt(change, undo)) {
        waits = words || waits || 'This page has changed.';
        return false;
      }
      return true;
    };
    const state = fresh.querySelector('[data-state]')?.textContent.trim();
    document.title = page.title;
    for (const old of blocksOf(document)) {
      const now = byId(page, old.id);
      const [next, parent, was, isFrame] = [old.nextSibling, old.parentNode, old.cloneNode(true), !live.contains(old)];
      if (now?.dataset.version === old.dataset.version || (isFrame && !now)) continue;
      if (isFrame) morph(old, now.cloneNode(true));
      else if (!(now ? put(() => morph(old, now.cloneNode(true)), () => morph(old, was), isBusy(old))
        : put(() => old.remove(), () => parent.insertBefore(old, next), boxOf(old).top < innerHeight || isBusy(old), state)))
        old.dataset.old = '';
    }
    turnOld();
    for (const now of blocksOf(fresh)) {
      if (byId(live, now.id)) continue;
      const copy = now.cloneNode(true);
      const before = byId(live, now.previousElementSibling?.id);
      const parent = before?.parentNode ?? byId(live, now.parentNode.id) ?? live;
      const next = before ? before.nextSibling : parent.firstChild;
      put(() => parent.insertBefore(copy, next), () => copy.remove(), next && boxOf(next).top < innerHeight);
      if (!copy.isConnected) waits = now.dataset.news ?? waits;
      added.push(copy);
    }
    live.dataset.live = fresh.dataset.live;
    latest = waits && page;
    say(waits ?? '', true);
    return added;
  };

  show.addEventListener('click', () => {
    const [first] = apply(latest, true);
    const target = first ?? blocksOf(live)[0];
    const heading = target.querySelector('[tabindex="-1"]') ?? main;
    target.scrollIntoView();
    heading.focus({ preventScroll: true });
  });
  // The pointer, focus or selection moved, so changes that were held back may be possible now.
  for (const event of ['pointerover', 'focusout', 'selectionchange'])
    document.addEventListener(event, () => latest && apply(latest));

  /* ---- fetching the page: one request at a time ---- */

  let asking;
  let askAgain;
  let isOver = live.dataset.over !== undefined;
  const end = (words) => {
    isOver = true;
    source?.close();
    if (words) say(words, false);
  };
  const ask = async () => {
    const reply = await fetch(live.dataset.page, { headers: { Accept: 'text/html' } });
    if (reply.redirected) return end('Your session has ended. Send your form to sign in again. What you typed is kept.');
    if (reply.status === 404) return end('This flow no longer exists.');
    if (!reply.ok) throw new Error(`${reply.status}`);
    regain();
    const page = new DOMParser().parseFromString(await reply.text(), 'text/html');
    localize(page);
    apply(page);
    if (page.querySelector('[data-live]').dataset.over !== undefined) end();
  };
  const refresh = () => {
    askAgain = Boolean(asking);
    asking ??= ask().catch(later).finally(() => {
      asking = undefined;
      if (askAgain) refresh();
    });
  };

  /* ---- the stream ---- */

  // LOST_MS: shorter interruptions are not announced.
  const [AGAIN_MS_MAX, LOST_MS] = [10_000, 5_000];
  let source;
  let timer;
  let lost;
  let tries = 0;
  let isLost = false;
  // No decision can be sent while the server is unreachable, nor one about a block that no longer
  // holds (data-old); typed text stays.
  const turnForms = (isOff) => turn(live.querySelectorAll('[method=post] button'), isOff);
  const turnOld = () => turn(live.querySelectorAll('[data-old] [method=post] button'), true);
  const regain = () => {
    if (!isLost) return;
    isLost = false;
    turnForms(false);
    turnOld();
    say(latest ? 'This page has changed.' : '', true);
  };
  const listen = () => {
    if (isOver || document.hidden) return;
    source?.close();
    source = new EventSource(live.dataset.live);
    source.onmessage = refresh;
    source.onopen = () => {
      tries = 0;
      clearTimeout(lost);
      lost = undefined;
      regain();
    };
    source.onerror = () => {
      lost ??= setTimeout(() => {
        if (isOver) return;
        isLost = true;
        turnForms(true);
        say('Connection lost. Trying again.', false);
      }, LOST_MS);
      if (source.readyState === EventSource.CLOSED) later();
    };
  };
  // Exponential back-off with jitter, so that browsers do not all return at once after a restart.
  function later() {
    clearTimeout(timer);
    timer = setTimeout(() => {
      if (isOver || document.hidden) return;
      refresh();
      listen();
    }, Math.min(AGAIN_MS_MAX, 1000 * 2 ** tries++) * (0.5 + Math.random() / 2));
  }
  // A page in the background closes its stream: browsers allow six connections per site (HTTP/1.1).
  document.addEventListener('visibilitychange', () => (document.hidden ? source?.close() : listen()));
  listen();
}
