// How a device asks a server and answers it (docs/protocol.md, "Routes"), whatever carries the bytes:
// ask(method, path, headers, body, most) gives {status, later, body}.

import { BadInput } from "./core.mjs";
import * as p from "./protocol.mjs";

const SHOWN = 60_000; // milliseconds for which one signed header is shown
const NEVER = new Set(["no-key", "wrong-run"]); // refusals that no later attempt mends
const ROOM = 1 << 24; // bytes of a response besides the numbers of a download, at most
const BYTES = { F32: 4, F64: 8 };
const NOTHING = new Uint8Array();
const sleep = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));

class Line {
  constructor(device, ask) {
    Object.assign(this, { device, ask, shown: { since: -Infinity } });
  }

  // One header is good for five minutes; the server checks the signature of each but once.
  async header() {
    if (Date.now() - this.shown.since > SHOWN) {
      const about = { time: Math.floor(Date.now() / 1000) };
      const frame = await this.device.seal("here", NOTHING, { about });
      const digits = p.toBase64(frame).replaceAll("+", "-").replaceAll("/", "_");
      this.shown = { since: Date.now(), text: `Entrenous ${digits}` };
    }
    return this.shown.text;
  }

  // Whoever has the server's key could otherwise fill the memory.
  get most() {
    const numbers = Object.values(this.device.schema).map(
      ([type, shape]) => BYTES[type] * shape.reduce((a, b) => a * b, 1),
    );
    return numbers.reduce((a, b) => a + b, ROOM);
  }

  async said(method, path, body = NOTHING) {
    return this.ask(method, path, { authorization: await this.header() }, body, this.most);
  }
}

export class Denied extends Error {}

export function good(response) {
  if (response.status < 300) return response;
  const word = p.text(response.body.slice(0, 40)).trim();
  throw new Denied(/^[a-z0-9-]+$/.test(word) ? word : String(response.status));
}

// Asks and answers until the trained model is here and the server knows that. tell: is told of every
// connection that was lost.
export async function takePart(device, ask, tell) {
  const line = new Line(device, ask);
  let failures = 0;
  while (!device.state.trained) {
    try {
      const asked = Date.now();
      const response = good(await line.said("GET", "/v1/work"));
      failures = 0;
      if (response.status === 204) {
        const least = Date.now() - asked < 1000 ? 1 : 0;
        await sleep(
          1000 * Math.max(least, Number(response.later ?? 0)) * (0.5 + Math.random() / 2),
        );
        continue;
      }
      good(await line.said("POST", "/v1/answer", await device.answer(response.body)));
    } catch (why) {
      if (why instanceof BadInput) throw why;
      if (why instanceof Denied && NEVER.has(why.message))
        throw new BadInput(`the server does not let this device in (${why.message})`);
      // The server is away, busy, or starts again: twice as long each time, half of it at random.
      const longest = Math.min(30, 0.5 * 2 ** Math.min(failures++, 10));
      tell(`connection lost: ${why.message}; trying again`);
      await sleep(1000 * longest * (0.5 + Math.random() / 2));
    }
  }
}
