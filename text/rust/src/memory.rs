//! The system's allocator; a process that has a limit of its own may say what happens when there is no more memory.
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicPtr, Ordering};

static ON_NO_MEMORY: AtomicPtr<()> = AtomicPtr::new(std::ptr::null_mut());

pub fn on_no_memory(call: extern "C" fn()) {
    ON_NO_MEMORY.store(call as *mut (), Ordering::Relaxed);
}

fn check(memory: *mut u8) -> *mut u8 {
    if memory.is_null() {
        let call = ON_NO_MEMORY.load(Ordering::Relaxed);
        if !call.is_null() {
            let call: extern "C" fn() = unsafe { std::mem::transmute(call) };
            call();
        }
    }
    memory
}

struct Checked;

unsafe impl GlobalAlloc for Checked {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        check(unsafe { System.alloc(layout) })
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        check(unsafe { System.alloc_zeroed(layout) })
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, n_bytes: usize) -> *mut u8 {
        check(unsafe { System.realloc(memory, layout, n_bytes) })
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Checked = Checked;
