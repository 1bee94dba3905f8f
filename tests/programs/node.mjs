// Runs each program over AsyncLocalStorage and prints what every step of it saw.
//
// node tests/programs/node.mjs < tests/programs/programs.json

import { AsyncLocalStorage } from "node:async_hooks";
import { EventEmitter } from "node:events";
import { readFileSync } from "node:fs";
import { setImmediate as tick, setTimeout as sleep } from "node:timers/promises";

const store = new AsyncLocalStorage();

class World {
  seen = {};
  queues = {};
  events = new EventEmitter();
  pending = [];

  see(label) {
    (this.seen[label] ??= []).push(store.getStore()?.runId ?? "none");
  }

  callback(step) {
    const call = () => this.call(step.body);
    return step.bound ? AsyncLocalStorage.bind(call) : call;
  }

  // What is the same in a callback and in an async function.
  plain(step) {
    switch (step.op) {
      case "see":
        return this.see(step.label);
      case "throw":
        throw new Error("thrown");
      case "later":
        return this.pending.push(
          new Promise((resolve) => setTimeout(() => resolve(this.call(step.body)), 1)),
        );
      case "task":
        return this.pending.push(this.work(step.body));
      case "push":
        return (this.queues[step.queue] ??= []).push(this.callback(step));
      case "drain":
        return (this.queues[step.queue] ?? []).splice(0).forEach((job) => job());
      case "on":
        return this.events.on(step.event, this.callback(step));
      case "emit":
        return this.events.emit(step.event);
      default:
        throw new TypeError(`no step: ${step.op}`);
    }
  }

  call(body) {
    for (const step of body) {
      if (step.op === "run") {
        store.run({ runId: step.id }, () => this.call(step.body));
      } else if (step.op === "try") {
        try {
          this.call(step.body);
        } catch (error) {
          if (error.message !== "thrown") throw error;
        }
      } else {
        this.plain(step);
      }
    }
  }

  async work(body) {
    for (const step of body) {
      if (step.op === "run") {
        await store.run({ runId: step.id }, () => this.work(step.body));
      } else if (step.op === "try") {
        try {
          await this.work(step.body);
        } catch (error) {
          if (error.message !== "thrown") throw error;
        }
      } else if (step.op === "wait") {
        await (step.timer ? sleep(1) : tick());
      } else {
        this.plain(step);
      }
    }
  }
}

async function run(program) {
  const world = new World();
  await world.work(program);
  // What is started late may start more.
  while (world.pending.length > 0) await world.pending.shift();
  world.see("outside");
  for (const seen of Object.values(world.seen)) seen.sort();
  return world.seen;
}

const results = [];
for (const program of JSON.parse(readFileSync(0, "utf8"))) results.push(await run(program));
console.log(JSON.stringify(results));
