//! What calls allocate, where the library that counts it (`allocations.c`) is preloaded.
#![allow(unsafe_code)]

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use libloading::os::unix::{Library, Symbol};

/// Allocations so far, or of one call.
#[derive(Clone, Copy)]
pub struct Allocations {
    pub number: u64,
    pub bytes: u64,
}

impl Allocations {
    /// Those since `before`.
    pub fn since(self, before: Self) -> Self {
        Self {
            number: self.number - before.number,
            bytes: self.bytes - before.bytes,
        }
    }
}

/// As declared in `allocations.c`.
#[repr(C)]
struct Counted {
    number: AtomicU64,
    bytes: AtomicU64,
}

/// What this process has allocated so far; `None` where nobody counts.
pub fn so_far() -> Option<Allocations> {
    static COUNTED: OnceLock<Option<&'static Counted>> = OnceLock::new();
    let counted = (*COUNTED.get_or_init(find))?;
    Some(Allocations {
        number: counted.number.load(Ordering::Relaxed),
        bytes: counted.bytes.load(Ordering::Relaxed),
    })
}

fn find() -> Option<&'static Counted> {
    // SAFETY: the library is ours, preloaded, and stays; its counts are only added to, atomically.
    unsafe {
        let counted: Symbol<unsafe extern "C" fn() -> *const Counted> =
            Library::this().get(b"roslens_allocations").ok()?;
        counted().as_ref()
    }
}
