// OpenAI's package for Node: node openai_node.mjs FACTS, a JSON file with url, model, prompt, metrics (of the workers), texts of
// kvferry.v1. Runs every check, prints {name: null, or what was wrong} as JSON.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import OpenAI from "openai";

const facts = JSON.parse(readFileSync(process.argv[2], "utf8"));
const { model, prompt } = facts;
const client = new OpenAI({ baseURL: facts.url, apiKey: "none", maxRetries: 0 });
const messages = [{ role: "user", content: "In the beginning" }];
const base = { model, max_tokens: 12, temperature: 0 };
const brief = { max_tokens: 200, temperature: 0.7, frequency_penalty: 2 };
const tool = (name, parameters) => ({ type: "function", function: { name, parameters } });
const point = { type: "object", properties: { x: { type: "integer", minimum: 0, maximum: 99 }, up: { type: "boolean" } }, required: ["x", "up"], additionalProperties: false };
const tools = [tool("move", point), tool("stop", { type: "object", properties: {}, additionalProperties: false })];

const complete = (more) => client.completions.create({ ...base, prompt, ...more });
const chat = (more) => client.chat.completions.create({ ...base, messages, ...more });
const text = async (more) => (await complete(more)).choices[0].text;
const said = async (more) => (await chat(more)).choices[0].message.content;
const events = async (stream) => {
  const all = [];
  for await (const event of await stream) all.push(event);
  return all;
};
const streamed = async (more, index = 0) =>
  (await events(complete({ ...more, stream: true }))).flatMap((e) => e.choices).filter((c) => c.index === index).map((c) => c.text).join("");
const streamedChat = async (more, index = 0) =>
  (await events(chat({ ...more, stream: true }))).flatMap((e) => e.choices).filter((c) => c.index === index).map((c) => c.delta.content ?? "").join("");

async function refused(call, kind, status, param, code) {
  const error = await call().then(() => null, (e) => e);
  assert(error, "it is taken");
  assert.deepEqual([error.constructor.name, error.status, error.param ?? null, error.code ?? null], [kind, status, param, code], error.message);
  assert(error.requestID, "has no x-request-id");
  if (param) assert(error.message.includes(param), error.message);
  return error;
}

const isPoint = (value) => {
  assert.deepEqual(Object.keys(value).sort(), ["up", "x"]);
  assert(Number.isInteger(value.x) && value.x >= 0 && value.x <= 99);
  assert.equal(typeof value.up, "boolean");
};

// The first of some replies that is whole: the model of the demo may write up to the last token.
async function whole(call) {
  for (let seed = 1; seed <= 8; seed++) {
    const reply = await call(seed);
    if (reply.choices[0].finish_reason !== "length") return reply.choices[0];
  }
  assert.fail("no reply has ended");
}

async function owned() {
  let n = 0;
  for (const address of facts.metrics) {
    const page = await (await fetch(`http://${address}/metrics`)).text();
    for (const line of page.split("\n"))
      if (/^kvferry_kv_blocks\{.*state="(active|pinned|inbound|quarantined)"/.test(line)) n += Number(line.split(" ").at(-1));
  }
  return n;
}

async function nothingIsOwned() {
  const until = Date.now() + 10000;
  while ((await owned()) > 0) {
    assert(Date.now() < until, "blocks are owned 10 s after the client has left");
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

const checks = {
  // ---- completions ----
  async "a completion has the text of kvferry.v1"() {
    assert.equal(await text({}), facts.text);
  },
  async "its usage counts"() {
    const { usage } = await complete({});
    assert.equal(usage.completion_tokens, 12);
    assert.equal(usage.total_tokens, usage.prompt_tokens + 12);
  },
  async "a stream has the text of the whole"() {
    assert.equal(await streamed({}), facts.text);
  },
  async "a stream ends with one reason and keeps its id"() {
    const all = await events(complete({ stream: true }));
    assert.deepEqual(all.map((e) => e.choices[0].finish_reason).filter(Boolean), ["length"]);
    assert.equal(new Set(all.map((e) => e.id)).size, 1);
  },
  async "include_usage adds one event without choices"() {
    const all = await events(complete({ stream: true, stream_options: { include_usage: true } }));
    assert.deepEqual([all.at(-1).choices, all.at(-1).usage.completion_tokens], [[], 12]);
    assert(all.slice(0, -1).every((e) => !e.usage));
  },
  async "n choices are those of their seeds"() {
    const { choices } = await complete({ n: 3, temperature: 0.9, seed: 7 });
    assert.deepEqual(choices.map((c) => c.index), [0, 1, 2]);
    for (const choice of choices) assert.equal(choice.text, await text({ temperature: 0.9, seed: 7 + choice.index }));
  },
  async "n choices of a stream are told apart"() {
    const { choices } = await complete({ n: 3, temperature: 0.9, seed: 7 });
    for (const choice of choices) assert.equal(await streamed({ n: 3, temperature: 0.9, seed: 7 }, choice.index), choice.text);
  },
  async "logprobs are those of the tokens"() {
    const { text: all, logprobs } = (await complete({ logprobs: 2 })).choices[0];
    assert.equal(logprobs.tokens.join(""), all);
    assert.equal(logprobs.token_logprobs.length, 12);
    assert(logprobs.token_logprobs.every((v, i) => v <= 0 && Math.abs(logprobs.top_logprobs[i][logprobs.tokens[i]] - v) < 1e-5));
  },
  async "logprobs of a stream are those of the whole"() {
    const { logprobs } = (await complete({ logprobs: 2 })).choices[0];
    const parts = (await events(complete({ logprobs: 2, stream: true }))).map((e) => e.choices[0].logprobs).filter(Boolean);
    for (const name of ["tokens", "token_logprobs", "text_offset"]) assert.deepEqual(parts.flatMap((p) => p[name]), logprobs[name]);
  },
  async "a stop string ends the text before it"() {
    const all = await text({ max_tokens: 24 });
    const stop = all.slice(7, 12);
    const choice = (await complete({ max_tokens: 24, stop: ["not there", stop] })).choices[0];
    assert.deepEqual([choice.text, choice.finish_reason], [all.slice(0, all.indexOf(stop)), "stop"]);
  },
  async "a stop string ends a stream before it"() {
    const all = await text({ max_tokens: 24 });
    const stop = all.slice(3, 8);
    assert.equal(await streamed({ max_tokens: 24, stop }), all.slice(0, all.indexOf(stop)));
  },
  async "a seed gives its text again, and another one another"() {
    const [one, again, other] = await Promise.all([11, 11, 12].map((seed) => text({ temperature: 1.3, seed })));
    assert.equal(one, again);
    assert.notEqual(one, other);
  },
  async "characters of several bytes are whole in every event"() {
    for (let seed = 0; seed < 4; seed++) {
      const more = { prompt: "äöü 光 🙂 ", max_tokens: 100, temperature: 2, seed, ignore_eos: true };
      assert.equal(await streamed(more), await text(more));
    }
  },
  async "echo has the prompt before the text"() {
    const odd = "äöü 光 🙂 In the beginning";
    assert.equal(await text({ prompt: odd, echo: true }), odd + (await text({ prompt: odd })));
    assert.equal(await streamed({ echo: true }), prompt + facts.text);
  },
  async "echo alone has log-probabilities of the prompt"() {
    const choice = (await complete({ prompt: "In the beginning", echo: true, max_tokens: 0, logprobs: 1 })).choices[0];
    assert.equal(choice.text, "In the beginning");
    assert.equal(choice.logprobs.token_logprobs[0], null);
    assert(choice.logprobs.token_logprobs.slice(1).every((v) => v <= 0));
  },
  async "lists of prompts are answered in order"() {
    const { choices } = await complete({ prompt: ["And God said", prompt] });
    assert.deepEqual(choices.map((c) => c.text), [await text({ prompt: "And God said" }), facts.text]);
  },
  async "token ids are a prompt"() {
    const ids = (await complete({ return_token_ids: true })).choices[0].token_ids;
    assert.equal(ids.length, 12);
    assert.equal((await complete({ prompt: ids })).usage.prompt_tokens, 12);
  },
  async "without max_tokens a completion has sixteen"() {
    assert.equal((await complete({ max_tokens: undefined, ignore_eos: true })).usage.completion_tokens, 16);
  },
  async "logit_bias makes a token the one that comes"() {
    const ids = (await complete({ logit_bias: { 65: 100 }, max_tokens: 4, return_token_ids: true })).choices[0].token_ids;
    assert.deepEqual(ids, [65, 65, 65, 65]);
  },
  // ---- chat ----
  async "a chat is its template completed"() {
    const { message, finish_reason: reason } = (await chat({})).choices[0];
    assert.deepEqual([message.content, message.role, reason], [facts.said, "assistant", "length"]);
  },
  async "a stream of chat begins with the role"() {
    const all = await events(chat({ stream: true }));
    assert.deepEqual(all[0].choices[0].delta.role, "assistant");
    assert.equal(all.map((e) => e.choices[0].delta.content ?? "").join(""), facts.said);
  },
  async "the stream helper"() {
    let n = 0;
    const helper = client.chat.completions.stream({ ...base, messages });
    helper.on("content", () => n++);
    assert.equal((await helper.finalChatCompletion()).choices[0].message.content, facts.said);
    assert(n > 1);
  },
  async "usage of a stream of chat"() {
    const all = await events(chat({ stream: true, stream_options: { include_usage: true } }));
    assert.deepEqual([all.at(-1).choices, all.at(-1).usage.completion_tokens], [[], 12]);
  },
  async "n choices of chat, whole and streamed"() {
    const more = { n: 3, temperature: 0.9, seed: 7 };
    for (const choice of (await chat(more)).choices) {
      assert.equal(choice.message.content, await said({ temperature: 0.9, seed: 7 + choice.index }));
      assert.equal(choice.message.content, await streamedChat(more, choice.index));
    }
  },
  async "logprobs of chat have the bytes of each token"() {
    const choice = (await chat({ logprobs: true, top_logprobs: 3 })).choices[0];
    assert.equal(Buffer.from(choice.logprobs.content.flatMap((t) => t.bytes)).toString(), choice.message.content);
    assert(choice.logprobs.content.every((t) => t.top_logprobs.length === 3 && t.top_logprobs[0].token === t.token));
  },
  async "several messages, and parts of one"() {
    const parts = [{ type: "text", text: "And" }, { type: "text", text: "then?" }];
    const several = [{ role: "system", content: "Speak." }, { role: "user", content: "Who?" }, { role: "assistant", content: "God." }, { role: "user", content: parts }];
    const flat = "system: Speak.\nuser: Who?\nassistant: God.\nuser: And\nthen?\nassistant:";
    assert.equal(await said({ messages: several }), await text({ prompt: flat, add_special_tokens: false }));
  },
  async "documents reach the template"() {
    const documents = [{ title: "T", text: "Let there be light" }];
    assert.equal(await said({ documents }), await text({ prompt: "T: Let there be light\nuser: In the beginning\nassistant:", add_special_tokens: false }));
  },
  async "max_completion_tokens counts before max_tokens"() {
    assert.equal((await chat({ max_completion_tokens: 5, ignore_eos: true })).usage.completion_tokens, 5);
  },
  async "a seed of chat gives its text again"() {
    assert.equal(await said({ temperature: 1.3, seed: 5 }), await said({ temperature: 1.3, seed: 5 }));
  },
  // ---- what the reply must be ----
  async "a JSON schema"() {
    const format = { type: "json_schema", json_schema: { name: "point", strict: true, schema: point } };
    isPoint(JSON.parse((await whole((seed) => chat({ ...brief, seed, response_format: format }))).message.content));
  },
  async "a stream under a schema has what the whole has"() {
    const more = { ...brief, seed: 2, response_format: { type: "json_schema", json_schema: { name: "point", schema: point } } };
    assert.equal(await streamedChat(more), await said(more));
  },
  async "any object"() {
    assert.equal((await said({ ...brief, seed: 1, response_format: { type: "json_object" } })).trimStart()[0], "{");
  },
  async "a named tool is called"() {
    const { message, finish_reason: reason } = await whole((seed) => chat({ ...brief, seed, tools, tool_choice: { type: "function", function: { name: "move" } } }));
    assert.deepEqual([reason, message.content, message.tool_calls.length, message.tool_calls[0].function.name], ["tool_calls", null, 1, "move"]);
    isPoint(JSON.parse(message.tool_calls[0].function.arguments));
  },
  async "some tool is called"() {
    const { message } = await whole((seed) => chat({ ...brief, seed, tools, tool_choice: "required", parallel_tool_calls: false }));
    const [{ id, function: { name, arguments: given } }] = message.tool_calls;
    assert(id.startsWith("call_"));
    if (name === "move") isPoint(JSON.parse(given));
    else assert.deepEqual([name, JSON.parse(given)], ["stop", {}]);
  },
  async "streamed calls are those of the whole"() {
    const more = { ...brief, seed: 3, tools, tool_choice: "required", parallel_tool_calls: false };
    const calls = [];
    for (const event of await events(chat({ ...more, stream: true })))
      for (const delta of event.choices.flatMap((c) => c.delta.tool_calls ?? [])) {
        calls[delta.index] ??= { name: delta.function.name, arguments: "" };
        calls[delta.index].arguments += delta.function.arguments ?? "";
      }
    const expected = (await chat(more)).choices[0].message.tool_calls.map((c) => ({ name: c.function.name, arguments: c.function.arguments }));
    assert.deepEqual(calls, expected);
  },
  async "with tool_choice auto and none the reply is text"() {
    for (const choice of ["auto", "none"]) {
      const { message } = (await chat({ tools, tool_choice: choice })).choices[0];
      assert(message.content && !message.tool_calls?.length);
    }
  },
  async "a tool's answer is a message"() {
    const call = { id: "c1", type: "function", function: { name: "move", arguments: '{"x": 1, "up": true}' } };
    const several = [...messages, { role: "assistant", content: null, tool_calls: [call] }, { role: "tool", tool_call_id: "c1", content: "light" }];
    assert.equal((await chat({ messages: several })).choices[0].message.role, "assistant");
  },
  // ---- errors ----
  async "what is wrong is named"() {
    await refused(() => complete({ temperature: 9 }), "BadRequestError", 400, "temperature", "invalid_value");
    await refused(() => complete({ n: 17 }), "BadRequestError", 400, "n", "invalid_value");
    await refused(() => chat({ messages: [{ content: "x" }] }), "BadRequestError", 400, "messages[0].role", "invalid_type");
    await refused(() => chat({ top_logprobs: 2 }), "BadRequestError", 400, "top_logprobs", "invalid_value");
    await refused(() => chat({ stop: Array(17).fill("x") }), "BadRequestError", 400, "stop", "invalid_value");
  },
  async "what is not served is named"() {
    await refused(() => complete({ typical_p: 0.5 }), "BadRequestError", 400, "typical_p", "unsupported_parameter");
    await refused(() => complete({ suffix: "end" }), "BadRequestError", 400, "suffix", "unsupported_parameter");
    await refused(() => chat({ audio: { voice: "x" } }), "BadRequestError", 400, "audio", "unsupported_parameter");
  },
  async "a bound of chat is named with its row"() {
    const error = await refused(() => chat({ messages: Array(4097).fill(messages[0]) }), "BadRequestError", 400, "messages", "invalid_value");
    assert(error.message.includes("at most 4096 are taken (chat_messages_max)"), error.message);
  },
  async "a schema that is none is refused by its member"() {
    const format = { type: "json_schema", json_schema: { name: "x", schema: { type: "nothing" } } };
    const error = await chat({ response_format: format }).then(() => null, (e) => e);
    assert.deepEqual([error?.status, error?.param], [400, "response_format"]);
  },
  async "another model is not found"() {
    await refused(() => complete({ model: "other" }), "NotFoundError", 404, "model", "model_not_found");
  },
  async "a prompt that is too long, whole and streamed"() {
    for (const stream of [false, true])
      await refused(() => complete({ prompt: prompt.repeat(40), stream }), "BadRequestError", 400, "prompt", "context_length_exceeded");
    await refused(() => chat({ max_completion_tokens: 5000 }), "BadRequestError", 400, "max_completion_tokens", "context_length_exceeded");
  },
  async "a client that retries does not repeat what is refused"() {
    let n = 0;
    const counting = client.withOptions({ maxRetries: 3, fetch: (...call) => (n++, fetch(...call)) });
    await assert.rejects(() => counting.completions.create({ ...base, prompt, temperature: 9 }));
    await assert.rejects(() => counting.completions.create({ ...base, prompt, model: "other" }));
    assert.equal(n, 2);
  },
  async "embeddings are not there"() {
    const error = await client.embeddings.create({ model, input: "x" }).then(() => null, (e) => e);
    assert.equal(error?.status, 404);
  },
  // ---- the rest ----
  async "the list of models has the one, by a name with a slash"() {
    const ids = [];
    for await (const one of client.models.list()) ids.push(one.id);
    assert.deepEqual(ids, [model]);
    assert.equal((await client.models.retrieve(model)).id, model);
  },
  async "a request keeps the id that it came with"() {
    const { request_id: id } = await client.completions.create({ ...base, prompt }, { headers: { "x-request-id": "mine" } }).withResponse();
    assert.equal(id, "mine");
  },
  async "thirty-two at once"() {
    const expected = await Promise.all([0, 1, 2, 3].map((i) => text({ prompt: `${i}: ${prompt}` })));
    const asked = await Promise.all([...Array(32).keys()].map((i) => (i % 2 ? streamed : text)({ prompt: `${i % 4}: ${prompt}`, cache_salt: `${i}` })));
    asked.forEach((one, i) => assert.equal(one, expected[i % 4]));
  },
  async "a client that leaves a stream leaves nothing"() {
    for (const ask of [complete, chat])
      for await (const _ of await ask({ max_tokens: 1500, stream: true, ignore_eos: true, n: 2 })) {
        assert((await owned()) > 0, "while it goes on it owns blocks");
        break; // closes the connection
      }
    await nothingIsOwned();
  },
  async "a client that aborts a whole reply leaves nothing"() {
    const stop = new AbortController();
    const call = client.completions.create({ ...base, prompt, max_tokens: 1500, n: 4, ignore_eos: true }, { signal: stop.signal });
    const ended = assert.rejects(() => call, OpenAI.APIUserAbortError);
    for (const until = Date.now() + 10000; (await owned()) === 0; ) assert(Date.now() < until, "it owns no block");
    stop.abort();
    await ended;
    await nothingIsOwned();
  },
};

const seen = {};
for (const [name, check] of Object.entries(checks))
  seen[name] = await check().then(() => null, (error) => `${error.stack ?? error}`);
console.log(JSON.stringify(seen));
