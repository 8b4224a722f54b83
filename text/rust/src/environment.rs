//! minijinja made to render as Transformers has jinja2 do it.
use crate::dump::{failed, number, tojson};
use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Value, ValueKind};
use minijinja::{AutoEscape, Environment, Error, UndefinedBehavior};

/// Begins the text of an error that raise_exception made.
pub const RAISED: &str = "\u{1}raised\u{1}";
/// The variable that has the mark; no template can write its name.
pub const MARK: &str = "\u{1}mark";

fn raise_exception(text: String) -> Result<Value, Error> {
    Err(failed(format!("{RAISED}{text}")))
}

/// {% generation %} is for training masks: what it holds is rendered like any other text.
fn without_generation(source: &str) -> String {
    let mut out = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(at) = rest.find("{%") {
        out.push_str(&rest[..at + 2]);
        rest = &rest[at + 2..];
        let body = rest.trim_start_matches(['-', '+']).trim_start();
        for (word, plain) in [("generation", "if true"), ("endgeneration", "endif")] {
            if let Some(after) = body.strip_prefix(word) {
                if after.trim_start().trim_start_matches(['-', '+']).starts_with("%}") {
                    out.push_str(&rest[..rest.len() - body.len()]);
                    out.push_str(plain);
                    rest = after;
                    break;
                }
            }
        }
    }
    out.push_str(rest);
    out
}

/// jinja2 has no other line ends, wherever the file was written.
pub fn source_of(text: &str) -> String {
    without_generation(&text.replace("\r\n", "\n").replace('\r', "\n"))
}

fn string(value: &Value) -> Value {
    match value.kind() {
        ValueKind::String => value.clone(),
        ValueKind::Number => Value::from(number(value)),
        _ => Value::from(value.to_string()),
    }
}

pub fn create(fuel: u64, depth: usize) -> Result<Environment<'static>, Error> {
    let mut environment = Environment::new();
    environment.set_syntax(SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build()?);
    environment.set_auto_escape_callback(|_| AutoEscape::None);
    environment.set_undefined_behavior(UndefinedBehavior::Lenient);
    environment.set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
    environment.set_fuel(Some(fuel));
    environment.set_recursion_limit(depth);
    environment.set_debug(false);
    environment.set_formatter(|out, state, value| match value.kind() {
        ValueKind::Number => out.write_str(&number(value)).map_err(Error::from),
        _ => minijinja::escape_formatter(out, state, value),
    });
    environment.add_test("iterable", |value: &Value| {
        !matches!(value.kind(), ValueKind::None | ValueKind::Bool | ValueKind::Number)
    });
    environment.add_test("sequence", |value: &Value| {
        matches!(value.kind(), ValueKind::Undefined | ValueKind::String | ValueKind::Seq | ValueKind::Map)
    });
    environment.add_filter("string", string);
    environment.add_filter("tojson", tojson);
    environment.add_function("raise_exception", raise_exception);
    Ok(environment)
}
