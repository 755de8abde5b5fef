// The list of threads with their live status: pages of the server, kept up to date by the list of changes.

import { $, h, keep, setAttribute, setText, batched } from "./dom.js";
import { ago, fully } from "./format.js";
import { STATES } from "./words.js";

const PAGE = 60;
const SOUGHT = 1000; // threads of a page that is looked through for a filter
const SOUGHT_MOST = 5000;
const LOOKUPS = 4; // threads unknown until now that are asked for at once

export class ThreadList {
  #api;
  #threads = new Map();
  #next = null;
  #rank = 0;
  #state = "";
  #chosen = null;
  #wanted = [];
  #lookups = 0;
  #loaded = 0;
  #isThere = false; // whether an answer came, so that an empty list is one
  #room = PAGE; // rows that are drawn
  #seeking = null;
  #failed = "";
  #draw = batched(() => this.#render());

  constructor(api) {
    this.#api = api;
    $("filter").addEventListener("input", () => {
      this.#room = PAGE;
      this.#draw();
      clearTimeout(this.#seeking);
      this.#seeking = setTimeout(() => this.#seek(), 200);
    });
    $("more-threads").addEventListener("click", () => this.more());
    for (const button of document.querySelectorAll(".filters [data-state]")) {
      button.addEventListener("click", () => this.#show(button.dataset.state));
    }
    setInterval(this.#draw, 20_000); // "3 min" ages
  }

  get agents() {
    return [...new Set([...this.#threads.values()].map((one) => one.agent_id).filter(Boolean))].sort();
  }

  /** Load the list from its beginning, what is shown staying until the answer is there. */
  async load() {
    this.#loaded += 1;
    await this.#page(null, true);
    await this.#seek();
  }

  async more() {
    this.#room += PAGE;
    if (this.#next && this.#shown().length < this.#room) await this.#page(this.#next, false, $("filter").value.trim() ? SOUGHT : PAGE);
    this.#draw();
  }

  /** Look for what the filter says beyond the pages that are here. */
  async #seek() {
    const load = this.#loaded;
    const text = $("filter").value;
    while (text.trim() && this.#next && this.#shown().length < PAGE && this.#threads.size < SOUGHT_MOST) {
      const before = this.#next;
      await this.#page(before, false, SOUGHT);
      // Somebody types on, or the server is away.
      if (load !== this.#loaded || text !== $("filter").value || before === this.#next) return;
    }
  }

  async #page(after, fresh, limit = PAGE) {
    const load = this.#loaded;
    const query = new URLSearchParams({ order: "activity", limit });
    if (this.#state) query.set("state", this.#state);
    if (after) query.set("after", after);
    try {
      const page = await this.#api.call(`threads?${query}`);
      if (load !== this.#loaded) return;
      if (fresh) this.#threads.clear();
      let rank = Math.min(0, ...[...this.#threads.values()].map((one) => one.rank));
      for (const one of page.threads) {
        rank -= 1;
        if (!this.#threads.has(one.id)) this.#threads.set(one.id, { ...one, rank });
      }
      this.#next = page.next;
      this.#isThere = true;
      this.#failed = "";
    } catch (error) {
      if (load === this.#loaded && fresh && !this.#threads.size) this.#failed = error.message;
    }
    this.#draw();
  }

  /** Take one frame of the list of changes. */
  change(frame) {
    if (frame.deleted) this.#threads.delete(frame.thread_id);
    else {
      const known = this.#threads.get(frame.thread_id);
      if (known) {
        known.status = frame.status;
        known.rank = ++this.#rank;
      } else if (!this.#state || frame.status.state === this.#state) {
        this.#threads.set(frame.thread_id, { id: frame.thread_id, agent_id: null, user_id: null, status: frame.status, rank: ++this.#rank });
        this.#wanted.push(frame.thread_id);
        this.#look();
      }
    }
    this.#draw();
  }

  /** Take what a thread's own stream knows sooner. */
  update(id, changes) {
    const known = this.#threads.get(id);
    if (known) Object.assign(known, changes);
    this.#draw();
  }

  add(thread) {
    this.#threads.set(thread.id, { ...thread, rank: ++this.#rank });
    this.#draw();
  }

  async #look() {
    while (this.#lookups < LOOKUPS && this.#wanted.length) {
      this.#lookups += 1;
      const id = this.#wanted.shift();
      this.#api.call(`threads/${encodeURIComponent(id)}`)
        .then((thread) => this.update(id, thread))
        .catch((error) => {
          if (error.status === 404) this.#threads.delete(id); // deleted meanwhile
        })
        .finally(() => {
          this.#lookups -= 1;
          this.#draw();
          this.#look();
        });
    }
  }

  choose(id) {
    this.#chosen = id;
    this.#draw();
  }

  /** Return the id of the thread beside the chosen one, or null at an end. */
  beside(step) {
    const shown = this.#shown().slice(0, this.#room);
    const place = shown.findIndex((one) => one.id === this.#chosen);
    if (place < 0) return shown[0]?.id ?? null;
    return shown[place + step]?.id ?? null;
  }

  focusChosen() {
    document.querySelector("#thread-list [aria-current]")?.focus();
  }

  #show(state) {
    this.#state = state;
    this.#room = PAGE;
    for (const button of document.querySelectorAll(".filters [data-state]")) {
      button.setAttribute("aria-pressed", String(button.dataset.state === state));
    }
    this.load();
  }

  #shown() {
    const text = $("filter").value.trim().toLowerCase();
    return [...this.#threads.values()]
      .filter((one) => !this.#state || one.status.state === this.#state)
      .filter((one) => !text || [one.id, one.agent_id, one.user_id].some((field) => field?.toLowerCase().includes(text)))
      .sort((one, other) => other.rank - one.rank);
  }

  #render() {
    const all = this.#shown();
    const shown = all.slice(0, this.#room);
    keep($("thread-list"), shown, (one) => one.id, () => 0, (one) => this.#row(one));
    let child = $("thread-list").firstElementChild;
    for (const one of shown) {
      this.#fill(child.firstElementChild, one);
      child = child.nextElementSibling;
    }
    const running = [...this.#threads.values()].filter((one) => one.status.state === "running").length;
    setText($("thread-count"), running ? `${running} running` : "");
    $("more-threads").hidden = !this.#next && all.length === shown.length;
    $("thread-empty").hidden = shown.length > 0 || !(this.#isThere || this.#failed);
    setText($("thread-empty"), this.#failed || this.#nothing());
  }

  #nothing() {
    if ($("filter").value.trim() && this.#threads.size) {
      return this.#next ? `None of the latest ${this.#threads.size} threads fits the filter.` : "No thread fits the filter.";
    }
    return this.#state ? `No thread is ${this.#state}.` : "No threads yet.";
  }

  #row(one) {
    return h("li", {}, h("a", { href: `#/threads/${encodeURIComponent(one.id)}` },
      h("span", { class: "dot", "aria-hidden": "true" }),
      h("span", { class: "name" }),
      h("span", { class: "age" }),
      h("span", { class: "sub" }),
      h("span", { class: "state" })));
  }

  #fill(link, one) {
    const [dot, name, age, sub, state] = link.children;
    setAttribute(dot, "data-state", one.status.state);
    setText(name, one.id);
    setAttribute(link, "title", [one.id, one.agent_id, one.user_id].filter(Boolean).join(" · "));
    setText(age, ago(one.status.since));
    age.title = fully(one.status.since);
    setText(sub, [one.agent_id, one.user_id].filter(Boolean).join(" · "));
    setText(state, one.held ? `${STATES[one.status.state]}, held` : STATES[one.status.state]);
    setAttribute(link, "aria-current", one.id === this.#chosen ? "true" : null);
  }
}
