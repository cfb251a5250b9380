// Fills the fleet's tables with how each replica is now, from the same frames as the live page.
import { breaker, count, percent, time } from "./format.js";
import { LiveSocket } from "./live-socket.js";

const root = document.querySelector("[data-fleet]");
const texts = JSON.parse(document.getElementById("live-texts").textContent);
const rows = new Map(
  [...root.querySelectorAll("[data-replica]")].map((row) => [row.dataset.replica, row]),
);

function show(state) {
  if (state.now === null) return;
  const now = new Map((state.now.replicas ?? []).map((replica) => [replica.name, replica]));
  for (const [name, row] of rows) {
    const replica = now.get(name);
    const put = (field, text) => {
      const cell = row.querySelector(`[data-value="${field}"]`);
      if (cell.textContent !== text) cell.textContent = text;
      return cell;
    };
    const known = replica?.state ?? "unknown";
    put("state", texts.states[known] ?? known).dataset.state = known;
    put("breaker", replica ? breaker(texts, replica) : "–");
    if (!replica) continue;
    put("running", `${count(replica.running)} / ${count(replica.slots)}`);
    put("gpu", percent(replica.gpu));
    put("memory", percent(replica.memory));
  }
}

const socket = new LiveSocket(root.dataset.fleet, {
  onState: show,
  onStatus: (status) => {
    root.dataset.status = status;
    const moment = socket.state?.at ? time(socket.state.at) : texts.never;
    root.querySelector("[data-live-status]").textContent = texts[status].replace("%s", moment);
    root.querySelector("[data-live-sign-in]").hidden = status !== "over";
  },
});
socket.start();
