// Noise on what goes under masks (docs/protocol.md, "Noise"): whole numbers of the discrete Gaussian,
// from a cryptographic generator, or from keys that a simulation repeats.

import * as p from "./protocol.mjs";

// Whole numbers k with a probability in proportion to exp(-k^2 / 2 s), exactly, from random integers
// alone: C. Canonne, G. Kamath, T. Steinke, "The discrete Gaussian for differential privacy", 2020,
// algorithms 1 to 3. s is the variance, rounded up to an integer, so that noise is never too little.
export function sampler(sigma) {
  const s = BigInt(Math.ceil(sigma * sigma));
  const t = BigInt(Math.floor(sigma) + 1);
  return () => {
    for (;;) {
      const y = laplace(t);
      const far = (y < 0n ? -y : y) * t - s;
      if (accepted(far * far, 2n * s * t * t)) return y;
    }
  };
}

function laplace(t) {
  for (;;) {
    const u = below(t);
    if (!accepted(u, t)) continue;
    let v = 0n;
    while (accepted(1n, 1n)) v += 1n;
    const size = u + t * v;
    const negative = below(2n) === 1n;
    // Zero would come twice as often otherwise.
    if (size || !negative) return negative ? -size : size;
  }
}

// True with the probability exp(-a / b).
function accepted(a, b) {
  for (; a > b; a -= b) if (!accepted(b, b)) return false;
  let k = 1n;
  while (below(b * k) < a) k += 1n;
  return k % 2n === 1n;
}

// A random integer from 0 to n - 1.
function below(n) {
  const size = Math.ceil(n.toString(2).length / 8);
  const most = 256n ** BigInt(size);
  for (;;) {
    const drawn = BigInt(`0x${p.hex(p.random(size))}`);
    // The last numbers are left out: with them some results would come more often.
    if (drawn < most - (most % n)) return drawn % n;
  }
}

// ---- from keys ----------------------------------------------------------------------------------

const COLUMNS = 4096;
const CAPACITY = 1n << 52n; // of a column, of the whole probability 2^64
const MOST = 220; // sigma of one table, at most
const INNER = 200;
const SPREAD = 100;

// Whole numbers by the draws 0, 1, ... of a key.
export function seeded(sigma, key) {
  const levels = levelsOf(sigma);
  let count = 0;
  return () => {
    let number = 0n;
    for (const { threshold, alias, scale } of levels) {
      const bits = p.draw(key, count++);
      let column = Number(bits & 4095n);
      if (bits >> 12n >= threshold[column]) column = alias[column];
      number += scale * BigInt(column - COLUMNS / 2);
    }
    return number;
  };
}

const made = new Map(); // tables by sigma: a device needs few

function levelsOf(sigma) {
  if (!made.has(sigma)) {
    const levels = [];
    let [rest, scale] = [sigma, 1n];
    while (rest > MOST) {
      levels.push({ ...tableOf(INNER), scale });
      const outer = Math.sqrt(rest * rest - INNER * INNER);
      const times = Math.min(SPREAD, Math.ceil(outer / MOST));
      scale *= BigInt(times);
      rest = outer / times;
    }
    made.set(sigma, [...levels, { ...tableOf(rest), scale }]);
  }
  return made.get(sigma);
}

// Walker's table: each column has as much of one value's probability as fits, and is filled up by
// one other value.
function tableOf(sigma) {
  const left = weightsOf(sigma);
  const threshold = Array(COLUMNS).fill(CAPACITY - 1n);
  const alias = Array.from({ length: COLUMNS }, (_, column) => column);
  const small = alias.filter((column) => left[column] < CAPACITY);
  const large = alias.filter((column) => left[column] >= CAPACITY);
  while (small.length && large.length) {
    const low = small.pop();
    const high = large.at(-1);
    threshold[low] = left[low];
    alias[low] = high;
    left[high] -= CAPACITY - left[low];
    if (left[high] < CAPACITY) small.push(large.pop());
  }
  return { threshold, alias };
}

// The probabilities of -2048 to 2047 as whole numbers that add up to 2^64.
function weightsOf(sigma) {
  const density = Array.from({ length: COLUMNS }, (_, column) => {
    const k = column - COLUMNS / 2;
    return Math.exp((-k * k) / (2 * sigma * sigma));
  });
  // From the smallest on, so that hardly anything is rounded away.
  const whole = [...density].sort((a, b) => a - b).reduce((a, b) => a + b, 0);
  const weights = density.map((each) => BigInt(Math.floor((each / whole) * 2 ** 64)));
  weights[COLUMNS / 2] += (1n << 64n) - weights.reduce((a, b) => a + b, 0n);
  return weights;
}
