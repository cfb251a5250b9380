// Keeps one WebSocket to the console alive, and says how things stand.
import { applyMessage } from "./live-state.js";

const SILENT_MS = 5_000; // without a message for so long, the numbers are old
const DEAD_MS = 12_000; // and after so long the connection is given up: a sleeping laptop's is
const FIRST_RETRY_MS = 500;
const LAST_RETRY_MS = 10_000;
const SESSION_OVER = 4401;

// `onState(state)` after each message; `onStatus(status)` with connecting, live, silent,
// cut or over, each time it changes.
export class LiveSocket {
  constructor(path, { onState, onStatus }) {
    this.address = new URL(path, location.href);
    this.address.protocol = this.address.protocol === "https:" ? "wss:" : "ws:";
    this.onState = onState;
    this.onStatus = onStatus;
    this.state = null;
    this.status = "";
    this.failures = 0;
    this.heard = 0;
    this.socket = null;
    this.retry = null;
  }

  start() {
    this.setStatus("connecting");
    this.connect();
    setInterval(() => this.watch(), 1_000);
    addEventListener("online", () => this.hurry());
    document.addEventListener("visibilitychange", () => this.watch());
  }

  connect() {
    this.retry = null;
    const socket = new WebSocket(this.address);
    this.socket = socket;
    this.heard = performance.now();
    // A socket that was given up may still speak; only the present one counts.
    socket.addEventListener("message", (event) => {
      if (socket === this.socket) this.take(JSON.parse(event.data));
    });
    socket.addEventListener("close", (event) => {
      if (socket === this.socket) this.lost(event.code);
    });
  }

  take(message) {
    this.heard = performance.now();
    this.failures = 0;
    const next = applyMessage(this.state, message);
    if (next === null) {
      this.socket.send(JSON.stringify({ type: "resync" }));
      return;
    }
    this.state = next;
    this.setStatus(next.stale ? "silent" : "live");
    this.onState(next);
  }

  lost(code) {
    this.socket = null;
    if (code === SESSION_OVER) {
      this.setStatus("over");
      return;
    }
    this.setStatus(this.state === null && this.failures === 0 ? "connecting" : "cut");
    this.failures += 1;
    const longest = Math.min(LAST_RETRY_MS, FIRST_RETRY_MS * 2 ** this.failures);
    // Spread out, so that a restart isn't met by all pages at once.
    this.retry = setTimeout(() => this.connect(), longest * (0.5 + Math.random() / 2));
    if (this.failures === 2) this.askWhetherSignedIn();
  }

  // A refused handshake looks like a broken network; a page that now leads to the sign-in
  // form tells them apart.
  async askWhetherSignedIn() {
    try {
      const answer = await fetch(location.href, { method: "HEAD", redirect: "manual" });
      if (answer.type !== "opaqueredirect" && answer.status !== 403) return;
    } catch {
      return; // the network it is
    }
    clearTimeout(this.retry);
    this.setStatus("over");
  }

  watch() {
    if (this.socket === null || this.status === "over") return;
    const quiet = performance.now() - this.heard;
    if (quiet > DEAD_MS) {
      this.socket.close();
      this.lost(1006);
    } else if (quiet > SILENT_MS && this.status === "live") {
      this.setStatus("silent");
    }
  }

  hurry() {
    if (this.retry === null || this.status === "over") return;
    clearTimeout(this.retry);
    this.connect();
  }

  setStatus(status) {
    if (status === this.status) return;
    this.status = status;
    this.onStatus(status);
  }
}
