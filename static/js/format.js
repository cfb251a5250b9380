// How numbers read, in the page's language.
const language = document.documentElement.lang || "en";
const whole = new Intl.NumberFormat(language, { maximumFractionDigits: 0 });
const short = new Intl.NumberFormat(language, { maximumFractionDigits: 2 });
const clock = new Intl.DateTimeFormat(language, { timeStyle: "medium" });

export const count = (value) => whole.format(value);
export const rate = (value) => short.format(value);
export const time = (ms) => clock.format(new Date(ms));
// What a replica's breaker is, in words; "%s" in them stands for the models it is open for.
export const breaker = (texts, { breaker: state, broken }) =>
  (texts.breakers[state] ?? state).replace("%s", () => broken.join(", "));
export const percent = (ratio) => (ratio === null ? "–" : `${whole.format(ratio * 100)} %`);

// Milliseconds as people say them: 8 ms, 1.24 s, 3 min 5 s.
export function duration(ms) {
  if (ms < 1_000) return `${whole.format(ms)} ms`;
  if (ms < 60_000) return `${short.format(ms / 1_000)} s`;
  const seconds = Math.round(ms / 1_000);
  return `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
}
