// Turns what the wire says into what people read. Times on the wire are microseconds.

const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const day = new Intl.DateTimeFormat(undefined, { month: "short", day: "numeric", hour: "2-digit", minute: "2-digit" });
const whole = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });

const date = (us) => new Date(us / 1000);

/** The time of day, with the day where it is not today's. */
export function at(us) {
  const when = date(us);
  return when.toDateString() === new Date().toDateString() ? clock.format(when) : day.format(when);
}

export const fully = (us) => whole.format(date(us));
export const machine = (us) => date(us).toISOString();

export function duration(us) {
  const ms = Math.max(0, us) / 1000;
  if (ms < 1) return "<1 ms";
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 60_000) return `${(ms / 1000).toFixed(1)} s`;
  const minutes = Math.floor(ms / 60_000);
  if (minutes < 60) return `${minutes} min ${Math.floor((ms % 60_000) / 1000)} s`;
  const hours = Math.floor(minutes / 60);
  return hours < 48 ? `${hours} h ${minutes % 60} min` : `${Math.floor(hours / 24)} d ${hours % 24} h`;
}

export function ago(us) {
  const seconds = Math.max(0, Math.floor(Date.now() / 1000 - us / 1_000_000));
  if (seconds < 5) return "now";
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 86_400) return `${Math.floor(seconds / 3600)} h`;
  return `${Math.floor(seconds / 86_400)} d`;
}

/** The end of an id: ids made in the same second begin alike. */
export const short = (id) => (id && id.length > 12 ? `…${id.slice(-8)}` : (id ?? ""));

export const words = (code) => (code ?? "").replaceAll("_", " ");

export function pretty(value) {
  return typeof value === "string" ? value : JSON.stringify(value, null, 2);
}

/** JSON text made readable; what is no JSON stays as it is. */
export function prettyJson(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text ?? "";
  }
}

export function clip(text, most) {
  const line = text.replace(/\s+/g, " ").trim();
  return line.length > most ? `${line.slice(0, most - 1)}…` : line;
}
