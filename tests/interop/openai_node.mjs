// OpenAI's package for Node: node openai_node.mjs URL MODEL PROMPT prints what it has seen as JSON.
import OpenAI from "openai";

const [url, model, prompt] = process.argv.slice(2);
const client = new OpenAI({ baseURL: url, apiKey: "none", maxRetries: 0 });
const messages = [{ role: "user", content: "In the beginning" }];
const base = { model, max_tokens: 12, temperature: 0 };
const seen = {};

async function refusal(call) {
  try {
    await call();
  } catch (error) {
    return { kind: error.constructor.name, status: error.status, param: error.param, code: error.code, id: error.requestID };
  }
  return null;
}

const whole = await client.completions.create({ ...base, prompt, logprobs: 2 });
seen.completion = whole.choices[0].text;
seen.usage = whole.usage;
seen.logprobs = whole.choices[0].logprobs;

seen.completionStream = "";
for await (const event of await client.completions.create({ ...base, prompt, stream: true }))
  seen.completionStream += event.choices[0].text;

const chat = await client.chat.completions.create({ ...base, messages, logprobs: true, top_logprobs: 2 });
seen.chat = chat.choices[0].message.content;
seen.chatTokens = chat.choices[0].logprobs.content.length;

seen.chatStream = "";
const options = { stream: true, stream_options: { include_usage: true } };
for await (const event of await client.chat.completions.create({ ...base, messages, ...options })) {
  seen.chatStream += event.choices[0]?.delta?.content ?? "";
  if (event.usage) seen.streamUsage = event.usage;
}

const helper = client.chat.completions.stream({ ...base, messages });
helper.on("content", () => (seen.helperEvents = (seen.helperEvents ?? 0) + 1));
seen.helper = (await helper.finalChatCompletion()).choices[0].message.content;

seen.models = [];
for await (const one of client.models.list()) seen.models.push(one.id);
seen.retrieved = (await client.models.retrieve(model)).id;

seen.badRequest = await refusal(() => client.completions.create({ ...base, prompt, temperature: 9 }));
seen.notFound = await refusal(() => client.completions.create({ ...base, prompt, model: "other" }));
seen.tooLong = await refusal(() => client.completions.create({ ...base, prompt: prompt.repeat(40), stream: true }));

const left = await client.completions.create({ ...base, prompt, max_tokens: 1500, stream: true, ignore_eos: true });
for await (const _ of left) break; // closes the connection
seen.left = true;
console.log(JSON.stringify(seen));
