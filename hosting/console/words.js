// Says in plain words what became of an input or a control. The codes are the server's own.

import { short, words } from "./format.js";

export const VERBS = {
  send: { label: "Send", placeholder: "Message", hint: "A new execution; refused while one runs." },
  steer: { label: "Steer", placeholder: "Say something to what runs", hint: "Read at its next boundary, by this execution only." },
  queue: { label: "Queue", placeholder: "Message for the next boundary", hint: "Joins at the next boundary, or starts an execution." },
  interrupt: { label: "Interrupt & send", placeholder: "Message that replaces what runs", hint: "Interrupts what runs, then goes on with this." },
};

const SAYS = {
  accepted: (receipt, verb) => {
    if (verb === "interruption") return "Nothing new begins in it from here on.";
    if (verb === "steer") return "The execution reads it at its next boundary.";
    if (verb === "stop") return "What ran is interrupted, and the thread is held.";
    if (verb === "resume") return receipt.execution_id ? `Runs as ${short(receipt.execution_id)}.` : "The hold is lifted.";
    return receipt.delivered_as === "steer" ? "It joined the execution that runs." : `Runs as ${short(receipt.execution_id)}.`;
  },
  queued: (receipt) => {
    if (receipt.held) return "Stored. The thread is held: it starts at Resume or at the next Send.";
    if (receipt.interrupted) return `Stored; runs as soon as ${short(receipt.interrupted)} has ended.`;
    return receipt.active_execution ? "Stored; it joins at the next boundary, or runs next." : "Stored; it starts now.";
  },
  busy: (receipt, verb) => verb === "resume" ? `${short(receipt.active_execution?.execution_id)} runs already.` : `Not stored: ${short(receipt.active_execution?.execution_id)} is ${receipt.active_execution?.phase ?? "active"}.`,
  no_active_execution: (_receipt, verb) => (verb === "stop" ? "Nothing ran; the thread is held." : "Nothing runs, so nobody reads it. Not stored."),
  active_execution_mismatch: (receipt) => `Another execution owns the thread by now: ${short(receipt.active_execution?.execution_id)}.`,
  active_input_not_steerable: () => "What runs takes no steers. Not stored.",
  execution_finishing: (_receipt, verb) => (verb === "stop" ? "It was finishing; the thread is held." : "Too late: it is finishing."),
  nothing_to_resume: () => "Nothing waits, and there is no history to run on.",
  already_resolved: () => "Somebody else answered first.",
  timed_out: () => "Too late: it has expired.",
  cancelled: () => "Its execution was interrupted or is over.",
  not_found: () => "There is no such request.",
  withdrawn: () => "It was taken back.",
  already_delivered: () => "Too late: it was read already.",
};

export const SENDING = { code: "sending", text: "", tone: "" };

const GOOD = new Set(["accepted", "queued", "withdrawn", "resumed"]);

/** Return {code, text, tone} of an answer. */
export function said(disposition, receipt, verb) {
  const good = GOOD.has(disposition) || (verb === "stop" && disposition !== "busy");
  return { code: words(disposition), text: SAYS[disposition]?.(receipt, verb) ?? "", tone: good ? "good" : "warn" };
}

/** Return {code, text, tone} of a call that failed. */
export function failed(error) {
  if (error.name === "Away") return { code: "no answer", text: "The server went away. Look at the thread before you try again.", tone: "bad" };
  return { code: words(error.code ?? "error"), text: error.message, tone: "bad" };
}

/** Return what has become of an accepted input since, or null. */
export function since(fate) {
  if (!fate) return null;
  if (fate.state === "read") return { text: `Read by ${short(fate.execution)}.`, tone: "good" };
  if (fate.state === "unread") return { text: `Not read: ${words(fate.reason) || "its execution ended first"}.`, tone: "warn" };
  if (fate.state === "withdrawn") return { text: "Withdrawn.", tone: "warn" };
  return null;
}

export const STATES = { idle: "Idle", running: "Running", failed: "Failed" };

export const OUTCOMES = {
  active: "Running",
  succeeded: "Succeeded",
  cancelled: "Cancelled",
  failed: "Failed",
  interrupted: "Interrupted",
};

export const CAUSES = {
  submit: "an input",
  rows: "waiting inputs",
  resume: "resume",
  recovery: "recovery",
};
