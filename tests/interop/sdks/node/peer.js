// The official SDK of RocketMQ 5 for Node under orders; what `python/peer.py` says is true of it.

const path = require("path");
const modules = process.env.SPROCKET_SDK_NODE || __dirname;
const sdk = require(path.join(modules, "node_modules/rocketmq-client-nodejs"));

const [, , endpoints, prefix, ...names] = process.argv;
const LIMIT_MS = 90_000;
const INVISIBLE_MS = 15_000;
const COMMIT = 1;
const SQL = 2;

const quiet = { debug() {}, info() {}, warn() {}, error() {} };
const common = { endpoints, namespace: "", logger: quiet };
const sleep = (ms) => new Promise((done) => setTimeout(done, ms));

async function withClient(client, use) {
  await client.startup();
  try {
    return await use(client);
  } finally {
    await client.shutdown();
  }
}

const producer = (topic, use, checker) =>
  withClient(new sdk.Producer({ ...common, topics: [topic], checker }), use);

const simple = (topic, use, expression = "*") =>
  withClient(
    new sdk.SimpleConsumer({
      ...common,
      consumerGroup: `${topic}-group`,
      subscriptions: new Map([[topic, expression]]),
      awaitDuration: 5_000,
    }),
    use,
  );

const push = (topic, listener, use) =>
  withClient(
    new sdk.PushConsumer({
      ...common,
      consumerGroup: `${topic}-group`,
      subscriptions: new Map([[topic, "*"]]),
      messageListener: listener,
    }),
    use,
  );

const message = (topic, body, more = {}) => ({ topic, body: Buffer.from(body), ...more });
const bodies = (found) => found.map((one) => one.body.toString()).sort();

async function received(consumer, count, ms = LIMIT_MS) {
  const found = [];
  const deadline = Date.now() + ms;
  while (found.length < count && Date.now() < deadline) {
    for (const one of await consumer.receive(32, INVISIBLE_MS)) {
      await consumer.ack(one);
      found.push(one);
    }
  }
  return found;
}

function noting(fails = () => false) {
  const seen = [];
  return {
    seen,
    consume(one) {
      seen.push(one);
      return fails(one) ? sdk.ConsumeResult.FAILURE : sdk.ConsumeResult.SUCCESS;
    },
    async wait(count) {
      const deadline = Date.now() + LIMIT_MS;
      while (seen.length < count && Date.now() < deadline) await sleep(50);
    },
  };
}

const scenarios = {
  normal: (topic) =>
    simple(topic, (consumer) =>
      producer(topic, async (sender) => {
        const ids = [];
        for (let number = 0; number < 10; number++) {
          const properties = new Map([["n", "1"]]);
          const sent = message(topic, `m${number}`, { tag: "A", keys: [`k${number}`], properties });
          ids.push((await sender.send(sent)).messageId);
        }
        const found = await received(consumer, 10);
        const got = found.map((one) => one.messageId).sort();
        return {
          attempts: [...new Set(found.map((one) => one.deliveryAttempt))].sort(),
          bodies: bodies(found),
          ids: JSON.stringify(ids.sort()) === JSON.stringify(got),
          keys: found.flatMap((one) => one.keys).sort(),
          properties: [...new Set(found.map((one) => one.properties.get("n")))].sort(),
          tags: [...new Set(found.map((one) => one.tag))].sort(),
        };
      }),
    ),

  push: async (topic) => {
    const listener = noting();
    await push(topic, listener, () =>
      producer(topic, async (sender) => {
        for (let number = 0; number < 10; number++) await sender.send(message(topic, `m${number}`));
        await listener.wait(10);
      }),
    );
    return bodies(listener.seen);
  },

  fifo: async (topic) => {
    const listener = noting();
    await push(topic, listener, () =>
      producer(topic, async (sender) => {
        for (let number = 0; number < 10; number++) {
          for (const group of ["a", "b"]) {
            await sender.send(message(topic, `${group}${number}`, { messageGroup: group }));
          }
        }
        await listener.wait(20);
      }),
    );
    const said = listener.seen.map((one) => one.body.toString());
    const of = (group) => said.filter((one) => one[0] === group);
    return { a: of("a"), b: of("b") };
  },

  delay: (topic) =>
    simple(topic, (consumer) =>
      producer(topic, async (sender) => {
        const due = (Math.floor(Date.now() / 1000) + 4) * 1000;
        await sender.send(message(topic, "later", { deliveryTimestamp: new Date(due) }));
        const found = await received(consumer, 1);
        return { bodies: bodies(found), is_in_time: Date.now() >= due - 100 };
      }),
    ),

  transaction: (topic) =>
    simple(topic, (consumer) =>
      producer(
        topic,
        async (sender) => {
          for (const [body, ends] of [["yes", "commit"], ["no", "rollback"]]) {
            const begun = sender.beginTransaction();
            await sender.send(message(topic, body), begun);
            await begun[ends]();
          }
          return bodies(await received(consumer, 2, 12_000));
        },
        { check: async () => COMMIT },
      ),
    ),

  orphan: (topic) =>
    simple(topic, (consumer) =>
      producer(
        topic,
        async (sender) => {
          await sender.send(message(topic, "orphan"), sender.beginTransaction());
          return bodies(await received(consumer, 1));
        },
        { check: async () => COMMIT },
      ),
    ),

  nack: (topic) =>
    simple(topic, (consumer) =>
      producer(topic, async (sender) => {
        await sender.send(message(topic, "again"));
        const deadline = Date.now() + LIMIT_MS;
        let found = [];
        while (!found.length && Date.now() < deadline) found = await consumer.receive(1, INVISIBLE_MS);
        await consumer.changeInvisibleDuration(found[0], 2_000);
        const again = await received(consumer, 1);
        return [...found, ...again].map((one) => [one.body.toString(), one.deliveryAttempt]);
      }),
    ),

  forward: async (topic) => {
    const listener = noting((one) => one.body.toString() === "bad");
    await push(topic, listener, () =>
      producer(topic, async (sender) => {
        for (const body of ["bad", "good"]) {
          await sender.send(message(topic, body, { messageGroup: "g" }));
        }
        const deadline = Date.now() + LIMIT_MS;
        const isThere = () => listener.seen.some((one) => one.body.toString() === "good");
        while (!isThere() && Date.now() < deadline) await sleep(50);
      }),
    );
    return listener.seen.map((one) => one.body.toString());
  },

  tags: (topic) =>
    simple(
      topic,
      (consumer) =>
        producer(topic, async (sender) => {
          for (const tag of "ABCD") await sender.send(message(topic, tag.toLowerCase(), { tag }));
          return bodies(await received(consumer, 3, 12_000));
        }),
      "B || C",
    ),

  sql: (topic) =>
    simple(
      topic,
      (consumer) =>
        producer(topic, async (sender) => {
          for (let number = 0; number < 4; number++) {
            const properties = new Map([["n", `${number}`]]);
            await sender.send(message(topic, `m${number}`, { properties }));
          }
          return bodies(await received(consumer, 3, 12_000));
        }),
      new sdk.FilterExpression("n > 1", SQL),
    ),

  recall: (topic) =>
    simple(topic, (consumer) =>
      producer(topic, async (sender) => {
        const deliveryTimestamp = new Date((Math.floor(Date.now() / 1000) + 8) * 1000);
        const first = await sender.send(message(topic, "first", { deliveryTimestamp }));
        await sender.send(message(topic, "second", { deliveryTimestamp }));
        const taken = await sender.recallMessage(topic, first.recallHandle);
        const found = await received(consumer, 2, 20_000);
        return { bodies: bodies(found), is_id: taken.messageId === first.messageId };
      }),
    ),

  refused: (topic) =>
    producer(topic, async (sender) => {
      const found = [];
      for (const wrong of [
        message(topic, "x", { messageGroup: "g" }),
        message(topic, "x", { deliveryTimestamp: new Date(Date.now() + 60_000) }),
        message(`${topic}-missing`, "x"),
      ]) {
        try {
          await sender.send(wrong);
          found.push("sent");
        } catch (error) {
          found.push(error.constructor.name);
        }
      }
      return found;
    }),

  reconnect: async (topic) => {
    const listener = noting();
    const acknowledged = [];
    await push(topic, listener, () =>
      producer(topic, async (sender) => {
        const deadline = Date.now() + LIMIT_MS;
        while (acknowledged.length < 60 && Date.now() < deadline) {
          const body = `m${acknowledged.length}`;
          try {
            await sender.send(message(topic, body));
          } catch {
            await sleep(200); // the broker is away
            continue;
          }
          acknowledged.push(body);
          if (acknowledged.length === 20) console.log(JSON.stringify({ begun: "reconnect" }));
          await sleep(50);
        }
        const seen = () => new Set(listener.seen.map((one) => one.body.toString()));
        while (!acknowledged.every((one) => seen().has(one)) && Date.now() < deadline) {
          await sleep(100);
        }
      }),
    );
    const seen = new Set(listener.seen.map((one) => one.body.toString()));
    const missing = acknowledged.filter((one) => !seen.has(one)).sort();
    return { acknowledged: acknowledged.length, missing };
  },
};

async function main() {
  for (const name of names) {
    let told;
    try {
      told = await scenarios[name](`${prefix}${name}`);
    } catch (error) {
      told = `${error.constructor.name}: ${error.message}`;
    }
    console.log(JSON.stringify({ scenario: name, told }));
  }
  process.exit(0);
}

main();
