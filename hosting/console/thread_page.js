// Owns the thread that is open: loads it, follows it, draws it, and sends what is done to it.

import { newId } from "./api.js";
import { Composer } from "./composer.js";
import { $, announce, batched, h, setAttribute, setText } from "./dom.js";
import { Executions, said as line } from "./executions.js";
import { ago, fully, words } from "./format.js";
import { ThreadModel } from "./model.js";
import { Requests } from "./requests.js";
import { ThreadSocket } from "./socket.js";
import { Transcript } from "./transcript.js";
import { failed, OUTCOMES, said, SENDING, STATES } from "./words.js";

const PAGE = 100;
const CHOOSE = "Choose a thread, or start a new one.";
const ALL = "include_silent=true&max_depth=64";

export class ThreadPage {
  #api;
  #list;
  #link;
  #model = null;
  #socket = null;
  #open = null;
  #draw = batched(() => this.#render());
  #spoken = null;
  #asked = new Set(); // stops and resumes without an answer yet
  #missed = new Map(); // thread id -> what became of a control while another thread was looked at

  /** `link(state)` is told of the thread's connection. */
  constructor(api, list, link) {
    this.#api = api;
    this.#list = list;
    this.#link = link;
    this.transcript = new Transcript({ withdraw: (message) => this.#withdraw(message), older: () => this.#older() });
    this.executions = new Executions({ interrupt: (id, waiting) => this.#interruptNow(id, waiting), more: () => this.#moreExecutions() });
    this.executions.onInterrupt = (id) => this.interrupt(id);
    this.requests = new Requests({ answer: (id, value) => this.#answer(id, value), redraw: this.#draw });
    this.composer = new Composer({ send: (...all) => this.#send(...all), redraw: this.#draw });
    $("stop").addEventListener("click", () => this.stop());
    $("resume").addEventListener("click", () => this.resume());
    $("show-hidden").addEventListener("change", this.#draw);
    $("explain").addEventListener("toggle", () => this.#explain());
    $("copy-id").addEventListener("click", () => this.#copy());
    setInterval(this.#draw, 10_000);
    // On a narrow screen the executions stand below this head, in place of the transcript.
    const head = document.querySelector(".thread-head");
    new ResizeObserver(() => document.documentElement.style.setProperty("--head", `${head.offsetHeight}px`)).observe(head);
  }

  get id() {
    return this.#model?.id ?? null;
  }

  #path(rest = "", id = this.id) {
    return `threads/${encodeURIComponent(id)}${rest}`;
  }

  close() {
    this.#open?.abort();
    this.#socket?.close();
    this.#socket = this.#open = this.#model = null;
    $("thread").hidden = $("work").hidden = true;
    $("nothing").hidden = false;
    setText($("nothing").firstElementChild, CHOOSE);
    this.#link(null);
  }

  /** Open a thread: its state, its newest pages, then its stream from there on. */
  async open(id) {
    this.close();
    const model = (this.#model = new ThreadModel(id));
    this.#open = new AbortController();
    this.#spoken = null;
    this.executions.forget();
    this.requests.forget();
    this.composer.open(id);
    this.#outcome(this.#missed.get(id) ?? null);
    this.#missed.delete(id);
    $("nothing").hidden = true;
    $("thread").hidden = $("work").hidden = false;
    $("explain").open = false;
    for (const part of ["transcript", "executions", "requests", "explain-body"]) $(part).replaceChildren();
    this.transcript.toEnd();
    setText($("thread-id"), id);
    $("thread-id").title = id;
    this.#draw();
    await this.#load(model, this.#open.signal);
  }

  async #load(model, signal) {
    this.#link("connecting");
    const options = { signal };
    try {
      // A path of dots leads elsewhere, however it is written: so browsers read addresses.
      if (/^\.\.?$/.test(model.id)) throw new Error("no browser can ask for a thread of this name");
      const never = () => this.#link("away");
      const [thread, state] = await Promise.all([
        this.#api.surely(this.#path("", model.id), options, never),
        this.#api.surely(this.#path("/state", model.id), options, never),
      ]);
      model.begin(thread, state);
      const [messages, executions] = await Promise.all([
        this.#api.surely(this.#path(`/messages?limit=${PAGE}&${ALL}`, model.id), options, never),
        this.#api.surely(this.#path("/executions?limit=50", model.id), options, never),
      ]);
      model.page(messages.messages, messages.has_more);
      model.records(executions.executions, executions.has_more);
    } catch (error) {
      if (!signal.aborted) this.#gone(error);
      return;
    }
    if (signal.aborted) return;
    this.#draw();
    this.#socket = new ThreadSocket(this.#api, model.id, {
      after: () => model.cursor,
      state: (name) => this.#link(name),
      frame: (frame) => this.#take(model, frame),
      refused: () => this.#refused(model, signal),
      failed: (problem) => this.#refusedBy(problem),
    });
  }

  /** No connection was made: the thread may be gone, or its journal another one than ours. */
  async #refused(model, signal) {
    const state = await this.#api.call(this.#path("/state", model.id), { signal });
    const [generation, sequence] = state.cursor.split(":").map(Number);
    const [ownGeneration, own] = model.cursor.split(":").map(Number);
    if (generation !== ownGeneration || sequence < own) this.open(model.id);
  }

  #refusedBy(problem) {
    if (problem.status !== 404) return true;
    this.#gone(problem);
    return false;
  }

  #gone(error) {
    const id = this.id;
    this.close();
    this.#list.choose(null);
    const why = error.status === 404 ? `There is no thread ${id}.` : `${id}: ${error.message}`;
    setText($("nothing").firstElementChild, why);
    announce(why);
  }

  #take(model, frame) {
    if (model !== this.#model) return;
    model.apply(frame);
    if (model.deleted) {
      this.#gone({ status: 404 });
      return;
    }
    if (frame.type === "thread_status") this.#list.update(model.id, { status: model.status, held: model.held });
    this.#speak(model, frame);
    this.#draw();
  }

  /** Tell screen readers what others see move. */
  #speak(model, frame) {
    if (frame.type === "REQUEST_OPENED" && model.pending.has(frame.request_id)) announce(`Asks for ${words(frame.kind)}`);
    else if (frame.type === "THREAD_EXECUTION_FINISHED" && model.status) announce(`Execution ${OUTCOMES[frame.outcome].toLowerCase()}`);
    else if (frame.type === "message_data" && frame.data.role === "assistant" && frame.data.content && frame.data.id !== this.#spoken && frame.data.created_at > Date.now() * 1000 - 10_000_000) {
      this.#spoken = frame.data.id;
      announce(`Assistant: ${frame.data.content.slice(0, 400)}`);
    }
  }

  #render() {
    const model = this.#model;
    if (!model) return;
    if (model.status) {
      const { state, reason, since } = model.status;
      const status = $("status");
      setAttribute(status, "data-state", state);
      setAttribute($("status-dot"), "data-state", state);
      setText(status, [STATES[state], reason && words(reason), ago(since)].filter(Boolean).join(" · "));
      status.title = `Since ${fully(since)}`;
    }
    setText($("thread-meta"), [model.agent, model.user].filter(Boolean).join(" · "));
    setAttribute($("thread-meta"), "title", $("thread-meta").textContent);
    $("held").hidden = !model.held;
    $("ended").hidden = model.terminated === null;
    $("stop").disabled = model.terminated !== null;
    $("resume").disabled = model.terminated !== null;
    this.transcript.render(model, $("show-hidden").checked);
    this.executions.render(model);
    this.requests.render(model);
    this.composer.render(model);
    document.title = `${model.active ? "● " : ""}${model.id} · Treadle`;
  }

  #outcome(outcome) {
    const place = $("thread-outcome");
    place.replaceChildren(...(outcome ? [line(outcome)] : []));
    setAttribute(place, "data-tone", outcome?.tone ?? null);
  }

  // What is done to it

  async #send(verb, text, id, waiting) {
    const thread = this.id;
    this.requests.settle();
    if (verb === "queue") {
      return this.#api.surely(this.#path("/messages", thread), { method: "POST", body: { content: text }, key: id }, waiting);
    }
    if (verb === "steer") {
      const active = this.#model.active;
      if (!active) return { disposition: "no_active_execution" };
      const body = { type: "STEERING_INPUT", execution_id: active.execution_id, messages: [text] };
      return this.#api.surely(this.#path("/inputs", thread), { method: "POST", body, key: id, also: [409] }, waiting);
    }
    const body = { type: "USER_MESSAGES_INPUT", messages: [text], on_busy: verb === "interrupt" ? "interrupt" : "reject" };
    const answer = await this.#api.surely(this.#path("/inputs", thread), { method: "POST", body, key: id, also: [409] }, waiting);
    return this.#receipt(answer);
  }

  /** A 409 is the receipt of a busy thread, or a problem. */
  #receipt(answer) {
    if (answer.disposition) return answer;
    throw Object.assign(new Error(answer.detail ?? "conflict"), { code: answer.code ?? "conflict" });
  }

  async #interruptNow(execution, waiting) {
    try {
      const body = { type: "INTERRUPTION_REQUEST", execution_id: execution, source: "user" };
      const away = (attempt) => waiting({ code: "no answer yet", text: `Repeated under the same id, attempt ${attempt + 1}.`, tone: "warn" });
      const receipt = await this.#api.surely(this.#path("/inputs"), { method: "POST", body, key: newId(), also: [409] }, away);
      const outcome = said(this.#receipt(receipt).disposition, receipt, "interruption");
      announce(`Interrupt: ${outcome.code}. ${outcome.text}`);
      return outcome;
    } catch (error) {
      return failed(error);
    }
  }

  /** Interrupt an execution, by default the live one. */
  async interrupt(id = this.#model?.active?.execution_id) {
    if (id) await this.executions.interrupt(id, this.#draw);
    else this.#outcome({ code: "no active execution", text: "Nothing runs.", tone: "warn" });
  }

  stop() {
    return this.#control("stop");
  }

  resume() {
    return this.#control("resume");
  }

  async #control(verb) {
    const model = this.#model;
    const key = model && `${verb} ${model.id}`;
    // Pressed twice it is meant once: the second resume would be told that the first one runs.
    if (!model || model.terminated !== null || this.#asked.has(key)) return;
    this.#asked.add(key);
    this.#outcome(SENDING);
    let outcome;
    try {
      const answer = await this.#api.call(this.#path(`/${verb}`), { method: "POST", also: [409] });
      outcome = said(this.#receipt(answer).disposition, answer, verb);
    } catch (error) {
      outcome = failed(error);
    }
    this.#asked.delete(key);
    const isHere = model.id === this.id;
    if (isHere) this.#outcome(outcome);
    else this.#missed.set(model.id, outcome);
    announce(`${verb === "stop" ? "Stop" : "Resume"}${isHere ? "" : ` of ${model.id}`}: ${outcome.code}. ${outcome.text}`);
  }

  /** Say that more of a thread could not be fetched, unless another one is looked at by now. */
  #lacks(model, error) {
    if (model === this.#model) this.#outcome(failed(error));
  }

  async #answer(request, value) {
    try {
      const { status } = await this.#api.call(this.#path("/responses"), { method: "POST", body: { request_id: request, value }, also: [404, 409] }).then((answer) => (answer.status && typeof answer.status === "string" ? answer : this.#receipt(answer)));
      const outcome = status === "accepted" ? { code: "accepted", text: "The execution goes on with it.", tone: "good" } : said(status, {}, "answer");
      announce(`Answer: ${outcome.code}. ${outcome.text}`);
      return outcome;
    } catch (error) {
      return failed(error);
    }
  }

  async #withdraw(message) {
    const input = this.#model?.inputOf(message.id);
    try {
      if (input) {
        const { status } = await this.#api.call(this.#path(`/inbox/${encodeURIComponent(input)}`), { method: "DELETE" });
        return said(status, {}, "withdraw");
      }
      await this.#api.call(this.#path(`/messages/${encodeURIComponent(message.id)}`), { method: "DELETE" });
      return said("withdrawn", {}, "withdraw");
    } catch (error) {
      return failed(error);
    }
  }

  async #older() {
    const model = this.#model;
    if (!model) return;
    try {
      const page = await this.#api.call(this.#path(`/messages?limit=${PAGE}&${model.olderPage}&${ALL}`));
      model.older(page.messages, page.has_more);
      this.#draw();
    } catch (error) {
      this.#lacks(model, error);
    }
  }

  async #moreExecutions() {
    const model = this.#model;
    try {
      const page = await this.#api.call(this.#path(`/executions?limit=50&offset=${model.executions.size}`));
      model.records(page.executions, page.has_more);
      this.#draw();
    } catch (error) {
      this.#lacks(model, error);
    }
  }

  async #explain() {
    const model = this.#model;
    if (!$("explain").open || !model) return;
    try {
      const told = await this.#api.call(this.#path("/explain"));
      if (model !== this.#model) return;
      const rows = Object.entries(told).filter(([name, value]) => value !== null && value !== false && value !== 0 && !(Array.isArray(value) && !value.length) && !["thread_id", "status"].includes(name));
      $("explain-body").replaceChildren(
        h("dl", {}, ...rows.map(([name, value]) => h("div", {}, h("dt", { text: words(name) }), h("dd", {}, typeof value === "object" ? h("pre", { text: (Array.isArray(value) ? value : Object.entries(value).map(([part, one]) => `${words(part)}: ${one}`)).join("\n") }) : String(value))))),
        h("button", { type: "button", class: "small", text: "Look again", onclick: () => this.#explain() }));
    } catch (error) {
      if (model === this.#model) setText($("explain-body"), error.message);
    }
  }

  async #copy() {
    try {
      await navigator.clipboard.writeText(this.id);
      announce("Copied");
    } catch {
      getSelection().selectAllChildren($("thread-id")); // without the right to the clipboard it can be copied by hand
    }
  }
}
