// The last fifteen minutes, one chart a figure with a line per lane.
import uPlot from "../vendor/uplot/uPlot.esm.js";
import { duration, rate, count } from "./format.js";

const LANES = ["P0", "P1", "P2"];
// Lines differ in dash as well as in colour.
const DASHES = [[], [6, 3], [2, 3]];
const KINDS = {
  // Requests are whole: no ticks between them.
  queued: { column: 1, format: count, steps: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 5_000] },
  waits: { column: 4, format: duration },
  finished: { column: 7, format: rate },
};
const HEIGHT = 180;

const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

export class LiveChart {
  constructor(element) {
    this.element = element;
    this.kind = KINDS[element.dataset.chart];
    this.data = [[], [], [], []];
    this.range = [0, 1];
    this.plot = null;
    this.draw();
    new ResizeObserver(() => this.resize()).observe(element);
    document.addEventListener("fairlane:theme", () => this.draw());
  }

  // `idle` stands for a bucket that is not there: zero for a business without traffic, null
  // (a gap in the line) where the scheduler was silent.
  show(state, idle) {
    const end = state.at - (state.at % state.step_ms);
    const start = end - state.span_ms + state.step_ms;
    const rows = new Map(state.points.map((point) => [point[0], point]));
    const data = [[], [], [], []];
    for (let at = start; at <= end; at += state.step_ms) {
      const row = rows.get(at);
      data[0].push(at / 1_000);
      LANES.forEach((_, lane) => data[lane + 1].push(row?.[this.kind.column + lane] ?? idle));
    }
    this.data = data;
    this.range = [start / 1_000, end / 1_000];
    this.plot.setData(data);
  }

  draw() {
    this.plot?.destroy();
    const text = color("--fl-axis");
    const grid = { stroke: color("--fl-grid"), width: 1 };
    const axis = { stroke: text, grid, ticks: grid, font: "11px system-ui" };
    const format = this.kind.format;
    this.plot = new uPlot(
      {
        width: this.width(),
        height: HEIGHT,
        legend: { show: false },
        cursor: { show: false },
        scales: {
          x: { range: () => this.range },
          y: { range: (_, __, most) => [0, Math.max(most ?? 0, 1) * 1.1] },
        },
        axes: [
          { ...axis, size: 30, space: 70, values: (_, ticks) => ticks.map(clock) },
          {
            ...axis,
            size: 62,
            values: (_, ticks) => ticks.map((tick) => format(tick)),
            ...(this.kind.steps && { incrs: this.kind.steps }),
          },
        ],
        series: [
          {},
          ...LANES.map((lane, index) => ({
            label: lane,
            stroke: color(`--fl-${lane.toLowerCase()}`),
            width: 2,
            dash: DASHES[index],
            points: { show: false },
          })),
        ],
      },
      this.data,
      this.element,
    );
  }

  resize() {
    if (this.width() !== this.plot.width) this.plot.setSize({ width: this.width(), height: HEIGHT });
  }

  width() {
    return Math.max(200, Math.floor(this.element.clientWidth));
  }
}

const hours = new Intl.DateTimeFormat(document.documentElement.lang || "en", {
  hour: "2-digit",
  minute: "2-digit",
});

function clock(seconds) {
  return hours.format(new Date(seconds * 1_000));
}
