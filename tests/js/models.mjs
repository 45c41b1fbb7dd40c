// What a device computes under FCF and FPL (docs/protocol.md, "Two devices"): the operations in
// their order, each rounded to its type, so that the numbers are those of every other device.

import { below, belowLow, draw, fold, keyOf, normal, randomKey, uniform } from "./protocol.mjs";

const f32 = Math.fround;

// The score of an item, added up in float32.
function score(x, rows, at, first = 0) {
  let sum = first;
  for (let f = 0; f < x.length; f++) sum = f32(sum + f32(x[f] * rows[at + f]));
  return sum;
}

// The best of some items, from scores of all.
export function best(scores, allowed, n) {
  return [...allowed].sort((a, b) => scores[b] - scores[a] || a - b).slice(0, n);
}

export const fcf = {
  // The settings of which only these values are computed here.
  only: { form: "printed", reg_by: "vector", ratings: false },
  receives: ({ items, factors }) => ({ y: ["F32", [items, factors]] }),
  // Numbers of a sum: senders and f of every item, weight, devices.
  length: ({ items, factors }) => items * (1 + factors) + 2,
  first: () => ({}),

  local(download, _private, history, settings) {
    const { items, factors } = settings;
    const x = this.solved(download, history, settings);
    const own = new Set(history);
    const c = confidence(settings);
    const f = new Float32Array(items * factors);
    for (let i = 0; i < items; i++) {
      const s = score(x, download.y, i * factors);
      const error = own.has(i) ? f32(c * f32(1 - s)) : f32(-f32(settings.unobserved) * s);
      for (let g = 0; g < factors; g++) f[i * factors + g] = error * x[g];
    }
    const update = {
      item: ["I32", [0], new Int32Array()],
      weight: ["F32", [1], Float32Array.of(1)],
      "dense.f": ["F32", [1, items, factors], f],
    };
    return { private: {}, update };
  },

  // x = (Y^T C Y + reg I)^-1 Y^T C p, by Cholesky's factor, in float64.
  solved({ y }, history, settings) {
    const { factors: n, unobserved: w, reg } = settings;
    const c = confidence(settings);
    const gram = gramOf(y, n);
    const a = Array.from({ length: n }, (_, f) =>
      Float64Array.from({ length: n }, (_, g) => (g <= f ? w * gram[f * n + g] : 0)),
    );
    const b = new Float64Array(n);
    for (let f = 0; f < n; f++) a[f][f] += reg;
    for (const i of history) {
      for (let f = 0; f < n; f++) {
        const weight = (c - w) * y[i * n + f];
        for (let g = 0; g <= f; g++) a[f][g] += weight * y[i * n + g];
        b[f] += c * y[i * n + f];
      }
    }
    for (let k = 0; k < n; k++) {
      for (let f = k; f < n; f++) for (let h = 0; h < k; h++) a[f][k] -= a[f][h] * a[k][h];
      a[k][k] = Math.sqrt(Math.max(a[k][k], 1e-12));
      for (let f = k + 1; f < n; f++) a[f][k] /= a[k][k];
      b[k] /= a[k][k];
      for (let f = k + 1; f < n; f++) b[f] -= a[f][k] * b[k];
    }
    for (let f = n - 1; f >= 0; f--) {
      for (let g = f + 1; g < n; g++) b[f] -= a[g][f] * b[g];
      b[f] /= a[f][f];
    }
    return Float32Array.from(b);
  },

  scores(download, _private, history, settings) {
    const x = this.solved(download, history, settings);
    return Float32Array.from({ length: settings.items }, (_, i) =>
      score(x, download.y, i * settings.factors),
    );
  },
};

// The lower triangle of Y^T Y, in float64, item by item. Never from the server: with a matrix of its
// own it would choose who answers.
function gramOf(y, n) {
  const gram = new Float64Array(n * n);
  for (let i = 0; i < y.length; i += n)
    for (let f = 0; f < n; f++) for (let g = 0; g <= f; g++) gram[f * n + g] += y[i + f] * y[i + g];
  return gram;
}

const confidence = ({ alpha, unobserved }) => f32(unobserved ? 1 + alpha : 1);

export const fpl = {
  only: { user_step: "triple" },
  receives: ({ items, factors }) => ({ q: ["F32", [items, factors]], b: ["F32", [items]] }),
  // Numbers of a sum: q, b and senders of every item, weight, devices.
  length: ({ items, factors }) => items * (factors + 2) + 2,

  first({ seed, draws, factors, init_std: spread }, user) {
    const key = draws === "public" ? fold(keyOf(seed, "devices"), user) : randomKey();
    return { p: Float32Array.from({ length: factors }, (_, f) => spread * normal(key, f)) };
  },

  local({ q, b }, { p }, history, settings, user, round) {
    const { items, factors, seed, draws, learning_rate: rate, pi } = settings;
    const key =
      draws === "public"
        ? fold(fold(fold(keyOf(seed, "rounds"), round), "local"), user)
        : randomKey();
    const alpha = f32(rate);
    const ofUser = f32(settings.reg_user ?? rate / 20);
    const ofPositive = f32(settings.reg_positive ?? rate / 20);
    const ofNegative = f32(settings.reg_negative ?? rate / 200);
    const others = Array.from({ length: items }, (_, i) => i).filter((i) => !history.includes(i));
    const rows = new Map(); // item -> [update of q, update of b]
    const rowOf = (item) => {
      if (!rows.has(item)) rows.set(item, { q: new Float32Array(factors), b: 0 });
      return rows.get(item);
    };
    p = p.slice();
    for (let t = 0; t < settings.triples && history.length && others.length; t++) {
      const bits = draw(key, 2 * t);
      const i = history[below(bits, history.length)];
      const j = others[belowLow(bits, others.length)];
      // Sixteen sums side by side, then halves of them added, as vectors of a processor are.
      const lanes = new Float32Array(16);
      for (let f = 0; f < factors; f++) {
        lanes[f % 16] += f32(p[f] * f32(q[i * factors + f] - q[j * factors + f]));
      }
      for (const half of [8, 4, 2, 1]) for (let n = 0; n < half; n++) lanes[n] += lanes[n + half];
      const d = logistic(-f32(f32(b[i] - b[j]) + lanes[0]));
      const sends = pi >= 1 || uniform(draw(key, 2 * t + 1)) < f32(pi);
      const toI = sends ? rowOf(i) : null;
      const toJ = rowOf(j);
      for (let f = 0; f < factors; f++) {
        const [qi, qj] = [q[i * factors + f], q[j * factors + f]];
        const pull = f32(d * p[f]);
        if (toI) toI.q[f] += f32(pull - f32(ofPositive * qi));
        toJ.q[f] -= f32(pull + f32(ofNegative * qj));
        const step = f32(f32(d * f32(qi - qj)) - f32(ofUser * p[f]));
        p[f] += f32(alpha * step);
      }
      if (toI) toI.b = f32(toI.b + d);
      toJ.b = f32(toJ.b - d);
    }
    const sent = [...rows].sort(([a], [b]) => a - b);
    const flat = new Float32Array(sent.length * factors);
    sent.forEach(([, row], at) => flat.set(row.q, at * factors));
    const update = {
      item: ["I32", [sent.length], Int32Array.from(sent, ([item]) => item)],
      weight: ["F32", [1], Float32Array.of(1)],
      "row.q": ["F32", [sent.length, factors], flat],
      "row.b": ["F32", [sent.length], Float32Array.from(sent, ([, row]) => row.b)],
    };
    return { private: { p }, update };
  },

  scores({ q, b }, { p }, _history, { items, factors }) {
    return Float32Array.from({ length: items }, (_, i) => score(p, q, i * factors, b[i]));
  },
};

const C = [1.4426950408889634, 0.69314698, 0.24022242, 0.05550734, 0.00967151, 0.00132647].map(f32);

// To the nearest integer, halves to the even one: Math.round takes halves up.
function toEven(x) {
  const down = Math.floor(x);
  if (x - down !== 0.5) return Math.round(x);
  return down % 2 ? down + 1 : down;
}

// 1 / (1 + e^-x), from + - x / alone.
export function logistic(x) {
  const t = f32(-x * C[0]);
  let n = toEven(t);
  const r = f32(t - n);
  n = Math.min(126, Math.max(-126, n));
  const z = f32(r * r);
  const inner = f32(f32(C[2] + f32(r * C[3])) + f32(z * f32(C[4] + f32(r * C[5]))));
  const power = f32(f32(1 + f32(r * C[1])) + f32(z * inner));
  return f32(1 / f32(1 + f32(power * 2 ** n)));
}

export const MODELS = { fcf, fpl };

// The first setting with a value that is not computed here, in words; "" if there is none.
export function unknownSetting(model, settings) {
  for (const [name, value] of Object.entries(model.only)) {
    if ((settings[name] ?? value) !== value) return `${name}=${settings[name]}; expected ${value}`;
  }
  return typeof settings.pi === "number" ? "" : "pi for each user; expected a number";
}

// All settings of an algorithm that a device needs, as the terms have them.
export function settingsOf(terms) {
  const { users, items, seed, draws, interactions } = terms;
  const made = { pi: 1, ...terms.settings, ...terms.pins?.settings, users, items, seed, draws };
  // Settings of the command line are text.
  for (const [name, value] of Object.entries(made)) {
    if (typeof value === "string" && value.trim() !== "" && !Number.isNaN(Number(value)))
      made[name] = Number(value);
  }
  made.triples ||= Math.max(1, Math.floor(interactions / users));
  return made;
}
