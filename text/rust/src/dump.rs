//! Numbers and JSON as Python writes them: repr(float), and json.dumps(x, ensure_ascii=, indent=, separators=, sort_keys=).
use minijinja::value::{Kwargs, Value, ValueKind};
use minijinja::{Error, ErrorKind, State};
use std::fmt::Write as _;

const DEPTH_MAX: usize = 128;
const INDENT_MAX: i64 = 64;
/// Bytes of a string that cost one unit of fuel.
const BYTES_OF_FUEL: usize = 64;

pub fn failed(text: impl Into<std::borrow::Cow<'static, str>>) -> Error {
    Error::new(ErrorKind::InvalidOperation, text)
}

/// A number as Python's repr writes it.
pub fn number(value: &Value) -> String {
    let real = match f64::try_from(value.clone()) {
        Ok(real) if !value.is_integer() => real,
        _ => return value.to_string(),
    };
    if real.is_nan() {
        return "nan".into();
    }
    if real.is_infinite() {
        return if real > 0.0 { "inf" } else { "-inf" }.into();
    }
    let text = format!("{real:e}"); // the shortest digits that come back as the same number
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..16).contains(&exponent) {
        return format!("{real:?}");
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.abs())
}

struct Dump<'a, 'b, 'c> {
    state: &'a State<'b, 'c>,
    out: String,
    indent: Option<String>,
    between_items: String,
    behind_key: String,
    sort_keys: bool,
    ensure_ascii: bool,
    mark: Option<char>, // is not part of the text, so it is written as it is
}

impl Dump<'_, '_, '_> {
    fn character(&mut self, c: char) {
        match c {
            '"' => self.out.push_str("\\\""),
            '\\' => self.out.push_str("\\\\"),
            '\n' => self.out.push_str("\\n"),
            '\r' => self.out.push_str("\\r"),
            '\t' => self.out.push_str("\\t"),
            '\u{8}' => self.out.push_str("\\b"),
            '\u{c}' => self.out.push_str("\\f"),
            c if c < ' ' => {
                let _ = write!(self.out, "\\u{:04x}", c as u32);
            }
            c if self.ensure_ascii && (!c.is_ascii() || c == '\u{7f}') && self.mark != Some(c) => {
                if c == '\u{7f}' {
                    self.out.push(c);
                    return;
                }
                for unit in c.encode_utf16(&mut [0; 2]) {
                    let _ = write!(self.out, "\\u{unit:04x}");
                }
            }
            c => self.out.push(c),
        }
    }

    fn string(&mut self, text: &str) -> Result<(), Error> {
        self.state.consume_fuel((text.len() / BYTES_OF_FUEL) as u64)?;
        self.out.push('"');
        for c in text.chars() {
            self.character(c);
        }
        self.out.push('"');
        Ok(())
    }

    fn new_line(&mut self, depth: usize) {
        if let Some(indent) = &self.indent {
            self.out.push('\n');
            for _ in 0..depth {
                self.out.push_str(indent);
            }
        }
    }

    fn begin_item(&mut self, n_before: usize, depth: usize) {
        if n_before > 0 {
            self.out.push_str(&self.between_items);
        }
        self.new_line(depth + 1);
    }

    fn sequence(&mut self, value: &Value, depth: usize) -> Result<(), Error> {
        let mut n = 0;
        self.out.push('[');
        for item in value.try_iter()? {
            self.begin_item(n, depth);
            self.value(&item, depth + 1)?;
            n += 1;
        }
        if n > 0 {
            self.new_line(depth);
        }
        self.out.push(']');
        Ok(())
    }

    fn key(&mut self, key: &Value) -> Result<(), Error> {
        match key.kind() {
            ValueKind::String => self.string(key.as_str().unwrap_or(""))?,
            ValueKind::Bool => self.out.push_str(if key.is_true() { "\"true\"" } else { "\"false\"" }),
            ValueKind::None => self.out.push_str("\"null\""),
            ValueKind::Number => {
                let text = number(key);
                self.string(&text)?;
            }
            _ => return Err(failed("tojson: a key is no string")),
        }
        self.out.push_str(&self.behind_key);
        Ok(())
    }

    fn map(&mut self, value: &Value, depth: usize) -> Result<(), Error> {
        let mut keys: Vec<Value> = value.try_iter()?.collect();
        if self.sort_keys {
            keys.sort();
        }
        self.out.push('{');
        for (n, key) in keys.iter().enumerate() {
            self.begin_item(n, depth);
            self.key(key)?;
            self.value(&value.get_item(key)?, depth + 1)?;
        }
        if !keys.is_empty() {
            self.new_line(depth);
        }
        self.out.push('}');
        Ok(())
    }

    fn value(&mut self, value: &Value, depth: usize) -> Result<(), Error> {
        if depth > DEPTH_MAX {
            return Err(failed(format!("tojson: nested deeper than {DEPTH_MAX}")));
        }
        self.state.consume_fuel(1)?;
        match value.kind() {
            ValueKind::None => self.out.push_str("null"),
            ValueKind::Bool => self.out.push_str(if value.is_true() { "true" } else { "false" }),
            ValueKind::Number => {
                let text = number(value);
                self.out.push_str(match text.as_str() {
                    "nan" => "NaN",
                    "inf" => "Infinity",
                    "-inf" => "-Infinity",
                    text => text,
                });
            }
            ValueKind::String => self.string(value.as_str().unwrap_or(""))?,
            ValueKind::Seq | ValueKind::Iterable => self.sequence(value, depth)?,
            ValueKind::Map => self.map(value, depth)?,
            kind => return Err(failed(format!("Object of type {kind} is not JSON serializable"))),
        }
        Ok(())
    }
}

fn indent_of(argument: Option<Value>) -> Option<String> {
    let value = argument.filter(|value| !value.is_none())?;
    Some(match value.as_str() {
        Some(text) => text.to_string(),
        None => " ".repeat(value.as_i64().unwrap_or(0).clamp(0, INDENT_MAX) as usize),
    })
}

pub fn tojson(state: &State, value: &Value, arguments: Kwargs) -> Result<Value, Error> {
    let ensure_ascii: Option<bool> = arguments.get("ensure_ascii")?;
    let indent = indent_of(arguments.get("indent")?);
    let separators: Option<Value> = arguments.get("separators")?;
    let sort_keys: Option<bool> = arguments.get("sort_keys")?;
    arguments.assert_all_used()?;
    let (between_items, behind_key) = match &separators {
        Some(pair) if !pair.is_none() => {
            (pair.get_item_by_index(0)?.to_string(), pair.get_item_by_index(1)?.to_string())
        }
        _ => (if indent.is_some() { "," } else { ", " }.to_string(), ": ".to_string()),
    };
    let mut dump = Dump {
        state,
        out: String::new(),
        indent,
        between_items,
        behind_key,
        sort_keys: sort_keys.unwrap_or(false),
        ensure_ascii: ensure_ascii.unwrap_or(false),
        mark: state.lookup(crate::environment::MARK).and_then(|mark| mark.as_str()?.chars().next()),
    };
    dump.value(value, 0)?;
    Ok(Value::from(dump.out))
}
