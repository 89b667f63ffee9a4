// Logs a Node service's answers to a tracejudge gateway: built-in modules only, nothing thrown into the request path.
// What waits is bounded, each line is sent until it has its answer, and the head sample is the one Python would keep.
import { createHash, randomBytes } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { gzipSync } from "node:zlib";

export function keep(traceId, probability, salt = "tracejudge/head/1") {
  const digest = createHash("sha256").update(`${salt}\0${traceId}`).digest();
  return digest.readBigUInt64BE(0) < BigInt(Math.floor(probability * 2 ** 64)); // exact: a power of two only shifts
}

export function newTraceId() { // UUIDv7: unique, and sorted by the time it was made
  const bytes = randomBytes(16);
  bytes.writeUIntBE(Date.now(), 0, 6);
  (bytes[6] = 0x70 | (bytes[6] & 0x0f)), (bytes[8] = 0x80 | (bytes[8] & 0x3f)); // version and variant
  return bytes.toString("hex").replace(/^(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-");
}

export class Producer {
  stats = { logged: 0, sampledOut: 0, accepted: 0, refused: 0, dropped: 0, lastError: null };
  #queue = []; #sending = null;
  constructor({ url, app, key = process.env.TRACEJUDGE_INGEST_KEY, headProbability = 1, maxQueued = 10_000 }) {
    Object.assign(this, { url: new URL("/v1/traces", url), app, key, headProbability, maxQueued });
  }
  log({ trace_id = newTraceId(), ...fields }) { // fields as in the wire contract: query, response, source_nodes, ...
    this.stats.logged += 1;
    if (!keep(trace_id, this.headProbability)) this.stats.sampledOut += 1;
    else if (this.#queue.length >= this.maxQueued) this.stats.dropped += 1;
    else {
      const head = { schema_version: 1, kind: "trace", trace_id, app: this.app, event_time: new Date().toISOString() };
      this.#queue.push(JSON.stringify({ ...head, head_probability: this.headProbability, ...fields }));
      this.#sending ??= sleep(100).then(() => this.#drain()).finally(() => (this.#sending = null));
    }
    return trace_id;
  }
  async flush() { while (this.#sending) await this.#sending; } // call it before the process ends
  async #drain() {
    for (let pause = 250; this.#queue.length > 0; ) {
      let count = 1;
      for (let size = 0; count < 500 && (size += this.#queue[count]?.length) < 4e6; ) count += 1;
      const batch = this.#queue.slice(0, count), { lines, error, retryAfter = 0 } = await this.#post(batch);
      for (const line of lines ?? []) if (line.status in this.stats) this.stats[line.status] += 1;
      this.stats.lastError = error ?? lines.find((line) => line.faults)?.faults[0] ?? this.stats.lastError;
      const again = lines ? batch.filter((_, i) => lines[i].status === "unavailable") : batch;
      this.#queue.splice(0, batch.length, ...again);
      if (again.length > 0) await sleep(Math.max(1000 * retryAfter, (pause = Math.min(2 * pause, 15_000))));
    }
  }
  async #post(batch) {
    const headers = { "Content-Type": "application/x-ndjson", "Content-Encoding": "gzip" };
    if (this.key) headers.Authorization = `Bearer ${this.key}`;
    try {
      const body = gzipSync(batch.join("\n")), signal = AbortSignal.timeout(10_000);
      const answer = await fetch(this.url, { method: "POST", headers, body, signal });
      const { lines, error = { reason: `HTTP status ${answer.status}` } } = await answer.json();
      const retryAfter = Number(answer.headers.get("retry-after") ?? 0);
      return lines?.length === batch.length ? { lines, retryAfter } : { error, retryAfter };
    } catch (error) { return { error: { reason: String(error) } }; }
  }
}
