//! All of the program that is Rust, as one static library: two of them in one program would each bring Rust's own along.
//! `text/jinja.h` declares what is ours; `llguidance.h`, which the build lays beside the library, the rest.
mod dump;
mod environment;
mod jinja;
mod memory;
mod request;

pub use llguidance::ffi; // keeps its llg_* functions in the library
