// Speaks HTTP with the server: token, problems, repeats under one id. Draws nothing.

const TOKEN = "treadle-token";
const SENDABLE = /^[\x21-\x7e]+$/; // what a header can hold of a token
const WAITS = [250, 500, 1000, 2000, 4000, 5000];

/** The server said no: `code` is stable, the message is for people. */
export class Problem extends Error {
  constructor(status, body) {
    super(body.detail ?? body.title ?? `the server answered ${status}`);
    this.status = status;
    this.code = body.code ?? `http_${status}`;
    this.body = body;
  }
}

/** No answer came: the server is away, or the network is. What was sent may have been done. */
export class Away extends Error {
  name = "Away";
}

/** Return a promise that resolves after `ms`, or as soon as `signal` aborts. */
export function pause(ms, signal) {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    signal?.addEventListener("abort", () => { clearTimeout(timer); resolve(); }, { once: true });
  });
}

/** The growing waits between attempts, each spread by a quarter so that many pages do not come back at once. */
export const backoff = (attempt) => WAITS[Math.min(attempt, WAITS.length - 1)] * (0.75 + Math.random() / 2);

// Beside where the page is, so that an app mounted below a prefix works too.
export const address = (path) => new URL(path, new URL(".", document.baseURI));

/** What the browser stores of that kind; where it may store nothing, what is remembered ends with the page. */
export function storage(kind) {
  try {
    window[kind].getItem("");
    return window[kind];
  } catch {
    const kept = new Map();
    return { getItem: (key) => kept.get(key) ?? null, setItem: (key, value) => kept.set(key, value), removeItem: (key) => kept.delete(key) };
  }
}

const tab = storage("sessionStorage");

export class Api {
  #asking = null;

  /** `askToken(refused)` resolves to a token, once a person gave one. */
  constructor(askToken) {
    this.askToken = askToken;
  }

  get token() {
    return tab.getItem(TOKEN);
  }

  /** Forget the token, and what was typed under it. */
  forget() {
    for (const key of Object.keys(tab)) if (key.startsWith("treadle-")) tab.removeItem(key);
  }

  async #authorise(used) {
    // Somebody else may have asked meanwhile; then the new token is tried first.
    if (this.token !== used) return;
    this.#asking ??= this.askToken(used !== null).then((token) => {
      tab.setItem(TOKEN, token);
      this.#asking = null;
    });
    await this.#asking;
  }

  /** Return the raw response, whatever its status, once a token satisfies the server. Raises Away. */
  async fetch(path, { method = "GET", body, key, headers = {}, signal } = {}) {
    for (;;) {
      const used = this.token;
      if (used && !SENDABLE.test(used)) {
        await this.#authorise(used); // no server knows it
        continue;
      }
      const sent = { Accept: "application/json", ...headers };
      if (used) sent.Authorization = `Bearer ${used}`;
      if (body !== undefined) sent["Content-Type"] = "application/json";
      if (key) sent["Idempotency-Key"] = key;
      let response;
      try {
        response = await fetch(address(path), {
          method,
          headers: sent,
          body: body === undefined ? undefined : JSON.stringify(body),
          signal,
          cache: "no-store",
          credentials: "omit",
          redirect: "error",
        });
      } catch (error) {
        if (signal?.aborted) throw error;
        throw new Away("the server does not answer", { cause: error });
      }
      if (response.status !== 401) return response;
      await this.#authorise(used);
      if (signal?.aborted) throw new DOMException("aborted", "AbortError");
    }
  }

  /** Return the JSON of an answer. `also` are further statuses that are answers and no errors. Raises Problem, Away. */
  async call(path, options = {}) {
    const response = await this.fetch(path, options);
    let body = null;
    try {
      const text = await response.text();
      body = text ? JSON.parse(text) : null;
    } catch (error) {
      if (options.signal?.aborted) throw error;
      if (!(error instanceof SyntaxError)) throw new Away("the answer was cut off", { cause: error });
    }
    if (response.ok || (options.also ?? []).includes(response.status)) return body;
    throw new Problem(response.status, body ?? {});
  }

  /**
   * As `call`, again and again under the same id until an answer comes: the id makes that safe. `waiting(attempt)` is
   * told of each attempt that got none.
   */
  async surely(path, options, waiting) {
    for (let attempt = 0; ; attempt += 1) {
      try {
        return await this.call(path, options);
      } catch (error) {
        const away = error instanceof Away || (error instanceof Problem && [502, 503, 504].includes(error.status));
        if (!away || options.signal?.aborted) throw error;
        waiting(attempt + 1);
        await pause(backoff(attempt), options.signal);
        if (options.signal?.aborted) throw error;
      }
    }
  }
}

/** A fresh id for an input or a control. */
export const newId = () => [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
