// Formats numbers for people.
const kSteps = [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]];

export function count(value) {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  for (const [step, letter] of kSteps) {
    if (Math.abs(value) >= step) return `${(value / step).toPrecision(3)} ${letter}`;
  }
  return Number.isInteger(value) ? String(value) : value.toPrecision(3);
}
export const bytes = (value) => {
  const text = count(value);
  return text === "–" ? text : `${text}${/[a-zA-Z]$/.test(text) ? "" : " "}B`;
};
export const percent = (value) => (Number.isFinite(value) ? `${(100 * value).toFixed(2)} %` : "–");
// Shortens "20.00 %" to "20 %".
export const round = (text) => text.replace(/(\d\.\d*?)0+(?=\D|$)/, "$1").replace(/\.(?=\D|$)/, "");
export const plain = (value, digits = 4) => (Number.isFinite(value) ? Number(value.toPrecision(digits)).toString() : "–");
export const ms = (value) => (Number.isFinite(value) ? `${value < 100 ? value.toPrecision(3) : Math.round(value)} ms` : "–");
export function duration(seconds) {
  if (!Number.isFinite(seconds)) return "–";
  if (seconds < 60) return `${seconds < 10 ? seconds.toFixed(1) : Math.round(seconds)} s`;
  const whole = Math.round(seconds);
  const two = (n) => String(n).padStart(2, "0");
  const hours = Math.floor(whole / 3600);
  const minutes = Math.floor(whole / 60) % 60;
  return hours > 0 ? `${hours}:${two(minutes)}:${two(whole % 60)}` : `${minutes}:${two(whole % 60)}`;
}
export const ratio = (dense, sent) => (sent > 0 && dense > 0 ? `${plain(dense / sent, 3)}×` : "–");
