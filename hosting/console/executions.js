// Draws a thread's executions as a timeline, the live one with what it does, and interrupts it.

import { $, h, keep, setText } from "./dom.js";
import { at, duration, fully, machine, short, words } from "./format.js";
import { CAUSES, OUTCOMES, SENDING } from "./words.js";

const ACTIVITY = 6; // lines of what the live execution does

export class Executions {
  #interrupt;
  #outcomes = new Map(); // execution id -> what became of an interruption made here

  /** `interrupt(id)` returns the outcome to show. */
  constructor({ interrupt, more }) {
    this.#interrupt = interrupt;
    $("more-executions").addEventListener("click", more);
    setInterval(() => this.#tick(), 500);
  }

  forget() {
    this.#outcomes = new Map(); // what is still asked for another thread fills the old one
  }

  render(model) {
    const records = [...model.executions.values()].sort((one, other) => other.started_at - one.started_at);
    keep($("executions"), records, (one) => one.execution_id, (one) => this.#version(one, model), (one, old) => this.#item(one, model, old));
    $("executions-empty").hidden = records.length > 0;
    $("more-executions").hidden = !model.hasOlderExecutions;
    setText($("execution-count"), records.length ? `${records.length}${model.hasOlderExecutions ? "+" : ""}` : "");
    this.#tick();
  }

  /** Interrupt an execution, and show what became of that where it was asked. */
  async interrupt(id, redraw) {
    const outcomes = this.#outcomes;
    if (outcomes.get(id)?.code === SENDING.code) return; // pressed twice
    outcomes.set(id, SENDING);
    redraw();
    outcomes.set(id, await this.#interrupt(id, (waiting) => {
      outcomes.set(id, waiting);
      redraw();
    }));
    redraw();
  }

  #version(record, model) {
    const live = model.active?.execution_id === record.execution_id;
    return JSON.stringify([record, live && [model.active, model.activity.length, model.activity.at(-1)?.at, model.pending.size], this.#outcomes.get(record.execution_id)]);
  }

  #tick() {
    for (const one of document.querySelectorAll("#executions [data-since]")) {
      setText(one, duration(Date.now() * 1000 - Number(one.dataset.since)));
    }
  }

  #item(record, model, old) {
    const live = model.active?.execution_id === record.execution_id ? model.active : null;
    const phase = live ? (live.phase === "running" && model.pending.size ? (model.pending.size > 1 ? `waiting for ${model.pending.size} answers` : "waiting for an answer") : live.phase) : null;
    const took = record.finished_at
      ? h("span", { class: "took", text: duration(record.finished_at - record.started_at) })
      : live && h("span", { class: "took", "data-since": record.started_at });
    const outcome = this.#outcomes.get(record.execution_id);
    const open = old?.querySelector("details")?.open ?? false;
    const hadFocus = old?.contains(document.activeElement);
    const made = h("li", { class: "execution", "data-status": record.status, "data-id": record.execution_id },
      h("span", { class: "dot", "data-state": record.status, "aria-hidden": "true" }),
      h("div", { class: "execution-head" },
        h("b", { class: "execution-status", text: OUTCOMES[record.status] ?? record.status }),
        phase && phase !== "running" && h("span", { class: "tag", text: phase }),
        record.abandoned && h("span", { class: "tag", "data-kind": "unread", text: "abandoned" }),
        h("span", { class: "spacer" }),
        took),
      h("div", { class: "meta" },
        h("code", { text: short(record.execution_id), title: record.execution_id }),
        record.reason && h("span", { text: words(record.reason) }),
        h("time", { datetime: machine(record.started_at), title: fully(record.started_at), text: at(record.started_at) })),
      record.error && h("div", { class: "execution-error", text: `${record.error.type}: ${record.error.message}` }),
      record.evidence && h("div", { class: "execution-note", text: `Cut off: ${words(record.evidence.cause)}. It is not run again by itself.` }),
      live && model.activity.length > 0 && h("ul", { class: "activity" },
        ...model.activity.slice(-ACTIVITY).map((one) => h("li", { "data-kind": one.kind, text: one.text }))),
      live && h("div", { class: "execution-foot" },
        h("button", {
          type: "button", class: "small danger", "data-act": "interrupt", text: "Interrupt", disabled: live.phase === "stopping" || live.phase === "finishing",
          title: "End this execution, and no other (i)",
          onclick: () => this.onInterrupt(record.execution_id),
        })),
      h("output", { class: "outcome", "data-tone": outcome?.tone }, outcome ? said(outcome) : ""),
      h("details", { class: "facts", open },
        h("summary", { text: "Details" }),
        facts(record)));
    if (hadFocus) requestAnimationFrame(() => {
      // Whoever went on meanwhile keeps the focus where it is.
      if (document.activeElement === document.body) (made.querySelector("button:not(:disabled)") ?? made.querySelector("summary")).focus();
    });
    return made;
  }
}

export const said = (outcome) => h("span", {}, h("b", { text: outcome.code }), outcome.text ? ` ${outcome.text}` : "");

function facts(record) {
  const rows = {
    execution: record.execution_id,
    agent: record.agent_id,
    "started by": CAUSES[record.cause] ?? record.cause,
    input: record.input_id,
    started: fully(record.started_at),
    finished: record.finished_at && fully(record.finished_at),
    "left over": record.leftovers?.length ? record.leftovers.join(", ") : null,
    ...Object.fromEntries(Object.entries(record.evidence ?? {}).map(([name, value]) => [words(name), String(value)])),
  };
  return h("dl", {}, ...Object.entries(rows).filter(([, value]) => value).map(([name, value]) => h("div", {}, h("dt", { text: name }), h("dd", { text: value }))));
}
