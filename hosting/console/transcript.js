// Draws a thread's transcript: stored messages, words as they come, and what happened between them.

import { $, h, keep, setText } from "./dom.js";
import { at, clip, duration, fully, machine, pretty, prettyJson, short, words } from "./format.js";
import { CAUSES, OUTCOMES } from "./words.js";

const BLOCK = 2_000; // characters of a growing text that are laid out again with each piece
const UNBROKEN = 16_000; // without a line end it is cut at a blank

const versions = new WeakMap();

function versionOf(message) {
  let version = versions.get(message);
  if (version === undefined) versions.set(message, (version = JSON.stringify(message)));
  return version;
}

const parsed = new WeakMap();

/** The calls of a message: [{id, name, arguments}], whatever form they were stored in. */
function callsOf(message) {
  if (!message.tool_calls) return [];
  let calls = parsed.get(message);
  if (!calls) parsed.set(message, (calls = parse(message.tool_calls)));
  return calls;
}

function parse(text) {
  try {
    return JSON.parse(text).map((call) => ({
      id: call.id,
      name: call.name ?? call.function?.name ?? "tool",
      arguments: call.arguments ?? call.function?.arguments ?? "",
    }));
  } catch {
    return [{ id: null, name: "calls", arguments: text }];
  }
}

/** Return what the transcript shows, in order: messages with the results of their calls, notes, ends of executions. */
export function itemsOf(model, showsHidden) {
  const results = new Map();
  const owned = new Set();
  for (const one of model.messages) if (one.role === "tool" && one.tool_call_id) results.set(one.tool_call_id, one);
  const history = [];
  const waiting = [];
  for (const message of model.messages) {
    if ((message.silent || message.depth > 0) && !showsHidden) continue;
    if (message.role === "tool" && owned.has(message.tool_call_id)) continue;
    const calls = callsOf(message).map((call) => ({ ...call, result: results.get(call.id) ?? null }));
    for (const call of calls) owned.add(call.id);
    const item = { type: "message", key: message.id, at: message.created_at, message, calls };
    (message.status === "pending" ? waiting : history).push(item);
  }
  const oldest = model.hasOlder && model.messages.length ? model.messages[0].created_at : 0;
  const between = model.notes.filter((note) => note.at >= oldest).map((note) => ({ type: "note", ...note, key: `note ${note.key}` }));
  for (const record of model.executions.values()) {
    const end = record.finished_at ?? record.lost_at;
    if (end && end >= oldest) between.push({ type: "end", key: `end ${record.execution_id}`, at: end, record });
    if (record.cause !== "submit" && record.cause !== "rows" && record.started_at >= oldest) {
      between.push({ type: "note", kind: "start", key: `start ${record.execution_id}`, at: record.started_at, text: `Runs again, by ${CAUSES[record.cause] ?? record.cause}` });
    }
  }
  between.sort((one, other) => one.at - other.at);
  const merged = [];
  let place = 0;
  for (const item of history) {
    while (place < between.length && between[place].at <= item.at) merged.push(between[place++]);
    merged.push(item);
  }
  const drafts = [...model.drafts.values()]
    .filter((draft) => showsHidden || draft.depth === 0)
    .map((draft) => ({ type: "draft", key: draft.id, draft }));
  return [...merged, ...between.slice(place), ...drafts, ...waiting];
}

/** Text with its fenced blocks set apart. */
function prose(text) {
  const parts = text.split(/^```[^\n]*\n?/m);
  return parts.map((part, place) => (place % 2 ? h("pre", { class: "code", text: part.replace(/\n$/, "") }) : part && h("span", { text: part })));
}

const TAGS = {
  steer: (message) => message.metadata?.source === "steering" && "steer",
  silent: (message) => message.silent && "silent",
  depth: (message) => message.depth > 0 && `depth ${message.depth}`,
  waiting: (message) => message.status === "pending" && "waiting",
  failed: (message) => message.status === "failed" && message.metadata?.consumed !== false && "failed",
  unread: (message) => message.metadata?.consumed === false && (message.metadata.reason ? `not read: ${words(message.metadata.reason)}` : "not read"),
};

export class Transcript {
  #withdraw;
  #sticks = true;

  /** `withdraw(message)` takes back a message that waits; returns the outcome to show. */
  constructor({ withdraw, older }) {
    this.#withdraw = withdraw;
    const scroll = $("scroll");
    scroll.addEventListener("scroll", () => {
      this.#sticks = scroll.scrollHeight - scroll.scrollTop - scroll.clientHeight < 48;
      $("latest").hidden = this.#sticks;
    }, { passive: true });
    $("latest").addEventListener("click", () => this.toEnd());
    $("older").addEventListener("click", older);
    new ResizeObserver(() => this.#stick()).observe(scroll);
  }

  toEnd() {
    this.#sticks = true;
    this.#stick();
  }

  #stick() {
    const scroll = $("scroll");
    if (this.#sticks) scroll.scrollTop = scroll.scrollHeight;
    $("latest").hidden = this.#sticks;
  }

  render(model, showsHidden) {
    if (this.#sticks) model.trim(); // who reads above keeps what is there
    const list = $("transcript");
    const scroll = $("scroll");
    const fromEnd = scroll.scrollHeight - scroll.scrollTop;
    const first = list.firstElementChild;
    keep(list, itemsOf(model, showsHidden), (item) => item.key, (item) => this.#version(item), (item, old) => this.#make(item, old));
    $("older").hidden = !model.hasOlder;
    if (this.#sticks) this.#stick();
    // Earlier messages came in above: what is being read stays where it is.
    else if (first !== list.firstElementChild) scroll.scrollTop = scroll.scrollHeight - fromEnd;
  }

  #version(item) {
    if (item.type === "draft") return `draft ${item.draft.version} ${item.draft.broken}`;
    if (item.type === "end") return JSON.stringify(item.record);
    if (item.type === "note") return item.text;
    return versionOf(item.message) + item.calls.map((call) => (call.result ? versionOf(call.result) : "")).join();
  }

  #make(item, old) {
    if (item.type === "draft") return this.#draft(item.draft, old);
    if (item.type === "end") return end(item.record);
    if (item.type === "note") return note(item);
    const made = this.#message(item);
    const open = new Set([...(old?.querySelectorAll("details[open]") ?? [])].map((one) => one.dataset.call));
    for (const one of made.querySelectorAll("details")) one.open = open.has(one.dataset.call);
    return made;
  }

  #message({ message, calls }) {
    const tags = Object.entries(TAGS).map(([kind, tag]) => [kind, tag(message)]).filter(([, tag]) => tag);
    const waits = message.status === "pending";
    const outcome = h("output", { class: "outcome" });
    // A steer is the execution's that it was made for, and cannot be taken back.
    const withdraw = waits && message.metadata?.source !== "steering" && h("button", {
      type: "button", class: "tiny", text: "Withdraw",
      onclick: async (event) => {
        event.target.disabled = true;
        const { code, text, tone } = await this.#withdraw(message);
        outcome.dataset.tone = tone;
        outcome.textContent = `${code}: ${text}`;
        event.target.disabled = false;
      },
    });
    return h("li", { class: "entry message", "data-role": message.role, "data-status": message.status, "data-id": message.id },
      h("div", { class: "who" }, h("span", { class: "role", text: message.name ?? message.role })),
      h("div", { class: "said" },
        tags.length > 0 && h("div", { class: "tags" }, ...tags.map(([kind, tag]) => h("span", { class: "tag", "data-kind": kind, text: tag })), withdraw, outcome),
        message.content && h("div", { class: "text" }, ...prose(message.content)),
        ...calls.map(call),
        message.attachments?.length > 0 && h("div", { class: "meta", text: `${message.attachments.length} attachments` })),
      h("time", { class: "when", datetime: machine(message.created_at), title: fully(message.created_at), text: at(message.created_at) }));
  }

  #draft(draft, old) {
    if (old?.dataset.draft) {
      // Only the words grow: the reader's selection and place stay.
      const [reasoning, text] = old.querySelectorAll("[data-words]");
      grow(reasoning, draft, draft.reasoning);
      reasoning.closest("details").hidden = !draft.reasoning.length;
      grow(text, draft, draft.text);
      return old;
    }
    const made = h("li", { class: "entry message streaming", "data-role": "assistant", "data-draft": draft.id, "aria-busy": "true" },
      h("div", { class: "who" }, h("span", { class: "role", text: "assistant" })),
      h("div", { class: "said" },
        h("details", { class: "call", hidden: !draft.reasoning.length }, h("summary", { text: "Reasoning" }), h("pre", { "data-words": "reasoning" })),
        h("div", { class: "text" }, h("span", { "data-words": "text" }), h("span", { class: "caret", "aria-hidden": "true" }))),
      h("span", { class: "when", text: "now" }));
    return this.#draft(draft, made);
  }
}

const grown = new WeakMap(); // element -> {draft, count} of the pieces that it shows

/** Show a text that only grows: of a long one, the last block alone changes, and not what stands above it. */
function grow(place, draft, pieces) {
  let known = grown.get(place);
  if (!known || known.draft !== draft) {
    place.replaceChildren(h("span", {}, document.createTextNode("")));
    grown.set(place, (known = { draft, count: 0 }));
  }
  if (known.count === pieces.length) return;
  let last = place.lastChild.firstChild;
  last.appendData(pieces.slice(known.count).join(""));
  known.count = pieces.length;
  while (last.length > BLOCK) {
    let cut = last.data.lastIndexOf("\n") + 1 || (last.length > UNBROKEN ? last.data.lastIndexOf(" ") + 1 : 0);
    // A piece may be long itself, and its end may be on a line's.
    if (cut > 2 * BLOCK) cut = last.data.indexOf("\n", BLOCK) + 1 || cut;
    if (!cut || cut === last.length) return;
    const rest = h("span", { text: last.data.slice(cut) });
    last.deleteData(cut, last.length - cut);
    place.append(rest);
    last = rest.firstChild;
  }
}

function call({ id, name, arguments: given, result }) {
  const status = result ? (result.tool_status ?? "success") : "open";
  return h("details", { class: "call", "data-call": id, "data-status": status },
    h("summary", {},
      h("span", { class: "call-name", text: name }),
      h("span", { class: "call-args", text: clip(given || "", 80) }),
      h("span", { class: "call-status", text: { success: "ok", error: "error", open: "running" }[status] ?? status })),
    given && h("pre", { text: prettyJson(given) }),
    result && h("pre", { class: "result", text: prettyJson(result.content) }));
}

function note({ kind, text, at: when, value }) {
  return h("li", { class: "entry note", "data-kind": kind },
    h("span", { class: "note-text", text }),
    value !== undefined && h("code", { text: clip(pretty(value), 120) }),
    h("time", { class: "when", datetime: machine(when), title: fully(when), text: at(when) }));
}

function end(record) {
  const took = record.finished_at ? duration(record.finished_at - record.started_at) : null;
  const facts = [record.reason && words(record.reason), took, short(record.execution_id)].filter(Boolean).join(" · ");
  return h("li", { class: "entry end", "data-status": record.status },
    h("span", { class: "end-line" },
      h("b", { text: OUTCOMES[record.status] ?? record.status }),
      h("span", { text: facts })),
    record.error && h("span", { class: "end-error", text: `${record.error.type}: ${record.error.message}` }));
}
