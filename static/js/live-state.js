// The live state as a pure function of the messages: a snapshot, then updates on top.
// After any sequence of messages it equals what a fresh snapshot would say.

// The state after `message`, or null where the message doesn't fit on top of it: a frame is
// missing or the scheduler started anew, and only a fresh snapshot helps.
export function applyMessage(state, message) {
  if (message.type === "snapshot") {
    const { type, ...fresh } = message;
    return fresh;
  }
  if (message.type !== "update") return state;
  if (state === null || state.epoch !== message.epoch) return null;
  if (message.seq <= state.seq) return state; // known already
  if (message.since !== state.seq) return null;
  return {
    ...state,
    seq: message.seq,
    at: message.at,
    stale: false,
    now: message.now,
    points: mergePoints(state, message),
    feed: [...state.feed, ...message.feed].slice(-state.feed_keep),
  };
}

// A point replaces the one of the same time; those that fell out of the span go.
function mergePoints(state, message) {
  const first = message.points.length ? message.points[0][0] : Infinity;
  const edge = message.at - (message.at % state.step_ms) - state.span_ms + state.step_ms;
  return [...state.points.filter((point) => point[0] < first), ...message.points].filter(
    (point) => point[0] >= edge,
  );
}
