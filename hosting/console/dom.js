// Makes elements and keeps lists of them in step with data. Never parses HTML: what a thread says stays text.

/** Return an element. `on*` are listeners, `class` and `text` what they say; false, null and undefined leave a key out. */
export function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === false || value === null || value === undefined) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "text") element.textContent = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

export const $ = (id) => document.getElementById(id);

/** Set a text only where it differs, so that selections and screen readers are left alone. */
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

export function setAttribute(element, name, value) {
  if (value === null || value === false) element.removeAttribute(name);
  else if (element.getAttribute(name) !== String(value)) element.setAttribute(name, value);
}

const SHOWN = Symbol("shown");

/**
 * Bring the children of `parent` in line with `items`: kept by key, moved only where they must, updated only where
 * `versionOf` says that they changed. Focus and open details survive.
 */
export function keep(parent, items, keyOf, versionOf, make) {
  const old = new Map();
  for (const child of parent.children) old.set(child[SHOWN]?.key, child);
  let place = parent.firstElementChild;
  for (const item of items) {
    const key = keyOf(item);
    const version = versionOf(item);
    let child = old.get(key);
    old.delete(key);
    if (child && child[SHOWN].version !== version) {
      const made = make(item, child);
      if (made !== child) {
        if (place === child) place = made;
        child.replaceWith(made);
        child = made;
      }
      child[SHOWN] = { key, version };
    } else if (!child) {
      child = make(item, null);
      child[SHOWN] = { key, version };
    }
    if (child === place) place = place.nextElementSibling;
    else parent.insertBefore(child, place);
  }
  for (const child of old.values()) child.remove();
}

/** Return a function that runs `work` once before the next frame, however often it is called. */
export function batched(work) {
  let asked = false;
  return () => {
    if (asked) return;
    asked = true;
    requestAnimationFrame(() => {
      asked = false;
      work();
    });
  };
}

/** Say something to screen readers that others see anyway; what is said at once after it does not silence it. */
export function announce(text) {
  const place = $("announcer");
  place.append(h("p", { text }));
  while (place.children.length > 6) place.firstElementChild.remove();
}
