//! The system's allocator, which counts. A process that has a limit of its own may say what happens when there is no more memory.
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

static HELD: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// What this thread allocated, less what it freed: wraps below 0, where it frees what others allocated.
    static OF_THREAD: Cell<usize> = const { Cell::new(0) };
}

fn count(added: usize, freed: usize) {
    let n_bytes = added.wrapping_sub(freed);
    HELD.fetch_add(n_bytes, Ordering::Relaxed);
    let _ = OF_THREAD.try_with(|own| own.set(own.get().wrapping_add(n_bytes)));
}

pub fn held() -> usize {
    HELD.load(Ordering::Relaxed)
}

pub fn of_thread() -> usize {
    OF_THREAD.try_with(Cell::get).unwrap_or(0)
}

static ON_NO_MEMORY: AtomicPtr<()> = AtomicPtr::new(std::ptr::null_mut());

pub fn on_no_memory(call: extern "C" fn()) {
    ON_NO_MEMORY.store(call as *mut (), Ordering::Relaxed);
}

fn check(memory: *mut u8, added: usize, freed: usize) -> *mut u8 {
    if !memory.is_null() {
        count(added, freed);
    } else {
        let call = ON_NO_MEMORY.load(Ordering::Relaxed);
        if !call.is_null() {
            let call: extern "C" fn() = unsafe { std::mem::transmute(call) };
            call();
        }
    }
    memory
}

struct Counted;

unsafe impl GlobalAlloc for Counted {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        check(unsafe { System.alloc(layout) }, layout.size(), 0)
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        check(unsafe { System.alloc_zeroed(layout) }, layout.size(), 0)
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, n_bytes: usize) -> *mut u8 {
        check(unsafe { System.realloc(memory, layout, n_bytes) }, n_bytes, layout.size())
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        count(0, layout.size());
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counted = Counted;
