// The clip on a message (docs/protocol.md, "Clip"): what a device says has a length that no model
// moves. Lengths are added up in float64, and numbers rounded towards zero to the grid of sums, so
// that the integers of a sum keep the bound too.

const STEP = 2 ** -16;

export function clipped(update, bound) {
  if (!bound) return update;
  const factor = Math.min(1, bound / Math.max(lengthOf(update), 1e-300));
  const scaled = (number) => Math.trunc((number * factor) / STEP) * STEP;
  const arrays = Object.entries(update).map(([name, array]) => {
    if (!isMessage(name)) return [name, array];
    const [type, shape, numbers] = array;
    return [name, [type, shape, numbers.map(scaled)]];
  });
  return Object.fromEntries(arrays);
}

function lengthOf(update) {
  let square = 0;
  for (const [name, [, shape, numbers]] of Object.entries(update)) {
    if (!isMessage(name)) continue;
    // Row by row, as every device adds them: another order would have other last bits.
    const width = numbers.length / (shape[0] || 1);
    let whole = 0;
    for (let row = 0; row < numbers.length; row += width) {
      let sum = 0;
      for (let f = row; f < row + width; f++) sum += numbers[f] * numbers[f];
      whole += sum;
    }
    square += whole;
  }
  return Math.sqrt(square);
}

// Items and weights are no part of what a clip bounds.
const isMessage = (name) => name.startsWith("row.") || name.startsWith("dense.");
