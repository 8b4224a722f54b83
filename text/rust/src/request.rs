//! What a request gives to a template: the members of its JSON, checked, and changed as Transformers' apply_chat_template does.
use crate::jinja::Failure;
use serde_json::{Map, Value};

/// Goes behind the text that is to be continued; where it comes out, the prompt ends.
const CONTINUE_TAG: &str = "CONTINUE_FINAL_MESSAGE_TAG ";
/// Names of a message's reasoning; the first is what templates read.
const REASONING: [&str; 3] = ["reasoning_content", "thinking", "reasoning"];
const VALUE_CHARACTERS_MAX: usize = 60;

pub struct Request {
    pub context: Map<String, Value>,
    /// The text of the last message that the reply goes on from.
    pub continued: Option<String>,
}

fn shown(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(VALUE_CHARACTERS_MAX) {
        Some((at, _)) => format!("{}...", &text[..at]),
        None => text,
    }
}

fn wrong<T>(field: &str, value: &Value, wanted: &str) -> Result<T, Failure> {
    Err(Failure::Input(format!("{field} is {}, which is no {wanted}", shown(value))))
}

fn take_bool(members: &mut Map<String, Value>, name: &str) -> Result<bool, Failure> {
    match members.shift_remove(name) {
        None | Some(Value::Null) => Ok(false),
        Some(Value::Bool(value)) => Ok(value),
        Some(value) => wrong(name, &value, "boolean"),
    }
}

/// An array of objects; None when it is not there.
fn take_objects(members: &mut Map<String, Value>, name: &str) -> Result<Option<Vec<Value>>, Failure> {
    match members.shift_remove(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Array(items)) => {
            if let Some((at, item)) = items.iter().enumerate().find(|(_, item)| !item.is_object()) {
                return wrong(&format!("{name}[{at}]"), item, "object");
            }
            Ok(Some(items))
        }
        Some(value) => wrong(name, &value, "array"),
    }
}

fn take_arguments(members: &mut Map<String, Value>) -> Result<Map<String, Value>, Failure> {
    match members.shift_remove("chat_template_kwargs") {
        None | Some(Value::Null) => Ok(Map::new()),
        Some(Value::Object(arguments)) => Ok(arguments),
        Some(value) => wrong("chat_template_kwargs", &value, "object"),
    }
}

/// Members that are null go; reasoning is there by the names that templates read.
fn normalize(message: &mut Map<String, Value>) {
    message.retain(|_, value| !value.is_null());
    let Some(reasoning) = REASONING.iter().find_map(|name| message.get(*name)).cloned() else {
        return;
    };
    let thinking = message.shift_remove("thinking").unwrap_or_else(|| reasoning.clone());
    message.shift_insert(0, "thinking".into(), thinking);
    message.insert("reasoning_content".into(), reasoning);
}

/// Puts the tag behind the text of the last message, and returns that text.
fn tag_last(messages: &mut [Value]) -> Result<String, Failure> {
    let field = format!("messages[{}].content", messages.len() - 1);
    let content = match messages.last_mut().and_then(|last| last.get_mut("content")) {
        Some(content) => content,
        None => return Err(Failure::Input(format!("continue_final_message is true, but there is no {field}"))),
    };
    let text = match content {
        Value::String(text) => text,
        Value::Array(blocks) => match blocks.iter_mut().rev().find_map(|block| block.get_mut("text")) {
            Some(Value::String(text)) => text,
            Some(other) => return wrong(&format!("the last text in {field}"), other, "string"),
            None => return Err(Failure::Input(format!("continue_final_message is true, but {field} has no text"))),
        },
        other => return wrong(&field, other, "string or array of blocks with text"),
    };
    let before = text.clone();
    text.push_str(CONTINUE_TAG);
    Ok(before)
}

fn read_messages(members: &mut Map<String, Value>) -> Result<Vec<Value>, Failure> {
    let mut messages = match take_objects(members, "messages")? {
        None => return Err(Failure::Input("messages is missing".into())),
        Some(messages) if messages.is_empty() => return Err(Failure::Input("messages is empty".into())),
        Some(messages) => messages,
    };
    for message in messages.iter_mut().filter_map(Value::as_object_mut) {
        normalize(message);
    }
    Ok(messages)
}

pub fn read(json: &[u8], tokens: &Map<String, Value>) -> Result<Request, Failure> {
    let document: Value = serde_json::from_slice(json).map_err(|e| Failure::Input(format!("the request is no JSON: {e}")))?;
    let mut members = match document {
        Value::Object(members) => members,
        other => return wrong("the request", &other, "object"),
    };
    let mut messages = read_messages(&mut members)?;
    let tools = take_objects(&mut members, "tools")?;
    let documents = take_objects(&mut members, "documents")?;
    let adds_prompt = take_bool(&mut members, "add_generation_prompt")?;
    let continues = take_bool(&mut members, "continue_final_message")?;
    let arguments = take_arguments(&mut members)?;
    if let Some((name, value)) = members.iter().next() {
        return Err(Failure::Input(format!("{name} (here {}) is no member that a chat request has", shown(value))));
    }
    if continues && adds_prompt {
        return Err(Failure::Input("continue_final_message and add_generation_prompt are both true".into()));
    }
    let continued = if continues { Some(tag_last(&mut messages)?) } else { None };

    let mut context = tokens.clone();
    for (name, value) in arguments {
        if matches!(name.as_str(), "messages" | "tools" | "documents" | "add_generation_prompt" | "continue_final_message") {
            return Err(Failure::Input(format!("chat_template_kwargs.{name}: {name} is a member of the request itself")));
        }
        context.insert(name, value);
    }
    context.insert("messages".into(), Value::Array(messages));
    context.insert("tools".into(), tools.map_or(Value::Null, Value::Array));
    context.insert("documents".into(), documents.map_or(Value::Null, Value::Array));
    context.insert("add_generation_prompt".into(), Value::Bool(adds_prompt));
    Ok(Request { context, continued })
}

/// Where the prompt ends that goes on from the last message.
pub fn end_of_continued(prompt: &str, text: &str) -> Result<usize, Failure> {
    let tag = CONTINUE_TAG.trim_end();
    match prompt.rfind(tag) {
        Some(at) if prompt.contains(text.trim()) => {
            let is_trimmed = !prompt[at..].starts_with(CONTINUE_TAG);
            Ok(if is_trimmed { prompt[..at].trim_end().len() } else { at })
        }
        _ => Err(Failure::Input(
            "continue_final_message is true, but the chat template does not write the last message as it is".into(),
        )),
    }
}
