// The device of core.mjs in a web page: its files in IndexedDB, and fetch.

import { BadInput } from "./core.mjs";

const FILES = "files";
const PATIENCE = 10_000; // milliseconds for a page that is being left to be gone
const CALL = 60_000; // milliseconds for an answer, of which a server holds a question for 20,000

// The files of a device, which no other page has open meanwhile. All scripts of the page's origin can
// read them and sign with the key; none can copy the key.
export async function filesOf(name) {
  await alone(name);
  const database = await opened(name);
  // A browser that needs room may throw away what nobody asked it to keep.
  await navigator.storage.persist();
  const files = {
    async read(file) {
      const asked = database.transaction(FILES).objectStore(FILES).get(file);
      await ended(asked, "success");
      return asked.result ?? null;
    },
    async write(file, content) {
      // Complete only once the browser has had it written to the disk.
      const transaction = database.transaction(FILES, "readwrite", { durability: "strict" });
      transaction.objectStore(FILES).put(content, file);
      await ended(transaction, "complete");
    },
    async makeKey() {
      const how = [{ name: "Ed25519" }, false, ["sign", "verify"]];
      const { privateKey, publicKey } = await crypto.subtle.generateKey(...how);
      await files.write("identity.key", privateKey);
      return new Uint8Array(await crypto.subtle.exportKey("raw", publicKey));
    },
    key: () => files.read("identity.key"),
  };
  return files;
}

// Two pages with one device would answer one request with two noises, or with other rows.
async function alone(name) {
  // Such a page has no WebCrypto either.
  if (!navigator.locks) throw new BadInput("this page is not secure; expected https, or loopback");
  const waited = { signal: AbortSignal.timeout(PATIENCE) };
  await new Promise((resolve, reject) => {
    const held = () => {
      resolve();
      // Until the page is gone.
      return new Promise(() => {});
    };
    const others = () => new BadInput("the device is open in another tab; close one of them");
    navigator.locks.request(`entrenous ${name}`, waited, held).catch(() => reject(others()));
  });
}

async function opened(name) {
  const asked = indexedDB.open(`entrenous ${name}`);
  asked.onupgradeneeded = () => asked.result.createObjectStore(FILES);
  await ended(asked, "success");
  return asked.result;
}

// Resolves with an event of a request or transaction. Rejects where it failed.
function ended(work, event) {
  return new Promise((resolve, reject) => {
    work.addEventListener(event, resolve);
    const failed = () => reject(work.error ?? new Error("aborted"));
    work.addEventListener("error", failed);
    work.addEventListener("abort", failed);
  });
}

// What carries the bytes of a device to its server and back, by the authorities of the browser.
export function connection({ server, tls }) {
  const base = `${tls ? "https" : "http"}://${server}`;
  return async (method, path, headers, body, most) => {
    const how = { method, headers, cache: "no-store", credentials: "omit", redirect: "error" };
    if (body.length) how.body = body;
    let response;
    try {
      response = await fetch(`${base}${path}`, { ...how, signal: AbortSignal.timeout(CALL) });
    } catch (why) {
      // A browser tells a page no more than that.
      throw new Error(
        `${why.name}: ${base} is away, has a certificate that the browser does not trust,` +
          ` or was not started with --origin ${location.origin}`,
      );
    }
    const later = response.headers.get("retry-after");
    return { status: response.status, later, body: await whole(response, most) };
  };
}

async function whole(response, most) {
  const parts = [];
  let size = 0;
  const reader = response.body?.getReader();
  for (;;) {
    const { done, value } = (await reader?.read()) ?? { done: true };
    if (done) break;
    size += value.length;
    if (size > most) {
      await reader.cancel();
      throw new Error("a response that is too long");
    }
    parts.push(value);
  }
  return new Uint8Array(await new Blob(parts).arrayBuffer());
}
