// Folds what the server says of one thread into what a page shows of it. Knows no page and asks for nothing.
//
// The server's pages say what messages and executions there are; frames bring that up to date. A committed frame is
// applied once, in order, and moves the cursor. Messages come beside it, each as it is by now, so the last one holds.

const OPEN = ["THREAD_EXECUTION_STARTED", "INPUT_QUEUED"];
const NOTES_BEFORE = 400; // events of the past that are looked through for notes
const NOTES_KEPT = 1000;
const MOST = 1200; // messages, executions and inputs of a page that stays open
const KEPT = 800; // of them, once there are more

const sequenceOf = (cursor) => Number(cursor.slice(cursor.indexOf(":") + 1));
const waits = (message) => message.metadata?.queued === true; // in the inbox; history has no place for it yet
const generationOf = (cursor) => Number(cursor.slice(0, cursor.indexOf(":")));

export class ThreadModel {
  constructor(id) {
    this.id = id;
    this.agent = null;
    this.user = null;
    this.status = null;
    this.held = false;
    this.terminated = null;
    this.deleted = false;
    this.cursor = null;
    this.bootId = null;
    this.active = null;
    this.pending = new Map(); // request id -> request
    this.messages = []; // history, then what waits, as the server lists them
    this.hasOlder = false;
    this.hasAllWaiting = false; // else there are older ones that wait, before any of history
    this.executions = new Map(); // execution id -> record, newest first when listed
    this.hasOlderExecutions = false;
    this.drafts = new Map(); // message id -> pieces of a message that is not stored yet
    this.notes = []; // what happened between messages
    this.activity = []; // steps, model requests and tools of the live execution
    this.inputs = new Map(); // input or control id -> what became of it
    this.fromStart = false; // whether the words of the running step were all seen
    this.restarts = 0;
    this.version = 0;
    this.loadedAt = 0; // the sequence that the first pages reflect
    this.isPast = false; // whether the last event was before that
  }

  #rows = new Map(); // sequence of an input that waits -> its id
  #inputOf = new Map(); // message id -> id of the input that it waits with

  // What the server answers

  /** Take `GET /threads/{id}` and `/state`; returns the cursor to begin the stream after. */
  begin(thread, state) {
    this.agent = thread.agent_id;
    this.user = thread.user_id;
    this.#present(state);
    this.terminated = state.terminated_at ?? thread.terminated_at ?? null;
    this.loadedAt = sequenceOf(state.cursor);
    this.cursor = `${generationOf(state.cursor)}:${Math.max(0, this.loadedAt - NOTES_BEFORE)}`;
    this.version += 1;
  }

  /** Take the newest page of messages, before the stream begins. */
  page(messages, hasMore) {
    this.messages = [];
    this.older(messages, hasMore);
  }

  /** Take a page of messages before the oldest. */
  older(messages, hasMore) {
    const known = new Set(this.messages.map((one) => one.id));
    const all = [...messages.filter((one) => !known.has(one.id)), ...this.messages];
    this.messages = [...all.filter((one) => !waits(one)), ...all.filter(waits)];
    this.hasOlder = hasMore;
    this.hasAllWaiting ||= !hasMore || !messages.every(waits);
    this.version += 1;
  }

  /** Say which page is before the oldest: history has places, and what waits is only counted. */
  get olderPage() {
    const joined = this.messages.find((one) => !waits(one));
    return this.hasAllWaiting && joined ? `before=${encodeURIComponent(joined.id)}` : `offset=${this.messages.filter(waits).length}`;
  }

  /** Take a page of execution records. */
  records(records, hasMore) {
    for (const record of records) {
      const known = this.executions.get(record.execution_id);
      // What a frame has settled meanwhile is newer than a page that still shows it active.
      if (!known || known.status === "active" || record.status !== "active") {
        this.executions.set(record.execution_id, { lost_at: known?.lost_at, ...record });
      }
    }
    this.hasOlderExecutions = hasMore;
    this.version += 1;
  }

  // What the stream says

  /** Take one frame. */
  apply(frame) {
    this.version += 1;
    if (frame.cursor && frame.type !== "thread_status") {
      if (sequenceOf(frame.cursor) <= sequenceOf(this.cursor) && generationOf(frame.cursor) === generationOf(this.cursor)) return;
      this.isPast = sequenceOf(frame.cursor) <= this.loadedAt;
      this.#committed(frame, this.isPast);
      this.cursor = frame.cursor;
      return;
    }
    LIVE[frame.type]?.call(this, frame);
  }

  snapshot(frame) {
    if (this.bootId !== null && frame.boot_id !== this.bootId) {
      this.restarts += 1;
      this.drafts.clear();
      this.note(Date.now() * 1000, `boot:${frame.boot_id}`, "restart", "The server was started again");
    }
    // Live frames between two connections are gone, and so are those before the first.
    this.fromStart = false;
    for (const draft of this.drafts.values()) draft.broken = true;
    this.#present(frame);
  }

  #present(state) {
    this.status = state.status;
    this.active = state.active_execution;
    this.pending = new Map(state.pending_requests.map((request) => [request.request_id, request]));
    this.held = state.held;
    this.bootId = state.boot_id;
    if (!this.active) this.activity = [];
  }

  note(at, key, kind, text, more = {}) {
    if (this.notes.some((one) => one.key === key)) return;
    this.notes.push({ at, key, kind, text, ...more });
    this.notes.sort((one, other) => one.at - other.at);
    if (this.notes.length > NOTES_KEPT) this.notes.shift();
  }

  /** A committed event; `past` is before the pages, which hold its effects already. */
  #committed(event, past) {
    if (event.input_id && OPEN.includes(event.type)) this.#input(event);
    COMMITTED[event.type]?.call(this, event, past);
  }

  #input(event) {
    if (event.type === "INPUT_QUEUED") {
      this.#rows.set(sequenceOf(event.cursor), event.input_id);
      for (const draft of event.messages) this.#inputOf.set(draft.id, event.input_id);
      this.inputs.set(event.input_id, { state: "waiting", kind: event.kind });
    } else this.inputs.set(event.input_id, { state: "started", execution: event.execution_id });
  }

  /** Return the id of the input that a message waits with, null where it is not known here. */
  inputOf(messageId) {
    return this.#inputOf.get(messageId) ?? null;
  }

  joined(event) {
    for (const [sequence] of event.rows) {
      const id = this.#rows.get(sequence);
      if (id === undefined) continue;
      this.#rows.delete(sequence);
      this.inputs.set(id, { state: event.consumed ? "read" : "unread", execution: event.execution_id, reason: event.reason });
    }
  }

  /** Put a message where it belongs: history by time, what waits behind it. */
  put(message) {
    this.drafts.delete(message.id);
    const known = this.messages.findIndex((one) => one.id === message.id);
    if (known >= 0 && this.messages[known].created_at === message.created_at && this.messages[known].status === message.status) {
      this.messages[known] = message;
      return;
    }
    if (known >= 0) this.messages.splice(known, 1);
    else if (this.hasOlder && message.created_at < (this.messages[0]?.created_at ?? 0)) return; // on an earlier page
    const waits = message.status === "pending";
    let place = this.messages.length;
    while (place > 0) {
      const before = this.messages[place - 1];
      const isWaiting = before.status === "pending";
      if (isWaiting === waits ? before.created_at <= message.created_at : waits) break;
      place -= 1;
    }
    this.messages.splice(place, 0, message);
  }

  drop(id) {
    this.messages = this.messages.filter((one) => one.id !== id);
    this.drafts.delete(id);
  }

  /** Forget the oldest of what can be fetched again, so that a page that stays open for days does not grow. */
  trim() {
    if (this.messages.length > MOST) {
      this.messages = this.messages.slice(-KEPT);
      this.hasAllWaiting &&= !waits(this.messages[0]);
      this.hasOlder = true;
    }
    if (this.executions.size > MOST) {
      const latest = [...this.executions].sort(([, one], [, other]) => other.started_at - one.started_at);
      this.executions = new Map(latest.slice(0, KEPT));
      this.hasOlderExecutions = true;
    }
    for (const known of [this.inputs, this.#inputOf, this.#rows]) {
      for (const key of known.keys()) {
        if (known.size <= MOST) break;
        known.delete(key);
      }
    }
  }

  /** An execution is over: words that it never stored are gone with it. */
  over(id) {
    this.drafts.clear();
    this.activity = [];
    if (this.active?.execution_id === id) this.active = null;
  }

  act(kind, text) {
    this.activity.push({ kind, text, at: Date.now() * 1000 });
    if (this.activity.length > 30) this.activity.shift();
  }
}

// A user's own words stay as they are; `aborted_by_user` says nothing more.
const because = (reason) => (reason && reason !== "aborted_by_user" ? `: ${/^[a-z_]+$/.test(reason) ? reason.replaceAll("_", " ") : reason}` : "");

const COMMITTED = {
  THREAD_EXECUTION_STARTED(event, past) {
    if (past) return;
    this.executions.set(event.execution_id, {
      execution_id: event.execution_id, agent_id: event.agent_id, status: "active", started_at: event.created_at,
      finished_at: null, outcome: null, error: null, reason: null, input_id: event.input_id, cause: event.cause,
    });
    this.active = { execution_id: event.execution_id, agent_id: event.agent_id, started_at: event.created_at, phase: "running" };
    this.held = false; // a START lifts the hold without saying so
    this.fromStart = true;
    this.activity = [];
  },
  THREAD_EXECUTION_FINISHED(event, past) {
    if (past) return;
    const known = this.executions.get(event.execution_id);
    if (known) {
      this.executions.set(event.execution_id, {
        ...known, status: event.outcome, outcome: event.outcome, finished_at: event.finished_at, reason: event.reason,
        abandoned: event.abandoned, leftovers: event.leftovers,
        error: event.error_type ? { type: event.error_type, message: event.error_message } : null,
      });
    }
    this.over(event.execution_id);
  },
  THREAD_EXECUTION_LOST(event, past) {
    const known = this.executions.get(event.execution_id);
    if (past) {
      if (known) this.executions.set(event.execution_id, { ...known, lost_at: event.created_at }); // which no page says
      return;
    }
    if (known) {
      const { boot_id, last_sequence, cause, dispatched, leftovers } = event;
      this.executions.set(event.execution_id, {
        ...known, status: "interrupted", reason: "execution_lost", leftovers, lost_at: event.created_at,
        evidence: { boot_id, last_sequence, cause, dispatched },
      });
    }
    this.over(event.execution_id);
  },
  THREAD_EXECUTION_INTERRUPTED(event, past) {
    const who = { user: "Interrupted by a user", system: "Interrupted by the system", parent: "Interrupted by its parent", deadline: "Its time was over" };
    this.note(event.created_at, event.cursor, "interrupt", who[event.source] + because(event.reason), { execution: event.execution_id });
    if (past) return;
    if (this.active?.execution_id === event.execution_id) this.active = { ...this.active, phase: "stopping" };
    if (event.hold) this.held = true;
    this.pending.clear();
  },
  MESSAGES_JOINED(event) {
    this.joined(event);
  },
  INPUT_WITHDRAWN(event) {
    this.inputs.set(event.input_id, { state: "withdrawn" });
    this.note(event.created_at, event.cursor, "withdrawn", "A waiting input was withdrawn");
  },
  HOLD_CHANGED(event, past) {
    this.note(event.created_at, event.cursor, "hold", event.held ? `Held${because(event.reason)}` : "The hold was lifted");
    if (!past) this.held = event.held;
  },
  THREAD_TERMINATED(event) {
    this.note(event.created_at, event.cursor, "terminated", "The thread was terminated");
    this.terminated = event.created_at;
  },
  REQUEST_OPENED(event, past) {
    this.note(event.created_at, event.cursor, "request", `Asked for ${event.kind.replaceAll("_", " ")}`, { request: event.request_id });
    if (!past) this.pending.set(event.request_id, event);
  },
  REQUEST_TERMINATED(event, past) {
    const said = { resolved: "Answered", expired: "Nobody answered in time", abandoned: "Its question was abandoned" };
    const value = event.status === "resolved" ? { value: event.value } : {};
    this.note(event.created_at, event.cursor, "answer", said[event.status], { request: event.request_id, ...value });
    if (!past) this.pending.delete(event.request_id);
  },
  AGENT_CHANGED(event) {
    this.note(event.created_at, event.cursor, "handoff", `Handed to ${event.agent_id}`);
    this.agent = event.agent_id;
  },
};

function chunk(kind) {
  return function take(frame) {
    if (this.messages.some((one) => one.id === frame.message_id)) return;
    let draft = this.drafts.get(frame.message_id);
    if (!draft) {
      draft = { id: frame.message_id, depth: frame.depth ?? 0, text: [], reasoning: [], broken: !this.fromStart, version: 0 };
      this.drafts.set(frame.message_id, draft);
    }
    if (draft.broken) {
      draft.broken = false;
      draft[kind].push(draft[kind].length ? " […] " : "[…] ");
    }
    draft[kind].push(frame.chunk);
    draft.version += 1;
  };
}

const LIVE = {
  thread_deleted() {
    this.deleted = true;
  },
  thread_status(frame) {
    if (frame.boot_id) this.snapshot(frame);
    else this.status = frame.status;
  },
  message_data(frame) {
    // It comes behind its event. One of the past is on a page already, or on one that nobody asked for yet.
    if (!this.isPast) this.put(frame.data);
  },
  event(frame) {
    if (frame.eventType === "message_deleted") this.drop(frame.data.message_id);
  },
  message_chunk: chunk("text"),
  reasoning_chunk: chunk("reasoning"),
  message_restart(frame) {
    this.fromStart = true;
    this.drafts.delete(frame.message_id);
  },
  gap() {
    for (const draft of this.drafts.values()) draft.broken = true;
  },
  step_started(frame) {
    this.fromStart = true;
    this.act("step", `Step ${frame.step}, side ${frame.side}`);
  },
  llm_request(frame) {
    this.act("model", frame.attempt > 1 ? `Asks ${frame.model}, attempt ${frame.attempt}` : `Asks ${frame.model}`);
  },
  llm_response(frame) {
    this.act("model", `Answered after ${frame.latency} ms`);
  },
  fallback_triggered(frame) {
    this.act("model", `Falls back from ${frame.from}`);
  },
  tool_started(frame) {
    this.act("tool", `Runs ${frame.tool}`);
  },
  tool_completed(frame) {
    this.act("tool", `${frame.tool}: ${frame.status}`);
  },
};
