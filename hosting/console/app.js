// Starts the console: what is open by address, dialogs, keys, colours, and the state of the connection.

import { Api, storage } from "./api.js";
import { Changes } from "./changes.js";
import { $, announce, setAttribute, setText } from "./dom.js";
import { ThreadList } from "./list.js";
import { ThreadPage } from "./thread_page.js";

const THEMES = { system: "Colours: as the system", light: "Colours: light", dark: "Colours: dark" };

const kept = storage("localStorage");
const api = new Api(askToken);
const list = new ThreadList(api);
const links = { list: "connecting", thread: null };
const page = new ThreadPage(api, list, (state) => link("thread", state));
const changes = new Changes(api, (frame) => {
  if (frame.thread_id) list.change(frame);
}, (state) => {
  if (state === "renew") list.load();
  else link("list", state);
});

// The connection

function link(part, state) {
  links[part] = state;
  const worst = ["away", "connecting", "open"].find((one) => Object.values(links).includes(one));
  const said = { away: "Server away, trying again", connecting: "Connecting", open: "Live" }[worst];
  if ($("link").dataset.state !== worst) setAttribute($("link"), "data-state", worst);
  setText($("link-text"), said);
}

// The token

function askToken(refused) {
  const dialog = $("token-dialog");
  setText($("token-error"), refused ? "The server does not know this token." : "");
  $("token").value = "";
  if (!dialog.open) dialog.showModal();
  $("sign-in").hidden = false;
  return new Promise((resolve) => {
    dialog.onclose = () => {
      const token = $("token").value.trim();
      // Escape closes it too, and nothing can be shown without a token.
      if (token) resolve(token);
      else dialog.showModal();
    };
  });
}

$("sign-in").hidden = api.token === null;
$("sign-in").addEventListener("click", () => {
  api.forget();
  location.reload();
});

// What is open

function route() {
  const found = /^#\/threads\/(.+)$/.exec(location.hash);
  const id = found && safely(() => decodeURIComponent(found[1]));
  document.body.dataset.view = id ? "thread" : "list";
  list.choose(id || null);
  if (!id) {
    page.close();
    document.title = "Treadle";
  } else if (id !== page.id) {
    tab("talk");
    page.open(id);
  }
}

function safely(work) {
  try {
    return work();
  } catch {
    return null; // no address of ours
  }
}

function go(id) {
  history.pushState(null, "", id ? `#/threads/${encodeURIComponent(id)}` : location.pathname + location.search);
  route();
}

$("back").addEventListener("click", () => {
  const last = page.id;
  go(null);
  requestAnimationFrame(() => document.querySelector(`#thread-list a[href="#/threads/${CSS.escape(encodeURIComponent(last ?? ""))}"]`)?.focus());
});

function tab(name) {
  document.body.dataset.tab = name;
  for (const [id, own] of [["tab-talk", "talk"], ["tab-work", "work"]]) {
    $(id).setAttribute("aria-selected", String(own === name));
    $(id).tabIndex = own === name ? 0 : -1;
  }
}

for (const [id, name, other] of [["tab-talk", "talk", "tab-work"], ["tab-work", "work", "tab-talk"]]) {
  $(id).addEventListener("click", () => tab(name));
  $(id).addEventListener("keydown", (event) => {
    if (event.key === "ArrowRight" || event.key === "ArrowLeft") {
      $(other).focus();
      $(other).click();
    }
  });
}

// A new thread

let isCreating = false;

async function newThread() {
  $("agents").replaceChildren();
  setText($("new-error"), "");
  $("new-form").reset();
  $("new-dialog").showModal();
  const known = await api.call("console/agents").then((answer) => answer.agents).catch(() => list.agents);
  $("agents").replaceChildren(...known.map((name) => Object.assign(document.createElement("option"), { value: name })));
  if (known.length === 1 && !$("new-agent").value) $("new-agent").value = known[0];
}

$("new-thread").addEventListener("click", newThread);
$("new-form").addEventListener("submit", async (event) => {
  event.preventDefault();
  if (isCreating) return; // pressed twice
  isCreating = true;
  const body = { agent_id: $("new-agent").value.trim() };
  if ($("new-id").value.trim()) body.thread_id = $("new-id").value.trim();
  try {
    if ($("new-arguments").value.trim()) body.arguments = JSON.parse($("new-arguments").value);
    const thread = await api.call("threads", { method: "POST", body });
    $("new-dialog").close();
    list.add(thread);
    go(thread.id);
    $("composer-text").focus();
  } catch (error) {
    setText($("new-error"), error instanceof SyntaxError ? `The arguments are no JSON: ${error.message}` : error.message);
  } finally {
    isCreating = false;
  }
});

// Dialogs

for (const button of document.querySelectorAll("[data-close]")) button.addEventListener("click", () => button.closest("dialog").close());
$("help").addEventListener("click", () => $("help-dialog").showModal());
$("single-keys").checked = kept.getItem("treadle-keys") !== "off";
$("single-keys").addEventListener("change", () => kept.setItem("treadle-keys", $("single-keys").checked ? "on" : "off"));

// Colours

function theme(name) {
  kept.setItem("treadle-theme", name);
  setAttribute(document.documentElement, "data-theme", name === "system" ? null : name);
  setAttribute($("theme"), "aria-label", THEMES[name]);
  $("theme").title = THEMES[name];
}

$("theme").addEventListener("click", () => {
  const names = Object.keys(THEMES);
  const next = names[(names.indexOf(kept.getItem("treadle-theme")) + 1) % names.length];
  theme(next);
  announce(THEMES[next]);
});
theme(THEMES[kept.getItem("treadle-theme")] ? kept.getItem("treadle-theme") : "system");

// Keys

const KEYS = {
  j: () => step(1),
  k: () => step(-1),
  n: newThread,
  c: () => { tab("talk"); $("composer-text").focus(); },
  i: () => page.interrupt(),
  s: () => page.stop(),
  r: () => page.resume(),
  e: () => { tab("work"); focusFirst("#executions summary"); },
  t: () => { tab("talk"); $("scroll").focus(); },
  a: () => { tab("talk"); focusFirst("#requests [data-open=true] button, #requests [data-open=true] input"); },
  "/": () => $("filter").focus(),
  "?": () => $("help-dialog").showModal(),
};

function step(by) {
  const id = list.beside(by);
  if (id !== null) go(id);
}

const focusFirst = (selector) => document.querySelector(selector)?.focus();

document.addEventListener("keydown", (event) => {
  if (document.querySelector("dialog[open]")) return;
  if (event.altKey && !event.ctrlKey && !event.metaKey && /^Digit[1-4]$/.test(event.code) && page.id) {
    event.preventDefault();
    page.composer.choose(Number(event.code.at(-1)) - 1);
    $("composer-text").focus();
    return;
  }
  const typing = event.target.matches("input:not([type=radio], [type=checkbox]), textarea, select");
  if (typing && event.key === "Escape") event.target.blur();
  if (typing || event.altKey || event.ctrlKey || event.metaKey || !$("single-keys").checked) return;
  const act = Object.hasOwn(KEYS, event.key) ? KEYS[event.key] : null;
  if (!act) return;
  event.preventDefault();
  act();
});

addEventListener("hashchange", route);
tab("talk");
route();
changes.start();
