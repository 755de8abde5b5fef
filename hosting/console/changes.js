// Follows the store-wide list of changes by server-sent events over fetch, so that the token travels in a header.

import { Away, backoff, pause, Problem } from "./api.js";

const SILENCE_MS = 45_000; // three heartbeats

/** Yield the events of one response: {event, data, id}. Comments are yielded too, as signs of life. */
export async function* eventsOf(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  let event = { event: "message", data: [], id: null };
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      rest += value;
      // A carriage return at the end may be the first half of one line end.
      const cut = rest.endsWith("\r") ? rest.length - 1 : rest.length;
      const lines = rest.slice(0, cut).split(/\r\n|\n|\r/);
      rest = lines.pop() + rest.slice(cut);
      for (const line of lines) {
        if (line === "") {
          if (event.data.length) yield { ...event, data: event.data.join("\n") };
          event = { event: "message", data: [], id: null };
          continue;
        }
        const colon = line.indexOf(":");
        if (colon === 0) {
          yield { event: "heartbeat", data: "", id: null };
          continue;
        }
        const name = colon < 0 ? line : line.slice(0, colon);
        const said = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
        if (name === "event") event.event = said;
        else if (name === "data") event.data.push(said);
        else if (name === "id") event.id = said;
      }
    }
  } finally {
    reader.cancel().catch(() => {}); // the response may be over already
  }
}

/** Keeps one connection to `/events` open, resumes by cursor, and rests while nobody sees the page. */
export class Changes {
  #api;
  #take;
  #tell;
  #cursor = null;
  #stopped = null;

  /** `take(frame)` gets each change, `tell(state)` one of `open`, `away`, `renew`: the list has to be loaded from here on. */
  constructor(api, take, tell) {
    this.#api = api;
    this.#take = take;
    this.#tell = tell;
    // A browser opens six connections to a host, all tabs together: a hidden tab gives its one back.
    document.addEventListener("visibilitychange", () => (document.hidden ? this.#stop() : this.start()));
  }

  start() {
    if (this.#stopped) return;
    this.#stopped = new AbortController();
    this.#run(this.#stopped.signal);
  }

  #stop() {
    this.#stopped?.abort();
    this.#stopped = null;
  }

  async #run(signal) {
    for (let attempt = 0; !signal.aborted; attempt += 1) {
      try {
        await this.#follow(signal, () => { attempt = 0; });
      } catch (error) {
        if (signal.aborted) return;
        if (error instanceof Problem && this.#cursor !== null && error.status < 500) {
          this.#cursor = null; // of another store
        }
      }
      if (signal.aborted) return;
      this.#tell("away");
      await pause(backoff(attempt), signal);
    }
  }

  async #follow(signal, live) {
    const one = new AbortController();
    const end = () => one.abort();
    signal.addEventListener("abort", end);
    let watch;
    const alive = () => {
      clearTimeout(watch);
      watch = setTimeout(end, SILENCE_MS);
    };
    try {
      const path = `events?after=${encodeURIComponent(this.#cursor ?? "latest")}`;
      const response = await this.#api.fetch(path, { headers: { Accept: "text/event-stream" }, signal: one.signal });
      if (!response.ok) throw new Problem(response.status, await response.json().catch(() => ({})));
      this.#tell("open");
      live();
      alive();
      for await (const event of eventsOf(response.body)) {
        alive();
        if (event.event === "heartbeat") continue;
        const frame = JSON.parse(event.data);
        if (event.event === "snapshot" && this.#cursor === null) {
          // A list that is read after this number is there misses nothing.
          this.#cursor = frame.after;
          this.#tell("renew");
        }
        this.#take(frame);
        // Only what was applied moves the cursor.
        if (event.id !== null) this.#cursor = event.id;
      }
    } finally {
      clearTimeout(watch);
      signal.removeEventListener("abort", end);
      one.abort();
    }
    throw new Away("the stream ended");
  }
}

