// Draws what the live execution asks, and sends the answer; what became of it stays on the card.

import { $, h, keep } from "./dom.js";
import { pretty, words } from "./format.js";
import { said } from "./executions.js";
import { SENDING } from "./words.js";

let cards = 0; // ids of requests may hold what ids of elements may not

const YES_NO = /approv|confirm|permi|allow|consent/i;

/** What an answer typed by hand is sent as: JSON where it is JSON, else the text itself. */
export function valueOf(text) {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

const kindOf = (value) => (value === null ? "null" : Array.isArray(value) ? "a list" : { string: "text", number: "a number", boolean: "true or false", object: "an object" }[typeof value]);

export class Requests {
  #answer;
  #outcomes = new Map(); // request id -> {request, outcome}
  #redraw;

  /** `answer(id, value)` returns the outcome to show. */
  constructor({ answer, redraw }) {
    this.#answer = answer;
    this.#redraw = redraw;
    setInterval(() => this.#tick(), 1000);
  }

  forget() {
    this.#outcomes = new Map(); // what is still asked for another thread fills the old one
  }

  /** What went well needs no card any more: something else is done by now. */
  settle() {
    for (const [id, { outcome }] of this.#outcomes) if (outcome.tone === "good") this.#outcomes.delete(id);
  }

  render(model) {
    const shown = new Map([...this.#outcomes].map(([id, one]) => [id, one.request]));
    for (const [id, request] of model.pending) shown.set(id, request);
    keep($("requests"), [...shown.values()], (one) => one.request_id,
      (one) => JSON.stringify([model.pending.has(one.request_id), this.#outcomes.get(one.request_id)?.outcome]),
      (one) => this.#card(one, model.pending.has(one.request_id)));
    this.#tick();
  }

  #tick() {
    for (const one of document.querySelectorAll("#requests [data-expires]")) {
      const left = Math.max(0, Math.round((Number(one.dataset.expires) / 1000 - Date.now()) / 1000));
      one.textContent = left > 90 ? `expires in ${Math.round(left / 60)} min` : `expires in ${left} s`;
    }
  }

  async #send(request, value) {
    const outcomes = this.#outcomes;
    if (outcomes.get(request.request_id)?.outcome === SENDING) return; // pressed twice, before it was drawn
    outcomes.set(request.request_id, { request, outcome: SENDING });
    this.#redraw();
    const outcome = await this.#answer(request.request_id, value);
    // What did not arrive can be given again.
    outcomes.set(request.request_id, { request, outcome });
    this.#redraw();
  }

  #card(request, isPending) {
    const outcome = this.#outcomes.get(request.request_id)?.outcome;
    const isOpen = isPending && (!outcome || outcome.tone === "bad");
    const title = `request-${(cards += 1)}`;
    return h("section", { class: "request", "data-open": String(isOpen), "aria-labelledby": title, "data-id": request.request_id },
      h("div", { class: "request-head" },
        h("h3", { id: title, tabindex: "-1", text: isOpen ? `Asks for ${words(request.kind)}` : `Asked for ${words(request.kind)}` }),
        isOpen && request.timeout ? h("span", { class: "meta", "data-expires": request.created_at + request.timeout * 1_000_000 }) : null,
        h("span", { class: "spacer" }),
        !isOpen && h("button", { type: "button", class: "icon-button", "aria-label": "Dismiss", onclick: () => { this.#outcomes.delete(request.request_id); this.#redraw(); } }, h("span", { "aria-hidden": "true", text: "×" }))),
      request.payload !== null && request.payload !== undefined && h("div", { class: "payload" }, ...payload(request.payload)),
      isOpen && this.#form(request),
      h("output", { class: "outcome", "data-tone": outcome?.tone }, outcome ? said(outcome) : ""));
  }

  #form(request) {
    const id = `answer-${cards}`;
    const hint = h("span", { class: "hint", id: `${id}-hint` });
    const field = h("input", {
      id, type: "text", autocomplete: "off", spellcheck: "false", placeholder: "Another answer", "aria-describedby": hint.id,
      oninput: () => { hint.textContent = field.value.trim() ? `sent as ${kindOf(valueOf(field.value))}` : ""; },
    });
    const yesNo = YES_NO.test(request.kind);
    return h("form", { class: "answer", onsubmit: (event) => { event.preventDefault(); if (field.value.trim()) this.#send(request, valueOf(field.value)); } },
      yesNo && h("button", { type: "button", class: "small primary", text: "Approve", onclick: () => this.#send(request, true) }),
      yesNo && h("button", { type: "button", class: "small danger", text: "Decline", onclick: () => this.#send(request, false) }),
      h("label", { class: "visually-hidden", for: id, text: `Answer to ${words(request.kind)}` }),
      field,
      h("button", { type: "submit", class: "small", text: "Answer" }),
      hint);
  }
}

/** An object as a list of its members, one level into it too; everything else as JSON. */
function payload(value, depth = 0) {
  const entries = typeof value === "object" && value !== null && !Array.isArray(value) ? Object.entries(value) : null;
  if (!entries || depth > 1) return [typeof value === "object" ? h("pre", { text: pretty(value) }) : h("span", { text: String(value) })];
  return [h("dl", {}, ...entries.map(([name, one]) => h("div", {}, h("dt", { text: words(name) }), h("dd", {}, ...payload(one, depth + 1)))))];
}
