// A device that a test drives: it answers frames and is told what happens, line by line.
//
//   node answering.mjs FOLDER      reads [WHAT, TEXT] from each line: "frame" (base64), "consumed",
//                                  "forget" and "forgetting" (an item, now or while it trains next),
//                                  "recommended" (a number), "clock" (the time from
//                                  now on, in seconds since 1970), "state"; writes a line

import { createInterface } from "node:readline";

import { open } from "./device.mjs";
import * as p from "./protocol.mjs";

const device = await open(process.argv[2]);
const { trained } = device;

function forgetting(item) {
  device.trained = (...given) => {
    device.trained = trained;
    const made = trained.apply(device, given);
    device.forget(item);
    return made;
  };
  return "";
}

const done = {
  forgetting,
  frame: async (digits) => p.toBase64(await device.answer(p.fromBase64(digits))),
  consumed: async (item) => (await device.consumed(item)) ?? "",
  forget: async (item) => (await device.forget(item)) ?? "",
  clock: (seconds) => {
    device.now = () => Number(seconds);
    return "";
  },
  recommended: (n) => device.recommended(Number(n)),
  state: () => device.state,
};
for await (const line of createInterface({ input: process.stdin })) {
  const [what, text] = JSON.parse(line);
  console.log(JSON.stringify(await done[what](text)));
}
