// Owns the message field: how a text is sent, and what became of each that was.

import { $, announce, h, keep, setText } from "./dom.js";
import { newId, storage } from "./api.js";
import { clip } from "./format.js";
import { failed, said, SENDING, since, VERBS } from "./words.js";

const KEPT = 4;
const TYPED = "treadle-typed "; // and the id of a thread
const tab = storage("sessionStorage");

/** The last few; and whatever has no answer yet or was not taken, whose text is nowhere else. */
function recent(entries) {
  let over = entries.length - KEPT;
  return entries.filter((one) => over <= 0 || one.isOpen || one.back || (over -= 1) < 0);
}

export class Composer {
  #send;
  #redraw;
  #thread = null;
  #receipts = new Map(); // thread id -> what was sent from here, newest last

  /** `send(verb, text, id, waiting)` returns the receipt; it may take as long as the server is away. */
  constructor({ send, redraw }) {
    this.#send = send;
    this.#redraw = redraw;
    $("composer").addEventListener("submit", (event) => {
      event.preventDefault();
      this.submit();
    });
    const field = $("composer-text");
    field.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
        event.preventDefault();
        this.submit();
      }
    });
    field.addEventListener("input", () => this.#typed());
    for (const radio of this.#radios()) radio.addEventListener("change", () => this.#labels());
    this.#labels();
  }

  #radios() {
    return document.querySelectorAll("#verbs input");
  }

  get verb() {
    return [...this.#radios()].find((radio) => radio.checked).value;
  }

  /** Choose how to send, by its place from 0. */
  choose(place) {
    const radio = this.#radios()[place];
    if (!radio || radio.disabled) return;
    radio.checked = true;
    this.#labels();
  }

  open(id) {
    this.#thread = id;
    $("composer-text").value = tab.getItem(TYPED + id) ?? "";
    this.#fit();
  }

  /** Keep what is typed with the tab, so that neither looking elsewhere nor loading the page anew loses it. */
  #typed() {
    const text = $("composer-text").value;
    try {
      if (text) tab.setItem(TYPED + this.#thread, text);
      else tab.removeItem(TYPED + this.#thread);
    } catch {
      tab.removeItem(TYPED + this.#thread); // there is no room for it: an old text would be worse than none
    }
    this.#fit();
  }

  /** The run status changed: what is meant by a text changes only while none is typed. */
  suggest(isRunning) {
    if ($("composer-text").value) return;
    const verb = this.verb;
    if (isRunning && verb === "send") this.choose(1);
    else if (!isRunning && verb === "steer") this.choose(0);
  }

  #labels() {
    const { label, placeholder, hint } = VERBS[this.verb];
    setText($("send"), label);
    setText($("verb-hint"), hint);
    $("verb-hint").title = hint;
    $("composer-text").placeholder = placeholder;
  }

  #fit() {
    const field = $("composer-text");
    field.style.height = "auto";
    field.style.height = `${Math.min(field.scrollHeight + 2, 220)}px`;
  }

  async submit() {
    const field = $("composer-text");
    const text = field.value.trim();
    if (!text) return;
    const entry = { id: newId(), thread: this.#thread, verb: this.verb, text, outcome: SENDING, back: false, isOpen: true };
    this.#receipts.set(entry.thread, recent([...(this.#receipts.get(entry.thread) ?? []), entry]));
    field.value = "";
    this.#typed();
    this.#redraw();
    try {
      const receipt = await this.#send(entry.verb, text, entry.id, (attempt) => {
        entry.outcome = { code: "no answer yet", text: `Repeated under the same id, attempt ${attempt + 1}: it counts once.`, tone: "warn" };
        this.#redraw();
      });
      entry.outcome = said(receipt.disposition, receipt, entry.verb);
      entry.back = entry.outcome.tone !== "good";
    } catch (error) {
      entry.outcome = failed(error);
      entry.back = true;
    }
    entry.isOpen = false;
    announce(`${VERBS[entry.verb].label}: ${entry.outcome.code}. ${entry.outcome.text}`);
    this.#redraw();
  }

  render(model) {
    const kept = this.#receipts.get(this.#thread) ?? [];
    for (const entry of kept) {
      const later = entry.outcome.tone === "good" && entry.verb !== "send" ? since(model.inputs.get(entry.id)) : null;
      if (later) entry.outcome = { ...entry.outcome, ...later };
    }
    keep($("receipts"), kept, (one) => one.id, (one) => JSON.stringify([one.outcome, one.back]), (one) => this.#line(one));
    const radios = this.#radios();
    for (const radio of radios) radio.disabled = model.terminated !== null;
    $("composer-text").disabled = model.terminated !== null;
    $("send").disabled = model.terminated !== null;
    this.suggest(model.active !== null);
  }

  #line(entry) {
    return h("li", { class: "receipt", "data-tone": entry.outcome.tone, "data-verb": entry.verb },
      h("span", { class: "verb", text: VERBS[entry.verb].label }),
      h("q", { text: clip(entry.text, 60) }),
      h("b", { class: "code", text: entry.outcome.code }),
      h("span", { class: "why", text: entry.outcome.text }),
      entry.back && h("button", {
        type: "button", class: "tiny", text: "Edit",
        title: "Put the text back into the field",
        onclick: () => {
          entry.back = false;
          $("composer-text").value = entry.text;
          this.#typed();
          $("composer-text").focus();
          this.#redraw();
        },
      }),
      h("button", {
        type: "button", class: "icon-button", "aria-label": "Dismiss",
        onclick: () => {
          this.#receipts.set(entry.thread, (this.#receipts.get(entry.thread) ?? []).filter((one) => one !== entry));
          this.#redraw();
        },
      }, h("span", { "aria-hidden": "true", text: "×" })));
  }
}
