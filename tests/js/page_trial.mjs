// A page of a test: it joins by the files that its own server has, takes part, and tells how that went.
// With ?again it is loaded anew once, when it has answered.

import { Device, identity, joinFederation } from "./core.mjs";
import { takePart } from "./line.mjs";
import { connection, filesOf } from "./page.mjs";

const post = (path, said) => fetch(path, { method: "POST", body: said });
const files = filesOf("device");

async function joined() {
  await identity(files, "browser");
  await post("/request", files.read("request.json"));
  // Held until there is one.
  const { invitation, rows, insisted } = await (await fetch("/invitation")).json();
  await joinFederation(files, invitation, rows, insisted);
}

try {
  if (files.read("device.json") === null) await joined();
  const device = await Device.open(files);
  const ask = connection(device);
  const asked = async (method, ...others) => {
    const said = await ask(method, ...others);
    if (method === "POST" && location.search === "?again") {
      await post("/told", `round ${device.state.round} is answered`);
      location.search = "";
      await new Promise(() => {});
    }
    return said;
  };
  await takePart(device, asked, (line) => post("/told", line));
  const { inputs = null, round } = device.state;
  await post("/ended", JSON.stringify({ best: device.recommended(3), inputs, round }));
} catch (why) {
  await post("/failed", `${why.name}: ${why.message}\n${why.stack}`);
}
