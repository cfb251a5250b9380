// The two charts of a what-if run, on one scale, as soon as its result is there.
import uPlot from "../vendor/uplot/uPlot.esm.js";
import { duration } from "./format.js";

const LANES = ["P0", "P1", "P2"];
const DASHES = [[], [6, 3], [2, 3]];
const HEIGHT = 180;

const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

let plots = [];

function draw() {
  const source = document.getElementById("what-if-series");
  plots.forEach((plot) => plot.destroy());
  plots = [];
  if (!source) return;
  const series = JSON.parse(source.textContent);
  const values = ["active", "draft"].flatMap((side) => LANES.flatMap((lane) => series[side][lane]));
  const most = Math.max(1, ...values.filter((value) => value !== null)) * 1.1;
  for (const element of document.querySelectorAll("[data-what-if]")) {
    plots.push(chart(element, series[element.dataset.whatIf], series.seconds, most));
  }
}

function chart(element, lanes, seconds, most) {
  const count = lanes.P0.length;
  const data = [Array.from({ length: count }, (_, index) => (index * seconds) / count)];
  LANES.forEach((lane) => data.push(lanes[lane]));
  const grid = { stroke: color("--fl-grid"), width: 1 };
  const axis = { stroke: color("--fl-axis"), grid, ticks: grid, font: "11px system-ui" };
  return new uPlot(
    {
      width: Math.max(200, Math.floor(element.clientWidth)),
      height: HEIGHT,
      legend: { show: false },
      cursor: { show: false },
      scales: { x: { time: false, range: [0, seconds] }, y: { range: [0, most] } },
      axes: [
        { ...axis, size: 30, space: 70, values: (_, ticks) => ticks.map((at) => duration(at * 1_000)) },
        { ...axis, size: 66, values: (_, ticks) => ticks.map((tick) => duration(tick)) },
      ],
      series: [
        {},
        ...LANES.map((lane, index) => ({
          label: lane,
          stroke: color(`--fl-${lane.toLowerCase()}`),
          width: 2,
          dash: DASHES[index],
          spanGaps: true,
          points: { show: false },
        })),
      ],
    },
    data,
    element,
  );
}

draw();
document.addEventListener("htmx:after:swap", draw);
document.addEventListener("fairlane:theme", draw);
addEventListener("resize", draw);
