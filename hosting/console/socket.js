// Keeps one WebSocket on a thread's stream: a one-use ticket, a ping, a way back. Says what comes, judges none of it.

import { address, backoff, pause, Problem } from "./api.js";

const PING_MS = 20_000;

export class ThreadSocket {
  #api;
  #path;
  #hear;
  #stopped = new AbortController();

  /**
   * `hear` has `frame(frame)`, `state(name)` with `connecting`, `open` or `away`, `after()` which gives the cursor to
   * resume from, `refused()` which finds out why there was no connection, and `failed(problem)` which says whether
   * another attempt makes sense.
   */
  constructor(api, id, hear) {
    this.#api = api;
    this.#path = `threads/${encodeURIComponent(id)}/stream`;
    this.#hear = hear;
    this.#run(this.#stopped.signal);
  }

  close() {
    this.#stopped.abort();
  }

  async #run(signal) {
    for (let attempt = 0; !signal.aborted; attempt += 1) {
      try {
        this.#hear.state("connecting");
        const { pathname } = address(this.#path);
        const { ticket } = await this.#api.call("tickets", { method: "POST", body: { path: pathname }, signal });
        if (await this.#follow(ticket, signal)) attempt = -1;
        else if (!signal.aborted) await this.#hear.refused(); // a browser does not say why
      } catch (error) {
        if (signal.aborted) return;
        if (error instanceof Problem && error.status < 500 && !this.#hear.failed(error)) return;
      }
      if (signal.aborted) return;
      this.#hear.state("away");
      await pause(backoff(Math.max(0, attempt)), signal);
    }
  }

  /** Resolve when the connection is over: to whether it was ever of use. */
  #follow(ticket, signal) {
    const url = address(this.#path);
    url.protocol = url.protocol === "https:" ? "wss:" : "ws:";
    const wanted = { ticket, after: this.#hear.after(), journal: "true", include_silent: "true", depth: "64", reasoning: "true" };
    url.search = new URLSearchParams(wanted);
    return new Promise((resolve) => {
      const socket = new WebSocket(url);
      let used = false;
      let awaitsPong = false;
      const end = () => socket.close();
      const beat = setInterval(() => {
        // By beats and not by the clock: the timers of a hidden tab are slowed down.
        if (awaitsPong) end();
        else if (socket.readyState === WebSocket.OPEN) {
          awaitsPong = true;
          socket.send("ping");
        }
      }, PING_MS);
      signal.addEventListener("abort", end, { once: true });
      socket.addEventListener("message", (event) => {
        awaitsPong = false;
        if (event.data === "pong" || signal.aborted) return;
        if (!used) this.#hear.state("open");
        used = true;
        this.#hear.frame(JSON.parse(event.data));
      });
      socket.addEventListener("close", (event) => {
        clearInterval(beat);
        signal.removeEventListener("abort", end);
        resolve(used);
      });
    });
  }
}
