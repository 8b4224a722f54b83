//! The C functions of text/jinja.h.
use crate::{environment, request};
use minijinja::{Environment, Error, ErrorKind, Value};
use serde_json::{Map, Value as Json};
use std::collections::BTreeMap;
use std::ffi::c_char;
use std::panic::{catch_unwind, AssertUnwindSafe};

pub enum Failure {
    Syntax(String),
    Input(String),
    Raised(String),
    Fuel,
    TooLong,
    Failed(String),
    Panic,
}

impl Failure {
    /// enum jinja_result.
    fn code(&self) -> i32 {
        match self {
            Failure::Syntax(_) => 1,
            Failure::Input(_) => 2,
            Failure::Raised(_) => 3,
            Failure::Fuel => 4,
            Failure::TooLong => 5,
            Failure::Failed(_) => 6,
            Failure::Panic => 7,
        }
    }

    fn text(&self) -> &str {
        match self {
            Failure::Syntax(text) | Failure::Input(text) | Failure::Raised(text) | Failure::Failed(text) => text,
            Failure::Fuel => "it needs too many steps",
            Failure::TooLong => "the text is too long",
            Failure::Panic => "an internal error",
        }
    }
}

#[repr(C)]
pub struct JinjaLimits {
    fuel: u64,
    depth: usize,
    out_bytes_max: usize,
}

#[repr(C)]
pub struct JinjaText {
    bytes: *const c_char,
    n_bytes: usize,
}

#[repr(C)]
pub struct JinjaInput {
    json: JinjaText,
    now_unix_s: i64,
    mark: u32,
}

#[repr(C)]
pub struct JinjaError {
    text: *mut c_char,
    bytes_max: usize,
}

type Strftime = extern "C" fn(now_unix_s: i64, format: *const c_char, n: usize, out: *mut c_char, max: usize) -> usize;
const STRFTIME_BYTES_MAX: usize = 256;

pub struct Jinja {
    environment: Environment<'static>,
    tokens: Map<String, Json>,
    out_bytes_max: usize,
    strftime: Strftime,
    prompt: String, // of the last rendering
}

impl JinjaText {
    fn bytes(&self) -> &[u8] {
        if self.n_bytes == 0 {
            return &[];
        }
        unsafe { std::slice::from_raw_parts(self.bytes as *const u8, self.n_bytes) }
    }

    fn text(&self) -> Result<&str, Failure> {
        std::str::from_utf8(self.bytes()).map_err(|e| Failure::Input(format!("no UTF-8 at byte {}", e.valid_up_to())))
    }
}

impl JinjaError {
    fn say(&self, text: &str) {
        if self.text.is_null() || self.bytes_max == 0 {
            return;
        }
        let mut n = text.len().min(self.bytes_max - 1);
        while !text.is_char_boundary(n) {
            n -= 1;
        }
        unsafe {
            std::ptr::copy_nonoverlapping(text.as_ptr(), self.text as *mut u8, n);
            *self.text.add(n) = 0;
        }
    }
}

/// Runs what C asked for; nothing unwinds into C.
fn answer(error: &JinjaError, work: impl FnOnce() -> Result<(), Failure>) -> i32 {
    let failure = match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(())) => return 0,
        Ok(Err(failure)) => failure,
        Err(_) => Failure::Panic,
    };
    error.say(failure.text());
    failure.code()
}

fn syntax(error: Error) -> Failure {
    Failure::Syntax(format!("{error:#}"))
}

fn failure_of(error: &Error) -> Failure {
    if error.kind() == ErrorKind::OutOfFuel {
        return Failure::Fuel;
    }
    match error.detail().and_then(|detail| detail.strip_prefix(environment::RAISED)) {
        Some(text) => Failure::Raised(text.into()),
        None => Failure::Failed(format!("{error:#}")),
    }
}

#[no_mangle]
pub extern "C" fn jinja_create(limits: &JinjaLimits, tokens: &JinjaText, strftime: Strftime, error: &JinjaError,
                               made: &mut *mut Jinja) -> i32 {
    answer(error, || {
        let environment = environment::create(limits.fuel, limits.depth).map_err(syntax)?;
        let tokens = serde_json::from_slice(tokens.bytes()).map_err(|e| Failure::Input(e.to_string()))?;
        let jinja = Jinja { environment, tokens, out_bytes_max: limits.out_bytes_max, strftime, prompt: String::new() };
        *made = Box::into_raw(Box::new(jinja));
        Ok(())
    })
}

#[no_mangle]
pub extern "C" fn jinja_add(jinja: &mut Jinja, name: &JinjaText, source: &JinjaText, error: &JinjaError) -> i32 {
    answer(error, || {
        let source = environment::source_of(source.text()?);
        jinja.environment.add_template_owned(name.text()?.to_string(), source).map_err(syntax)
    })
}

/// The default, unless the request has what another one is for.
fn choose(environment: &Environment, context: &Map<String, Json>) -> &'static str {
    let has = |name: &str| environment.get_template(name).is_ok();
    if !context["tools"].is_null() && has("tool_use") {
        return "tool_use";
    }
    if context["tools"].is_null() && !context["documents"].is_null() && has("rag") {
        return "rag";
    }
    "default"
}

struct Prompt {
    bytes: Vec<u8>,
    bytes_max: usize,
    is_full: bool,
}

impl std::io::Write for Prompt {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if bytes.len() > self.bytes_max - self.bytes.len() {
            self.is_full = true;
            return Err(std::io::Error::other("the text is too long"));
        }
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn clock(strftime: Strftime, now_unix_s: i64) -> Value {
    Value::from_function(move |format: String| {
        let mut out = [0u8; STRFTIME_BYTES_MAX];
        let n = strftime(now_unix_s, format.as_ptr() as *const c_char, format.len(), out.as_mut_ptr() as *mut c_char, out.len());
        String::from_utf8_lossy(&out[..n.min(out.len())]).into_owned()
    })
}

/// The members of an object keep their order.
fn value_of(json: Json) -> Value {
    match json {
        Json::Null => Value::from(()),
        Json::Bool(value) => Value::from(value),
        Json::Number(number) => match (number.as_i64(), number.as_u64()) {
            (Some(value), _) => Value::from(value),
            (_, Some(value)) => Value::from(value),
            _ => Value::from(number.as_f64().unwrap_or(f64::NAN)),
        },
        Json::String(text) => Value::from(text),
        Json::Array(items) => Value::from(items.into_iter().map(value_of).collect::<Vec<Value>>()),
        Json::Object(members) => Value::from_pairs(members.into_iter().map(|(name, value)| (name, value_of(value)))),
    }
}

fn render(jinja: &Jinja, input: &JinjaInput) -> Result<String, Failure> {
    let read = request::read(input.json.bytes(), &jinja.tokens)?;
    let name = choose(&jinja.environment, &read.context);
    let mut context: BTreeMap<String, Value> =
        read.context.into_iter().map(|(name, value)| (name, value_of(value))).collect();
    context.insert("strftime_now".into(), clock(jinja.strftime, input.now_unix_s));
    if let Some(mark) = char::from_u32(input.mark).filter(|mark| *mark != '\0') {
        context.insert(environment::MARK.into(), Value::from(mark.to_string()));
    }
    let template = jinja.environment.get_template(name).map_err(|e| failure_of(&e))?;
    let mut prompt = Prompt { bytes: Vec::new(), bytes_max: jinja.out_bytes_max, is_full: false };
    let result = template.render_captured_to(Value::from(context), &mut prompt).map(|_| ());
    if prompt.is_full {
        return Err(Failure::TooLong);
    }
    result.map_err(|e| failure_of(&e))?;
    let mut text = String::from_utf8(prompt.bytes).map_err(|_| Failure::Panic)?;
    if let Some(continued) = &read.continued {
        text.truncate(request::end_of_continued(&text, continued)?);
    }
    Ok(text)
}

#[no_mangle]
pub extern "C" fn jinja_render(jinja: &mut Jinja, input: &JinjaInput, error: &JinjaError, made: &mut JinjaText) -> i32 {
    answer(error, || {
        jinja.prompt = render(jinja, input)?;
        *made = JinjaText { bytes: jinja.prompt.as_ptr() as *const c_char, n_bytes: jinja.prompt.len() };
        Ok(())
    })
}

/// Asks the system where this thread's stack ends, which takes a file that the process may no longer open later.
#[no_mangle]
pub extern "C" fn jinja_prepare(on_no_memory: extern "C" fn()) {
    crate::memory::on_no_memory(on_no_memory);
    std::panic::set_hook(Box::new(|_| ())); // who calls is told
    let _ = stacker::remaining_stack();
}

/// # Safety
/// jinja is of jinja_create, and not used any more; or NULL.
#[no_mangle]
pub unsafe extern "C" fn jinja_destroy(jinja: *mut Jinja) {
    if !jinja.is_null() {
        drop(unsafe { Box::from_raw(jinja) });
    }
}

#[no_mangle]
pub extern "C" fn jinja_memory_held() -> usize {
    crate::memory::held()
}

#[no_mangle]
pub extern "C" fn jinja_memory_of_thread() -> usize {
    crate::memory::of_thread()
}
