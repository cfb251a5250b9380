// The live parts of a page: finds them, fills them, and says when the numbers are old.
import { breaker, count, duration, percent, rate, time } from "./format.js";
import { LiveChart } from "./live-charts.js";
import { LiveSocket } from "./live-socket.js";

const FIELDS = {
  queued: count,
  running: count,
  p50: duration,
  p95: duration,
  p99: duration,
  per_s: rate,
  finished: count,
  refused: count,
  paused: count,
  promoted: count,
};

class LivePage {
  constructor(root) {
    this.root = root;
    this.texts = JSON.parse(document.getElementById("live-texts").textContent);
    this.charts = [...root.querySelectorAll("[data-chart]")].map((each) => new LiveChart(each));
    this.fields = [...root.querySelectorAll("[data-lane] [data-field]")];
    this.socket = new LiveSocket(root.dataset.live, {
      onState: (state) => this.show(state),
      onStatus: (status) => this.showStatus(status),
    });
  }

  start() {
    this.socket.start();
  }

  showStatus(status) {
    this.root.dataset.status = status;
    const moment = this.socket.state?.at ? time(this.socket.state.at) : "";
    const text = this.texts[status].replace("%s", moment || this.texts.never);
    this.root.querySelector("[data-live-status]").textContent = text;
    this.root.querySelector("[data-live-numbers]").setAttribute("aria-busy", status !== "live");
    this.root.querySelector("[data-live-sign-in]").hidden = status !== "over";
  }

  show(state) {
    if (state.now === null) return;
    if (this.isAnotherBusiness(state.now)) return;
    for (const element of this.fields) {
      const lane = state.now.lanes[element.closest("[data-lane]").dataset.lane];
      setText(element, FIELDS[element.dataset.field](lane[element.dataset.field]));
    }
    const idle = state.now.view === "business" ? 0 : null;
    for (const chart of this.charts) chart.show(state, idle);
    this.showList("replicas", state.now.replicas ?? [], (row, replica) =>
      showReplica(row, replica, this.texts),
    );
    this.showList("pools", state.now.pools ?? [], (row, pool) => showPool(row, pool, this.texts));
    const pressed = this.root.querySelector("[data-pressed]");
    if (pressed) {
      pressed.hidden = state.now.pressed.length === 0;
      setText(pressed.querySelector("[data-pressed-models]"), state.now.pressed.join(", "));
    }
    for (const field of this.root.querySelectorAll("[data-throughput]")) {
      setText(field, rate(state.now[field.dataset.throughput]));
    }
    for (const field of this.root.querySelectorAll("[data-predictor]")) {
      setText(field, percent(state.now.predictor_error[field.dataset.predictor]));
    }
    this.showList("refusals", Object.entries(state.now.refusals), (row, [reason, times]) => {
      setText(row.querySelector('[data-value="reason"]'), reason);
      setText(row.querySelector('[data-value="count"]'), count(times));
    });
    this.showList("feed", [...state.feed].reverse(), (row, line) =>
      showDecision(row, line, this.texts),
    );
    setText(this.root.querySelector("[data-live-at]"), time(state.at));
  }

  // Another window has switched: this page must not pass one business's numbers off as
  // another's.
  isAnotherBusiness(now) {
    const shown = this.root.dataset.business;
    if (now.view !== "business" || now.business === shown) return false;
    this.showStatus("switched");
    return true;
  }

  // Rows are made from the page's own template, and used again from frame to frame.
  showList(name, items, fillRow) {
    const list = this.root.querySelector(`[data-list="${name}"]`);
    if (!list) return;
    const template = this.root.querySelector(`template[data-row="${name}"]`);
    while (list.children.length > items.length) list.lastElementChild.remove();
    while (list.children.length < items.length) list.append(template.content.cloneNode(true));
    items.forEach((item, index) => fillRow(list.children[index], item));
    this.root.querySelector(`[data-empty="${name}"]`).hidden = items.length > 0;
  }
}

// Nothing where the pool has what it should have.
function wantedCards(pool, text) {
  if (pool.wanted === null || pool.wanted === pool.ready) return "";
  return text.replace("%s", count(pool.wanted)).replace("%s", count(pool.ready));
}

function showPool(row, pool, texts) {
  const put = (name, text) => setText(row.querySelector(`[data-value="${name}"]`), text);
  put("name", pool.name);
  put("lanes", pool.lanes.join(" "));
  put("wanted", wantedCards(pool, texts.wanted));
  put("running", `${count(pool.running)} / ${count(pool.slots)}`);
  const bar = row.querySelector("progress");
  bar.max = Math.max(pool.slots, 1);
  bar.value = pool.running;
  bar.setAttribute("aria-label", `${pool.name}: ${pool.running} / ${pool.slots}`);
}

function showReplica(row, replica, texts) {
  const put = (name, text) => setText(row.querySelector(`[data-value="${name}"]`), text);
  put("name", replica.name);
  put("pool", replica.pool);
  put("engine", replica.engine);
  put("state", texts.states[replica.state] ?? replica.state);
  row.querySelector('[data-value="state"]').dataset.state = replica.state;
  put("running", `${count(replica.running)} / ${count(replica.slots)}`);
  const bar = row.querySelector("progress");
  bar.max = Math.max(replica.slots, 1);
  bar.value = replica.running;
  bar.setAttribute("aria-label", `${replica.name}: ${replica.running} / ${replica.slots}`);
  put("gpu", percent(replica.gpu));
  put("memory", percent(replica.memory));
  put("models", replica.models.join(", "));
  row.querySelector('[data-value="breaker"]').hidden = replica.breaker === "closed";
  put("breaker", breaker(texts, replica));
}

function showDecision(row, line, texts) {
  const put = (name, text) => setText(row.querySelector(`[data-value="${name}"]`), text);
  put("at", time(line.at));
  put("kind", texts.kinds[line.kind] ?? line.kind);
  put("request", line.request);
  const lane = row.querySelector("[data-lane-name]");
  lane.dataset.laneName = line.lane;
  lane.hidden = !line.lane;
  setText(lane, line.lane);
  // A business's own feed has neither: nothing there may name anybody else.
  for (const name of ["business", "text"]) {
    if (row.querySelector(`[data-value="${name}"]`)) put(name, line[name]);
  }
}

function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

const root = document.querySelector("[data-live]");
if (root) new LivePage(root).start();
